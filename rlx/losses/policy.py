"""Policy-gradient losses, element-wise: anything with (logprob, old_logprob, advantage) per decision.

They return arrays of the shape of their arguments; `reductions.py` says how entries are averaged.

A loss has two halves that do not know each other. A *level* says over what the ratio π / π_old is taken: a
token, a sequence, a turn (`ratios.py`). A *surrogate*, here, says what a ratio and an advantage cost. Levels
repeat the ratio of a sequence at each of its tokens, so that every surrogate and every reduction fits every
level:

| method | level | surrogate | reduction |
|---|---|---|---|
| PPO, GRPO, DAPO | `ratio` | `clipped` | any |
| dual clip; TRL's `delta` (INTELLECT-2) | `ratio` | `dual_clip` | any |
| GSPO | `sequence_ratio` | `clipped` | `sequence_mean` |
| GSPO-token | `sequence_token_ratio` | `clipped` | `sequence_mean` |
| LUSPO | `sequence_ratio` | `clipped` | `sequence_sum` |
| turn-level PPO | `turn_ratio` | `clipped` | any |
| CISPO | `ratio` | `cispo` | `token_mean` |
| SAPO | `ratio` | `sapo` | `sequence_mean` |
| VESPO | `sequence_product` | `vespo` | `token_mean` |
| GPG | none | `reinforce`, with `weights.informative` | `token_mean` |
| Clip-Cov | `ratio` | `clipped`, 0 where `covariance.band` | `token_mean` |

What does not come apart this way takes log-probs: `gmpo`, `covariance.kl_cov`, `dro`, `decoupled`, `remix`,
`luffy`, `calibrl`. A correction between sampler and trainer multiplies any of them (`corrections.py`).
"""

import chex
import jax
import jax.numpy as jnp

from rlx.errors import at_least, between
from rlx.losses.ratios import held_exp, log_ratio, ratio, row_mean

_ROUNDING = 1e-4  # nats; two passes over the same tokens differ by less in float32


def reinforce(logprobs: jax.Array, advantages: jax.Array) -> jax.Array:
  """-A log π(a|s); its gradient is the policy gradient.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    advantages: [...] taken as constants.
  Source: Williams, 1992, https://doi.org/10.1007/BF00992696, eq. 11.
  """
  chex.assert_equal_shape([logprobs, advantages])
  return -jax.lax.stop_gradient(advantages) * logprobs.astype(jnp.float32)


def clipped(
    ratios: jax.Array, advantages: jax.Array, *, clip_low: float, clip_high: float
) -> jax.Array:
  """-min(ρ A, clip(ρ, 1 - clip_low, 1 + clip_high) A).

  Args:
    ratios: [...] ρ, of any level.
    advantages: [...] constants.
    clip_low: how far below 1 the ratio counts, in [0, 1].
    clip_high: how far above 1 the ratio counts; equal to `clip_low` in PPO, larger in DAPO.
  Raises:
    ValueError: a bound is negative, or the lower one above 1.
  Source: PPO, https://arxiv.org/abs/1707.06347, eq. 7; two bounds: DAPO,
    https://arxiv.org/abs/2503.14476, eq. 10.
  """
  chex.assert_equal_shape([ratios, advantages])
  between(0, 1, clip_low=clip_low)
  at_least(0, clip_high=clip_high)
  advantages = jax.lax.stop_gradient(advantages)
  held = jnp.clip(ratios, 1 - clip_low, 1 + clip_high)
  return -jnp.minimum(ratios * advantages, held * advantages)


def is_held(
    ratios: jax.Array, advantages: jax.Array, *, clip_low: float, clip_high: float
) -> tuple[jax.Array, jax.Array]:
  """Where `clipped` has no gradient: (below the lower bound, above the upper), bool."""
  low = (ratios < 1 - clip_low) & (advantages < 0)
  high = (ratios > 1 + clip_high) & (advantages > 0)
  return low, high


