"""Data sets: what is read off them, files, and what a config can name."""

import json

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import numpy as np
import pytest

from rlx import config as configs
from rlx.data import behaviours
from rlx.data import transitions as datasets
from rlx.envs.control import maze
from rlx.envs.control.pendulum import pendulum
from rlx.envs.control.pointmass import pointmass
from rlx.experiments import launch
from rlx.rollout.control.offline import offline
from rlx.run.build import build

ENV = pendulum(max_steps=6)


@pytest.fixture(scope='module')
def rows():
  return datasets.random(ENV, num_envs=3, num_steps=10, discount=0.5, seed=0)


def test_episodes_are_cut_where_they_end(rows):
  episodes = datasets.trajectories(rows)
  assert [len(e['rewards']) for e in episodes] == [6, 4] * 3, 'the limit is 6 steps, a stream has 10'
  starts = np.flatnonzero(datasets.episode_starts(rows))
  np.testing.assert_array_equal(starts, [0, 6, 10, 16, 20, 26])
  np.testing.assert_array_equal(np.concatenate([e['rewards'] for e in episodes]), rows['rewards'])


def test_a_last_episode_without_an_end_is_one_too():
  columns = {'rewards': jnp.arange(3.0), 'terminated': jnp.array([True, False, False])}
  columns['truncated'] = jnp.zeros(3, bool)
  assert [list(e['rewards']) for e in datasets.trajectories(columns)] == [[0.0], [1.0, 2.0]]


def test_returns_to_go_by_hand():
  columns = {
      'rewards': jnp.array([1.0, 2.0, 4.0, 8.0]),
      'terminated': jnp.array([False, True, False, False]),
      'truncated': jnp.array([False, False, False, True]),
  }
  np.testing.assert_allclose(datasets.returns_to_go(columns, discount=0.5), [2.0, 2.0, 8.0, 8.0])


def test_a_file_gives_back_what_was_saved(rows, tmp_path):
  path = tmp_path / 'set'
  datasets.save(path, rows, {'environment': {'name': 'pendulum'}, 'step': 3})
  again, description = datasets.load(path)
  assert description == {'environment': {'name': 'pendulum'}, 'step': 3}
  assert again.keys() == rows.keys()
  for name in rows:
    assert again[name].dtype == rows[name].dtype
    np.testing.assert_array_equal(again[name], rows[name])
  assert [path.name for path in tmp_path.iterdir()] == ['set'], 'no suffix is added'


def written(path, arrays):
  with path.open('wb') as file:
    np.savez(file, **arrays)


def bad_file(kind, rows, path):
  if kind == 'missing':
    return 'cannot be read'
  if kind == 'text':
    path.write_text('hello')
    return 'cannot be read'
  arrays = {name: np.asarray(x) for name, x in rows.items()}
  if kind == 'header':
    written(path, arrays)
    return 'no header'
  header = json.dumps({'format': 2 if kind == 'format' else 1})
  if kind == 'column':
    del arrays['terminated']
  if kind == 'dtype':
    arrays['terminated'] = arrays['terminated'].astype(np.float32)
  if kind == 'length':
    arrays['rewards'] = arrays['rewards'][:-1]
  written(path, {'header': np.array(header), **arrays})
  return {'format': 'format 2', 'column': "['terminated']", 'dtype': 'float32', 'length': 'first axis'}[kind]


@pytest.mark.parametrize('kind', ['missing', 'text', 'header', 'format', 'column', 'dtype', 'length'])
def test_a_file_that_is_none_is_one_line(kind, rows, tmp_path):
  expected = bad_file(kind, rows, tmp_path / 'set')
  with pytest.raises(ValueError) as error:
    datasets.load(tmp_path / 'set')
  assert expected in str(error.value) and '\n' not in str(error.value)


def test_a_column_that_is_missing_is_not_saved(rows, tmp_path):
  with pytest.raises(ValueError, match='truncated'):
    datasets.save(tmp_path / 'set', {k: v for k, v in rows.items() if k != 'truncated'}, {})
  assert not list(tmp_path.iterdir())


