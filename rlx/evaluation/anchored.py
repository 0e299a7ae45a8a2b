"""What a policy that is held to a reference has gained, and how far it has gone for it."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.evaluation.evaluation import Evaluation
from rlx.losses import regularizers
from rlx.types import Models, World

_PROBLEMS_SEED = 0  # the held-out problems are the same for every run of a task


def priced(
    task: Task, policy: Speaker, reference: Speaker, *, problems: int, group_size: int, coef: float
) -> Evaluation:
  """Samples of held-out problems, drawn as the stage draws: one point of the front of reward and KL.

  Args:
    task: a text task, a section of its own where the stage is in another world.
    policy: what is examined.
    reference: what it is held to.
    problems: how many held-out problems are asked.
    group_size: samples of each.
    coef: β of `value`.
  Returns:
    The evaluation; its metrics are `reward`, the mean verdict, `kl`, KL(π || ref) in nats an answer (k3), and
    `value`, reward - β KL.
  """
  at_least(1, problems=problems, group_size=group_size)

  def ask(models: Models, world: World):
    del world
    problem_key, key = jax.random.split(jax.random.key(_PROBLEMS_SEED))
    asked = task.sample(problem_key, problems, True)
    rows = policy.sample(
        models['policy'], asked['prompts'], asked['prompt_lengths'], key, group_size=group_size
    )
    own = jax.tree.map(lambda x: x[rows['groups']], asked)
    reward = task.verify(own, engine.completions_of(rows, policy.decoding)).mean()
    logprobs, _ = policy.score(models['policy'], rows)
    expected, _ = reference.score(models['reference'], rows)
    kl = jnp.where(rows['action_mask'], regularizers.kl_k3(logprobs, expected), 0).sum(axis=1).mean()
    return {'reward': reward, 'kl': kl, 'value': reward - coef * kl}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))
