"""Adversarial Surprise (S041): the game by hand, and rooms that a seeker of surprise never comes to."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.control import adversarial_surprise as paper
from rlx.algorithms.control import rnd
from rlx.algorithms.control.ppo import ppo
from rlx.envs.control import turns
from rlx.envs.control.conformance import check_environment
from rlx.envs.control.noisy_rooms import LEFT, RIGHT, noisy_rooms
from rlx.models import networks
from rlx.models.several import players
from rlx.rollout.control.unroll import unroll
from rlx.step import collect
from tests.control import agents

NUM_ROOMS = 4
ROOMS = functools.partial(noisy_rooms, num_rooms=NUM_ROOMS, hall=2, noise=24)
EXPLORE, CONTROL = 10, 8  # steps of a turn
SETTINGS = dict(
    clip_low=0.2, clip_high=0.2, value_coef=0.5, value_clip=10.0, discount=0.99, lambda_=0.95,
    entropy_coef=0.05,
)
TABLE, SMALL = dict(hidden=(), activation='tanh'), dict(hidden=(32,), activation='tanh')
SEEDS, STEPS = 6, 300


def game(*, explore_steps=EXPLORE, control_steps=CONTROL, rounds=1):
  return turns.taking_turns(
      env=functools.partial(ROOMS, max_steps=100), explore_steps=explore_steps, control_steps=control_steps,
      rounds=rounds,
  )


# --- formulas -----------------------------------------------------------------------------------------------


def test_surprise_by_hand():
  """θ = (1 + 1) / (2 + 2) and (0 + 1) / (2 + 2)."""
  found = turns.surprise(jnp.array([1.0, 0.0]), jnp.array([1.0, 0.0]), jnp.array([2.0]))
  np.testing.assert_allclose(found, -(np.log(1 / 2) + np.log(3 / 4)) / 2, rtol=1e-6)


def played(env, actions):
  """Observations [T + 1, ...], rewards and ends [T] of the first episode."""
  state, seen = env.reset(jax.random.key(0))
  step = jax.jit(env.step)
  rows, observations = [], [seen]
  for t, action in enumerate(actions):
    new = step(state, jnp.int32(action), jax.random.key(t + 1))
    state = new.state
    observations.append(new.observation)
    rows.append((new.reward, new.terminated))
  rewards, ends = zip(*rows, strict=True)
  return np.stack(observations), np.array(rewards), np.array(ends)


def test_the_game_is_that_of_a_loop():
  """Two rounds of 2 and 3 steps: θ is of the turn, and Explore's steps neither pay nor count."""
  actions = [LEFT, LEFT, RIGHT, RIGHT, 2, LEFT, RIGHT, RIGHT, RIGHT, 3]
  observations, rewards, ends = played(game(explore_steps=2, control_steps=3, rounds=2), actions)
  size = (observations.shape[1] - 2) // 2
  for t in range(10):
    now = t % 5
    turn = observations[t - now + 3:t + 1, :size] if now >= 2 else np.zeros((0, size))
    theta = (turn.sum(axis=0) + 1) / (len(turn) + 2)
    np.testing.assert_allclose(observations[t, size:2 * size], theta, rtol=1e-6)
    np.testing.assert_allclose(observations[t, -2:], [now / 5, now >= 2], rtol=1e-6)
    after = observations[t + 1, :size]
    paid = -np.log(np.where(after > 0.5, theta, 1 - theta)).mean() if now >= 2 else 0
    np.testing.assert_allclose(rewards[t], paid, rtol=1e-5)
  assert not ends[:-1].any() and ends[-1]


def test_players_are_opposed_and_normalised_each_for_itself():
  advantages = jnp.array([[1.0, 3.0, 10.0, 30.0]])
  control = jnp.array([[False, False, True, True]])
  np.testing.assert_allclose(paper.opposed(advantages, control), [[-1, 1, 1, -1]], rtol=1e-6)
  alone = paper.opposed(advantages, jnp.ones((1, 4), bool))
  assert np.isfinite(alone).all()


@pytest.mark.slow
def test_whose_turn_it_is_acts():
  env = game()
  policy = players(env, **SMALL)
  params = policy.init(jax.random.key(0))
  seen = jnp.zeros((2, *env.observation_shape)).at[1, -1].set(1.0)  # Explore's and Control's
  actions = jnp.zeros(2, jnp.int32)
  grads = jax.jacobian(lambda params: policy.score(params, seen, actions)[0])(params)
  of = lambda name, row: optax.tree.norm(jax.tree.map(lambda x: x[row], grads[name]))
  assert of('explore', 0) > 0 and of('control', 1) > 0
  assert of('explore', 1) == 0 and of('control', 0) == 0


@pytest.mark.slow
def test_advantages_are_those_of_the_surprise_with_the_sign_of_the_player():
  env = game()
  toy = adversary(env)
  state = agents.initial_state(toy, optax.adam(1e-2), jax.random.key(0))
  batch = jax.jit(functools.partial(collect, toy.algorithm))(state)
  control = turns.controls(batch['observations'])
  surprise = batch['returns'] - batch['values']
  for mine, sign in ((control, -1), (~control, 1)):
    ours, theirs = np.asarray(batch['advantages'][mine]), np.asarray(surprise[mine])
    np.testing.assert_allclose(ours, sign * (theirs - theirs.mean()) / theirs.std(), rtol=1e-3, atol=1e-4)


# --- the rooms ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_environments_keep_the_contract():
  check_environment(ROOMS(max_steps=12), num_steps=12)
  check_environment(game(explore_steps=2, control_steps=3, rounds=2), num_steps=11)  # over after 10


