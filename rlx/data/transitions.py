"""Sets of transitions for offline learning: what some policy did in an environment, as a flat batch.

A data set is a batch with leading [N]: `observations, actions, rewards, next_observations, terminated,
truncated`, the steps of an episode one behind the other, so that `episode_ends` and whole trajectories can be
read off it. `save` and `load` keep one in a file. What a config names in its section `data` is at the end:
functions `env -> data set`, with `returns_to_go` added.

The custom of D4RL is to name data by who made them: *random* actions; *medium*, a policy whose training was
stopped at about a third of the expert's score; *medium-replay*, all that was seen until then; *expert*; and
mixtures of them. `rlx make-dataset` writes each of these.
"""

from collections.abc import Callable, Mapping
import json
from pathlib import Path
from typing import Any
import zipfile

import jax
import jax.numpy as jnp
import numpy as np

from rlx import ahead, types
from rlx.advantages import temporal
from rlx.envs.control import stepping
from rlx.envs.control.environment import Environment
from rlx.errors import at_least, between
from rlx.files import replacing
from rlx.names import fill
from rlx.types import Batch, Key

Act = Callable[[jax.Array, Key], jax.Array]  # (observations [B, ...], key) -> actions [B, ...]
Dataset = Callable[..., Batch]  # what a config can name: (env) -> data set

COLUMNS = ('observations', 'actions', 'rewards', 'next_observations', 'terminated', 'truncated')
_HEADER = 'header'
_FORMAT = 1


def roll_out(env: Environment, act: Act, key: Key, *, num_envs: int, num_steps: int) -> Batch:
  """What `act` does: `num_envs` streams of episodes of `num_steps` steps each, one stream after the other.

  Where a stream is cut off in the middle of an episode, its last step is marked as truncated.

  Args:
    env: one environment.
    act: the behaviour policy.
    key: of the starts, the policy and the world.
    num_envs: streams.
    num_steps: of each stream.
  Returns:
    A data set of N = num_envs num_steps transitions.
  """
  at_least(1, num_envs=num_envs, num_steps=num_steps)
  begin_key, steps_key = jax.random.split(key)

  def step(agents, key: Key):
    action_key, env_key = jax.random.split(key)
    return stepping.advance(env, agents, act(agents.observations, action_key), env_key)

  agents = stepping.begin(env, begin_key, num_envs)
  _, rows = ahead.scan(step, agents, jax.random.split(steps_key, num_steps))
  rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows)
  cut = ~rows['terminated'][:, -1]
  rows['truncated'] = rows['truncated'].at[:, -1].set(cut)
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)


def random_actions(env: Environment) -> Act:
  """Uniformly random actions, whatever is seen."""
  draw = jax.vmap(env.actions.sample)
  return lambda observations, key: draw(jax.random.split(key, observations.shape[0]))


def concatenate(*parts: Batch) -> Batch:
  """Several data sets as one, each in the order that it had."""
  return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def episode_ends(dataset: Batch) -> jax.Array:
  """[N] bool, True at the last step of each episode."""
  return dataset['terminated'] | dataset['truncated']


def returns_to_go(dataset: Batch, *, discount: float) -> jax.Array:
  """[N] float32, what came after each step in its episode, discounted; nothing is added where it was cut off.

  Args:
    dataset: steps of episodes one behind the other.
    discount: γ per step.
  """
  between(0, 1, discount=discount)
  return temporal.returns(dataset['rewards'], jnp.where(episode_ends(dataset), 0.0, discount))


def episode_starts(dataset: Batch) -> jax.Array:
  """[N] bool, True at the first step of each episode."""
  return jnp.roll(episode_ends(dataset), 1).at[0].set(True)


