"""What a policy earns on the levels that it was taught on, and on levels that it has never seen."""

from collections.abc import Callable

from rlx.envs.control.environment import Environment
from rlx.evaluation import episodes as played
from rlx.evaluation.evaluation import Evaluation
from rlx.models.networks import Policy
from rlx.types import Models, World


def generalisation(
    env: Environment, policy: Policy, *, held_out: Callable[[], Environment], episodes: int, max_steps: int
) -> Evaluation:
  """`episodes.episodes` on both, and the gap between them.

  Reports what that one reports of the training levels, `held_out_return`, and `gap`, the mean return on
  training levels minus that on held-out ones.

  Args:
    env: the training levels.
    policy: what is examined; it acts by its mode.
    held_out: makes the same environment with other levels.
    episodes: on each.
    max_steps: after which an episode that has not ended is left.
  Source: Mediratta et al., 2023, https://arxiv.org/abs/2312.05742, section 3.
  """
  counts = dict(episodes=episodes, max_steps=max_steps)
  seen = played.episodes(env, policy, **counts)
  unseen = played.episodes(held_out(), policy, **counts)

  def ask(models: Models, world: World):
    known = seen.ask(models, world)
    new = unseen.ask(models, world)['return']
    return {**known, 'held_out_return': new, 'gap': known['return'] - new}

  return Evaluation(ask=ask, read=seen.read)
