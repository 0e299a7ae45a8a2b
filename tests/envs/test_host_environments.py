"""Environments of gymnasium on the host, in compiled rollouts: what a step leads to, going on elsewhere."""

from pathlib import Path
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import config as configs
from rlx.data import transitions as datasets
from rlx.envs.control import stepping
from rlx.envs.control.adaptors.envpool import from_envpool
from rlx.envs.control.adaptors.gymnasium import from_gymnasium
from rlx.envs.control.host import host_of
from rlx.envs.control.wrappers import scaled_reward
from rlx.errors import ConfigError
from rlx.evaluation.episodes import play
from rlx.run import states, train
from rlx.run.build import build

FOLDER = Path(__file__).parents[2] / 'experiments/configs/control'


class Count(gymnasium.Env):
  """Observes [episodes, steps]; ends at `last`, odd episodes by the world and even ones by the clock."""

  observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
  action_space = gymnasium.spaces.Box(10.0, 30.0, (1,))

  def __init__(self, last=3):
    self.last, self.episode = last, 0

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.episode, self.at = self.episode + 1, 0
    return np.array([self.episode, 0.0]), {}

  def step(self, action):
    self.at += 1
    over, odd = self.at == self.last, self.episode % 2 == 1
    return np.array([self.episode, float(self.at)]), float(action[0]), over and odd, over and not odd, {}


class CountMany(gymnasium.vector.SyncVectorEnv):
  """A class of many that leaves resets to the caller."""

  def __init__(self, num_envs, **kwargs):
    super().__init__([lambda: Count(**kwargs)] * num_envs, autoreset_mode='Disabled')


class CountNext(gymnasium.vector.SyncVectorEnv):
  """A class of many that spends a step on a reset."""

  def __init__(self, num_envs, **kwargs):
    super().__init__([lambda: Count(**kwargs)] * num_envs)


@pytest.fixture(scope='module', autouse=True)
def registered():
  gymnasium.register('Count-v0', entry_point=Count, vector_entry_point=CountMany, disable_env_checker=True)
  gymnasium.register('CountNext-v0', entry_point=Count, vector_entry_point=CountNext)
  yield
  for name in ('Count-v0', 'CountNext-v0'):
    del gymnasium.registry[name]


@pytest.mark.parametrize('vectorization', ['sync', 'vector_entry_point'])
def test_a_step_leads_to_the_end_of_its_own_episode(vectorization):
  env = from_gymnasium(problem='Count-v0', vectorization=vectorization, arguments={'last': 2})

  def steps(key):
    act = lambda agents, key: stepping.advance(env, agents, jnp.full((3, 1), 0.5), key)
    return jax.lax.scan(act, stepping.begin(env, key, 3), jax.random.split(key, 5))

  agents, rows = jax.jit(steps)(jax.random.key(0))
  assert rows['observations'][:, 0].tolist() == [[1, 0], [1, 1], [2, 0], [2, 1], [3, 0]]
  assert rows['next_observations'][:, 0].tolist() == [[1, 1], [1, 2], [2, 1], [2, 2], [3, 1]]
  assert rows['terminated'][:, 1].tolist() == [False, True, False, False, False]
  assert rows['truncated'][:, 1].tolist() == [False, False, False, True, False]
  np.testing.assert_array_equal(rows['rewards'], 25)  # half way from the middle, 20, to 30
  np.testing.assert_array_equal(agents.finished['return'], 50)
  np.testing.assert_array_equal(agents.finished['length'], 2)
  host_of(env).close()


def test_members_of_a_population_have_environments_of_their_own():
  env = from_gymnasium(problem='Count-v0', arguments={'last': 5})

  def steps(key):
    agents = stepping.begin(env, key, 2)
    step = lambda i, agents: stepping.advance(env, agents, jnp.zeros((2, 1)), key)[0]
    return jax.lax.fori_loop(0, 6, step, agents)

  agents = jax.jit(jax.vmap(steps))(jax.random.split(jax.random.key(0), 3))
  np.testing.assert_array_equal(agents.observations, np.full((3, 2, 2), [2, 1]))
  assert len(set(agents.states[:, 0].tolist())) == 3


def test_an_evaluation_plays_one_episode_in_each_and_gives_the_environments_back():
  env = from_gymnasium(problem='Count-v0')
  ask = jax.jit(lambda: play(env, lambda p, o, k: jnp.ones((4, 1)), None, jax.random.key(0), 4, 10))
  for _ in range(2):
    played = ask()
    np.testing.assert_array_equal(played['return'], 90)
    np.testing.assert_array_equal(played['length'], 3)
  jax.effects_barrier()
  assert len(host_of(env)._idle) == 1 and not host_of(env)._open


def test_members_are_examined_in_environments_of_their_own():
  env = from_gymnasium(problem='Count-v0')
  act = lambda params, observations, key: jnp.full((2, 1), params)
  ask = jax.vmap(lambda params: play(env, act, params, jax.random.key(0), 2, 10))
  played = jax.jit(ask)(jnp.array([-1.0, 0.0, 1.0]))
  np.testing.assert_array_equal(played['return'], [[30, 30], [60, 60], [90, 90]])
  np.testing.assert_array_equal(played['length'], 3)


