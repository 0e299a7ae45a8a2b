"""What a policy earns that decides seldom: the same episodes at several frequencies of decisions."""

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.envs.control.wrappers import chunked
from rlx.evaluation import episodes as played
from rlx.evaluation.evaluation import Evaluation
from rlx.models.sequence import Sequence, paced
from rlx.types import Models, World


def decision_periods(
    env: Environment, policy: Sequence, *, periods: tuple[int, ...], episodes: int, max_steps: int
) -> Evaluation:
  """`episodes.episodes` at several frequencies: a decision every step, every second one, ...

  All numbers are means over the periods, so `score` is the frequency-averaged score; that of each period is
  `score_every_x`.

  Args:
    env: one environment.
    policy: decides ahead.
    periods: steps between two decisions.
    episodes: for each period.
    max_steps: after which an episode is left.
  Source: Patel and Siegelmann, 2024, https://arxiv.org/abs/2410.08979; their score is the area under the
    curve of performance over frequency, of which a mean over chosen periods is our reading.
  """
  acting = paced(policy, env)
  each = {
      period: played.episodes(
          chunked(inner=lambda: env, chunk=period), acting, episodes=episodes, max_steps=max_steps
      )
      for period in periods
  }

  def ask(models: Models, world: World):
    answers = {period: evaluation.ask(models, world) for period, evaluation in each.items()}
    means = jax.tree.map(lambda *x: jnp.stack(x).mean(), *answers.values())
    return means | {f'score_every_{period}': x['score'] for period, x in answers.items()}

  return Evaluation(ask=ask, read=played.numbers)
