"""GiGPO: groups in groups. Episodes of a problem are compared, and turns that began in the same state.

    A_t = A^E(episode) + w (R_k - mean R) / std R,    R_k = Σ_j γ^(j - k) r_j

over all turns of the group's episodes whose state before them is that of turn k (`anchors`), wherever they
were: no rollout but the group's own. A state that was met once has nothing to be compared with: exactly 0.

Source: Feng et al., 2025, https://arxiv.org/abs/2505.10978, eq. 6 to 9.
"""

from functools import partial

import jax

from rlx.advantages import groups as group_advantages
from rlx.advantages import segments
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Rollout

_EPS = 1e-6


def gigpo(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    discount: float, step_weight: float, scaled: bool,
) -> Algorithm:
  """Group-in-group policy optimisation, on rows of `rollout.turns.episodes`.

  Args:
    rollout: yields rows with `turns`, `anchors` and `token_rewards`, episodes of a problem in groups.
    reward: adds `rewards` [B], such as `of_world`.
    policy: what learns.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    discount: γ from turn to turn.
    step_weight: w; with 0 it is GRPO.
    scaled: whether differences are divided by deviations, of episodes and of steps; the paper has both.
  """

  def baseline(
      rewards: jax.Array, groups: jax.Array, turns: jax.Array, anchors: jax.Array, token_rewards: jax.Array,
      mask: jax.Array,
  ) -> jax.Array:
    of_episodes = (group_advantages.normalised if scaled else group_advantages.centred)(rewards, groups)
    return of_episodes[:, None] + step_weight * step_advantages(
        token_rewards, turns, anchors, groups, mask, discount=discount, scaled=scaled
    )

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, kl, baseline=baseline, surrogate=clip)


def step_advantages(
    token_rewards: jax.Array, turns: jax.Array, anchors: jax.Array, groups: jax.Array, mask: jax.Array, *,
    discount: float, scaled: bool,
) -> jax.Array:
  """[B, T] float32: what each turn earned from there on, beside others that began in its state.

  Args:
    token_rewards: [B, T].
    turns: [B, T] int32.
    anchors: [B, T] int32, the state before the turn.
    groups: [B] int32.
    mask: [B, T] bool, True at actions.
    discount: γ.
    scaled: divide by the deviation of those returns.
  """
  steps = segments.steps(turns, mask)
  returns = segments.returns_to_go(token_rewards, steps, discount=discount)
  spread = groups[:, None].repeat(turns.shape[1], axis=1).reshape(-1)
  keys = group_advantages.join(spread, anchors.reshape(-1)).reshape(turns.shape)
  scale = segments.key_deviation(returns, steps, keys) + _EPS if scaled else 1.0
  return segments.term(returns, steps, baseline=segments.key_mean(returns, steps, keys), scale=scale)
