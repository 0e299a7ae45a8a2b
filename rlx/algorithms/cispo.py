"""CISPO: clip the importance weight, not the update; every token keeps its gradient.

    L = -1/Σ|y_i| Σ_i Σ_t sg(clip(ρ, 1 - ε_low, 1 + ε_high)) A_i log π(y_t)

Source: MiniMax-M1, https://arxiv.org/abs/2506.13585, eq. 4 and 5. The paper bounds the weight only from
above: `clip_low=1`. The bound is 1 + clip_high, as in verl; in TRL `epsilon_high` is the bound itself.
"""

import dataclasses

from rlx import reductions
from rlx.algorithms.grpo import grpo
from rlx.losses import policy
from rlx.metrics import describe_update
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def cispo(
    rollout: Rollout, reward: Annotate, score: Score, *, clip_low: float, clip_high: float
) -> Algorithm:
  """`grpo` with another loss, a mean over tokens and no KL.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    clip_low: weights are at least 1 - clip_low.
    clip_high: weights are at most 1 + clip_high.
  """
  parent = grpo(
      rollout, reward, score,
      clip_low=clip_low, clip_high=clip_high, kl_coef=0.0, entropy_coef=0.0, reduction=reductions.token_mean,
  )

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = score(models['policy'], batch)
    clip = dict(clip_low=clip_low, clip_high=clip_high)
    rho = policy.ratio(logprobs, batch['sampler_logprobs'])
    surrogate = policy.cispo(rho, logprobs, batch['advantages'], **clip)
    total = reductions.weighted_mean(surrogate, batch['weights'])
    return total, {'loss/policy': total, **describe_update(batch, logprobs, entropy, **clip)}

  return dataclasses.replace(parent, loss=loss)
