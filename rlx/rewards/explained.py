"""Rewards for what can be said of a move: good explanations pay, bad ones cost."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from rlx.models.networks import Network
from rlx.types import Annotate, Batch, Key, Models


def explained(
    explainer: Network, *, explanations: Callable[[], jax.Array], worths: Sequence[float]
) -> Annotate:
  """A function for the `reward` slot that adds what a move's explanation is worth.

      r' = r + Σ_j p_j(s, a) w(e_j),   p = softmax(s(s, a)),   w(e) = Σ_k e_k w_k

  The softmax is that of the loss that the explainer learnt by, so the sum is the expected worth; where the
  explainer is sure, it is that of the explanation it retrieves. It is no difference of potentials: large
  worths change what is optimal. It looks at single transitions, so it fits every algorithm, on policy or
  with a store, by `dataclasses.replace(algorithm, reward=...)`. The batch says in `reward/explained` what was
  added.

  Args:
    explainer: `joint`, with the parameters `models['explainer']`.
    explanations: `() -> [N, C]`, those of the explainer.
    worths: w, one for each of the C concepts, in units of rewards.
  Raises:
    ValueError: there are not as many worths as concepts.
  """
  library = explanations()
  if len(worths) != library.shape[1]:
    raise ValueError(f'worths={tuple(worths)} of {library.shape[1]} concepts: one for each')
  worth_of = jnp.dot(library, jnp.array(worths, jnp.float32))

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    similarities = explainer.apply(models['explainer'], batch['observations'], batch['actions'])
    bonus = jnp.dot(jax.nn.softmax(similarities), worth_of)
    return {**batch, 'rewards': batch['rewards'] + bonus, 'reward/explained': bonus}

  return reward
