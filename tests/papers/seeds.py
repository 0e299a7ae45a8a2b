"""Policies of several seeds side by side, in one program: taught by demonstrations, then trained."""

import jax
import jax.numpy as jnp
import optax

from rlx.algorithms.sft import sft
from rlx.step import make_train_step, repeat
from rlx.types import State


def run(algorithm, optimizer, params, steps, key):
  """Parameters and metrics, [seeds, ...] each.

  Args:
    params: of the policies, [seeds, ...].
    key: each seed has one of its own, made of it.
  """
  dispatch = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1), steps)

  def one(params, seed):
    state = State(
        step=jnp.int32(0), params={'policy': params}, slow={}, opt_state=optimizer.init({'policy': params}),
        world={}, key=jax.random.fold_in(key, seed),
    )
    state, metrics = dispatch(state)
    return state.params['policy'], metrics

  return jax.jit(jax.vmap(one))(params, jnp.arange(jax.tree.leaves(params)[0].shape[0]))


def taught(lessons, policy, *, seeds, steps, learning_rate):
  """[seeds, ...] parameters after supervised steps with Adam, each from a beginning of its own."""
  params = jax.vmap(policy.model.init)(jax.random.split(jax.random.key(3), seeds))
  return run(sft(lessons, policy), optax.adam(learning_rate), params, steps, jax.random.key(1))[0]