def clipped_surrogate(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
) -> jax.Array:
  """-min(ρ A, clip(ρ, 1 - clip_low, 1 + clip_high) A) with ρ = π(a|s) / π_old(a|s): `clipped` of `ratio`.

  At ρ = 1 the value is -A and the gradient that of `reinforce`. With one update a batch ρ *is* 1: the loss
  then reads as minus the mean advantage, 0 for centred ones, and still learns.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    old_logprobs: [...] under the proximal policy, constants.
    advantages: [...] constants.
    clip_low: how far below 1 the ratio counts, in [0, 1].
    clip_high: how far above 1 the ratio counts; equal to `clip_low` in PPO, larger in DAPO.
  Source: PPO, https://arxiv.org/abs/1707.06347, eq. 7; two bounds: DAPO,
    https://arxiv.org/abs/2503.14476, eq. 10.

  >>> twice = jnp.log(jnp.array([2.0, 2.0]))  # as likely as before
  >>> clipped_surrogate(twice, jnp.zeros(2), jnp.array([1.0, -1.0]), clip_low=0.25, clip_high=0.25).tolist()
  [-1.25, 2.0]
  """
  chex.assert_equal_shape([logprobs, old_logprobs, advantages])
  rho = ratio(logprobs, jax.lax.stop_gradient(old_logprobs))
  return clipped(rho, advantages, clip_low=clip_low, clip_high=clip_high)


def is_clipped(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
) -> tuple[jax.Array, jax.Array]:
  """Where the surrogate has no gradient: (below the lower bound, above the upper), float32 0 or 1."""
  rho = ratio(logprobs, old_logprobs)
  low, high = is_held(rho, advantages, clip_low=clip_low, clip_high=clip_high)
  return low.astype(jnp.float32), high.astype(jnp.float32)


def dual_clip(
    ratios: jax.Array, advantages: jax.Array, *, clip_low: float, clip_high: float, ratio_max: float
) -> jax.Array:
  """`clipped`, and where A < 0 at most -c A: a bad token that became much likelier does not explode.

      A < 0:  -max( min(ρ A, clip(ρ) A), c A )

  The two-sided clip of INTELLECT-2, which is TRL's `delta`, min(min(ρ, δ) A, clip(ρ) A), is the same function
  for δ = c. verl has it on (c = 3), TRL off.

  Args:
    ratios: [...] ρ, of any level.
    advantages: [...] constants.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    ratio_max: c, at least 1 + clip_high; infinity is `clipped`. At 1 + clip_high itself the two sides of the
      clip meet: a bad token above it has no gradient, as a good one.
  Raises:
    ValueError: `ratio_max` is inside the clip range.
  Source: Ye et al., 2019, https://arxiv.org/abs/1912.09729; INTELLECT-2,
    https://arxiv.org/abs/2505.07291; as in verl and TRL.
  """
  if ratio_max < 1 + clip_high:
    raise ValueError(f'ratio_max={ratio_max}: must be at least 1 + clip_high = {1 + clip_high}')
  loss = clipped(ratios, advantages, clip_low=clip_low, clip_high=clip_high)
  advantages = jax.lax.stop_gradient(advantages)
  return jnp.where(advantages < 0, jnp.minimum(loss, -ratio_max * advantages), loss)


def cispo(
    ratios: jax.Array, logprobs: jax.Array, advantages: jax.Array, *, clip_low: float, clip_high: float
) -> jax.Array:
  """-sg(clip(ρ, 1 - clip_low, 1 + clip_high)) A log π: the weight is clipped, every token keeps its gradient.

  The cap is 1 + clip_high, as in verl; TRL's `epsilon_high` *is* the cap (its 5.0 is `clip_high=4.0`). The
  paper and TRL bound the weight only from above: `clip_low=1`.

  Args:
    ratios: [...] ρ, of any level.
    logprobs: [...] of the decisions under the trained policy.
    advantages: [...] constants.
    clip_low: weights are at least 1 - clip_low.
    clip_high: weights are at most 1 + clip_high.
  Source: MiniMax-M1, https://arxiv.org/abs/2506.13585, eq. 4 and 5.
  """
  chex.assert_equal_shape([ratios, logprobs, advantages])
  weights = jax.lax.stop_gradient(jnp.clip(ratios, 1 - clip_low, 1 + clip_high))
  return reinforce(logprobs, weights * advantages)