def test_the_right_switch_calms_a_room_and_none_the_television():
  env = ROOMS(max_steps=100)
  _, rewards, _ = played(env, [RIGHT, RIGHT, RIGHT, 3, 4, 2, 2, RIGHT, 3])
  np.testing.assert_allclose(rewards, [0, 0, 0, 0, 0, 1 / NUM_ROOMS, 0, 0, 1 / NUM_ROOMS], rtol=1e-6)
  observations, rewards, _ = played(env, [LEFT] + [2, 3, 4] * 20)
  assert rewards.sum() == 0
  num_cells = observations.shape[1] - 8
  heard = observations[1:, num_cells:].mean(axis=0)
  assert (heard > 0.25).all() and (heard < 0.75).all(), 'all numbers are random'
  calm, _, _ = played(env, [RIGHT] * 3 + [2] + [3] * 20)
  assert calm[3, num_cells + 4:].sum() == 0 and calm[4:, num_cells:].sum() == 0


@pytest.mark.parametrize('bad', [dict(num_rooms=0), dict(hall=-1), dict(noise=3)])
def test_rooms_that_cannot_be_are_refused(bad):
  name, value = next(iter(bad.items()))
  with pytest.raises(ValueError, match=f'{name}={value}'):
    ROOMS(**bad, max_steps=5)


def test_a_game_without_a_turn_of_control_is_refused():
  with pytest.raises(ValueError, match='control_steps=0'):
    game(control_steps=0)


# --- learning -----------------------------------------------------------------------------------------------


def adversary(env):
  policy, value = players(env, **TABLE), networks.state_value(env, **SMALL)
  rollout = unroll(env, policy, num_envs=32, num_steps=EXPLORE + CONTROL)
  algorithm = paper.adversarial_surprise(rollout, policy, value, **SETTINGS)
  return agents.Agent(algorithm, policy, {'policy': policy, 'value': value}, {})


def seeker(env):
  """PPO that is paid the surprise of every step."""
  policy, value = networks.categorical(env, **TABLE), networks.state_value(env, **SMALL)
  rollout = unroll(env, policy, num_envs=32, num_steps=EXPLORE + CONTROL)
  algorithm = ppo(rollout, policy, value, **SETTINGS)
  return agents.Agent(algorithm, policy, {'policy': policy, 'value': value}, {})


def novelty_seeker(env):
  policy, value = networks.categorical(env, **TABLE), networks.state_value(env, **SMALL)
  features = networks.outputs_of(env, num=8, hidden=(32,), activation='relu', layer_norm=False)
  rollout = unroll(env, policy, num_envs=32, num_steps=EXPLORE + CONTROL)
  algorithm = rnd.rnd(
      rollout, policy, value, value, features, features, bonus_coef=1.0, bonus_discount=0.95, spread=0.0,
      **SETTINGS,
  )
  models = dict(policy=policy, value=value, bonus_value=value, predictor=features, target=features)
  return agents.Agent(algorithm, policy, models, {})


MAKERS = {
    'adversary': lambda: adversary(game()),
    'seeker': lambda: seeker(game(explore_steps=0, control_steps=EXPLORE + CONTROL)),
    'novelty': lambda: novelty_seeker(ROOMS(max_steps=EXPLORE + CONTROL)),
}


@functools.cache
def run(name):
  keys = jax.random.split(jax.random.key(0), SEEDS)
  _, metrics = agents.trained(MAKERS[name](), optax.adam(1e-2), keys, STEPS, epochs=4, minibatches=4)
  return jax.tree.map(np.asarray, metrics)


def visits(metrics):
  """[seeds, steps, rooms] share of the last episodes that came to each room."""
  return np.stack([metrics[f'episode/room_{r}'] for r in range(NUM_ROOMS)], axis=-1)


def covered(metrics):
  """[seeds] rooms that more than half of the episodes of some train step came to."""
  return (np.nanmax(visits(metrics), axis=1) > 0.5).sum(axis=-1)


@pytest.mark.slow
def test_an_adversary_comes_to_the_rooms_that_a_seeker_of_surprise_never_sees():
  """4 rooms behind a silent hall, and a television, twice as noisy, beside the start; 300 train steps of 32
  games; rooms that more than half of the episodes of some train step came to, by seed:

      Adversarial Surprise   4, 4, 4, 4, 4, 3     median 4, worst 3
      surprise alone         0 in all six         it stays with the television
      RND                    0, 4, 0, 0, 0, 4     median 0

  RND has no tuning of its own. Two things were tried before: with a television of 8 numbers and not 24,
  walking surprised more than noise, so that surprise alone came to all rooms; there, with an entropy bonus of
  0.02 and not 0.05, Adversarial Surprise came to none in two of six seeds. Explore does not stay anywhere: in
  the end Control is at most 0.02 nats (median 0.00) above the 2.20 of a game that is silent throughout,
  wherever it begins, so that no place is better for Explore than another.
  """
  ours, surprise, novelty = (covered(run(name)) for name in ('adversary', 'seeker', 'novelty'))
  assert np.median(ours) == NUM_ROOMS and ours.min() >= 3
  assert surprise.max() == 0
  assert np.median(novelty) < np.median(ours)


@pytest.mark.slow
def test_control_masters_the_noise():
  """A game that is silent throughout costs Control Σ_n log((n + 2) / (n + 1)) = log 9 = 2.20 nats for each
  number. It is 2.37 to 2.53 after 10 train steps and 2.20 to 2.22 after 300, by seed."""
  costs = run('adversary')['episode/return']
  first, last = np.nanmean(costs[:, :10], axis=1), costs[:, -10:].mean(axis=1)
  assert (last < first).all()
  assert np.median(last) < np.log(1 + CONTROL) + 0.1
