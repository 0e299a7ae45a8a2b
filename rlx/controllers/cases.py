"""A bank of cases, each a state, what was done in it and what came of it, and which one is taken out again.

A retrieval gives each case a number, and the greatest is taken: how alike it is, among those that succeeded,
or what a learnt Q(state, case) says that the episode will come to with this case in the prompt.

Source: Memento (AgentFly), https://arxiv.org/abs/2508.16153.
"""

import jax
import jax.numpy as jnp

from rlx.types import World


def init_cases(*, num_cases: int, num_parts: int, plan_turns: int) -> World:
  """An empty bank of N places."""
  return {
      'parts': jnp.full((num_cases, num_parts), -1, jnp.int32),
      'plans': jnp.full((num_cases, plan_turns), -1, jnp.int32),
      'paid': jnp.zeros(num_cases, jnp.float32),
      'written': jnp.int32(0),
  }


def write_cases(
    bank: World, parts: jax.Array, plans: jax.Array, paid: jax.Array, scored: jax.Array
) -> World:
  """The bank with up to B more cases, in the places of the oldest.

  Args:
    bank: of `init_cases`.
    parts: [B, P] of their states.
    plans: [B, K] what was done.
    paid: [B] float32 what came of it.
    scored: [B] bool, False where that is not known: such an episode is no case.
  Raises:
    ValueError: the bank has less than B places.
  """
  num_cases, num = bank['paid'].shape[0], paid.shape[0]
  if num > num_cases:
    raise ValueError(f'a bank of {num_cases} cases cannot take {num} at once; num_cases must be as many')
  place = jnp.where(scored, (bank['written'] + jnp.cumsum(scored) - 1) % num_cases, num_cases)
  put = lambda name, new: bank[name].at[place].set(new, mode='drop')
  return {
      'parts': put('parts', parts), 'plans': put('plans', plans), 'paid': put('paid', paid),
      'written': bank['written'] + jnp.sum(scored, dtype=jnp.int32),
  }


def known_cases(bank: World) -> jax.Array:
  """[N] bool, the places that hold a case."""
  return jnp.arange(bank['paid'].shape[0]) < bank['written']


def case_features(parts: jax.Array, case_parts: jax.Array, paid: jax.Array) -> jax.Array:
  """[..., P + 1] float32: which parts of a state and of a case are equal, and what the case came to.

  Args:
    parts: [..., P] int32 of a state.
    case_parts: [..., P] int32 of a case.
    paid: [...] float32.
  """
  equal = (parts == case_parts).astype(jnp.float32)
  paid = jnp.broadcast_to(paid, equal.shape[:-1])
  return jnp.concatenate([equal, paid[..., None]], axis=-1)


def by_similarity(features: jax.Array, odds: jax.Array, *, success: float) -> jax.Array:
  """[...] how many parts are equal, for cases that came to `success`; those that did not come last.

  Args:
    features: [..., P + 1] of `case_features`.
    odds: [...] what the learnt value says; not asked.
    success: what a case has to have come to.
  """
  del odds
  return features[..., :-1].sum(axis=-1) - jnp.where(features[..., -1] >= success, 0, features.shape[-1])


def by_value(features: jax.Array, odds: jax.Array) -> jax.Array:
  """[...] the log-odds of success that the learnt Q gives.

  Args:
    features: [..., P + 1]; not asked.
    odds: [...].
  """
  del features
  return odds