def sapo(
    ratios: jax.Array, advantages: jax.Array, *, temperature_positive: float, temperature_negative: float
) -> jax.Array:
  """-f(ρ) A with the gate f(ρ) = 4/τ σ(τ (ρ - 1)) in place of a clip.

  At ρ = 1 the gate's slope is 1, so the gradient is that of `reinforce`; its value is 2/τ, not 1. Away from
  1 the slope 4 σ (1 - σ) falls off on both sides, faster for a larger τ: tokens of A ≤ 0 get the larger one.

  Args:
    ratios: [...] ρ, of any level.
    advantages: [...] constants.
    temperature_positive: τ where A > 0 (1.0 in the paper).
    temperature_negative: τ where A ≤ 0 (1.05 in the paper).
  Source: SAPO, https://arxiv.org/abs/2511.20347; as in TRL and verl.
  """
  chex.assert_equal_shape([ratios, advantages])
  advantages = jax.lax.stop_gradient(advantages)
  temperatures = jnp.where(advantages > 0, temperature_positive, temperature_negative)
  return -4 / temperatures * jax.nn.sigmoid(temperatures * (ratios - 1)) * advantages


def vespo(
    ratios: jax.Array,
    logprobs: jax.Array,
    advantages: jax.Array,
    *,
    power_positive: float,
    rate_positive: float,
    power_negative: float,
    rate_negative: float,
) -> jax.Array:
  """-sg(φ(w)) A log π with φ(w) = e^λ w^k e^(-λ w), a smooth weight of the whole sequence's ratio.

  φ(1) = 1; φ rises to w = k/λ and falls behind it, so that neither rare nor runaway sequences count. TRL
  bounds w from below at 1e-8 (here e^-20) and takes A = 0 as positive, as here.

  Args:
    ratios: [...] w, from `sequence_product`.
    logprobs: [...] of the decisions under the trained policy.
    advantages: [...] constants.
    power_positive: k where A ≥ 0 (2 in TRL).
    rate_positive: λ where A ≥ 0 (3 in TRL).
    power_negative: k where A < 0 (3 in TRL).
    rate_negative: λ where A < 0 (2 in TRL).
  Source: VESPO, https://arxiv.org/abs/2602.10693; the formula as in TRL.
  """
  chex.assert_equal_shape([ratios, logprobs, advantages])
  ratios, positive = jax.lax.stop_gradient(ratios), advantages >= 0
  power = jnp.where(positive, power_positive, power_negative)
  rate = jnp.where(positive, rate_positive, rate_negative)
  weights = jnp.exp(rate + power * jnp.log(ratios) - rate * ratios)
  return reinforce(logprobs, weights * advantages)


def gmpo(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    mask: jax.Array,
    *,
    log_clip_low: float,
    log_clip_high: float,
) -> jax.Array:
  """-A (Π_t ρ̃_t)^(1/|y|): the geometric mean of ratios that were clipped one by one, at every token.

      log ρ̃ = sgn(A) min( sgn(A) log ρ, sgn(A) clip(log ρ, -log_clip_low, log_clip_high) )

  Both bounds are of *log* ratios; the paper's 0.4 is a ratio in (e^-0.4, e^0.4). TRL and verl do the same;
  they expect one advantage a sequence, and so does the formula.

  Args:
    logprobs: [..., T] of the decisions under the trained policy.
    old_logprobs: [..., T] under the proximal policy, constants.
    advantages: [..., T] constants, the same at every token of a sequence.
    mask: [..., T] bool, True where the token counts.
    log_clip_low: how far below 0 a log-ratio counts.
    log_clip_high: how far above 0 a log-ratio counts.
  Returns:
    [..., T] float32; with `sequence_mean` every sequence weighs the same, as in the paper.
  Source: GMPO, https://arxiv.org/abs/2507.20673; as in verl.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, advantages, mask])
  advantages = jax.lax.stop_gradient(advantages)
  signs = jnp.sign(advantages)
  logs = log_ratio(logprobs, jax.lax.stop_gradient(old_logprobs))
  kept = signs * jnp.minimum(signs * logs, signs * jnp.clip(logs, -log_clip_low, log_clip_high))
  return -held_exp(row_mean(kept, mask)) * advantages


def _probability(logprobs: jax.Array) -> jax.Array:
  return jnp.exp(jnp.minimum(jax.lax.stop_gradient(logprobs).astype(jnp.float32), 0))


def dppo_tv(
    logprobs: jax.Array, old_logprobs: jax.Array, advantages: jax.Array, *, low: float, high: float
) -> jax.Array:
  """[...] bool: True where the token may learn, by the total variation of (this token, any other).

      A > 0:  π - μ ≤ high        else:  π - μ ≥ -low

  A ratio calls a move from 0.001 to 0.002 large and one from 0.5 to 0.6 small; this does not.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    old_logprobs: [...] under μ: the sampler, in the paper.
    advantages: [...] whose sign says in which direction the token moves.
    low: how much probability a token may lose.
    high: how much probability a token may gain.
  Source: DPPO, https://arxiv.org/abs/2602.04879; the formula as in verl's `dppo_tv`.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, advantages])
  gain = _probability(logprobs) - _probability(old_logprobs)
  return jnp.where(advantages > 0, gain <= high, gain >= -low)


