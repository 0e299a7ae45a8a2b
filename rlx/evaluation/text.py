"""What a policy can do on problems that are never trained on, with transcripts to read.

The metrics are `accuracy` or `nll`, and how long answers are: `response_tokens`, `truncated_fraction`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlx import reductions
from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.envs.turns import TurnTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, SAMPLES_SEED, Evaluation
from rlx.rewards import labelfree
from rlx.rewards.host import HostReward, check_compiles
from rlx.rollout.prompts import columns_of
from rlx.types import Annotate, Batch, Key, Models, World

_TOLD = 'eval/'


def verified(task: Task, policy: Speaker, transcripts: int, *, problems: int) -> Evaluation:
  """Greedy decoding of held-out problems of a task that verifies completions itself.

  Args:
    task: where problems come from.
    policy: what is examined; the chance is taken out of its decoding.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
  """
  answer = lambda models, asked: _greedy(policy, models, asked)
  return verified_by(task, answer, policy, transcripts, problems=problems)


def verified_by(
    task: Task, answer: Callable[[Models, Batch], Batch], policy: Speaker, transcripts: int, *, problems: int
) -> Evaluation:
  """`verified` with another way to answer.

  Args:
    task: where problems come from.
    answer: `(models, problems) -> rows`, a row a problem; columns `eval/<metric>` [P] are metrics by their
      mean, without NaN.
    policy: what is examined; its decoding says how long completions can be.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
  Raises:
    ValueError: none are asked.
  """
  at_least(1, problems=problems)
  if isinstance(task, TurnTask):
    raise ValueError(
        "the task is a world of turns, which verifies nothing: take evals.<name>.name='turns.episodes'"
    )

  def ask(models: Models, world: World):
    del world
    asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
    batch = answer(models, asked)
    completions = engine.completions_of(batch, policy.decoding)
    rewards = task.verify(asked, completions)
    rows = {
        'prompts': asked['prompts'], 'completions': completions,
        'solutions': asked['solutions'], 'rewards': rewards,
    }
    told = {name.removeprefix(_TOLD): jnp.nanmean(x) for name, x in batch.items() if name.startswith(_TOLD)}
    metrics = {'accuracy': rewards.mean(), **_lengths(batch), **told}
    return metrics, jax.tree.map(lambda a: a[:transcripts], rows)

  def read(answer):
    metrics, rows = answer
    return {name: float(x) for name, x in metrics.items()}, read_transcripts(task, rows)

  return Evaluation(ask=ask, read=read)


def sampled(task: Task, policy: Speaker, transcripts: int, *, problems: int) -> Evaluation:
  """One sample of each of some held-out problems, drawn as the stage draws, and how open they were.

  Args:
    task: where problems come from; it verifies completions itself.
    policy: what is examined, with its own decoding.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
  Returns:
    The evaluation; its metrics are those of `verified`, and `entropy` and `nll` of the policy along what was
    drawn, in nats a token.
  """

  def draw(models: Models, asked: Batch, key: Key) -> Batch:
    return policy.sample(models['policy'], asked['prompts'], asked['prompt_lengths'], key, group_size=1)

  return sampled_by(task, draw, policy, transcripts, problems=problems)


def sampled_by(
    task: Task, draw: Callable[[Models, Batch, Key], Batch], policy: Speaker, transcripts: int, *,
    problems: int,
) -> Evaluation:
  """`sampled` with another way to draw, `(models, problems, key) -> rows`, a row a problem."""

  def answer(models: Models, asked: Batch) -> Batch:
    rows = draw(models, asked, jax.random.key(SAMPLES_SEED))
    logprobs, entropy = policy.score(models['policy'], rows)
    mean = lambda x: jnp.mean(x, axis=1, where=rows['action_mask'])
    return {**rows, f'{_TOLD}entropy': mean(entropy), f'{_TOLD}nll': -mean(logprobs)}

  return verified_by(task, answer, policy, transcripts, problems=problems)


def repeated(task: Task, policy: Speaker, *, problems: int, samples: int) -> Evaluation:
  """Several samples of each of some held-out problems, drawn as the stage draws: how much can be found.

  Args:
    task: where problems come from; it verifies completions itself.
    policy: what is examined, with its own decoding.
    problems: how many held-out problems are asked.
    samples: n of each.
  Returns:
    The evaluation; its metrics are `accuracy`, `passed`, the share of problems with a right sample, which is
    pass@n, and `distinct`, how many different completions of a problem are right.
  """
  at_least(1, problems=problems, samples=samples)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked, rows = _samples(task, policy, models, problems, samples)
    completions = engine.completions_of(rows, policy.decoding)
    right = task.verify(asked, completions) > 0
    is_first = labelfree.answers(completions, rows['groups']) == jnp.arange(problems * samples)
    by_problem = lambda x: x.reshape(problems, samples)
    return {
        'accuracy': right.mean(), 'passed': by_problem(right).any(axis=1).mean(),
        'distinct': by_problem(right & is_first).sum(axis=1).mean(),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def paid(task: Task, policy: Speaker, reward: Annotate, *, problems: int, samples: int) -> Evaluation:
  """What the run's own reward says of samples of held-out problems, drawn as the stage draws.

  Args:
    task: where problems come from.
    policy: what is examined, with its own decoding.
    reward: that of the run; it has to compile.
    problems: how many held-out problems are asked.
    samples: of each, a group.
  Returns:
    The evaluation; its metrics are `reward`, the mean, and those of the reward's columns, such as
    `reward/right`; entries of a column that are NaN are left out.
  """
  check_compiles(reward)
  at_least(1, problems=problems, samples=samples)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked, rows = _samples(task, policy, models, problems, samples)
    batch = reward(models, {**asked, **rows}, jax.random.key(SAMPLES_SEED))
    told = {name: jnp.nanmean(x.astype(jnp.float32)) for name, x in batch.items() if '/' in name}
    return {'reward': batch['rewards'].mean(), **told}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def rewarded(
    task: Dataset, policy: Speaker, reward: HostReward, transcripts: int, *, problems: int, accuracy: str
) -> Evaluation:
  """Greedy decoding of the first held-out rows of a data set, scored by the run's reward functions.

  Args:
    task: the data set.
    policy: what is examined; the chance is taken out of its decoding.
    reward: the reward of the run.
    transcripts: how many are handed back to be read.
    problems: how many held-out rows are asked.
    accuracy: name of the reward function by which a row is right: the share to which it gives 1.
  Raises:
    ValueError: there is no such function, or there are fewer held-out rows.
  """
  check_function(reward, accuracy)
  at_least(1, problems=problems)
  asked = task.held_out(problems)

  def ask(models: Models, world: World):
    del world
    batch = _greedy(policy, models, jax.tree.map(jnp.asarray, asked))
    return _lengths(batch), engine.completions_of(batch, policy.decoding), batch['action_mask'].sum(axis=1)

  def read(answer):
    lengths, completions, counts = answer
    tokens = [row[:count].tolist() for row, count in zip(completions, counts, strict=True)]
    told, right = scored_by(reward, asked['rows'], tokens, accuracy=accuracy)
    metrics = {name: float(x) for name, x in lengths.items()} | told
    texts = [task.decode(row) for row in tokens[:transcripts]]
    return metrics, as_transcripts(task, asked, texts, right)

  return Evaluation(ask=ask, read=read)


_TOLD_OF_ALL = ('accuracy', 'reward', 'failed')  # metrics that are of no single function


def check_function(reward: HostReward, accuracy: str) -> None:
  """Raises `ValueError` where there is no reward function of a name."""
  if accuracy not in reward.names:
    raise ValueError(f'accuracy={accuracy!r} is none of the reward functions {sorted(reward.names)}')


def scored_by(
    reward: HostReward, rows: np.ndarray, tokens: list[list[int]], *, accuracy: str
) -> tuple[dict[str, float], np.ndarray]:
  """Metrics of completions by reward functions, and which are right [N].

  The mean of a function stands under its name; of one that is called `accuracy`, `reward` or `failed`, under
  this with `_function` behind it.

  Args:
    reward: of the run.
    rows: [N] numbers of rows.
    tokens: what was sampled for each.
    accuracy: name of the function by which a row is right, where it gives 1.
  """
  scores = reward.score(rows, tokens)
  known = {name: x[~np.isnan(x)] for name, x in scores.values.items()}
  means = {name: float(x.mean()) for name, x in known.items() if len(x)}
  metrics = {f'{name}_function' if name in _TOLD_OF_ALL else name: x for name, x in means.items()}
  metrics['reward'] = float(scores.totals[scores.scored].mean()) if scores.scored.any() else 0.0
  metrics['failed'] = float(sum(x.sum() for x in scores.failed.values()))
  right = scores.values[accuracy] == 1
  metrics['accuracy'] = float(right.mean())  # what could not be scored was not right
  return metrics, right


def likelihood(task: Dataset, policy: Speaker, transcripts: int, *, problems: int) -> Evaluation:
  """Loss of the policy on held-out demonstrations, and greedy completions of the same rows to read.

  Args:
    task: the data set.
    policy: what is examined; the chance is taken out of the decoding of its completions.
    transcripts: how many completions are made; one at least, whose length is told.
    problems: how many held-out rows are scored.
  Raises:
    ValueError: there are fewer held-out rows, or they have nothing to demonstrate.
  """
  at_least(1, problems=problems)
  shown = task.held_out(max(1, min(transcripts, problems)))
  rows = task.held_out_demonstrations(problems)

  def ask(models: Models, world: World):
    del world
    batch = jax.tree.map(jnp.asarray, rows)
    weights = reductions.token_mean(batch['action_mask'])
    nll = reductions.weighted_mean(-policy.score(models['policy'], batch)[0], weights)
    answers = _greedy(policy, models, jax.tree.map(jnp.asarray, shown))
    metrics = {'nll': nll, 'perplexity': jnp.exp(nll), **_lengths(answers)}
    return metrics, engine.completions_of(answers, policy.decoding), answers['action_mask'].sum(axis=1)

  def read(answer):
    metrics, completions, counts = answer
    texts = [task.decode(row[:count]) for row, count in zip(completions, counts, strict=True)]
    solutions = task.solutions(shown['rows'])
    right = [text.strip() == solution.strip() for text, solution in zip(texts, solutions, strict=True)]
    return {name: float(x) for name, x in metrics.items()}, as_transcripts(task, shown, texts, right)

  return Evaluation(ask=ask, read=read)


def as_transcripts(task: Dataset, asked: Batch, texts: list[str], right) -> list[dict]:
  """Of the first held-out rows that were asked, as many as there are texts."""
  prompts = [
      task.decode(prompt[:length])
      for prompt, length in zip(asked['prompts'], asked['prompt_lengths'], strict=True)
  ]
  solutions = task.solutions(asked['rows'][: len(texts)])
  return [
      {'prompt': prompt, 'completion': text, 'solution': solution, 'correct': bool(correct)}
      for prompt, text, solution, correct in zip(prompts, texts, solutions, right, strict=False)
  ]


def _samples(task: Task, policy: Speaker, models: Models, problems: int, samples: int) -> tuple[Batch, Batch]:
  """Held-out problems, each repeated for its samples, and the samples."""
  asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
  prompts, key = (asked['prompts'], asked['prompt_lengths']), jax.random.key(SAMPLES_SEED)
  rows = policy.sample(models['policy'], *prompts, key, group_size=samples)
  return columns_of(asked, samples), rows


def _greedy(policy: Speaker, models: Models, asked: Batch) -> Batch:
  return policy.mode(models['policy'], asked['prompts'], asked['prompt_lengths'])


def _lengths(batch: Batch) -> dict[str, jax.Array]:
  return {
      'response_tokens': batch['action_mask'].sum(axis=1).mean(dtype=jnp.float32),
      'truncated_fraction': batch['truncated'].mean(dtype=jnp.float32),
  }


def read_transcripts(task: Task, rows: Batch) -> list[dict]:
  """Rows of an evaluation as text: prompt, completion, solution, correct."""
  rows = jax.tree.map(np.asarray, rows)
  return [
      {
          'prompt': task.decode(prompt),
          'completion': task.decode(completion),
          'solution': task.decode(solution),
          'correct': bool(reward == 1),
      }
      for prompt, completion, solution, reward in zip(
          rows['prompts'], rows['completions'], rows['solutions'], rows['rewards'], strict=True
      )
  ]
