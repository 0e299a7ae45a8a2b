"""MPO: the policy is fitted to what its own actions are worth, as far as two divergences allow.

    G = retrace of r, Q̄, E_π̄ Q̄,   E_π̄ Q̄(s) = mean_a min_i Q̄_i(s, a),   a ~ π̄(· | s)
    w_j = softmax_j(Q̄(s, a_j) / η),   a_j ~ π̄(· | s),   L_η = η ε + η mean_s log mean_j exp(Q̄(s, a_j) / η)
    L_π = -mean_s Σ_j w_j (log N(a_j; μ, σ̄) + log N(a_j; μ̄, σ)) + λ_μ (K_μ - ε_μ) + λ_σ (K_σ - ε_σ)
    K_μ = mean_s ½ Σ ((μ - μ̄) / σ̄)²,   K_σ = mean_s Σ (log σ/σ̄ + σ̄²/2σ² - ½),   L_λ = λ (ε - K)

Mean and standard deviation move each as if the other were that of the lagging policy π̄, and each has a bound
of its own. η (`temperature`) and both λ are trained duals; each loss stops the gradients of what is not its
own. π̄ and Q̄ follow smoothly.

Source: Abdolmaleki et al., 2018, https://arxiv.org/abs/1806.06920, eqs. 6-12 and appendix D.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.advantages import off_policy
from rlx.losses.actor_critic import ensemble_error
from rlx.losses.ratios import ratio
from rlx.models.networks import GaussianPolicy, Network
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def mpo(
    rollout: Rollout,
    policy: GaussianPolicy,
    critic: Network,
    temperature: Network,
    mean_multiplier: Network,
    spread_multiplier: Network,
    *,
    num_actions: int,
    epsilon: float,
    mean_limit: float,
    spread_limit: float,
    discount: float,
    lambda_: float,
    target_rate: float,
) -> Algorithm:
  """Maximum a posteriori policy optimisation; trains `policy`, `critic` and the three duals.

  Args:
    rollout: yields stretches of time [B, T] with `sampler_logprobs`, such as `replay.stretch_replay`.
    policy: a Gaussian, squashed or not.
    critic: an ensemble of Q(s, a).
    temperature: a positive number, η.
    mean_multiplier: a positive number, λ_μ.
    spread_multiplier: a positive number, λ_σ.
    num_actions: drawn at each observation (the paper: 20).
    epsilon: ε, in nats: how far the weights may be from uniform (the paper: 0.1).
    mean_limit: ε_μ, in nats for one observation: how far the mean may go from the lagging one.
    spread_limit: ε_σ, likewise, of the standard deviation.
    discount: γ per step.
    lambda_: of Retrace, in [0, 1]; rows of one step have none.
    target_rate: share of `policy` and `critic` that `slow['target_policy']` and `slow['target']` take on.
  """
  held = jax.lax.stop_gradient

  def drawn(models: Models, observations: jax.Array, key: Key):
    """Actions [N, ..., A] of the lagging policy, and their values [N, ...]."""
    draw = lambda k: policy.sample(models['target_policy'], observations, k)[0]
    actions = jax.vmap(draw)(jax.random.split(key, num_actions))
    judge = lambda a: critic.apply(models['target'], observations, a).min(axis=0)
    return held((actions, jax.vmap(judge)(actions)))

  def targets(models: Models, batch: Batch, key: Key) -> jax.Array:
    observations, actions = batch['observations'], batch['actions']
    taken = critic.apply(models['target'], observations, actions).min(axis=0)
    following = drawn(models, batch['next_observations'], key)[1].mean(axis=0)
    logprobs, _ = policy.score(models['target_policy'], observations, actions)
    return held(off_policy.retrace(
        batch['rewards'], taken, following, batch['terminated'], batch['truncated'],
        ratio(logprobs, batch['sampler_logprobs']), discount=discount, lambda_=lambda_,
    ))

  def loss(models: Models, batch: Batch, key: Key):
    next_key, action_key = jax.random.split(key)
    observations = batch['observations']
    values = critic.apply(models['critic'], observations, batch['actions'])
    critic_loss = ensemble_error(
        values.reshape(len(values), -1), targets(models, batch, next_key).reshape(-1)
    )

    actions, worth = drawn(models, observations, action_key)
    eta = temperature.apply(models['temperature'])
    spread = jax.nn.logsumexp(worth / eta, axis=0) - jnp.log(num_actions)
    temperature_loss = eta * epsilon + eta * spread.mean()

    weights = jax.nn.softmax(worth / held(eta), axis=0)
    mean, log_std = policy.moments(models['policy'], observations)
    old_mean, old_log_std = held(policy.moments(models['target_policy'], observations))
    likely = jax.vmap(
        lambda a: policy.logprobs(mean, old_log_std, a) + policy.logprobs(old_mean, log_std, a)
    )(actions)
    apart = jnp.square((mean - old_mean) * jnp.exp(-old_log_std)) / 2
    wider = log_std - old_log_std
    wider = wider + jnp.expm1(-2 * wider) / 2
    mean_kl, spread_kl = (x.sum(axis=-1).mean() for x in (apart, wider))
    prices = {
        'mean': (mean_multiplier.apply(models['mean_multiplier']), mean_kl, mean_limit),
        'spread': (spread_multiplier.apply(models['spread_multiplier']), spread_kl, spread_limit),
    }
    policy_loss = -jnp.sum(weights * likely, axis=0).mean()
    policy_loss += sum(held(price) * (kl - limit) for price, kl, limit in prices.values())
    dual_loss = temperature_loss + sum(price * (limit - held(kl)) for price, kl, limit in prices.values())
    metrics = {
        'loss/critic': critic_loss,
        'loss/policy': policy_loss,
        'critic/mean': values.mean(),
        'policy/temperature': eta,
        'policy/log_std': log_std.mean(),
        **{f'kl/target_{name}': kl for name, (_, kl, _) in prices.items()},
        **{f'policy/{name}_multiplier': price for name, (price, _, _) in prices.items()},
    }
    return critic_loss + policy_loss + dual_loss, metrics

  track = tracking.polyak({'target': 'critic', 'target_policy': 'policy'}, rate=target_rate)
  return Algorithm(rollout=rollout, loss=loss, track=track)