def trajectories(dataset: Batch) -> list[dict[str, np.ndarray]]:
  """The episodes of a data set, each a batch of its own on the host; the last may have no end."""
  ends = np.flatnonzero(np.asarray(episode_ends(dataset))) + 1
  num = len(dataset['rewards'])
  cuts = ends if len(ends) and ends[-1] == num else np.append(ends, num)
  host = {name: np.asarray(column) for name, column in dataset.items()}
  starts = np.concatenate([[0], cuts[:-1]])
  return [{name: x[a:b] for name, x in host.items()} for a, b in zip(starts, cuts, strict=True)]


# --- files --------------------------------------------------------------------------------------------------


def check_place(path: str | Path) -> None:
  """Raises `ValueError` where a data set cannot be put: no such folder, or something else stands there."""
  path = Path(path)
  if not path.absolute().parent.is_dir():
    raise ValueError(f'{path}: there is no folder {path.absolute().parent}; make it first')
  if path.exists() and not _is_ours(path):
    raise ValueError(f'{path} is there and is no data set that rlx wrote; choose another file')


def _is_ours(path: Path) -> bool:
  if not zipfile.is_zipfile(path):
    return False
  with zipfile.ZipFile(path) as file:
    return f'{_HEADER}.npy' in file.namelist()


def save(path: str | Path, dataset: Batch, description: Mapping[str, Any]) -> None:
  """Writes a data set as one .npz file, all of it or nothing: an array a column, and a header.

  Args:
    path: of the file; a data set that is there is replaced, and nothing else is.
    dataset: with at least the standard columns.
    description: of JSON's types: the environment, the policy, versions. `load` returns it.
  Raises:
    ValueError: a column is missing, or is not what the table of standard keys says; or as `check_place`.
  """
  check(dataset, 'this data set')
  check_place(path)
  header = json.dumps({'format': _FORMAT, **description})
  arrays = {name: np.asarray(column) for name, column in dataset.items()}
  with replacing(path) as file:  # numpy appends .npz to a name, and not to a file
    np.savez_compressed(file, **{_HEADER: np.array(header)}, **arrays)


def load(path: str | Path) -> tuple[Batch, dict[str, Any]]:
  """A data set that `save` wrote, and its description.

  Raises:
    ValueError: there is no such file, or it holds something else; one line.
  """
  try:
    with np.load(path, allow_pickle=False) as file:
      arrays = dict(file)
  except (OSError, ValueError, zipfile.BadZipFile) as error:
    raise ValueError(f'{path} cannot be read ({error}); rlx make-dataset writes data sets') from None
  if _HEADER not in arrays:
    raise ValueError(f'{path} has no header; rlx make-dataset writes files that have one')
  description = json.loads(str(arrays.pop(_HEADER)))
  if (found := description.pop('format', None)) != _FORMAT:
    raise ValueError(f'{path} is of format {found}; this version reads format {_FORMAT}: write it again')
  check(arrays, path)
  return {name: jnp.asarray(column) for name, column in arrays.items()}, description


def check(dataset: Mapping, who: Any) -> None:
  """Raises `ValueError` where a data set lacks a column or breaks the table of standard keys; `who` it is."""
  if missing := [name for name in COLUMNS if name not in dataset]:
    raise ValueError(f'{who} has no {missing}; it needs the columns {list(COLUMNS)}')
  try:
    types.check(dataset)
  except ValueError as error:
    raise ValueError(f'{who}: {error}') from None


def check_shapes(dataset: Mapping, env: Environment, who: Any) -> None:
  """Raises `ValueError` where observations or actions have not the shapes of the environment's."""
  for name, shape in (('observations', env.observation_shape), ('actions', env.actions.shape)):
    if dataset[name].shape[1:] != shape:
      raise ValueError(
          f'{who} has {name} of shape {dataset[name].shape[1:]}; those of the environment are {shape}'
      )


# --- what a config names in its section `data` --------------------------------------------------------------


def file(env: Environment, *, path: str, discount: float) -> Batch:
  """The data set in a file.

  Args:
    env: what it is said to be of.
    path: that `save` or `rlx make-dataset` wrote.
    discount: of `returns_to_go`.
  Raises:
    ValueError: it cannot be read, or is of another environment.
  """
  dataset, description = load(path)
  check_shapes(dataset, env, f'{path} (which says of itself: {description})')
  return _with_returns(dataset, discount)


