"""What a comparison costs, element-wise: losses of log-ratios log π(y|x) / ref(y|x) of whole answers.

Every loss takes what it needs by name and returns [N], one entry a comparison; the caller averages. `chosen`
and `rejected` are the log-ratios h_w and h_l of the better and the worse answer, in nats: sums over tokens or
what a level makes of them, behind a divergence (`comparisons.py`). Without a reference they are log-probs
(`cpo`, `simpo`, `orpo`, `slic`, `tpo`). h is h_w - h_l and σ the logistic function.

| loss | equation | at h_w = h_l = 0 | TRL |
|---|---|---|---|
| `sigmoid` | -(1 - ε) log σ(β h) - ε log σ(-β h) | log 2 | sigmoid |
| `dynamic` | -log σ(β(δ) h), δ what a reward model sees | log 2 | |
| `robust` | [-(1 - ε) log σ(β h) + ε log σ(-β h)] / (1 - 2 ε) | log 2 | robust |
| `hinge` | max(0, 1 - β h) | 1 | hinge |
| `ipo` | (h - 1/(2 β))² | 1/(4 β²) | ipo, with the level `averaged` |
| `exo` | KL(σ(±β h), (1 - ε, ε)) | -log 2 - log(ε (1 - ε)) / 2 | exo_pair |
| `nca` | -log σ(β h_w) - Σ log σ(-β h) / 2 | 2 log 2 | nca_pair |
| `bco` | -log σ(β (h_w - δ)) - log σ(-β (h_l - δ)) | 2 log 2 | bco_pair, with another δ |
| `sppo_hard` | (h_w - 1/(2 β))² + (h_l + 1/(2 β))² | 1/(2 β²) | sppo_hard |
| `aot` | -log σ(β (m_(i) - m'_(i))), of sorted margins | log 2 | aot |
| `aot_unpaired` | -log σ(β (h_w(i) - h_l(i))), sorted | log 2 | aot_unpaired |
| `apo_zero` | 1 - σ(β h_w) + σ(β h_l) | 1 | apo_zero |
| `apo_down` | σ(β h_w) + 1 - σ(β h) | 1 | apo_down |
| `discopop` | logistic and exponential, mixed by σ(β h / τ) | (log 2 + 1) / 2 | discopop |

What answers of more than one kind cost, such as lists, is in `ranking.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp

from rlx.errors import above, between
from rlx.names import fill

_log_sigmoid = jax.nn.log_sigmoid


def sigmoid(chosen: jax.Array, rejected: jax.Array, *, beta: float, smoothing: float = 0.0) -> jax.Array:
  """-(1 - ε) log σ(β h) - ε log σ(-β h): DPO; with ε, which is the share of labels taken to be wrong, cDPO.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β, how strongly the policy is held to the reference, above 0.
    smoothing: ε in [0, 0.5).
  Source: Rafailov et al., 2023, https://arxiv.org/abs/2305.18290, eq. 7; ε: Mitchell, 2023,
    https://ericmitchell.ai/cdpo.pdf, eq. 3.

  >>> round(float(sigmoid(jnp.zeros(1), jnp.zeros(1), beta=0.1)[0]), 4)  # log 2
  0.6931
  """
  _check(beta, smoothing)
  margin = beta * _margin(chosen, rejected)
  return -(1 - smoothing) * _log_sigmoid(margin) - smoothing * _log_sigmoid(-margin)


def dynamic(
    chosen: jax.Array, rejected: jax.Array, reward_margin: jax.Array, *, beta: float, share: float,
    rate: float,
) -> jax.Array:
  """-log σ(β(δ) h): DPO, in which pairs that a reward model is surer of have a larger β.

  Where the policy has a pair wrong, the gradient grows with β: so β(δ) is a weight there too.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    reward_margin: [N] δ; a column `pair_reward_margin`.
    beta: β_0.
    share: as for `scaled_beta`; at 0 this is `sigmoid`.
    rate: as for `scaled_beta`.
  Source: MM-RLHF, Zhang et al., 2025, https://arxiv.org/abs/2502.10391.
  """
  margins = scaled_beta(reward_margin, beta=beta, share=share, rate=rate) * _margin(chosen, rejected)
  return -_log_sigmoid(margins)


def scaled_beta(reward_margin: jax.Array, *, beta: float, share: float, rate: float) -> jax.Array:
  """β(δ) = β_0 (1 + w (1 - exp(-k δ))), from β_0 at δ = 0 up to β_0 (1 + w).

  Below 0, where the reward model contradicts the label, the exponential is held at 2: at β_0 (1 - w), for
  without a bound β would change its sign. The bound is ours.

  Args:
    reward_margin: [N] δ = r(y_w) - r(y_l), in the reward model's units; a constant.
    beta: β_0, above 0.
    share: w in [0, 1].
    rate: k, above 0, in 1 / δ.
  Source: as `dynamic`, dynamic reward scaling.

  >>> [round(float(x), 4) for x in scaled_beta(jnp.array([-9.0, 0.0, 9.0]), beta=0.1, share=0.5, rate=1.0)]
  [0.05, 0.1, 0.15]
  """
  _check(beta)
  between(0, 1, share=share)
  above(0, rate=rate)
  falling = jnp.exp(-jnp.maximum(rate * reward_margin, -jnp.log(2.0)))
  return beta * (1 + share * (1 - jax.lax.stop_gradient(falling)))


def robust(chosen: jax.Array, rejected: jax.Array, *, beta: float, flips: float) -> jax.Array:
  """[-(1 - ε) log σ(β h) + ε log σ(-β h)] / (1 - 2 ε): DPO's loss of the true labels, without bias.

  Its mean over labels that are flipped with chance ε is `sigmoid` of those that are not. It is not bounded
  below.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β.
    flips: ε in [0, 0.5).
  Source: Chowdhury et al., 2024, https://arxiv.org/abs/2403.00409.
  """
  _check(beta, flips)
  margin = beta * _margin(chosen, rejected)
  return (-(1 - flips) * _log_sigmoid(margin) + flips * _log_sigmoid(-margin)) / (1 - 2 * flips)


def hinge(chosen: jax.Array, rejected: jax.Array, *, beta: float) -> jax.Array:
  """max(0, 1 - β h): no gradient once the margin is 1/β.

  Args:
    chosen: [N] h_w; with log-probs for log-ratios this is SLiC's calibration with δ = 1/β.
    rejected: [N] h_l.
    beta: β.
  Source: RSO, Liu et al., 2023, https://arxiv.org/abs/2309.06657.
  """
  _check(beta)
  return jax.nn.relu(1 - beta * _margin(chosen, rejected))


def ipo(chosen: jax.Array, rejected: jax.Array, *, beta: float) -> jax.Array:
  """(h - 1/(2 β))²: the margin goes to 1/(2 β) and no further, however sure the labels are.

  The paper sums log-ratios over tokens; TRL averages them, which is the level `averaged`.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β, the paper's τ.
  Source: Azar et al., 2023, https://arxiv.org/abs/2310.12036, eq. 17.
  """
  _check(beta)
  return jnp.square(_margin(chosen, rejected) - 1 / (2 * beta))


def exo(chosen: jax.Array, rejected: jax.Array, *, beta: float, smoothing: float) -> jax.Array:
  """KL(p || q) of p = (σ(β h), σ(-β h)) from the labels q = (1 - ε, ε): the reverse KL to them.

  `sigmoid` with ε is the forward one, KL(q || p), and a constant.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β.
    smoothing: ε in (0, 0.5): at 0 the divergence is infinite.
  Source: Ji et al., 2024, https://arxiv.org/abs/2402.00856, eq. 16.
  """
  _check(beta, smoothing)
  above(0, smoothing=smoothing)
  margin = beta * _margin(chosen, rejected)
  right = jax.nn.sigmoid(margin) * (_log_sigmoid(margin) - jnp.log1p(-smoothing))
  return right + jax.nn.sigmoid(-margin) * (_log_sigmoid(-margin) - jnp.log(smoothing))


def nca(chosen: jax.Array, rejected: jax.Array, *, beta: float) -> jax.Array:
  """-log σ(β h_w) - [log σ(-β h_w) + log σ(-β h_l)] / 2: the chosen answer's probability does not fall.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β.
  Source: Chen et al., 2024, https://arxiv.org/abs/2402.05369, with K = 2 and hard labels.
  """
  _check(beta)
  chex.assert_equal_shape([chosen, rejected])
  held = _log_sigmoid(-beta * chosen) + _log_sigmoid(-beta * rejected)
  return -_log_sigmoid(beta * chosen) - held / 2


def bco(chosen: jax.Array, rejected: jax.Array, shift: jax.Array, *, beta: float) -> jax.Array:
  """-log σ(β (h_w - δ)) - log σ(-β (h_l - δ)): a classifier of answers, about the mean log-ratio δ.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    shift: [N] δ, a constant: the mean of h over all answers of the minibatch, with the parameters before
      the update. TRL has a running mean over steps, of rewards β h.
    beta: β.
  Source: Jung et al., 2024, https://arxiv.org/abs/2404.04656, without its density ratio.
  """
  _check(beta)
  chex.assert_equal_shape([chosen, rejected, shift])
  return -_log_sigmoid(beta * (chosen - shift)) - _log_sigmoid(-beta * (rejected - shift))


def sppo_hard(chosen: jax.Array, rejected: jax.Array, *, beta: float) -> jax.Array:
  """(h_w - 1/(2 β))² + (h_l + 1/(2 β))²: each answer goes to its own place, not their difference to one.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β; the paper's η is 1/β, and a preference is 1 or 0.
  Source: Wu et al., 2024, https://arxiv.org/abs/2405.00675.
  """
  _check(beta)
  chex.assert_equal_shape([chosen, rejected])
  return jnp.square(chosen - 1 / (2 * beta)) + jnp.square(rejected + 1 / (2 * beta))


def sppo(chosen: jax.Array, rejected: jax.Array, win_rate: jax.Array, *, beta: float) -> jax.Array:
  """(h_w - (P - 1/2)/β)² + (h_l + (P - 1/2)/β)², P the chance that the chosen answer is preferred.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    win_rate: [N] P in [0, 1]; at 1 this is `sppo_hard`, at 1/2 both answers go to the reference.
    beta: β.
  Source: Wu et al., 2024, https://arxiv.org/abs/2405.00675.
  """
  _check(beta)
  target = (win_rate - 0.5) / beta
  return jnp.square(chosen - target) + jnp.square(rejected + target)


def aot(
    chosen: jax.Array, rejected: jax.Array, margin_below: jax.Array, *, beta: float, smoothing: float = 0.0
) -> jax.Array:
  """`sigmoid` of m_(i) - m'_(i): the sorted margins of the policy against the sorted ones of the reference.

  So the distribution of margins is to be better everywhere than the reference's, whatever pair they are of.

  Args:
    chosen: [N] log-ratios, whose difference and the reference's margin are the policy's margin m.
    rejected: [N] likewise.
    margin_below: [N] m'_(i) minus the own margin of the reference, where i is the place of m in the sorted
      minibatch; a constant. In a minibatch of one it is 0, and the loss DPO's.
    beta: β.
    smoothing: ε, as of `sigmoid`.
  Source: Melnyk et al., 2024, https://arxiv.org/abs/2406.05882 (paired).
  """
  margin = _margin(chosen, rejected) - margin_below
  return sigmoid(margin, jnp.zeros_like(margin), beta=beta, smoothing=smoothing)


def aot_unpaired(
    chosen: jax.Array, rejected: jax.Array, chosen_partner: jax.Array, rejected_partner: jax.Array, *,
    beta: float, smoothing: float = 0.0,
) -> jax.Array:
  """`sigmoid` of h_w(i) - h_l(i), both sorted: chosen answers are to be better, whatever they were beside.

  Each answer is compared with the constant that stands at its place on the other side; value and gradient of
  the mean over the minibatch are those of the sorted form.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    chosen_partner: [N] the rejected log-ratio at the place of this chosen one; a constant.
    rejected_partner: [N] the chosen log-ratio at the place of this rejected one; a constant.
    beta: β.
    smoothing: ε, as of `sigmoid`.
  Source: Melnyk et al., 2024, https://arxiv.org/abs/2406.05882 (unpaired).
  """
  held = jax.lax.stop_gradient
  own = sigmoid(chosen, held(chosen_partner), beta=beta, smoothing=smoothing)
  other = sigmoid(held(rejected_partner), rejected, beta=beta, smoothing=smoothing)
  return own + other - held(own + other) / 2


def apo_zero(chosen: jax.Array, rejected: jax.Array, *, beta: float) -> jax.Array:
  """1 - σ(β h_w) + σ(β h_l): chosen answers become likelier, rejected ones less; for answers above the model.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β.
  Source: D'Oosterlinck et al., 2024, https://arxiv.org/abs/2408.06266, eq. 7.
  """
  _check(beta)
  chex.assert_equal_shape([chosen, rejected])
  return 1 - jax.nn.sigmoid(beta * chosen) + jax.nn.sigmoid(beta * rejected)


def apo_down(chosen: jax.Array, rejected: jax.Array, *, beta: float) -> jax.Array:
  """σ(β h_w) + 1 - σ(β h): both become less likely, the rejected one more so; for answers below the model.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β.
  Source: D'Oosterlinck et al., 2024, https://arxiv.org/abs/2408.06266, eq. 8.
  """
  _check(beta)
  return jax.nn.sigmoid(beta * chosen) + 1 - jax.nn.sigmoid(beta * _margin(chosen, rejected))


def discopop(chosen: jax.Array, rejected: jax.Array, *, beta: float, tau: float) -> jax.Array:
  """(1 - g) (-log σ(β h)) + g exp(-β h), g = σ(β h / τ): the log-ratio modulated loss, found by a model.

  It is not convex. With τ = 0.05 its slope at the reference is positive, so that margins fall at first; it
  has a local optimum at β h = -0.12.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    beta: β.
    tau: τ, above 0; 0.05 in the paper.
  Source: Lu et al., 2024, https://arxiv.org/abs/2406.08414, eq. 5.
  """
  _check(beta)
  above(0, tau=tau)
  margin = beta * _margin(chosen, rejected)
  gate = jax.nn.sigmoid(margin / tau)
  return -_log_sigmoid(margin) * (1 - gate) + jnp.exp(-margin) * gate


# --- with a margin, a weight, a term more -------------------------------------------------------------------


def modpo(
    chosen: jax.Array, rejected: jax.Array, other_margin: jax.Array, *, beta: float, weight: float
) -> jax.Array:
  """-log σ((β h - (1 - w) Δr') / w): DPO on one objective, given the rewards of the others.

  Its optimum is the softmax of w r + (1 - w) r' over the reference.

  Args:
    chosen: [N] h_w.
    rejected: [N] h_l.
    other_margin: [N] Δr', how much more the others give for the chosen answer.
    beta: β.
    weight: w in (0, 1], of the objective that is compared; at 1 this is DPO.
  Source: Zhou et al., 2023, https://arxiv.org/abs/2310.03708.
  """
  _check(beta)
  above(0, weight=weight)
  between(0, 1, weight=weight)
  margin = beta * _margin(chosen, rejected) - (1 - weight) * other_margin
  return -_log_sigmoid(margin / weight)


def inpo(
    chosen: jax.Array, rejected: jax.Array, chosen_logprobs: jax.Array, rejected_logprobs: jax.Array,
    chosen_before: jax.Array, rejected_before: jax.Array, *, eta: float, tau: float,
) -> jax.Array:
  """(h_t - 1/(2 η))², h_t = (τ/η) h + (1 - τ/η) h': margins over the reference and over the last policy.

  Where pairs are samples of the last policy, this is a step of mirror descent to the Nash policy, also where
  preferences go in circles and no reward explains them.

  Args:
    chosen: [N] h_w over the reference.
    rejected: [N] h_l over it.
    chosen_logprobs: [N] summed over tokens.
    rejected_logprobs: [N] likewise.
    chosen_before: [N] log-probs under the policy of the last round, constants; a column `pair_chosen_before`.
    rejected_before: [N] likewise.
    eta: η, above 0: the larger, the smaller the step (the margin that is wanted is 1/(2 η)).
    tau: τ in [0, η], how strongly the reference holds; at η this is `ipo` with β = η.
  Source: Zhang et al., 2024, https://arxiv.org/abs/2407.00617.
  """
  above(0, eta=eta)
  between(0, eta, tau=tau)
  share = tau / eta
  over_last = _margin(chosen_logprobs - chosen_before, rejected_logprobs - rejected_before)
  mixed = share * _margin(chosen, rejected) + (1 - share) * over_last
  return jnp.square(mixed - 1 / (2 * eta))


def optimism(
    chosen_logprobs: jax.Array, rejected_logprobs: jax.Array, chosen_is_reference: jax.Array
) -> jax.Array:
  """log π(ỹ), ỹ the answer of the pair that the reference sampled: XPO's term, beside DPO's loss by `plus`.

  Minimised, it takes probability from what the reference says anyway, and so gives it to what it misses,
  as far as the policy says that at all (docs/guides/preferences.md).

  Args:
    chosen_logprobs: [N] summed over tokens.
    rejected_logprobs: [N] likewise.
    chosen_is_reference: [N] 1 where the chosen answer is the reference's, 0 where the rejected one is; a
      column `pair_chosen_is_reference` of both rows.
  Source: Xie et al., 2024, https://arxiv.org/abs/2405.21046, algorithm 1.
  """
  chex.assert_equal_shape([chosen_logprobs, rejected_logprobs, chosen_is_reference])
  return jnp.where(chosen_is_reference > 0, chosen_logprobs, rejected_logprobs)


def nll(chosen_logprobs: jax.Array, chosen_lengths: jax.Array) -> jax.Array:
  """-log π(y_w) / |y_w|, the NLL of the chosen answer a token: RPO's term, beside another by `plus`.

  Args:
    chosen_logprobs: [N] summed over tokens.
    chosen_lengths: [N] in tokens.
  Source: Iterative RPO, Pang et al., 2024, https://arxiv.org/abs/2404.19733; TRL's `rpo_alpha`, which
    averages over the tokens of the batch.
  """
  return -chosen_logprobs / jnp.maximum(chosen_lengths, 1)


def plus(known: Mapping[str, Any], *, first: Callable, second: Callable, weight: float) -> jax.Array:
  """first + weight second: a weighted sum of losses, which is a loss; longer ones by a sum in a sum.

  Args:
    known: what losses may ask for, by name.
    first: a loss.
    second: a loss.
    weight: of the second.
  """
  return fill(first, {**known, 'known': known}) + weight * fill(second, {**known, 'known': known})


# --- without a reference ------------------------------------------------------------------------------------


def simpo(chosen: jax.Array, rejected: jax.Array, *, beta: float, margin: float) -> jax.Array:
  """-log σ(β h - γ), of log-probs averaged over tokens (the level `averaged`, no reference).

  Args:
    chosen: [N] log π(y_w) / |y_w|.
    rejected: [N] log π(y_l) / |y_l|.
    beta: β, 2 to 10.
    margin: γ in units of β h, by which the chosen answer is to be ahead; as TRL's `simpo_gamma`.
  Source: Meng et al., 2024, https://arxiv.org/abs/2405.14734, eq. 6.
  """
  _check(beta)
  return -_log_sigmoid(beta * _margin(chosen, rejected) - margin)


def odds_ratio(chosen: jax.Array, rejected: jax.Array) -> jax.Array:
  """-log σ(log odds(y_w) - log odds(y_l)), odds(y) = p / (1 - p), p = π(y)^(1/|y|): ORPO's second term.

  Args:
    chosen: [N] log p of the chosen answer (the level `averaged`, no reference), below 0.
    rejected: [N] likewise.
  Source: Hong et al., 2024, https://arxiv.org/abs/2403.07691, eq. 7.
  """
  chex.assert_equal_shape([chosen, rejected])
  return -_log_sigmoid(_log_odds(chosen) - _log_odds(rejected))


def slic(chosen: jax.Array, rejected: jax.Array, *, delta: float) -> jax.Array:
  """max(0, δ - log π(y_w) + log π(y_l)); its regulariser is `nll`, or a KL.

  Args:
    chosen: [N] log π(y_w).
    rejected: [N] log π(y_l).
    delta: δ in nats, above 0.
  Source: Zhao et al., 2023, https://arxiv.org/abs/2305.10425.
  """
  above(0, delta=delta)
  return jax.nn.relu(delta - _margin(chosen, rejected))


def _log_odds(log_p: jax.Array) -> jax.Array:
  below_one = jnp.minimum(log_p, -1e-6)  # a certain answer has infinite odds
  return below_one - jnp.log(-jnp.expm1(below_one))


def _margin(chosen: jax.Array, rejected: jax.Array) -> jax.Array:
  chex.assert_equal_shape([chosen, rejected])
  return chosen - rejected


def _check(beta: float, share: float = 0.0) -> None:
  above(0, beta=beta)
  if not 0 <= share < 0.5:
    raise ValueError(f'{share} of the labels wrong: 0 up to 0.5, where they say nothing')