# --- in configs ---------------------------------------------------------------------------------------------


def config(data):
  config = configs.load('experiments/configs/offline/bc_pointmass.py:smoke').unlock()
  config.data = ConfigDict(data)
  return config


def drawn(data):
  run = build(config(data))
  return run.stages[0].rollout.data


RANDOM = {'name': 'random', 'num_envs': 2, 'num_steps': 5, 'discount': 0.9, 'seed': 1}
SAME = {**RANDOM, 'name': 'rlx.data.transitions.random'}


@pytest.mark.slow
def test_a_config_names_its_data(tmp_path):
  made = drawn(RANDOM)
  assert made['rewards'].shape == (10,) and 'returns_to_go' in made
  both = drawn({'name': 'transitions.mixture', 'first': SAME, 'second': {**SAME, 'seed': 2}})
  np.testing.assert_array_equal(both['rewards'][:10], made['rewards'])
  assert both['rewards'].shape == (20,) and not (both['actions'][10:] == made['actions']).all()
  datasets.save(tmp_path / 'set', made, {})
  again = drawn({'name': 'file', 'path': str(tmp_path / 'set'), 'discount': 0.9})
  np.testing.assert_array_equal(again['returns_to_go'], made['returns_to_go'])


def test_a_file_of_another_environment_is_refused(rows, tmp_path):
  datasets.save(tmp_path / 'set', rows, {'environment': 'pendulum'})
  with pytest.raises(configs.ConfigError, match='pendulum'):
    drawn({'name': 'file', 'path': str(tmp_path / 'set'), 'discount': 0.9})


def test_data_that_nobody_asks_for_are_an_error():
  path = 'experiments/configs/control/sac_pendulum.py:smoke'
  online = configs.load(path).unlock()
  online.data = ConfigDict(RANDOM)
  with pytest.raises(configs.ConfigError, match=r"\['data'\], which nobody asks for"):
    build(online)


def test_offline_draws_rows_of_the_set(rows):
  rollout = offline(rows, batch_size=50)
  batch, world = rollout({}, {'data': rows}, jax.random.key(0))
  assert world == {} and batch['rewards'].shape == (50,)
  assert set(np.asarray(batch['rewards'])) <= set(np.asarray(rows['rewards']))


# --- rlx make-dataset ---------------------------------------------------------------------------------------


def make(*arguments):
  return launch.main(['make-dataset', *arguments])


def test_make_dataset_of_random_actions(tmp_path, capsys):
  output = tmp_path / 'random.npz'
  code = make(
      '--config=experiments/configs/control/sac_pendulum.py:smoke', '--source=random', '--num_envs=2',
      '--num_steps=5', f'--output={output}',
  )
  assert code == launch.EXIT_DONE and '10 transitions, 2 episodes' in capsys.readouterr().out
  _, description = datasets.load(output)
  assert description['environment']['name'] == 'pendulum' and description['step'] is None


@pytest.mark.slow
def test_who_wanders_goes_to_a_cell_of_its_own_and_not_to_the_goal():
  env = maze.maze(layout='corridor', starts='S', goals='G', max_steps=60)
  rows = behaviours.wandering(
      env, layout='corridor', noise=0.1, num_envs=16, num_steps=60, discount=1.0, seed=0
  )
  last = np.asarray(rows['next_observations'][:, 0]).reshape(16, 60)[:, -2:]
  cells = np.asarray(maze.free_cells('corridor'))[:, 0]
  np.testing.assert_allclose(last[:-1], np.stack([cells[:-1]] * 2, axis=1), atol=0.06)
  assert rows['rewards'].sum() == 1 and rows['returns_to_go'][15 * 60] == 1  # of the one on the way to G


