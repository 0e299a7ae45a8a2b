"""Learning from comparisons without a reference: log-probs stand where DPO has log-ratios.

| method | loss | level |
|---|---|---|
| `cpo` | -log σ(β h) + c NLL(y_w) | summed |
| `simpo` | -log σ(β h - γ) | averaged |
| `alphapo` | the same, of (1 - p^-α) / α with p = π(y)^(1/abs(y)) | averaged |
| `orpo` | NLL(y_w) - λ log σ(log odds(y_w) - log odds(y_l)) | averaged |
| `slic` | max(0, δ - h) + c NLL(y_w) | summed |

NLL is that of the chosen answer, a token. The policy is held by that term, or by nothing.
"""

from collections.abc import Callable
import functools

import jax.numpy as jnp

from rlx.algorithms.dpo import compared
from rlx.engine.speaker import Speaker
from rlx.losses import comparisons, preference
from rlx.types import Algorithm, Batch, Models, Rollout


def reference_free(
    rollout: Rollout,
    policy: Speaker,
    *,
    loss: Callable,
    level: Callable = comparisons.summed,
    divergence: Callable = comparisons.reverse_kl,
    weight: Callable = comparisons.even,
) -> Algorithm:
  """DPO with a reference that says nothing.

  Args:
    rollout: as for `dpo`, as are all that follow.
    policy: scores rows; its parameters are trained.
    loss: of each pair.
    level: makes the log-prob of an answer of those of its tokens.
    divergence: what is made of it then.
    weight: of each pair.
  """

  def annotate(models: Models, batch: Batch) -> Batch:
    del models
    return {**batch, 'reference_logprobs': jnp.zeros(batch['tokens'].shape)}

  return compared(rollout, policy, annotate, loss=loss, level=level, divergence=divergence, weight=weight)


def cpo(rollout: Rollout, policy: Speaker, *, beta: float, nll_coef: float) -> Algorithm:
  """Contrastive preference optimisation: DPO with a uniform reference, and the chosen answers' NLL.

  Args:
    rollout: yields pairs.
    policy: is trained.
    beta: β.
    nll_coef: c; 1 in the paper, where the NLL is summed over tokens.
  Source: Xu et al., 2024, https://arxiv.org/abs/2401.08417.
  """
  loss = functools.partial(preference.sigmoid, beta=beta)
  return reference_free(rollout, policy, loss=_with_nll(loss, nll_coef))


def simpo(rollout: Rollout, policy: Speaker, *, beta: float, margin: float) -> Algorithm:
  """Simple preference optimisation: what is compared is the likelihood a token, that the policy samples by.

  Args:
    rollout: yields pairs.
    policy: is trained.
    beta: β, 2 to 10.
    margin: γ, by which β h is to be ahead; 0.3 β to 0.8 β.
  Source: Meng et al., 2024, https://arxiv.org/abs/2405.14734, eq. 6.
  """
  loss = functools.partial(preference.simpo, beta=beta, margin=margin)
  return reference_free(rollout, policy, loss=loss, level=comparisons.averaged)


def alphapo(rollout: Rollout, policy: Speaker, *, beta: float, margin: float, alpha: float) -> Algorithm:
  """AlphaPO: SimPO, whose reward is bent by α; close to 0 it is SimPO.

  Args:
    rollout: yields pairs.
    policy: is trained.
    beta: β.
    margin: γ.
    alpha: α, of either sign, not 0.
  Source: Gupta et al., 2025, https://arxiv.org/abs/2501.03884.
  """
  return reference_free(
      rollout, policy, loss=functools.partial(preference.simpo, beta=beta, margin=margin),
      level=comparisons.averaged, divergence=functools.partial(comparisons.alpha_divergence, alpha=alpha),
  )


def orpo(rollout: Rollout, policy: Speaker, *, odds_coef: float) -> Algorithm:
  """Odds ratio preference optimisation: SFT on the chosen answers, and away from the rejected ones, at once.

  TRL's NLL takes in the tokens of the prompt; here it is of the answer, as in the paper.

  Args:
    rollout: yields pairs.
    policy: is trained.
    odds_coef: λ; 0.1 to 0.25 in the paper.
  Source: Hong et al., 2024, https://arxiv.org/abs/2403.07691, eq. 6.
  """
  loss = functools.partial(
      preference.plus, first=preference.nll, second=preference.odds_ratio, weight=odds_coef
  )
  return reference_free(rollout, policy, loss=loss, level=comparisons.averaged)


def slic(rollout: Rollout, policy: Speaker, *, delta: float, nll_coef: float) -> Algorithm:
  """Sequence likelihood calibration: a margin of δ between answers, and the chosen answers' NLL.

  Args:
    rollout: yields pairs.
    policy: is trained.
    delta: δ in nats.
    nll_coef: c, of the regulariser.
  Source: Zhao et al., 2023, https://arxiv.org/abs/2305.10425.
  """
  return reference_free(
      rollout, policy, loss=_with_nll(functools.partial(preference.slic, delta=delta), nll_coef)
  )


def _with_nll(loss: Callable, weight: float) -> Callable:
  return functools.partial(preference.plus, first=loss, second=preference.nll, weight=weight)
