"""Loops over keys whose bits are drawn beforehand: the same numbers, and no draw in the loop."""

import math
import re

import jax
from jax.experimental import io_callback
from jax.extend import core
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import ahead, sharding
from rlx.envs.control.cartpole import cartpole
from rlx.envs.control.pendulum import pendulum
from rlx.evaluation import episodes
from rlx.models import networks
from rlx.rollout.control.unroll import unroll

KEYS = jax.random.split(jax.random.key(3), 17)


def _split(carry, key):
  """As environments and policies draw: splits, draws of several under vmap, inside functions."""
  first, second = jax.random.split(key)
  action = jax.random.categorical(first, jnp.stack([carry, -carry], axis=-1))
  starts = jax.vmap(lambda k: jax.random.uniform(k, (3,)))(jax.random.split(second, carry.shape[0]))
  return carry + starts.sum(1) - action, {'action': action, 'start': starts[:, 0]}


def _folded(carry, key):
  noise = jax.jit(lambda k: jax.random.normal(jax.random.fold_in(k, 3), carry.shape))(key)
  return carry + noise, jax.random.randint(key, (2,), 0, 9)


def _permuted(carry, key):
  return jax.random.permutation(key, carry), None


def _branches(carry, key):
  drawn = jax.lax.cond(carry[0] > 0, jax.random.normal, lambda k: jax.random.uniform(k) - 3.0, key)
  return jax.lax.fori_loop(0, 3, lambda i, x: x + jax.random.normal(jax.random.fold_in(key, i)), carry), drawn


def _of_the_carry(carry, key):
  place = jnp.argmax(carry)
  return carry + jax.random.normal(jax.random.fold_in(key, place), carry.shape), place


def _derived(carry, key):
  """A function with a rule for its derivative, and a constant from outside."""
  return jax.nn.relu(carry) + CONSTANT * jax.random.normal(key), jax.nn.silu(carry)


def _from_outside(carry, key):
  """A key that no turn changes, beside the turn's own."""
  return carry + jax.random.normal(KEYS[2], carry.shape), jax.random.bits(key, (2,), 'uint8')


CONSTANT = jnp.float32(0.3)
BODIES = [_split, _folded, _permuted, _branches, _of_the_carry, _derived, _from_outside]


@pytest.mark.parametrize('body', BODIES)
def test_gives_the_numbers_of_a_plain_scan(body):
  carry = jnp.linspace(-1, 1, 5)
  want = jax.jit(lambda c: jax.lax.scan(body, c, KEYS))(carry)
  got = jax.jit(lambda c: ahead.scan(body, c, KEYS))(carry)
  jax.tree.map(np.testing.assert_array_equal, got, want)


def test_seeds_side_by_side_draw_what_each_draws_alone():
  carry, keys = jnp.ones((2, 5)), jnp.stack([KEYS, jax.random.split(jax.random.key(4), 17)])
  together = jax.jit(jax.vmap(lambda c, k: ahead.scan(_split, c, k)))(carry, keys)
  alone = [jax.jit(lambda c, k: jax.lax.scan(_split, c, k))(carry[i], keys[i]) for i in range(2)]
  for i, one in enumerate(alone):
    jax.tree.map(lambda a, b, i=i: np.testing.assert_array_equal(a[i], b), together, one)


def test_what_the_body_takes_from_outside_may_be_traced():
  loop = lambda scan: jax.jit(lambda w: scan(lambda c, k: (w * c + jax.random.normal(k), c), 1.0, KEYS))
  jax.tree.map(np.testing.assert_array_equal, loop(ahead.scan)(0.5), loop(jax.lax.scan)(0.5))


def test_gradients_go_through():
  def loss(scan, w):
    return scan(lambda c, k: (jnp.tanh(w * c + jax.random.normal(k)), None), jnp.float32(1), KEYS)[0]

  got, want = (jax.jit(jax.grad(lambda w, s=s: loss(s, w)))(0.5) for s in (ahead.scan, jax.lax.scan))
  np.testing.assert_allclose(got, want, rtol=1e-6)


def test_effects_come_once_a_turn_and_in_order():
  seen = []

  def tell(x):
    seen.append(float(x))
    return np.float32(len(seen))

  def body(carry, key):
    drawn = jax.random.uniform(key)
    told = io_callback(tell, jnp.float32(0), drawn, ordered=True)
    return carry + told, drawn

  total, drawn = jax.jit(lambda: ahead.scan(body, 0.0, KEYS))()
  assert total == sum(range(1, 18))
  np.testing.assert_array_equal(np.float32(seen), drawn)


