"""What papers choose among the parts of `policy_gradient`: one function a paper, and nothing but the choice.

Each takes the numbers that its paper names, and `kl` where its paper holds the policy to a reference. A part
that a preset does not mention is GRPO's (`grpo_with`); to change another part, write out `policy_gradient`.
Choices that read the tree of a group are in `trees.py`.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups, temporal
from rlx.advantages import groups as group_advantages
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import anchors, corrections, covariance, ratios, regularizers, weights
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout

# --- other baselines ----------------------------------------------------------------------------------------


def dr_grpo(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    length: int,
) -> Algorithm:
  """GRPO without its two biases: no division by the group's deviation, nor by the response's length.

  Token sums are divided by the constant `length`, usually the generation budget in tokens.

  Source: Dr. GRPO, https://arxiv.org/abs/2503.20783, section 3.2.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  sums = partial(reductions.constant_length_sum, length=length)
  return grpo_with(rollout, reward, policy, kl, baseline=groups.centred, surrogate=clip, reduction=sums)


def grpo_s(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    deviation_max: float,
) -> Algorithm:
  """GRPO whose advantages are scaled by the difficulty of a sample: `weights.scaled_by_difficulty`.

  The reward adds `similarities` and `gaps` [B], to and from a demonstration for the prompt.

  Source: DR-IRL, https://arxiv.org/abs/2503.18991.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  scaled = partial(weights.scaled_by_difficulty, deviation_max=deviation_max)
  return grpo_with(rollout, reward, policy, kl, surrogate=clip, weight=scaled)


def rloo(rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor) -> Algorithm:
  """REINFORCE whose baseline is the mean reward of the *other* samples; the KL is in the reward.

  Source: RLOO, https://arxiv.org/abs/2402.14740, eq. 8.
  """
  return grpo_with(
      rollout, reward, policy, kl, baseline=groups.leave_one_out, surrogate=policy_losses.reinforce,
      reduction=reductions.sequence_sum,
  )


def lite_ppo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """The two tricks that are enough: the group's mean with the batch's deviation, and the mean over tokens.

  Source: Tricks or Traps, https://arxiv.org/abs/2508.08221, Lite PPO.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(
      rollout, reward, policy, baseline=groups.batch_scaled, surrogate=clip, reduction=reductions.token_mean
  )


def reinforce_plus_plus(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float
) -> Algorithm:
  """No groups: rewards, less the KL to the reference, against mean and deviation of the batch.

  Source: REINFORCE++, https://arxiv.org/abs/2501.03262. There the penalty of each token counts from it to the
    end (`reinforce_plus_plus_to_go`); here the row's counts at all of its tokens, as in RLOO.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(
      rollout, reward, policy, kl, baseline=groups.globally_normalised, surrogate=clip,
      reduction=reductions.token_mean,
  )


def reinforce_plus_plus_to_go(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    discount: float,
) -> Algorithm:
  """REINFORCE++ as it is written: to each token the penalty that is still to come, normalised over tokens.

      A_t = γ^(T - t) r - β Σ_{i >= t} γ^(i - t) log(π_old(y_i) / ref(y_i)),   then (A - mean(A)) / std(A)

  Mean and deviation are those of all tokens of the batch, so that long rows count more. γ is 1 in the paper,
  where it does not stand.

  Raises:
    ValueError: the KL is in the loss.
  Source: REINFORCE++, https://arxiv.org/abs/2501.03262, the token-level KL penalty and global normalisation;
    γ as in verl's `reinforce_plus_plus`.
  """
  if kl.coef:
    raise ValueError(f'kl counts {kl.coef} in the loss; here it is in the reward: kl_in_reward')

  def baseline(rewards: jax.Array, penalties: jax.Array, mask: jax.Array) -> jax.Array:
    rewards = temporal.paid_at_end(rewards, mask) - penalties
    return temporal.whiten(temporal.returns_tokens(rewards, mask, discount=discount), mask)

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  parent = grpo_with(
      rollout, reward, policy, baseline=baseline, surrogate=clip, reduction=reductions.token_mean
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    if kl.reward_coef:
      batch = kl.annotate(models, batch)
      penalties = kl.reward_coef * anchors.token_kl(batch)
    else:
      penalties = jnp.zeros(batch['action_mask'].shape)
    return parent.advantage(models, {**batch, 'penalties': penalties}, key)

  return dataclasses.replace(parent, advantage=advantage)


def reinforce_plus_plus_baseline(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float
) -> Algorithm:
  """The group's mean, the batch's deviation of what is left, and k2 in the loss.

  Source: REINFORCE++ (with baseline), https://arxiv.org/abs/2501.03262.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(
      rollout, reward, policy, kl, baseline=groups.batch_normalised, surrogate=clip,
      reduction=reductions.token_mean, kl_estimator=regularizers.kl_k2,
  )


