"""What a policy earns on the levels that it was taught on, and on levels that it has never seen."""

from collections.abc import Callable

from rlx.envs.control.environment import Environment
from rlx.evaluation import episodes as evaluate_control
from rlx.evaluation.text import Evaluation
from rlx.models.networks import Policy


def generalisation(
    env: Environment, policy: Policy, *, held_out: Callable[[], Environment], episodes: int, max_steps: int
) -> Evaluation:
  """`evaluate_control.episodes` on both, and the gap between them.

  Reports what that one reports of the training levels, `eval/held_out_return`, and `eval/gap`, the mean
  return on training levels minus that on held-out ones.

  Args:
    env: the training levels.
    policy: what is examined; it acts by its mode.
    held_out: makes the same environment with other levels.
    episodes: on each.
    max_steps: after which an episode that has not ended is left.
  Source: Mediratta et al., 2023, https://arxiv.org/abs/2312.05742, section 3.
  """
  numbers = dict(episodes=episodes, max_steps=max_steps)
  seen = evaluate_control.episodes(env, policy, **numbers)
  unseen = evaluate_control.episodes(held_out(), policy, **numbers)

  def ask(params):
    known = seen.ask(params)
    new = unseen.ask(params)['eval/return']
    return {**known, 'eval/held_out_return': new, 'eval/gap': known['eval/return'] - new}

  return Evaluation(ask=ask, read=seen.read)
