"""GRPO on rows that share their beginnings: what the tree of a group says about its tokens.

As in `presets.py`, each is a choice among the parts of `policy_gradient` and nothing else: here of advantages
that `advantages/tree.py` reads off the tree. Where rows part, the mean outcomes of what is behind tell what
the token was worth: no critic, and no samples beyond those of the group.
"""

from functools import partial

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import tree
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Rollout


def tempo(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float
) -> Algorithm:
  """GRPO, and at tokens where the samples of a prompt part, the change in value that the token made.

      A_t = [ r - mean(r) + V(s_t+1) - V(s_t) ] / std(r)

  V is the mean outcome of the samples that begin alike.

  Source: TEMPO, https://arxiv.org/abs/2509.18314.
  """

  def baseline(rewards: jax.Array, tokens: jax.Array, mask: jax.Array, groups: jax.Array) -> jax.Array:
    return tree.prefix_td(rewards, tree.prefix_nodes(tokens, mask, groups), groups)

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, kl, baseline=baseline, surrogate=clip)


def treepo(
    rollout: Rollout, reward: Annotate, policy: Speaker, *, clip_low: float, clip_high: float
) -> Algorithm:
  """Rows that branch while they are decoded (`rollout.tree.segments`), compared in every subtree they are in.

      A_i = 1/J Σ_j ( r_i - mean(r over the subtree G_j) ) / std(A over the batch)

  The scale is that of the whole batch, as in REINFORCE++; unlike there the mean is left alone, so that a
  group without a difference stays zero: our reading. Clip ranges are 0.2 and 0.28 in the paper.

  Source: TreePO, https://arxiv.org/abs/2508.17445, sections 2.2 and 2.3.
  """

  def baseline(rewards: jax.Array, nodes: jax.Array, groups: jax.Array, mask: jax.Array) -> jax.Array:
    advantages = tree.subgroups(rewards, nodes, groups)[:, None] * mask
    scale = jnp.sqrt(jnp.sum(jnp.square(advantages)) / jnp.maximum(mask.sum(), 1))
    return advantages / (scale + 1e-6)

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(
      rollout, reward, policy, baseline=baseline, surrogate=clip, reduction=reductions.token_mean
  )


def rose(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    length_power: float, length: int,
) -> Algorithm:
  """New rows from where others could have meant something else; segments credited, long right ones less.

      A = V(end of the segment) - V(its beginning),    then    A - |A| (1 - (l_short / l)^length_power)

  Rows are those of `rollout.tree.explore`; one that earns more than 0 is right. Segments are those of the
  prefix tree: rows that began alike by chance share a node too, where the paper knows of its own branches
  only. Token sums are divided by the constant `length`. The paper's KL is in the loss, its weight 0.001.

  Raises:
    ValueError: the KL is in the reward, which then no longer says what is right.
  Source: ROSE, https://arxiv.org/abs/2601.05053, sections 3.2 and 3.3.
  """
  if kl.reward_coef:
    raise ValueError('rose takes rows that earn more than 0 for right ones: kl_in_loss, not kl_in_reward')

  def baseline(rewards: jax.Array, tokens: jax.Array, mask: jax.Array, groups: jax.Array) -> jax.Array:
    nodes = tree.prefix_nodes(tokens, mask, groups)
    return tree.segment_td(rewards, nodes, groups, length_power=length_power)

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  sums = partial(reductions.constant_length_sum, length=length)
  return grpo_with(rollout, reward, policy, kl, baseline=baseline, surrogate=clip, reduction=sums)
