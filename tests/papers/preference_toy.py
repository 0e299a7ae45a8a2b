"""One prompt, a few answers, and every ordered pair of them with its chance: preferences in expectation."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import gold
from rlx.step import make_train_step, repeat
from rlx.types import State

POLICY = gold.LogLinear()
SEEDS = 5


def pairs(num_answers):
  """Rows of all ordered pairs of different answers, and the pairs [N, 2]."""
  both = np.array([(a, b) for a in range(num_answers) for b in range(num_answers) if a != b])
  rows = gold.rows_of(jnp.zeros(both.size, jnp.int32), jnp.asarray(both.reshape(-1)))
  return {**rows, 'groups': jnp.arange(both.size) // 2}, jnp.asarray(both)


def of_pairs(x):
  """A column of pairs [N] at both of their rows."""
  return jnp.repeat(x, 2)


def uniform(num_answers):
  """Parameters of a policy that is uniform, with a logit of its own for each answer."""
  shape = (1, num_answers)
  base = jnp.full(shape, -np.log(num_answers), jnp.float32)
  world = gold.World(features=jnp.eye(num_answers)[None], gold=jnp.zeros(shape), base=base)
  return POLICY.init(world)


def learnt(algorithm, data, *, num_answers, slow, steps, optimizer):
  """[SEEDS, K] chances of the answers in the end, of each seed's data."""
  step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)

  def one(data):
    params = {'policy': uniform(num_answers)}
    state = State(
        step=jnp.int32(0), params=params, slow={name: uniform(num_answers) for name in slow},
        opt_state=optimizer.init(params), world={}, key=jax.random.key(0),
    )
    state, _ = repeat(step, steps)(state, data)
    return jnp.exp(POLICY.logprobs(state.params['policy'])[0])

  return np.asarray(jax.jit(jax.vmap(one))(data))