def dppo_kl(
    logprobs: jax.Array, old_logprobs: jax.Array, advantages: jax.Array, *, low: float, high: float
) -> jax.Array:
  """[...] bool: True where the token may learn, by the KL of (this token, any other).

      A > 0:  D ≤ high or π ≤ μ   else:  D ≤ low or π ≥ μ,
      D = μ log(μ/π) + (1 - μ) log((1 - μ)/(1 - π))

  Args:
    logprobs: [...] of the decisions under the trained policy.
    old_logprobs: [...] under μ: the sampler, in the paper.
    advantages: [...] whose sign says in which direction the token moves.
    low: nats that a token may fall.
    high: nats that a token may rise.
  Source: DPPO, https://arxiv.org/abs/2602.04879; the formula as in verl's `dppo_kl`.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, advantages])
  new, old = _probability(logprobs), _probability(old_logprobs)
  tiny = 1e-8  # as in verl: keeps log(1 - π) finite for a token that became certain
  other = (1 - old) * (jnp.log(1 - old + tiny) - jnp.log(1 - new + tiny))
  divergence = -old * jax.lax.stop_gradient(log_ratio(logprobs, old_logprobs)) + other
  rises = (divergence <= high) | (new <= old)
  falls = (divergence <= low) | (new >= old)
  return jnp.where(advantages > 0, rises, falls)


def dppo(
    ratios: jax.Array, logprobs: jax.Array, advantages: jax.Array, learns: jax.Array, *, ratio_max: float
) -> jax.Array:
  """-sg(min(ρ, c)) A log π where `learns`, else 0: a trust region by divergence instead of a clip.

  Args:
    ratios: [...] ρ against the policy that `learns` was measured against.
    logprobs: [...] of the decisions under the trained policy.
    advantages: [...] constants.
    learns: [...] bool, from `dppo_tv` or `dppo_kl`.
    ratio_max: c, large (20 in verl): the region does the work, not the cap.
  Source: DPPO, https://arxiv.org/abs/2602.04879, section 5.4 on the cap; as in verl.
  """
  chex.assert_equal_shape([ratios, logprobs, advantages, learns])
  return jnp.where(learns, cispo(ratios, logprobs, advantages, clip_low=1, clip_high=ratio_max - 1), 0)


def dro(
    logprobs: jax.Array, old_logprobs: jax.Array, advantages: jax.Array, *, kl_coef: float
) -> jax.Array:
  """-( A log π - kl_coef/2 (log π - log π_old)² ): a quadratic leash in place of ratio and clip.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    old_logprobs: [...] under the policy that is not to be left far behind, constants.
    advantages: [...] constants.
    kl_coef: strength of the leash.
  Source: DRO, https://arxiv.org/abs/2405.19107 (whole completions there); per token as in verl.
  """
  leash = jnp.square(log_ratio(logprobs, jax.lax.stop_gradient(old_logprobs)))
  return reinforce(logprobs, advantages) + kl_coef / 2 * leash


def decoupled(
    logprobs: jax.Array,
    proximal_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
) -> jax.Array:
  """π_prox/π_behav · `clipped_surrogate` of π/π_prox: clipped about a recent policy, weighted by the old one.

  At π_behav = π_prox it is PPO. AReaL drops tokens whose weight is above a cap: multiply `clipped_surrogate`
  by `corrections.masked` instead of calling this.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    proximal_logprobs: [...] under the policy at the start of the update, constants.
    sampler_logprobs: [...] under the policy that sampled, constants.
    advantages: [...] constants.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
  Source: Hilton et al., 2021, https://arxiv.org/abs/2110.00641; AReaL,
    https://arxiv.org/abs/2505.24298.
  """
  weights = jax.lax.stop_gradient(ratio(proximal_logprobs, sampler_logprobs))
  clip = dict(clip_low=clip_low, clip_high=clip_high)
  return weights * clipped_surrogate(logprobs, proximal_logprobs, advantages, **clip)


def remix(
    logprobs: jax.Array,
    proximal_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    advantages: jax.Array,
    *,
    clip: float,
) -> jax.Array:
  """-min(r A, clip(r, w - clip, w + clip) A) with r = π/π_behav, w = π_prox/π_behav.

  As `decoupled`, with a band that is as wide for stale tokens as for fresh ones: there it is w (1 ± clip).

  Args:
    logprobs: [...] of the decisions under the trained policy.
    proximal_logprobs: [...] under the policy at the start of the update, constants.
    sampler_logprobs: [...] under the policy that sampled, constants.
    advantages: [...] constants.
    clip: half the width of the band.
  Source: ReMix, https://arxiv.org/abs/2507.06892, Mix-PPG; read in a summary of the paper.
  """
  chex.assert_equal_shape([logprobs, proximal_logprobs, sampler_logprobs, advantages])
  constant = jax.lax.stop_gradient
  centre = constant(ratio(proximal_logprobs, sampler_logprobs))
  rho = ratio(logprobs, constant(sampler_logprobs))
  held = jnp.clip(rho, centre - clip, centre + clip)
  return -jnp.minimum(rho * constant(advantages), held * constant(advantages))


def luffy(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    off_policy: jax.Array,
    *,
    gamma: float,
    clip_low: float,
    clip_high: float,
) -> jax.Array:
  """-f(π) A with f(x) = x / (x + γ) where another policy wrote the row, `clipped_surrogate` elsewhere.

  The other policy's probability is taken as 1, so its ratio is π itself. f' is largest where π is small:
  rare steps of a demonstration are learned too. The authors' code takes away the clip of the other rows.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    old_logprobs: [...] under the proximal policy, constants; unused where `off_policy`.
    advantages: [...] constants; the group's baseline counts both kinds of rows.
    off_policy: [...] bool, True at tokens of demonstrations.
    gamma: γ (0.1 in the paper).
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
  Source: LUFFY, https://arxiv.org/abs/2504.14945; as in the authors' code.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, advantages, off_policy])
  # x / (x + γ) of x = e^l is a sigmoid of l - log γ, which neither under- nor overflows.
  shaped = jax.nn.sigmoid(logprobs.astype(jnp.float32) - jnp.log(gamma))
  demonstration = -shaped * jax.lax.stop_gradient(advantages)
  clip = dict(clip_low=clip_low, clip_high=clip_high)
  return jnp.where(off_policy, demonstration, clipped_surrogate(logprobs, old_logprobs, advantages, **clip))


