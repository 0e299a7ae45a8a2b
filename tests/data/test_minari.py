"""Minari's format, in and out; without the package, one line that says so."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.data import minari as format_of_minari
from rlx.data import transitions as datasets
from rlx.envs.control import cartpole, near_real

CARTPOLE = cartpole.cartpole(max_steps=6)


@pytest.fixture
def minari(tmp_path, monkeypatch):
  """The package, which keeps its data sets in a folder of the test's."""
  pytest.importorskip('h5py')
  package = pytest.importorskip('minari')
  monkeypatch.setenv('MINARI_DATASETS_PATH', str(tmp_path))
  return package


@pytest.fixture(scope='module')
def rows():
  return jax.jit(lambda: datasets.random(CARTPOLE, num_envs=3, num_steps=20, discount=0.5, seed=0))()


def test_without_the_package_the_extra_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, 'minari', None)
  with pytest.raises(ValueError, match=r'rlx\[minari\]') as error:
    format_of_minari.read('some/thing-v0')
  assert '\n' not in str(error.value)


def test_what_is_written_is_read_again(minari, rows):
  format_of_minari.write('cartpole/random-v0', rows, CARTPOLE, description='random actions')
  again = format_of_minari.from_minari(CARTPOLE, dataset_id='cartpole/random-v0', discount=0.5)
  assert again.keys() == rows.keys()
  for name in rows:
    assert again[name].dtype == rows[name].dtype
    np.testing.assert_allclose(again[name], rows[name], rtol=1e-6)
  theirs = minari.load_dataset('cartpole/random-v0')
  episodes = datasets.trajectories(rows)
  assert theirs.total_episodes == len(episodes) and theirs.total_steps == 60
  assert theirs.action_space.n == 2 and theirs.observation_space.shape == (4,)
  first = next(iter(theirs.iterate_episodes()))
  np.testing.assert_array_equal(first.observations[1:], episodes[0]['next_observations'])


@pytest.mark.filterwarnings('ignore::UserWarning')  # nobody is named as the author
def test_actions_of_other_bounds_are_scaled_and_what_just_stops_is_cut_off(minari):
  import gymnasium
  from minari.data_collector.episode_buffer import EpisodeBuffer

  part = dict(rewards=np.array([1.0, 2.0]), terminations=np.array([False, False]))
  buffers = [
      EpisodeBuffer(
          id=number, observations=np.arange(3.0)[:, None] + 10 * number, actions=np.array([[0.0], [4.0]]),
          truncations=np.array([False, False]), **part,
      )
      for number in range(2)
  ]
  box = lambda low, high: gymnasium.spaces.Box(low, high, (1,), np.float64)
  minari.create_dataset_from_buffers(
      'other/made-v1', buffers, observation_space=box(-100, 100), action_space=box(-1, 4)
  )
  rows = format_of_minari.read('other/made-v1')
  np.testing.assert_allclose(rows['actions'][:, 0], [-0.6, 1, -0.6, 1])
  np.testing.assert_array_equal(rows['observations'][:, 0], [0, 1, 10, 11])
  np.testing.assert_array_equal(rows['next_observations'][:, 0], [1, 2, 11, 12])
  np.testing.assert_array_equal(rows['truncated'], [False, True, False, True])
  assert {x.dtype for x in rows.values()} == {jnp.dtype('float32'), jnp.dtype('bool')}
  with pytest.raises(ValueError, match='those of the environment'):
    format_of_minari.from_minari(
        near_real.late(max_steps=5, steps=1), dataset_id='other/made-v1', discount=0.9
    )


def test_rows_that_are_no_episodes_are_refused(minari, rows):
  mixed = jax.tree.map(lambda x: x[::-1], rows)
  with pytest.raises(ValueError, match='whole episodes'):
    format_of_minari.write('cartpole/mixed-v0', mixed, CARTPOLE, description='')


@pytest.mark.parametrize(
    ('dataset_id', 'what'), [('not/there-v0', 'minari download not/there-v0'), ('no name', 'cannot be read')]
)
def test_a_data_set_that_is_not_there_is_one_line(minari, dataset_id, what):
  with pytest.raises(ValueError, match=what) as error:
    format_of_minari.read(dataset_id)
  assert '\n' not in str(error.value)


@pytest.mark.filterwarnings('ignore::UserWarning')
def test_observations_that_are_no_box_are_refused(minari):
  import gymnasium
  from minari.data_collector.episode_buffer import EpisodeBuffer

  ends = np.array([True])
  buffer = EpisodeBuffer(
      id=0, observations=np.array([0, 1]), actions=np.array([0]), rewards=np.array([1.0]), terminations=ends,
      truncations=~ends,
  )
  two = gymnasium.spaces.Discrete(2)
  minari.create_dataset_from_buffers(
      'other/discrete-v0', [buffer], observation_space=two, action_space=two
  )
  with pytest.raises(ValueError, match='Box'):
    format_of_minari.read('other/discrete-v0')
