"""VAPO's two decays of GAE: the policy's follows the length of each row, the critic learns from Monte Carlo.

    A = GAE(r, V; λ = 1 - 1 / (α l)),   R_t = Σ_{s >= t} r_s,   all else as `ppo`

A reward at the end of a row of l tokens reaches the first ones with λ^l: a critic whose targets are A + V
under such a decay mostly learns from itself. With λ = 1 its targets have no bias and more noise, which a
regression averages out; the policy, whose noise counts, keeps the smaller λ.

Source: VAPO, https://arxiv.org/abs/2504.05118, decoupled and length-adaptive GAE. Its
clip-higher is `clip_high`, its mean over tokens is that of `ppo`; its loss of right rows and the critic's
training in advance are not part of this.
"""

import dataclasses
from functools import partial

from rlx.advantages import temporal
from rlx.algorithms.ppo import ppo
from rlx.engine.speaker import Critic, Speaker
from rlx.losses.anchors import no_kl
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def vapo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    value: Critic,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    value_coef: float,
    value_clip: float,
    alpha: float,
) -> Algorithm:
  """`ppo` without a KL or a discount, whose critic has targets of its own.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B], paid at the last action of the row.
    policy: scores rows; its parameters are trained.
    value: the critic, `models['value']`.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high (0.28 in the paper).
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss.
    value_clip: how far values may move from those of the rollout before they stop counting.
    alpha: how much of a row counts (0.05 in the paper, of thousands of tokens): `temporal.lengths_to_lambda`.
  """
  parent = ppo(
      rollout, reward, policy, value, no_kl(), clip_low=clip_low, clip_high=clip_high,
      entropy_coef=entropy_coef, value_coef=value_coef, value_clip=value_clip, discount=1.0,
      lambda_=partial(temporal.lengths_to_lambda, alpha=alpha),
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    mask = batch['action_mask']
    token_rewards = temporal.paid_at_end(batch['rewards'], mask)
    return {**batch, 'returns': temporal.returns_tokens(token_rewards, mask, discount=1.0)}

  return dataclasses.replace(parent, advantage=advantage)
