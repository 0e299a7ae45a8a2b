"""SAC with a trained temperature: off policy, twin critics, and a policy that is paid for its entropy.

    y = r + γ (1 - terminated) (min_i Q̄_i(s', a') - α log π(a' | s')),   a' ~ π(· | s')
    L_Q = Σ_i mean (Q_i(s, a) - y)²,   L_π = mean (α log π(ã | s) - min_i Q_i(s, ã)),   ã ~ π(· | s)
    L_α = -log α · mean (log π(ã | s) + H̄)

One gradient serves all three: each loss stops the gradients of the models that are not its own. Targets are
made in the loss, from the target critic as it is at each update. H̄ = -(target_entropy_per_action) A.
`soft_climb`, the policy's half, is what REDQ, DSAC-T and TQC share.

Source: S183, Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905, eqs. 5, 7 and 18; as in the code the
temperature's loss is in log α, and the factor 1/2 of eq. 5 is left out.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.envs.control.environment import Environment
from rlx.losses.actor_critic import bootstrapped, ensemble_error
from rlx.losses.value import lowest
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Metrics, Models, Rollout


def sac(
    rollout: Rollout,
    env: Environment,
    policy: Policy,
    critic: Network,
    temperature: Network,
    *,
    discount: float,
    target_rate: float,
    target_entropy: float,
) -> Algorithm:
  """Soft actor-critic; trains `policy`, `critic` and `temperature`, and `slow['target']` follows `critic`.

  Args:
    rollout: yields transitions.
    env: says how many numbers an action has.
    policy: a distribution with gradients through its samples.
    critic: an ensemble of Q(s, a).
    temperature: a positive number, α.
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    target_entropy: of the policy, in nats for each number of the action (the authors': -1).
  """
  wanted_entropy = target_entropy * env.actions.size
  held = jax.lax.stop_gradient

  def targets(models: Models, batch: Batch, key: Key) -> jax.Array:
    actions, logprobs = policy.sample(models['policy'], batch['next_observations'], key)
    values = critic.apply(models['target'], batch['next_observations'], actions).min(axis=0)
    soft = values - temperature.apply(models['temperature']) * logprobs
    return bootstrapped(batch, soft, discount=discount)

  def loss(models: Models, batch: Batch, key: Key):
    target_key, action_key = jax.random.split(key)
    values = critic.apply(models['critic'], batch['observations'], batch['actions'])
    critic_loss = ensemble_error(values, targets(models, batch, target_key))
    worth = lambda actions: lowest(
        critic.apply(held(models['critic']), batch['observations'], actions), axis=0
    )
    policy_loss, temperature_loss, metrics = soft_climb(
        policy, temperature, worth, models, batch, action_key, target_entropy=wanted_entropy
    )
    metrics = {**metrics, 'loss/critic': critic_loss, 'critic/mean': values.mean()}
    return critic_loss + policy_loss + temperature_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))


def soft_climb(
    policy: Policy, temperature: Network, worth: Callable[[jax.Array], jax.Array], models: Models,
    batch: Batch, key: Key, *, target_entropy: float,
) -> tuple[jax.Array, jax.Array, Metrics]:
  """L_π and L_α above, for any judge of actions.

  Args:
    policy: with `models['policy']`.
    temperature: with `models['temperature']`.
    worth: actions [B, A] -> [B], with gradients in the actions alone.
    models: holds both.
    batch: `observations` [B, ...].
    key: of the actions.
    target_entropy: H̄, in nats.
  Returns:
    `(policy's loss, temperature's loss, metrics)`.
  """
  held = jax.lax.stop_gradient
  alpha = temperature.apply(models['temperature'])
  actions, logprobs = policy.sample(models['policy'], batch['observations'], key)
  judged = worth(actions)
  policy_loss = jnp.mean(held(alpha) * logprobs - judged)
  temperature_loss = -jnp.log(alpha) * held(jnp.mean(logprobs) + target_entropy)
  metrics = {'loss/policy': policy_loss, 'policy/entropy': -logprobs.mean(), 'policy/temperature': alpha}
  return policy_loss, temperature_loss, metrics
