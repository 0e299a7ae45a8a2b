"""What a policy that is held to a reference has gained, and how far it has gone for it."""

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.speaker import Judge, Speaker
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.losses import regularizers
from rlx.types import Models, World


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
    problem_key, key = jax.random.split(jax.random.key(PROBLEMS_SEED))
    asked = task.sample(problem_key, problems, True)
    rows = policy.sample(
        models['policy'], asked['prompts'], asked['prompt_lengths'], key, group_size=group_size
    )
    own = jax.tree.map(lambda x: x[rows['groups']], asked)
    reward = task.verify(own, engine.completions_of(rows, policy.decoding)).mean()
    kl = _kl(models, policy, reference, rows)
    return {'reward': reward, 'kl': kl, 'value': reward - coef * kl}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def judged_samples(
    task: Dataset, policy: Speaker, reference: Speaker, judge: Judge, *, problems: int
) -> Evaluation:
  """A sample of each of the first held-out rows of a data set, as a reward model in the run sees it.

  Args:
    task: whose held-out rows are prompts.
    policy: what is examined.
    reference: what it is held to.
    judge: `models['judge']`.
    problems: how many held-out rows are asked.
  Returns:
    The evaluation; its metrics are `reward`, the mean of the reward model, `kl` as in `priced`, and `tokens`
    of an answer.
  Raises:
    ValueError: there are fewer held-out rows.
  """
  at_least(1, problems=problems)
  prompts = task.held_out(problems)

  def ask(models: Models, world: World):
    del world
    asked = {name: jnp.asarray(prompts[name]) for name in ('prompts', 'prompt_lengths')}
    rows = policy.sample(models['policy'], **asked, key=jax.random.key(PROBLEMS_SEED), group_size=1)
    return {
        'reward': judge.apply(models['judge'], rows).mean(), 'kl': _kl(models, policy, reference, rows),
        'tokens': rows['action_mask'].sum(axis=1).mean(),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def _kl(models: Models, policy: Speaker, reference: Speaker, rows) -> jax.Array:
  """[] KL(π || ref) in nats a row, by k3 on samples of π."""
  logprobs, _ = policy.score(models['policy'], rows)
  expected, _ = reference.score(models['reference'], rows)
  return jnp.where(rows['action_mask'], regularizers.kl_k3(logprobs, expected), 0).sum(axis=1).mean()
