"""Data sets in Minari's format: those that others have published, and ours for their tools.

Minari keeps episodes, with one observation more than actions; a data set here keeps transitions. `write` and
`read` go from one to the other, `from_minari` is what a config names, as `minari:ID`. Where its files are is
Minari's business: under `~/.minari/datasets`, or where the variable MINARI_DATASETS_PATH says. Nothing is
downloaded; `minari download ID` does that.

Source: the format is that of https://minari.farama.org/content/dataset_standards/ (minari 0.5.4).
"""

from typing import Any
import warnings

import jax.numpy as jnp
import numpy as np

from rlx.data import transitions as datasets
from rlx.envs.control.environment import Continuous, Discrete, Environment
from rlx.names import imported
from rlx.types import Batch


def write(dataset_id: str, dataset: Batch, env: Environment, *, description: str) -> None:
  """Writes a data set; Minari's columns alone, so not `returns_to_go`, and actions as they acted: clipped.

  Args:
    dataset_id: such as 'pointmass/cautious-v0'.
    dataset: with at least the standard columns, the steps of an episode one behind the other.
    env: what it is of; says what observations and actions are.
    description: of the data, for readers.
  Raises:
    ValueError: Minari is not installed or refuses the name, or a step does not begin where the one before it
      led to.
  """
  gymnasium, minari = _packages()
  from minari.data_collector.episode_buffer import EpisodeBuffer

  datasets.check(dataset, 'this data set')
  episodes = datasets.trajectories(dataset)
  for episode in episodes:
    if not np.array_equal(episode['next_observations'][:-1], episode['observations'][1:]):
      raise ValueError(
          'a step begins elsewhere than where the one before it led to: Minari keeps whole episodes, and '
          'these rows are none'
      )
  buffers = [
      EpisodeBuffer(
          id=number,
          observations=np.concatenate([episode['observations'], episode['next_observations'][-1:]]),
          actions=_with_dtype(episode['actions'], env), rewards=episode['rewards'],
          terminations=episode['terminated'], truncations=episode['truncated'],
      )
      for number, episode in enumerate(episodes)
  ]
  box = lambda bound, shape: gymnasium.spaces.Box(-bound, bound, shape, np.float32)
  discrete = isinstance(env.actions, Discrete)
  try:
    with warnings.catch_warnings():  # that author, address, link, ... are missing: these are for publications
      warnings.simplefilter('ignore', UserWarning)
      minari.create_dataset_from_buffers(
          dataset_id, buffers, observation_space=box(np.inf, env.observation_shape),
          action_space=gymnasium.spaces.Discrete(env.actions.num) if discrete else box(1, env.actions.shape),
          description=description,
      )
  except (ValueError, OSError) as error:
    raise ValueError(f'{dataset_id} cannot be written ({_first_line(error)})') from None


def read(dataset_id: str) -> Batch:
  """The transitions of a data set of Minari's: the standard columns, actions scaled to [-1, 1].

  An episode that just stops counts as truncated there.

  Args:
    dataset_id: of a local data set.
  Raises:
    ValueError: Minari is not installed or has no such data set, or its observations or actions are of a kind
      that a policy here has no use for.
  """
  gymnasium, minari = _packages()
  try:
    found = minari.load_dataset(dataset_id)
  except (ValueError, OSError) as error:
    raise ValueError(
        f'{dataset_id} cannot be read ({_first_line(error)}); minari download {dataset_id} fetches it'
    ) from None
  spaces, space = gymnasium.spaces, found.action_space
  bounded = isinstance(space, spaces.Box) and space.is_bounded() and len(space.shape) == 1
  if not isinstance(found.observation_space, spaces.Box) or not (
      bounded or isinstance(space, spaces.Discrete)
  ):
    raise ValueError(
        f'{dataset_id} has observations {found.observation_space} and actions {space}; read here are a Box, '
        'and a Discrete or a bounded Box of one axis'
    )
  parts = [_transitions(episode, space) for episode in found.iterate_episodes()]
  rows = {name: jnp.asarray(np.concatenate([part[name] for part in parts])) for name in datasets.COLUMNS}
  datasets.check(rows, dataset_id)
  return rows


def from_minari(env: Environment, *, dataset_id: str, discount: float) -> Batch:
  """A data set of Minari's, with `returns_to_go`, as a config names it.

  Args:
    env: what it is said to be of.
    dataset_id: of a local data set.
    discount: of `returns_to_go`.
  Raises:
    ValueError: it cannot be read, or is of another environment.
  """
  rows = read(dataset_id)
  datasets.check_shapes(rows, env, dataset_id)
  return {**rows, 'returns_to_go': datasets.returns_to_go(rows, discount=discount)}


def _transitions(episode: Any, space: Any) -> dict[str, np.ndarray]:
  """The rows of one of Minari's episodes."""
  observations = np.asarray(episode.observations, np.float32)
  terminated = np.asarray(episode.terminations, bool)
  truncated = np.asarray(episode.truncations, bool) & ~terminated
  truncated[-1] = ~terminated[-1]
  return {
      'observations': observations[:-1], 'next_observations': observations[1:],
      'actions': _ours(np.asarray(episode.actions), space),
      'rewards': np.asarray(episode.rewards, np.float32), 'terminated': terminated, 'truncated': truncated,
  }


def _ours(actions: np.ndarray, space: Any) -> np.ndarray:
  """Actions from 0 on, or in [-1, 1]."""
  if hasattr(space, 'n'):
    return (actions - space.start).astype(np.int32)
  middle, half = (space.high + space.low) / 2, (space.high - space.low) / 2
  return ((actions - middle) / half).astype(np.float32)


def _with_dtype(actions: np.ndarray, env: Environment) -> np.ndarray:
  return np.clip(actions, -1, 1) if isinstance(env.actions, Continuous) else actions.astype(np.int64)


def _packages():
  """(gymnasium, minari), which take a second to import."""
  imported('h5py', extra='minari', who="Minari's format")  # whose lack Minari finds out when it writes
  names = ('gymnasium', 'minari')
  return tuple(imported(name, extra='minari', who="Minari's format") for name in names)


def _first_line(error: Exception) -> str:
  return (str(error).splitlines() or [type(error).__name__])[0]
