"""HRPO: GRPO of a policy that reads what it drew its tokens from, beside the tokens (`models/latent.py`).

    A_i = (r_i - mean(r)) / std(r)
    L = -mean_i 1/|y_i| Σ_t [ A_i log π(y_t | hybrid inputs) - β KL(π || ref) ]

Tokens are still drawn, so the policy gradient is that of the parent; new is what the log-probs are
conditioned on. With one update a batch, the parent's clipped ratio is 1 and its gradient is the one above.

Source: Yue et al., 2025, https://arxiv.org/abs/2505.18454, section 3.2.
"""

import dataclasses

import jax

from rlx import reductions
from rlx.algorithms.grpo import grpo
from rlx.engine.speaker import Speaker
from rlx.losses.anchors import kl_in_loss
from rlx.models import latent as latents
from rlx.rollout import latent
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def hrpo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    reference: Speaker,
    *,
    kl_coef: float,
    clip_low: float,
    clip_high: float,
) -> Algorithm:
  """`grpo` with log-probs of hybrid inputs; `models['policy']` has a gate (`latent.init`).

  Args:
    rollout: yields rows with `latents, hybrid`, such as `rollout.latent.completions`.
    reward: adds `rewards` [B].
    policy: what learns; its rows are scored as they are, not packed.
    reference: what holds the policy, a model with a gate too: it reads the latents of the rows.
    kl_coef: β, of the KL in the loss; 0.005 in the paper.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
  """
  kl = kl_in_loss(_Hybrid(**vars(reference)), coef=kl_coef)
  parent = grpo(
      rollout, reward, _Hybrid(**vars(policy)), kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0
  )

  def loss(models: Models, batch: Batch, key: Key):
    total, metrics = parent.loss(models, batch, key)
    params = jax.lax.stop_gradient(models['policy'])
    share = latents.token_share(params, policy.model.embed(params, batch['tokens'])).mean(axis=-1)
    share = reductions.weighted_mean(share, reductions.sequence_mean(batch['hybrid']))
    return total, {**metrics, 'latent/token_share': share}

  return dataclasses.replace(parent, loss=loss)


class _Hybrid(Speaker):
  """Scores what was read with latents."""

  def score(self, params, batch: Batch) -> tuple[jax.Array, jax.Array]:
    return latent.score(
        params, self.model, batch, decoding=self.decoding, chunk_size=self.scoring.chunk_tokens
    )