def test_the_same_key_gives_the_same_episodes():
  env = from_gymnasium(problem='CartPole-v1')
  rows = jax.jit(lambda key: datasets.roll_out(
      env, datasets.random_actions(env), key, num_envs=2, num_steps=60
  ))
  first, again, other = (rows(jax.random.key(seed)) for seed in (0, 0, 1))
  np.testing.assert_array_equal(first['observations'], again['observations'])
  assert not np.array_equal(first['observations'], other['observations'])
  assert int(first['terminated'].sum()) >= 2 and first['actions'].max() == 1


def smoke(name):
  config = configs.load(f'{FOLDER}/{name}.py:smoke').unlock()
  config.evals.episodes.update(episodes=2, max_steps=5, every=config.steps)
  return config


@pytest.fixture(scope='module')
def halted(tmp_path_factory):
  """A run with a store that was stopped in the middle, and what it had then."""
  config, workdir = smoke('gym_sac_pendulum'), tmp_path_factory.mktemp('sac')
  config.checkpoint.every, config.log.steps_per_dispatch, config.evals.episodes.every = 2, 2, 4
  run = build(config)
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
    state, _ = run.stages[0].program.dispatch(state, None)
  return config, workdir, run, jax.device_get(state)


@pytest.mark.slow
def test_what_goes_on_elsewhere_begins_new_episodes_and_cuts_off_the_old_ones(halted):
  *_, run, state = halted
  there = build(run.config)  # as another process would: no environment of the state is open
  with jax.set_mesh(there.mesh):
    after = states.gone_on(there, 0, jax.device_put(state))
  newest = int(state.world['store']['next']) - 1
  old, new = (np.asarray(x.world['store']['rows']['truncated']) for x in (state, after))
  assert np.flatnonzero(old != new).tolist() == [newest] and new[newest]
  assert after.world['agents'].lengths.tolist() == [0]
  assert after.world['agents'].states.tolist() in [[n] for n in host_of(there.task)._open]


@pytest.mark.slow
def test_a_run_says_that_it_is_not_bitwise_the_same(halted, capsys):
  config, workdir, *_ = halted
  assert train.train(config, workdir, quiet=True, command='').finished
  config.steps = 4
  capsys.readouterr()
  train.train(config, workdir, quiet=False, command='')
  said = [line for line in capsys.readouterr().err.splitlines() if 'on the host' in line]
  assert len(said) == 1 and 'not bitwise' in said[0]


@pytest.mark.filterwarnings('ignore:.*precision lowered by casting')
def test_envpool_resets_what_has_ended_and_loses_nothing():
  pytest.importorskip('envpool')
  env = from_envpool(problem='CartPole-v1')
  rows = jax.jit(lambda key: datasets.roll_out(
      env, datasets.random_actions(env), key, num_envs=3, num_steps=80
  ))(jax.random.key(0))
  episodes = datasets.trajectories(rows)
  assert len(episodes) >= 6
  for episode in episodes:
    np.testing.assert_array_equal(episode['next_observations'][:-1], episode['observations'][1:])
    assert np.abs(episode['observations'][0]).max() <= 0.05  # where CartPole begins


@pytest.mark.parametrize(('change', 'message'), [
    (dict(problem='CartPoll-v1'), 'cannot be made'),
    (dict(problem='FrozenLake-v1'), 'FlattenObservation'),
    (dict(problem='CountNext-v0', vectorization='vector_entry_point'), "take 'sync' or 'async'"),
])
def test_what_cannot_be_is_one_clear_line(change, message):
  with pytest.raises(ConfigError, match=message) as error:
    from_gymnasium(**change)
  assert '\n' not in str(error.value)


@pytest.mark.slow
def test_a_run_of_processes_ends(tmp_path):
  """Whose environments would keep it from that, were they not closed."""
  env = "{'name': 'gymnasium:CartPole-v1', 'vectorization': 'async'}"
  command = ['--config=control/gym_ppo_cartpole:smoke', f'--config.env={env}', f'--workdir={tmp_path}']
  ended = subprocess.run([sys.executable, '-m', 'rlx.experiments.launch', *command], timeout=300, check=False)
  assert ended.returncode == 0


def test_wrappers_of_pure_functions_are_refused():
  with pytest.raises(ConfigError, match='wrapper of gymnasium'):
    stepping.begin(scaled_reward(from_gymnasium(problem='Count-v0'), scale=2.0), jax.random.key(0), 1)


def test_without_the_package_the_extra_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, 'gymnasium', None)
  with pytest.raises(ConfigError, match=r'rlx\[gym\]') as error:
    build(configs.load(f'{FOLDER}/gym_ppo_cartpole.py:smoke'))
  assert '\n' not in str(error.value)
