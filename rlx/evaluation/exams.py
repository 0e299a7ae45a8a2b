"""What a seat answers to everything that it may be asked: chances read off the model, nothing is sampled."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.engine.sample import adjusted_logits
from rlx.engine.speaker import Speaker
from rlx.envs.seats import ExaminedTask
from rlx.envs.text import Task
from rlx.errors import ConfigError
from rlx.evaluation.evaluation import Evaluation
from rlx.types import Models, World


def answers(task: Task, speakers: Mapping[str, Speaker]) -> Evaluation:
  """`accuracy`, the mean chance of the right answer; `<kind>` of a kind of question, and `worst/<kind>`.

  The worst is what the best attack meets.

  Args:
    task: a world with an `exam`, such as `redteam`.
    speakers: seat -> who is asked, by `names`; the others are not looked at.
  Raises:
    ConfigError: the task has no exam, or the seat that is asked no speaker.
  """
  if not isinstance(task, ExaminedTask):
    what = type(task).__name__
    raise ConfigError(f'exams.answers asks a world with an exam, such as redteam; {what} has none')
  exam = task.exam()
  if exam.seat not in speakers:
    raise ConfigError(f'exams.answers: the seat {exam.seat!r} has no model; name one in names')
  speaker, lengths = speakers[exam.seat], jnp.asarray(exam.lengths)

  def ask(models: Models, world: World):
    del world
    params = models[exam.seat]
    hidden, _ = speaker.model.forward(params, jnp.asarray(exam.tokens))
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    logits = adjusted_logits(params, speaker.model, speaker.decoding, last, lengths)
    right = jnp.take_along_axis(jax.nn.softmax(logits), jnp.asarray(exam.right)[:, None], axis=1)[:, 0]
    found = {'accuracy': right.mean()}
    for number, name in enumerate(exam.names):
      of_kind = right[exam.kinds == number]
      found |= {name: of_kind.mean(), f'worst/{name}': of_kind.min()}
    return found

  def read(answer):
    return {name: float(x) for name, x in answer.items()}, []

  return Evaluation(ask=ask, read=read)