def test_an_effect_that_the_key_alone_decides_comes_once_a_turn():
  seen = []

  def body(carry, key):
    jax.debug.callback(lambda x: seen.append(tuple(np.asarray(x).tolist())), jax.random.key_data(key))
    return carry + jax.random.uniform(key), None

  jax.block_until_ready(jax.jit(lambda: ahead.scan(body, 0.0, KEYS))())
  jax.effects_barrier()
  assert sorted(seen) == sorted(map(tuple, jax.random.key_data(KEYS).tolist()))


def test_single_turns_can_be_looked_at():
  turns = []

  def body(carry, key):
    turns.append(int(carry))  # fails where it is traced
    return carry + 1, jax.random.uniform(key)

  with jax.disable_jit():
    _, drawn = ahead.scan(body, jnp.int32(0), KEYS)
  assert turns == list(range(17))
  np.testing.assert_array_equal(drawn, jax.vmap(jax.random.uniform)(KEYS))


def _draws_in_loops(function, *args) -> int:
  """Equations that draw bits in the bodies of scans."""
  def count(jaxpr, inside):
    total = 0
    for eqn in jaxpr.eqns:
      total += inside and eqn.primitive.name == 'random_bits'
      for inner in core.jaxprs_in_params(eqn.params):
        total += count(inner, inside or eqn.primitive.name == 'scan')
    return total

  return count(jax.make_jaxpr(function)(*args).jaxpr, False)


@pytest.mark.parametrize(('body', 'left'), [
    (_split, 0), (_folded, 0), (_permuted, 0), (_derived, 0), (_from_outside, 0),
    (_branches, 3), (_of_the_carry, 1),
])
def test_only_draws_in_branches_and_of_the_carry_stay_in_the_loop(body, left):
  carry = jnp.linspace(-1, 1, 5)
  assert _draws_in_loops(lambda c: ahead.scan(body, c, KEYS), carry) == left
  assert _draws_in_loops(lambda c: jax.lax.scan(body, c, KEYS), carry) > 0


def test_a_short_loop_is_left_as_it_is():
  draws = lambda keys: _draws_in_loops(lambda c: ahead.scan(_split, c, keys), jnp.ones(5))
  assert draws(KEYS[:15]) == 2 and draws(KEYS[:16]) == 0


def test_other_generators_draw_in_the_loop():
  keys = jax.random.split(jax.random.key(3, impl='rbg'), 17)
  loop = lambda scan: jax.jit(lambda: scan(lambda c, k: (c + jax.random.uniform(k), None), 0.0, keys))()[0]
  np.testing.assert_array_equal(loop(ahead.scan), loop(jax.lax.scan))


def test_draws_that_are_too_large_stay_in_the_loop(monkeypatch):
  body = lambda c, key: (c + jax.random.uniform(key, (100,)).sum() + jax.random.uniform(key), None)
  monkeypatch.setattr(ahead, 'MAX_BYTES', 17 * 100 * 4 - 1)
  assert _draws_in_loops(lambda: ahead.scan(body, 0.0, KEYS)) == 1
  want, got = (jax.jit(lambda s=s: s(body, 0.0, KEYS))()[0] for s in (jax.lax.scan, ahead.scan))
  np.testing.assert_array_equal(got, want)


def _policy_and_rollout(env, *, num_envs):
  network = networks.categorical if env.actions.shape == () else networks.squashed_gaussian
  policy = network(env, hidden=(8,), activation='tanh')
  return policy, unroll(env, policy, num_envs=num_envs, num_steps=16)


@pytest.mark.parametrize('env', [cartpole(max_steps=5), pendulum(max_steps=5)])
def test_rollouts_and_evaluations_draw_nothing_in_their_loops(env):
  policy, rollout = _policy_and_rollout(env, num_envs=3)
  key = jax.random.key(0)
  models = {'policy': policy.init(key)}
  assert _draws_in_loops(rollout.draw, models, rollout.begin(key), key) == 0
  act = lambda params, observations, key: policy.sample(params, observations, key)[0]
  assert _draws_in_loops(lambda p, k: episodes.play(env, act, p, k, 3, 16), models['policy'], key) == 0


@pytest.mark.parametrize('env', [cartpole(max_steps=5), pendulum(max_steps=5)])
def test_on_a_mesh_a_device_draws_for_its_own_environments(env):
  policy, rollout = _policy_and_rollout(env, num_envs=64)
  key = jax.random.key(0)
  arguments = {'policy': policy.init(key)}, rollout.begin(key), key

  def program(models, world, key):
    batch, world = rollout.draw(models, world, key)
    return sharding.shard_rows(batch), world

  def most_bits(devices):
    """Of an array in the program of a device."""
    with jax.set_mesh(sharding.make_mesh(data=devices, fsdp=1, tensor=1)):
      text = jax.jit(program).lower(*arguments).compile().as_text()
    return max(math.prod(map(int, sizes.split(','))) for sizes in re.findall(r'u32\[([\d,]+)\]', text))

  assert most_bits(8) == most_bits(1) / 8
