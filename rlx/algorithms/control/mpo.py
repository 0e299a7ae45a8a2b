"""MPO: the policy is fitted to what its own actions are worth, as far as a divergence allows.

    y = r + γ (1 - terminated) mean_a' min_i Q̄_i(s', a'),   a' ~ π̄(· | s')
    w_j = softmax_j(Q̄(s, a_j) / η),   a_j ~ π̄(· | s),   L_η = η ε + η mean_s log mean_j exp(Q̄(s, a_j) / η)
    L_π = -mean_s Σ_j w_j log π(a_j | s) + λ (K - ε_K),   L_λ = λ (ε_K - K),   K = mean_s KL(π̄ | π)

η (`temperature`) and λ (`multiplier`) are trained duals; each loss stops the gradients of what is not its
own. What was left out: Retrace (the target is of one step), and bounds of their own for mean and covariance:
K is estimated from the same actions, by k3, for any policy.

Source: Abdolmaleki et al., 2018, https://arxiv.org/abs/1806.06920, eqs. 6-12 and appendix D.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses import regularizers
from rlx.losses.actor_critic import bootstrapped, ensemble_error
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def mpo(
    rollout: Rollout,
    policy: Policy,
    critic: Network,
    temperature: Network,
    multiplier: Network,
    *,
    num_actions: int,
    epsilon: float,
    kl_limit: float,
    discount: float,
    target_rate: float,
) -> Algorithm:
  """Maximum a posteriori policy optimisation; trains `policy, critic, temperature, multiplier`.

  Args:
    rollout: yields transitions.
    policy: a distribution whose `score` has gradients.
    critic: an ensemble of Q(s, a).
    temperature: a positive number, η.
    multiplier: a positive number, λ.
    num_actions: drawn at each observation (the paper: 20).
    epsilon: ε, in nats: how far the weights may be from uniform (the paper: 0.1).
    kl_limit: ε_K, in nats for one observation: how far the policy may go from the lagging one.
    discount: γ per step.
    target_rate: share of `policy` and `critic` that `slow['target_policy']` and `slow['target']` take on.
  """
  held = jax.lax.stop_gradient

  def drawn(models: Models, observations: jax.Array, key: Key):
    """Actions [N, B, A] of the lagging policy, their log-probs and values [N, B]."""
    draw = lambda k: policy.sample(models['target_policy'], observations, k)
    actions, logprobs = jax.vmap(draw)(jax.random.split(key, num_actions))
    judge = lambda a: critic.apply(models['target'], observations, a).min(axis=0)
    return held((actions, logprobs, jax.vmap(judge)(actions)))

  def loss(models: Models, batch: Batch, key: Key):
    next_key, action_key = jax.random.split(key)
    bootstrap = drawn(models, batch['next_observations'], next_key)[2].mean(axis=0)
    values = critic.apply(models['critic'], batch['observations'], batch['actions'])
    critic_loss = ensemble_error(values, bootstrapped(batch, bootstrap, discount=discount))

    actions, old_logprobs, worth = drawn(models, batch['observations'], action_key)
    eta, lambda_ = temperature.apply(models['temperature']), multiplier.apply(models['multiplier'])
    spread = jax.nn.logsumexp(worth / eta, axis=0) - jnp.log(num_actions)
    temperature_loss = eta * epsilon + eta * spread.mean()

    weights = jax.nn.softmax(worth / held(eta), axis=0)
    logprobs = jax.vmap(lambda a: policy.score(models['policy'], batch['observations'], a)[0])(actions)
    kl = regularizers.kl_k3(old_logprobs, logprobs).mean()
    policy_loss = -jnp.sum(weights * logprobs, axis=0).mean() + held(lambda_) * (kl - kl_limit)
    multiplier_loss = lambda_ * (kl_limit - held(kl))
    metrics = {
        'loss/critic': critic_loss,
        'loss/policy': policy_loss,
        'critic/mean': values.mean(),
        'kl/target': kl,
        'policy/temperature': eta,
        'policy/multiplier': lambda_,
    }
    return critic_loss + policy_loss + temperature_loss + multiplier_loss, metrics

  track = tracking.polyak({'target': 'critic', 'target_policy': 'policy'}, rate=target_rate)
  return Algorithm(rollout=rollout, loss=loss, track=track)
