"""How often judges of held-out pairs of answers (`envs/weighing.py`) are right."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Judge, Speaker
from rlx.envs import weighing
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, SAMPLES_SEED, Evaluation
from rlx.losses import comparisons
from rlx.rewards import score_votes
from rlx.rollout.prompts import columns_of
from rlx.types import Models, World


def by_head(task: Task, judge: Judge, *, problems: int) -> Evaluation:
  """`accuracy`: the share of held-out pairs whose better answer has the larger reward; equal ones count half.

  Args:
    task: one of `envs/weighing.py`.
    judge: a reward model that reads each answer by itself.
    problems: how many pairs.
  """

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    rows = weighing.answer_rows(task.sample(jax.random.key(PROBLEMS_SEED), problems, True))
    chosen, rejected = comparisons.sides(judge.apply(models['judge'], rows))
    return {'accuracy': jnp.mean(comparisons.right(chosen, rejected))}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def by_critiques(task: Task, critic: Speaker, judge: Judge, *, problems: int) -> Evaluation:
  """`accuracy` as of `by_head`, of a head that reads a critique of each answer, the likeliest one, too.

  Args:
    task: one of `envs/weighing.py`.
    critic: writes the critiques.
    judge: reads answers with critiques.
    problems: how many pairs.
  """

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    rows = weighing.answer_rows(task.sample(jax.random.key(PROBLEMS_SEED), problems, True))
    written = critic.mode(models['critic'], rows['tokens'], rows['valid'].sum(axis=1))
    chosen, rejected = comparisons.sides(judge.apply(models['judge'], written))
    return {'accuracy': jnp.mean(comparisons.right(chosen, rejected))}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def by_votes(task: Task, policy: Speaker, judge: Judge, *, problems: int, doublings: int) -> Evaluation:
  """Held-out pairs judged by the vote of 1, 2, 4, .. critiques, all of them or those that a meta model keeps.

  Of 2**doublings critiques of each pair, k vote at a time, and each votes once. The metrics are `plain_<k>`,
  the share of right votes; `guided_<k>` from 2 on, where the better half of the k by the meta model votes;
  `rise`, from the first to the last plain one; `guided_gain`, the last guided one less the last plain one;
  and `meta`, how often the meta model puts a right critique above a wrong one of the same pair.

  Args:
    task: `weighing.weighed_by_scores`.
    policy: writes the critiques, by its own decoding.
    judge: the meta model: a head that reads prompt and critique.
    problems: how many pairs.
    doublings: D, at least 1.
  """
  at_least(1, problems=problems, doublings=doublings)
  most = 2**doublings

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
    rows = policy.sample(
        models['policy'], asked['prompts'], asked['prompt_lengths'], jax.random.key(SAMPLES_SEED),
        group_size=most,
    )
    said = engine.completions_of(rows, policy.decoding)
    right = task.verify(columns_of(asked, most), said).reshape(problems, most)
    odds = judge.apply(models['judge'], rows).reshape(problems, most)
    scores, metrics = weighing.scores_of(said).reshape(problems, most, 2), {}
    for k in (2**i for i in range(doublings + 1)):
      cut = lambda x: x.reshape(problems, most // k, k, *x.shape[2:])
      worth = jnp.broadcast_to(asked['worth'][:, None], (problems, most // k, 2))
      votes = {'plain': k, 'guided': k // 2} if k > 1 else {'plain': k}
      for how, keep in votes.items():
        sums = score_votes.summed_votes(cut(scores), score_votes.votes_kept(cut(odds), keep=keep))
        metrics[f'{how}_{k}'] = score_votes.preferred_by(sums, worth).mean()
    return {
        **metrics, 'rise': metrics[f'plain_{most}'] - metrics['plain_1'], 'meta': _told_apart(odds, right),
        'guided_gain': metrics[f'guided_{most}'] - metrics[f'plain_{most}'],
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def _told_apart(odds, right):
  """Of pairs of a right and a wrong critique [P, K] of a problem, the share where the right one is ahead."""
  pairs = (right[:, :, None] > right[:, None, :]).astype(jnp.float32)
  ahead = (1 + jnp.sign(odds[:, :, None] - odds[:, None, :])) / 2
  return jnp.sum(pairs * ahead) / jnp.maximum(jnp.sum(pairs), 1)