def random(env: Environment, *, num_envs: int, num_steps: int, discount: float, seed: int) -> Batch:
  """Uniformly random actions.

  Args:
    env: one environment.
    num_envs: streams of episodes.
    num_steps: of each stream.
    discount: of `returns_to_go`.
    seed: of the data.
  """
  return acted(
      env, random_actions(env), num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed
  )


def acted(
    env: Environment, act: Act, *, num_envs: int, num_steps: int, discount: float, seed: int
) -> Batch:
  """The data set that a behaviour leaves: `roll_out` in one program, with `returns_to_go`.

  Args:
    env: one environment.
    act: what is done.
    num_envs: streams of episodes.
    num_steps: of each stream.
    discount: of `returns_to_go`.
    seed: of the data.
  """
  play = lambda key: roll_out(env, act, key, num_envs=num_envs, num_steps=num_steps)
  return _with_returns(jax.jit(play)(jax.random.key(seed)), discount)


def mixture(env: Environment, *, first: Dataset, second: Dataset) -> Batch:
  """Two data sets, one behind the other; more by a mixture in a mixture.

  Args:
    env: what both are of.
    first: any of these functions.
    second: any of these functions.
  """
  return concatenate(*(fill(part, {'env': env}) for part in (first, second)))


def demonstrated(env: Environment, *, expert: Dataset, others: Dataset) -> Batch:
  """A mixture in which the expert's rows are `preferred`: what imitation from mixed data learns from.

  Args:
    env: what both are of.
    expert: any of these functions.
    others: any of these functions.
  """
  parts = [fill(part, {'env': env}) for part in (expert, others)]
  marks = [jnp.full(part['rewards'].shape, part is parts[0]) for part in parts]
  return {**concatenate(*parts), 'preferred': jnp.concatenate(marks)}


def rescaled(env: Environment, *, data: Dataset, span: float) -> Batch:
  """A data set whose rewards are scaled so that the returns of its episodes are `span` apart, worst to best.

  What the authors of IQL do for locomotion, with a span of 1000; numbers that are in units of returns
  (temperatures, clips) then mean the same for any data set.

  Args:
    env: what it is of.
    data: makes the data set.
    span: of returns, above 0.
  Raises:
    ValueError: `span` is not positive, or all episodes return the same.
  Source: Kostrikov et al., 2021, https://arxiv.org/abs/2110.06169, appendix B.
  """
  rows = fill(data, {'env': env})
  returns = np.array([episode['rewards'].sum() for episode in trajectories(rows)])
  if span <= 0 or returns.min() == returns.max():
    raise ValueError(f'span={span} of returns {returns.min()} to {returns.max()}: above 0, and some differ')
  factor = jnp.float32(span / (returns.max() - returns.min()))
  return {**rows, **{name: factor * rows[name] for name in ('rewards', 'returns_to_go') if name in rows}}


def partly_labelled(env: Environment, *, data: Dataset, labelled_every: int) -> Batch:
  """A data set of whose episodes only each n-th has actions; those of the others are 0, and `labelled` False.

  Args:
    env: what it is of.
    data: makes the whole data set.
    labelled_every: n, at least 1.
  Raises:
    ValueError: `labelled_every` is not positive.
  """
  if labelled_every < 1:
    raise ValueError(f'labelled_every={labelled_every}: each n-th episode, for an n of 1 or more')
  rows = fill(data, {'env': env})
  labelled = (jnp.cumsum(episode_starts(rows)) - 1) % labelled_every == 0
  wide = labelled.reshape(-1, *(1,) * (rows['actions'].ndim - 1))
  return {**rows, 'actions': jnp.where(wide, rows['actions'], 0), 'labelled': labelled}


def _with_returns(rows: Batch, discount: float) -> Batch:
  return {**rows, 'returns_to_go': returns_to_go(rows, discount=discount)}