def opo(rollout: Rollout, reward: Annotate, policy: Speaker) -> Algorithm:
  """The baseline of least variance, a mean of rewards by length, on policy: no clip, no KL.

  Source: OPO, https://arxiv.org/abs/2505.23585.
  """
  return grpo_with(
      rollout, reward, policy, baseline=groups.length_weighted, surrogate=policy_losses.reinforce,
      reduction=reductions.sequence_sum,
  )


def optimal_token_baseline(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """The baseline of least variance of each token: a mean of rewards by what the rows have moved so far.

  It costs one more pass, for Σ π² of the policy at the start of the update.

  Source: Optimal token baseline, https://arxiv.org/abs/2602.07078; the outcome stands for the return at every
    token, as in verl with one reward a row. Surrogate and reduction are our reading.
  """

  def baseline(rewards: jax.Array, energies: jax.Array, mask: jax.Array, groups: jax.Array) -> jax.Array:
    returns = jnp.broadcast_to(rewards[:, None], mask.shape)
    return group_advantages.optimal_token_baseline(returns, energies, mask, groups)

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  parent = grpo_with(
      rollout, reward, policy, baseline=baseline, surrogate=clip, reduction=reductions.token_mean
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    energies = policy.score_energies(models['policy'], batch)
    return parent.advantage(models, {**batch, 'energies': energies}, key)

  return dataclasses.replace(parent, advantage=advantage)


def gpg(rollout: Rollout, reward: Annotate, policy: Speaker) -> Algorithm:
  """The plain policy gradient of centred rewards, scaled up where groups teach nothing.

  Source: GPG, https://arxiv.org/abs/2504.02546.
  """
  return grpo_with(
      rollout, reward, policy, baseline=groups.centred, weight=weights.informative,
      surrogate=policy_losses.reinforce, reduction=reductions.token_mean,
  )


def maxrl(rollout: Rollout, reward: Annotate, policy: Speaker) -> Algorithm:
  """Rewards over the group's mean: towards the likelihood of a right answer, not its expectation.

  Source: MaxRL, https://arxiv.org/abs/2602.02710.
  """
  return grpo_with(
      rollout, reward, policy, baseline=groups.mean_normalised, surrogate=policy_losses.reinforce,
      reduction=reductions.sequence_sum,
  )


def pass_at_k(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float, k: int
) -> Algorithm:
  """The best of k samples is what counts, not each of them: `groups.pass_at_k`.

  Source: Pass@k Training, https://arxiv.org/abs/2508.10751.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, baseline=partial(groups.pass_at_k, k=k), surrogate=clip)


def reinforce_ada(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """Balanced groups of samples taken in rounds (`rollout/rounds.until_settled`), against all samples.

  The baseline is an unbiased rate under the stopping of the rounds; the paper's is the share of all samples.

  Source: Reinforce-Ada, https://arxiv.org/abs/2510.04996.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, baseline=groups.pooled, surrogate=clip)


# --- other ratios and clips ---------------------------------------------------------------------------------


def gspo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """The ratio of the whole sequence, its geometric mean; clip ranges are of the order of 1e-4.

  Source: GSPO, https://arxiv.org/abs/2507.18071.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, level=ratios.sequence_ratio, surrogate=clip)


def gspo_token(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """GSPO's ratio with a gradient for each token, which advantages of tokens can use.

  Source: GSPO, https://arxiv.org/abs/2507.18071, section 4.3.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, level=ratios.sequence_token_ratio, surrogate=clip)


def luspo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """GSPO times the length of the row, which undoes its preference for short ones.

  Source: LUSPO, https://arxiv.org/abs/2602.05261.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(
      rollout, reward, policy, level=ratios.sequence_ratio, surrogate=clip, reduction=reductions.sequence_sum
  )


def cispo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """The importance weight is clipped, not the update: every token keeps its gradient.

  The paper bounds the weight only from above: `clip_low=1`. The bound is 1 + clip_high, as in verl; in TRL
  `epsilon_high` is the bound itself.

  Source: MiniMax-M1, https://arxiv.org/abs/2506.13585, eq. 4 and 5.
  """
  surrogate = partial(policy_losses.cispo, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, surrogate=surrogate, reduction=reductions.token_mean)


def gmpo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, log_clip_low: float, log_clip_high: float
) -> Algorithm:
  """The geometric mean of token ratios that were clipped one by one.

  Source: GMPO, https://arxiv.org/abs/2507.20673.
  """
  surrogate = partial(policy_losses.gmpo, log_clip_low=log_clip_low, log_clip_high=log_clip_high)
  return grpo_with(rollout, reward, policy, surrogate=surrogate)


def sapo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, temperature_positive: float,
    temperature_negative: float,
) -> Algorithm:
  """A soft gate in place of the clip.

  Source: SAPO, https://arxiv.org/abs/2511.20347.
  """
  surrogate = partial(
      policy_losses.sapo, temperature_positive=temperature_positive, temperature_negative=temperature_negative
  )
  return grpo_with(rollout, reward, policy, surrogate=surrogate)


def vespo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, power_positive: float, rate_positive: float,
    power_negative: float, rate_negative: float,
) -> Algorithm:
  """A smooth weight of the sequence's ratio in place of the clip.

  Source: VESPO, https://arxiv.org/abs/2602.10693.
  """
  surrogate = partial(
      policy_losses.vespo, power_positive=power_positive, rate_positive=rate_positive,
      power_negative=power_negative, rate_negative=rate_negative,
  )
  return grpo_with(
      rollout, reward, policy, level=ratios.sequence_product, surrogate=surrogate,
      reduction=reductions.token_mean,
  )


def dual_clip(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float,
    ratio_max: float,
) -> Algorithm:
  """GRPO with a bound on the loss of bad tokens that became likelier (TRL's `delta`).

  Source: INTELLECT-2, https://arxiv.org/abs/2505.07291.
  """
  surrogate = partial(policy_losses.dual_clip, clip_low=clip_low, clip_high=clip_high, ratio_max=ratio_max)
  return grpo_with(rollout, reward, policy, surrogate=surrogate)


def dro(rollout: Rollout, reward: Annotate, policy: Speaker, *, leash: float) -> Algorithm:
  """A quadratic leash to the sampler in place of ratio and clip.

  Source: DRO, https://arxiv.org/abs/2405.19107.
  """
  return grpo_with(rollout, reward, policy, surrogate=partial(policy_losses.dro, kl_coef=leash))


def dppo_tv(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, low: float, high: float, ratio_max: float
) -> Algorithm:
  """A trust region of probabilities, not of their ratios.

  Source: DPPO, https://arxiv.org/abs/2602.04879.
  """

  def surrogate(ratios: jax.Array, logprobs: jax.Array, old_logprobs: jax.Array, advantages: jax.Array):
    learns = policy_losses.dppo_tv(logprobs, old_logprobs, advantages, low=low, high=high)
    return policy_losses.dppo(ratios, logprobs, advantages, learns, ratio_max=ratio_max)

  return grpo_with(rollout, reward, policy, surrogate=surrogate, reduction=reductions.token_mean)


# --- entropy ------------------------------------------------------------------------------------------------


def clip_cov(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float,
    fraction: float, low: float, high: float,
) -> Algorithm:
  """GRPO that leaves out a few of the tokens by which entropy is lost, at random.

  They are chosen among the tokens that are in memory together: here the choice knows micro-batches.

  Source: Clip-Cov, https://arxiv.org/abs/2505.22617.
  """

  def surrogate(
      ratios: jax.Array, logprobs: jax.Array, advantages: jax.Array, mask: jax.Array, key: jax.Array
  ):
    shares = covariance.covariances(logprobs, advantages, mask)
    loss = policy_losses.clipped(ratios, advantages, clip_low=clip_low, clip_high=clip_high)
    eligible = mask & ~_held(ratios, advantages, clip_low, clip_high)
    out = covariance.band(shares, eligible, mask, key, fraction=fraction, low=low, high=high)
    return jnp.where(out, 0, loss)

  return grpo_with(rollout, reward, policy, surrogate=surrogate, reduction=reductions.token_mean)


def _held(ratios, advantages, clip_low, clip_high):
  low, high = policy_losses.is_held(ratios, advantages, clip_low=clip_low, clip_high=clip_high)
  return low | high


def kl_cov(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, fraction: float, leash: float
) -> Algorithm:
  """No clip; the tokens by which entropy is lost are held by |log ratio|.

  They are chosen among the tokens that are in memory together: here the choice knows micro-batches.

  Source: KL-Cov, https://arxiv.org/abs/2505.22617.
  """

  def surrogate(logprobs: jax.Array, old_logprobs: jax.Array, advantages: jax.Array, mask: jax.Array):
    shares = covariance.covariances(logprobs, advantages, mask)
    selected = covariance.top(shares, mask, fraction=fraction)
    return covariance.kl_cov(logprobs, old_logprobs, advantages, selected, kl_coef=leash)

  return grpo_with(rollout, reward, policy, surrogate=surrogate, reduction=reductions.token_mean)


# --- sampler and trainer differ -----------------------------------------------------------------------------


def truncated_importance(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float,
    ratio_max: float, ratio_min: float = 0.0,
) -> Algorithm:
  """GRPO on old log-probs of the trainer's own, corrected by truncated weights of tokens (TIS).

  Weights are held in [ratio_min, ratio_max]; the source has the upper bound only.

  Source: Yao et al., 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  correction = partial(corrections.truncated, ratio_max=ratio_max, ratio_min=ratio_min)
  return grpo_with(rollout, reward, policy, surrogate=clip, correction=correction)


def icepop(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float,
    ratio_min: float, ratio_max: float,
) -> Algorithm:
  """The same, with tokens outside a band dropped.

  Source: IcePop, in Ring-1T, https://arxiv.org/abs/2510.18855.
  """
  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  correction = partial(corrections.masked, ratio_min=ratio_min, ratio_max=ratio_max)
  return grpo_with(rollout, reward, policy, surrogate=clip, correction=correction)


def deepseek_v32(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    kl_max: float,
) -> Algorithm:
  """GRPO for stale samples: an unbiased KL, and bad rows that the policy has left already do not count.

  Source: DeepSeek-V3.2, https://arxiv.org/abs/2512.02556.
  """

  def surrogate(
      ratios: jax.Array, logprobs: jax.Array, sampler_logprobs: jax.Array, advantages: jax.Array,
      mask: jax.Array,
  ):
    loss = policy_losses.clipped(ratios, advantages, clip_low=clip_low, clip_high=clip_high)
    learns = corrections.off_policy_sequences(logprobs, sampler_logprobs, advantages, mask, kl_max=kl_max)
    return jnp.where(learns, loss, 0)

  return grpo_with(
      rollout, reward, policy, kl, surrogate=surrogate, kl_estimator=regularizers.kl_k3_corrected
  )
