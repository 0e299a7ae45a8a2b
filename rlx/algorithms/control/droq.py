"""DroQ: a small ensemble of critics with dropout and layer norm in the place of REDQ's large one.

    h = relu(layer_norm(dropout(W x + b))) in each hidden layer of each critic,   M all of them

The losses are REDQ's with the subset being the ensemble; every evaluation, of targets too, draws a dropout of
its own. As in the paper the policy climbs the mean of the critics.

Source: Hiraoka et al., 2021, https://arxiv.org/abs/2110.02034, algorithm 2.
"""

from rlx.algorithms.control.redq import soft_ensemble
from rlx.envs.control.environment import Environment
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Rollout


def droq(
    rollout: Rollout, env: Environment, policy: Policy, critic: Network, temperature: Network, *,
    num_critics: int, discount: float, target_rate: float, target_entropy: float,
) -> Algorithm:
  """Dropout Q-functions; trains the models of SAC.

  Args:
    rollout: yields transitions.
    env: says how many numbers an action has.
    policy: a distribution with gradients through its samples.
    critic: `dropout_critics`.
    temperature: a positive number, α.
    num_critics: of the ensemble; the target is the least of all (the paper: 2).
    discount: γ per step.
    target_rate: share of the critic that `slow['target']` takes on after each update.
    target_entropy: of the policy, in nats for each number of the action.
  """
  return soft_ensemble(
      rollout, env, policy, critic.apply, temperature, subset=num_critics, discount=discount,
      target_rate=target_rate, target_entropy=target_entropy,
  )