def calibrl(
    logprobs: jax.Array,
    expert_logprobs: jax.Array,
    advantages: jax.Array,
    correct: jax.Array,
    *,
    slope: float,
) -> jax.Array:
  """|A| LeakyReLU(∓(log π - log π_expert)): be surer than the expert where right, less sure where wrong.

  Minus where `correct`, plus elsewhere. |A| of a normalised group is the rarity of its outcome: a lone
  success counts more than one of many. The term is added to a surrogate. Where policy and expert are equal
  to rounding, as where they say the same, the slope is that below 0.

  Args:
    logprobs: [...] of the policy's own decisions under the trained policy.
    expert_logprobs: [...] of the demonstration for the same prompt, position by position, constants.
    advantages: [...] normalised in the group, constants.
    correct: [...] bool, True where the row's outcome is right.
    slope: of the LeakyReLU below 0 (0.5 in the authors' code).
  Source: CalibRL, https://arxiv.org/abs/2602.20197; as in the authors' code.
  """
  chex.assert_equal_shape([logprobs, expert_logprobs, advantages, correct])
  gap = log_ratio(logprobs, jax.lax.stop_gradient(expert_logprobs))
  signed = jnp.where(correct, -gap, gap)
  activation = jnp.where(signed > _ROUNDING, signed, slope * signed)
  return jnp.abs(jax.lax.stop_gradient(advantages)) * activation
