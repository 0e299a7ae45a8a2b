"""State2Explanation: an embedding that explains moves is learnt first, and then pays the agent for good ones.

    L = -log( e^{s(m, e)} / Σ_j e^{s(m, e_j)} ),   s(m, e) = κ cos(f(m), g(e)),   m = (s, a)
    r'(m) = r(m) + Σ_j softmax_j(s(m, e_j)) w(e_j)

In the first stage (`explaining`) moves and the concepts that hold of them are brought together. In the second
PPO learns from r', with the embedding held; what is reported of episodes are the environment's own rewards.
When the agent plays, the same embedding says why it does what it does: the nearest e.

Source: Das et al., 2023, https://arxiv.org/abs/2309.12482. That the loss is InfoNCE against all explanations,
and that the bonus is an expected worth and no difference of potentials, are our reading of the abstract.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.losses.contrastive import info_nce
from rlx.models.networks import Network
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def explaining(
    rollout: Rollout, explainer: Network, *, concepts: Callable[[jax.Array, jax.Array], jax.Array],
    explanations: Callable[[], jax.Array],
) -> Algorithm:
  """Trains `models['explainer']` to tell which explanation is that of a move.

  `explainer/top_1` is how often the nearest one is.

  Args:
    rollout: yields transitions, of whoever acts.
    explainer: `models.joint.joint`, with the same explanations.
    concepts: `(observations, actions) -> [..., C] bool`, which concepts hold of a move.
    explanations: `() -> [N, C]`, the sets of concepts that can be. A move whose set is none of them is not
      learnt from.
  """
  library = explanations() > 0

  def loss(models: Models, batch: Batch, key: Key):
    del key
    similarities = explainer.apply(models['explainer'], batch['observations'], batch['actions'])
    held = concepts(batch['observations'], batch['actions'])
    own = (held[..., None, :] == jnp.broadcast_to(library, (*held.shape[:-1], *library.shape))).all(axis=-1)
    loss = info_nce(similarities, own).mean()
    return loss, {'loss/explainer': loss, 'explainer/top_1': top_1(similarities, own).mean()}

  return Algorithm(rollout=rollout, loss=loss)


def state2explanation(parent: Algorithm, reward: Annotate) -> Algorithm:
  """Any algorithm, here `ppo`, whose batches are paid by `reward`, such as `explained`."""
  return dataclasses.replace(parent, reward=reward)


def top_1(similarities: jax.Array, own: jax.Array) -> jax.Array:
  """[...] float32, 1 where the explanation that is retrieved is the move's own.

  Args:
    similarities: [..., N] of a move to each explanation.
    own: [..., N] bool.
  """
  nearest = jnp.argmax(similarities, axis=-1)
  return jnp.take_along_axis(own, nearest[..., None], axis=-1)[..., 0].astype(jnp.float32)
