"""ArCHer: V before and Q behind each turn, learnt by TD; old episodes teach the critic alone.

https://arxiv.org/abs/2402.19446
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.archer import archer, td_targets, turn_values

# A prompt, an action of two tokens, an observation, an action of one, padding.
TURNS = jnp.array([[-1, 0, 0, 0, 1, 0]])
ROW = {
    'tokens': jnp.zeros((1, 6), jnp.int32), 'turns': TURNS, 'valid': jnp.arange(6)[None] < 5,
    'action_mask': jnp.array([[False, True, True, False, True, False]]), 'groups': jnp.zeros(1, jnp.int32),
    'token_rewards': jnp.array([[0, 0, 0.5, 0, 2.0, 0]]), 'sampler_logprobs': jnp.zeros((1, 6)),
}
VALUES = jnp.array([[9, 1.0, 9, 3.0, 4.0, 6.0]])  # before each token, and behind the last one


def read(params, batch):
  """Only where it is asked, as of packed rows."""
  return jnp.where(batch['action_mask'], params, 0)


def test_values_stand_before_and_behind_each_turn():
  before, behind = turn_values(read, VALUES, ROW)
  np.testing.assert_allclose(before, [[0, 1, 1, 0, 4, 0]])
  np.testing.assert_allclose(behind, [[0, 3, 3, 0, 6, 0]])


def test_targets_by_hand():
  """V becomes Q of the action; Q becomes the reward and the discounted V of the next turn."""
  of_states, of_actions = td_targets(read, VALUES, ROW, discount=0.5)
  np.testing.assert_allclose(of_states, [[0, 3, 3, 0, 6, 0]])
  np.testing.assert_allclose(of_actions, [[0, 0.5 + 0.5 * 4, 0.5 + 0.5 * 4, 0, 2, 0]])


def prefixes(params, batch):
  """A critic that is a table: a number for each way in which a row of up to two actions can begin."""
  width = batch['tokens'].shape[1]
  actions = batch['tokens'] * jnp.array([0, 1, 0, 2, 0])[None, :width]
  seen = jnp.pad(jnp.cumsum(actions, axis=1), ((0, 0), (1, 0)))[:, :width]  # before each token
  return params[jnp.arange(width)[None], seen]


def policy_score(params, batch):
  logprobs = jax.nn.log_softmax(params)
  said = jnp.where(batch['action_mask'], logprobs[batch['tokens']], 0)
  return said, jnp.zeros_like(said)


POLICY = types.SimpleNamespace(score=policy_score)
CRITIC = types.SimpleNamespace(apply=prefixes)


def episodes(key, num, chance):
  """Two turns of a bit each, which are worth 1 where both are 1."""
  bits = jax.random.bernoulli(key, chance, (num, 2)).astype(jnp.int32)
  zeros = jnp.zeros((num, 1), jnp.int32)
  tokens = jnp.concatenate([zeros, bits[:, :1], zeros, bits[:, 1:], zeros], axis=1)
  mask = jnp.broadcast_to(jnp.array([False, True, False, True, False]), tokens.shape)
  earned = jnp.zeros(tokens.shape).at[:, 3].set(bits.prod(axis=1))
  return {
      'tokens': tokens, 'valid': mask, 'action_mask': mask, 'turns': jnp.cumsum(mask, axis=1) - 1,
      'token_rewards': earned, 'rewards': earned.sum(axis=1), 'groups': jnp.arange(num),
      'prompt_lengths': jnp.ones(num, jnp.int32), 'sampler_logprobs': jnp.where(mask, jnp.log(0.5), 0),
  }


def method(rate):
  return archer(
      None, None, POLICY, CRITIC, clip_low=0.2, clip_high=0.2, value_coef=1.0, discount=0.9, target_rate=rate
  )


def learnt(old_rows):
  """The table of a critic after 300 updates, of fresh rows of chance alone, or beside old ones that never
  said 1 at first."""
  algorithm, adam, never_first = method(0.2), optax.adam(0.03), jnp.array([[0.0, 0.5]])

  def update(carry, key):
    params, target, moments = carry
    batch = {**episodes(key, 64, 0.5), 'reused': jnp.zeros(64, bool)}
    if old_rows:
      old = {**episodes(jax.random.fold_in(key, 1), 64, never_first), 'reused': jnp.ones(64, bool)}
      batch = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), batch, old)
    models = {'policy': jnp.zeros(2), 'value': params, 'target': target}
    batch = algorithm.advantage(models, batch, key)
    slope = jax.grad(lambda value: algorithm.loss({**models, 'value': value}, batch, key)[0])(params)
    step, moments = adam.update(slope, moments)
    params = optax.apply_updates(params, step)
    target = algorithm.track({'target': target}, {'value': params}, jnp.int32(0))['target']
    return (params, target, moments), None

  table = jnp.zeros((5, 4))
  run = jax.jit(lambda: jax.lax.scan(
      update, (table, table, adam.init(table)), jax.random.split(jax.random.key(0), 300)
  )[0][0])
  return np.asarray(run())


@pytest.mark.parametrize('old_rows', [False, True])
def test_the_critic_comes_to_the_exact_values(old_rows):
  """Q is the same whoever acted; V is that of the present policy, whatever the old rows said."""
  table = learnt(old_rows)
  np.testing.assert_allclose(table[4], [0, 0, 0, 1], atol=0.05)  # Q of the second action
  np.testing.assert_allclose(table[3, :2], [0, 0.5], atol=0.1)  # V of the second turn
  np.testing.assert_allclose(table[2, :2], [0, 0.9 * 0.5], atol=0.1)  # Q of the first action
  np.testing.assert_allclose(table[1, 0], 0.9 * 0.25, atol=0.08)  # V of the first turn


def test_old_rows_teach_the_critic_alone():
  batch = {**episodes(jax.random.key(1), 8, 0.5), 'reused': jnp.arange(8) >= 4}
  models = {'policy': jnp.zeros(2), 'value': jnp.full((5, 4), 0.3), 'target': jnp.arange(20.0).reshape(5, 4)}
  models['value'] = models['value'].at[4].set(jnp.arange(4.0))
  batch = jax.jit(lambda batch: method(0.2).advantage(models, batch, None))(batch)
  assert batch['advantages'][:4].any() and not batch['advantages'][4:].any()
  assert not batch['state_weights'][4:].any() and batch['action_weights'][4:].any()
  again = {**batch, 'action_weights': jnp.where(batch['reused'][:, None], 0, batch['action_weights'])}
  slope = jax.jit(lambda rows: jax.grad(lambda m: method(0.2).loss(m, rows, None)[0])(models))
  np.testing.assert_array_equal(slope(batch)['policy'], slope(again)['policy'])
  assert (slope(batch)['value'] != slope(again)['value']).any()


@pytest.mark.slow
def test_a_turn_that_is_cut_at_the_last_column_is_not_learnt_from():
  batch = {name: x[:, :4] if x.ndim == 2 else x for name, x in episodes(jax.random.key(1), 8, 0.5).items()}
  models = {'policy': jnp.zeros(2), 'value': jnp.ones((5, 4)), 'target': jnp.ones((5, 4))}
  batch = method(0.2).advantage(models, batch, None)
  for name in ('weights', 'state_weights', 'action_weights'):
    assert batch[name][:, 1].all() and not batch[name][:, 3].any()
