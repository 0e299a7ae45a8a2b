"""REDQ: SAC with many critics, so that each step of the environment can be learnt from many times.

    y = r + γ (1 - terminated) (min_{i ∈ M} Q̄_i(s', a') - α log π(a' | s')),   M a new random subset
    L_Q = Σ_i mean (Q_i(s, a) - y)²,   L_π = mean (α log π(ã | s) - mean_i Q_i(s, ã))

The temperature is SAC's. `updates.minibatches = G` is the paper's ratio of updates to data; that the policy
moves once in G updates is its optimizer's matter (`optimizers.adam_per_model`, a period of G).
`soft_ensemble` is what DroQ shares. RLPD is this with layer norm and rows of a data set (`mixed`): a config.

Source: Chen et al., 2021, https://arxiv.org/abs/2101.05982, algorithm 1.
"""

from collections.abc import Callable

import jax

from rlx import tracking
from rlx.algorithms.control.sac import soft_climb
from rlx.envs.control.environment import Environment
from rlx.losses.actor_critic import bootstrapped, ensemble_error
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout

Judge = Callable[..., jax.Array]  # (params, observations, actions, key) -> [N, B]


def redq(
    rollout: Rollout, env: Environment, policy: Policy, critic: Network, temperature: Network, *,
    subset: int, discount: float, target_rate: float, target_entropy: float,
) -> Algorithm:
  """Randomised ensembled double Q-learning; trains the models of SAC.

  Args:
    rollout: yields transitions.
    env: says how many numbers an action has.
    policy: a distribution with gradients through its samples.
    critic: an ensemble of Q(s, a) (the paper: of 10).
    temperature: a positive number, α.
    subset: critics in the target (the paper: 2).
    discount: γ per step.
    target_rate: share of the critic that `slow['target']` takes on after each update.
    target_entropy: of the policy, in nats for each number of the action.
  """
  judge = lambda params, observations, actions, key: critic.apply(params, observations, actions)
  return soft_ensemble(
      rollout, env, policy, judge, temperature, subset=subset, discount=discount, target_rate=target_rate,
      target_entropy=target_entropy,
  )


def soft_ensemble(
    rollout: Rollout, env: Environment, policy: Policy, judge: Judge, temperature: Network, *, subset: int,
    discount: float, target_rate: float, target_entropy: float,
) -> Algorithm:
  """The losses above, for critics `judge(params, observations, actions, key) -> [N, B]` that may draw."""
  wanted_entropy = target_entropy * env.actions.size

  def targets(models: Models, batch: Batch, key: Key) -> jax.Array:
    action_key, judge_key, subset_key = jax.random.split(key, 3)
    actions, logprobs = policy.sample(models['policy'], batch['next_observations'], action_key)
    values = judge(models['target'], batch['next_observations'], actions, judge_key)
    if not 1 <= subset <= values.shape[0]:
      raise ValueError(f'subset={subset} of {values.shape[0]} critics: at least 1, and at most all')
    chosen = jax.random.permutation(subset_key, values.shape[0])[:subset]
    soft = values[chosen].min(axis=0) - temperature.apply(models['temperature']) * logprobs
    return bootstrapped(batch, soft, discount=discount)

  def loss(models: Models, batch: Batch, key: Key):
    target_key, action_key, value_key, judge_key = jax.random.split(key, 4)
    values = judge(models['critic'], batch['observations'], batch['actions'], value_key)
    critic_loss = ensemble_error(values, targets(models, batch, target_key))
    worth = lambda actions: judge(
        jax.lax.stop_gradient(models['critic']), batch['observations'], actions, judge_key
    ).mean(axis=0)
    policy_loss, temperature_loss, metrics = soft_climb(
        policy, temperature, worth, models, batch, action_key, target_entropy=wanted_entropy
    )
    metrics |= {
        'loss/critic': critic_loss, 'critic/mean': values.mean(), 'critic/spread': values.std(axis=0).mean()
    }
    return critic_loss + policy_loss + temperature_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))