@pytest.mark.slow
def test_who_goes_past_either_side_comes_round_what_stops_the_others():
  ways = {'above': (-0.5, 0.5), 'below': (0.5, -0.5), 'straight': (0.7, 0.7)}
  env = pointmass(
      max_steps=100, friction=0.5, start=(-0.7, -0.7), start_radius=0.0, goal=ways['straight'],
      obstacles=((0.0, 0.0, 0.4),),
  )
  rows = behaviours.detouring(
      env, goal=ways['straight'], vias=tuple(ways.values()), gain=0.6, damping=1.0, noise=0.3, num_envs=6,
      num_steps=100, discount=1.0, seed=0,
  )
  first = np.asarray(rows['observations'][:, :2]).reshape(6, 100, 2)[:3]  # streams take turns
  away = (first[..., 1] - first[..., 0]).max(axis=1), (first[..., 1] - first[..., 0]).min(axis=1)
  assert away[0][0] > 0.5 and away[1][1] < -0.5 and np.abs(away).max(axis=0)[2] < 0.5
  nearest = np.linalg.norm(first - 0.7, axis=-1).min(axis=1)  # who arrives begins anew
  assert nearest[0] < 0.2 and nearest[1] < 0.2 and nearest[2] > 0.8


@pytest.mark.slow
def test_make_dataset_of_a_run(tmp_path, capsys):
  """What a policy does and what the store of its run remembers, in order."""
  workdir = tmp_path / 'run'
  path = 'experiments/configs/control/sac_pendulum.py:smoke'
  options = ['--config.rollout.num_envs=2', '--config.env.max_steps=5']
  assert launch.main([f'--config={path}', f'--workdir={workdir}', '--quiet', *options]) == launch.EXIT_DONE
  for source, num in (('sampled', 12), ('mode', 12), ('replay', 16 + 2 * 4)):
    output = tmp_path / source
    assert make(
        f'--workdir={workdir}', f'--source={source}', '--num_envs=2', '--num_steps=6', f'--output={output}'
    ) == launch.EXIT_DONE
    rows, description = datasets.load(output)
    assert rows['rewards'].shape == (num,) and description['step'] == 4
    for episode in datasets.trajectories(rows):  # what follows a step is what the next one begins with
      assert len(episode['rewards']) <= 5
      np.testing.assert_array_equal(episode['next_observations'][:-1], episode['observations'][1:])


def test_make_dataset_replaces_data_sets_and_nothing_else(tmp_path, capsys):
  path = 'experiments/configs/control/sac_pendulum.py:smoke'
  arguments = (f'--config={path}', '--source=random', '--num_envs=2')
  output = tmp_path / 'set.npz'
  for num in (5, 6):
    assert make(*arguments, f'--num_steps={num}', f'--output={output}') == launch.EXIT_DONE
  assert len(datasets.load(output)[0]['rewards']) == 12 and list(tmp_path.iterdir()) == [output]
  capsys.readouterr()
  (tmp_path / 'notes.txt').write_text('mine')
  np.savez(tmp_path / 'other.npz', x=np.zeros(3))
  for name in ('notes.txt', 'other.npz'):
    before = (tmp_path / name).read_bytes()
    assert make(*arguments, f'--output={tmp_path / name}') == launch.EXIT_DO_NOT_RETRY
    assert f'{name} is there and is no data set that rlx wrote' in capsys.readouterr().err
    assert (tmp_path / name).read_bytes() == before
  assert make(*arguments, f'--output={tmp_path}/no/set.npz') == launch.EXIT_DO_NOT_RETRY
  assert f'there is no folder {tmp_path}/no; make it first' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('arguments', 'what'),
    [
        (['--source=random'], 'either'),
        (['--source=mode', '--config=experiments/configs/control/sac_pendulum.py:smoke'], 'workdir'),
        (['--source=mode', '--workdir=nowhere'], 'holds no run'),
        (['--source=random', '--config=experiments/configs/quickstart/arithmetic.py:smoke'], 'env'),
    ],
)
def test_make_dataset_says_what_is_wrong(arguments, what, tmp_path, capsys):
  assert make(*arguments, f'--output={tmp_path}/x') == launch.EXIT_DO_NOT_RETRY
  message = capsys.readouterr().err
  assert what in message and message.count('\n') == 1
