"""Environments with gymnasium's methods, on the host: many in step with each other, or whoever answers first.

`from_gymnasium` is an `Environment` for configs, made of `gymnasium.make_vec`: unrolls, stores and
evaluations take it as any other, and step it from inside their programs (`host.py`). Vectorised environments
of gymnasium begin again by themselves, in one of three ways (`AutoresetMode`). *Same step*, which is what is
asked for here, gives the last observation of an episode beside the first of the next; *disabled* leaves the
reset to the caller, which is the same with one more call. *Next step*, gymnasium's default, spends a call on
the reset in which the environment's action is ignored: a row that is no transition, for which a batch here
has no place. A class that can do nothing else is refused.

`Pool` steps environments by threads: the first to answer are the next batch. With N environments and batches
of M < N, nobody waits for the slowest: while M actions are chosen, the other environments are still at work.
Each environment sees its own actions in their order, so that what it does is what it would do alone; only
which environments share a batch depends on time.
Source: Weng et al., 2022, https://arxiv.org/abs/2206.10558 (the pool).
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
import functools
import math
import queue
from typing import Any, NamedTuple

import numpy as np

from rlx.envs.control.environment import Continuous, Discrete
from rlx.envs.control.host import HostEnvironment, Led, on_host
from rlx.errors import ConfigError
from rlx.names import imported


def from_gymnasium(
    *, problem: str, vectorization: str = 'sync', arguments: Mapping[str, Any] | None = None,
    random_return: float = math.nan, expert_return: float = math.nan,
) -> HostEnvironment:
  """Environments of gymnasium, with the limit on steps that the id is registered with.

  Observations are of a Box, as float32 in its shape; actions are discrete, or of a bounded Box of one axis,
  which is scaled to [-1, 1].

  Args:
    problem: the id, as `gymnasium.make` takes it; with 'module:' in front of it that module is imported,
      which may register it, in whatever wrappers.
    vectorization: 'sync', one after the other in this process; 'async', each in a process of its own; or
      'vector_entry_point', the id's own class of many.
    arguments: of the environment.
    random_return: of random actions, for scores; left out where it is not known.
    expert_return: of a good policy, likewise.
  Raises:
    ConfigError: gymnasium is not installed or does not know the id, or spaces are of another kind.
  """
  if arguments is not None and not isinstance(arguments, Mapping):
    raise ConfigError(f'gymnasium:{problem}: arguments={arguments!r} is no dictionary')
  gymnasium = imported('gymnasium', extra='gym', who=f'gymnasium:{problem}')
  make = functools.partial(_make, gymnasium, problem, vectorization, dict(arguments or {}))
  one = make(1)
  observations, actions = one.single_observation_space, one.single_action_space
  one.close()
  shape, ours, to_theirs = spaces_of(gymnasium.spaces, f'gymnasium:{problem}', observations, actions)
  return on_host(
      lambda num: _Many(make(num), gymnasium.vector.AutoresetMode, to_theirs), observation_shape=shape,
      actions=ours, random_return=random_return, expert_return=expert_return,
  )


def _make(gymnasium, problem: str, vectorization: str, arguments: dict[str, Any], num: int):
  """`num` environments that begin again in the step in which they end, or that leave it to us."""
  modes = gymnasium.vector.AutoresetMode
  kwargs = {} if vectorization == 'vector_entry_point' else {'autoreset_mode': modes.SAME_STEP}
  try:
    envs = gymnasium.make_vec(
        problem, num_envs=num, vectorization_mode=vectorization, vector_kwargs=kwargs, **arguments
    )
  except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    raise ConfigError(f'gymnasium:{problem} cannot be made ({first})') from error
  mode = envs.metadata.get('autoreset_mode')
  if mode not in (modes.SAME_STEP, modes.DISABLED):
    envs.close()
    raise ConfigError(
        f'gymnasium:{problem} in vectorization={vectorization!r} begins again by {mode}: its resets take a '
        "step, which is no transition; take 'sync' or 'async'"
    )
  return envs


def spaces_of(spaces, who: str, observations, actions):
  """The shape of observations, rlx's actions, and the function from many of these to gymnasium's."""
  if not isinstance(observations, spaces.Box):
    raise ConfigError(
        f'{who} has observations {observations}; a policy here takes a Box: register the id '
        'with gymnasium.wrappers.FlattenObservation around it'
    )
  if isinstance(actions, spaces.Discrete):
    return observations.shape, Discrete(int(actions.n)), lambda a: a + actions.start
  if not isinstance(actions, spaces.Box) or len(actions.shape) != 1 or not actions.is_bounded():
    raise ConfigError(
        f'{who} has actions {actions}; a policy here has discrete ones, or a bounded Box of '
        'one axis'
    )
  middle, half = (actions.high + actions.low) / 2, (actions.high - actions.low) / 2
  scaled = lambda a: (middle + half * np.clip(a, -1, 1)).astype(actions.dtype)
  return observations.shape, Continuous(actions.shape[0]), scaled


class _Many:
  """Vectorised environments as `host.Many`."""

  def __init__(self, envs, modes, to_theirs: Callable[[np.ndarray], np.ndarray]):
    self._envs, self._to_theirs = envs, to_theirs
    self._by_hand = envs.metadata['autoreset_mode'] == modes.DISABLED

  def reset(self, seed: int) -> np.ndarray:
    """As `host.Many`; environment i gets seed + i."""
    return np.asarray(self._envs.reset(seed=seed)[0], np.float32)

  def step(self, actions: np.ndarray) -> Led:
    """As `host.Many`."""
    observations, rewards, terminated, truncated, info = self._envs.step(self._to_theirs(actions))
    terminated = np.asarray(terminated, bool)
    ended = terminated | truncated
    observations = np.array(observations, np.float32)  # a copy: theirs may be written to by the next step
    led_to = observations
    if ended.any() and self._by_hand:
      observations = np.array(self._envs.reset(options={'reset_mask': ended})[0], np.float32)
    elif ended.any():
      led_to = observations.copy()
      for index in np.flatnonzero(ended):
        led_to[index] = info['final_obs'][index]
    return Led(
        led_to=led_to, observations=observations, rewards=np.asarray(rewards, np.float32),
        terminated=terminated, truncated=np.asarray(truncated, bool) & ~terminated,
    )

  def close(self) -> None:
    """As `host.Many`."""
    self._envs.close()


class Answers(NamedTuple):
  """What M environments have answered, [M, ...] each.

  Attributes:
    indices: of the environments; no index is twice in a batch.
    observations: that the next actions are for, of a new episode where one has ended.
    next_observations: that the last actions led to, of the episode that they were in.
    rewards: float32, for the last actions.
    terminated: bool.
    truncated: bool.
    first: bool, True where there was no action yet; what is above says nothing there but `observations`.
  """

  indices: np.ndarray
  observations: np.ndarray
  next_observations: np.ndarray
  rewards: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  first: np.ndarray


class Pool:
  """N environments; `receive` gives the first M that have answered, `send` sets them to work again.

  A context manager: at its end threads are joined and environments closed.
  """

  def __init__(
      self, makers: Sequence[Callable[[], Any]], *, batch_size: int, num_threads: int, seed: int
  ):
    """Begins an episode in each environment; environment i is reset with `seed + i` once.

    Args:
      makers: one for each environment, e.g. `lambda: gymnasium.make('Ant-v5')`.
      batch_size: M, at most N.
      num_threads: that step environments.
      seed: of the first resets.
    Raises:
      ValueError: `batch_size` is not in 1, ..., N, or `num_threads` is not positive.
    """
    if not 1 <= batch_size <= len(makers) or num_threads < 1:
      raise ValueError(
          f'batch_size={batch_size}, num_threads={num_threads}: with {len(makers)} environments, a batch has '
          f'1 to {len(makers)} of them, and there is 1 thread or more'
      )
    self._batch_size = batch_size
    self._envs = [make() for make in makers]
    self._ready = queue.SimpleQueue()
    self._threads = ThreadPoolExecutor(num_threads)
    for index in range(len(makers)):
      self._threads.submit(self._answer, index, lambda index=index: self._begin(index, seed + index))

  def receive(self) -> Answers:
    """The next M answers, in the order in which they came; waits for them.

    Raises:
      Exception: whatever an environment raised.
    """
    rows = []
    for _ in range(self._batch_size):
      row = self._ready.get()
      if isinstance(row, Exception):
        raise row
      rows.append(row)
    return Answers(*(np.stack(column) for column in zip(*rows, strict=True)))

  def send(self, actions: np.ndarray, indices: np.ndarray) -> None:
    """Sets environments to work; each has to have answered before.

    Args:
      actions: [M, ...] in the environments' own units.
      indices: [M] as received.
    """
    for action, index in zip(actions, indices, strict=True):
      self._threads.submit(
          self._answer, int(index), lambda action=action, index=int(index): self._step(index, action)
      )

  def __enter__(self):
    return self

  def __exit__(self, *error):
    self._threads.shutdown(cancel_futures=True)
    for env in self._envs:
      env.close()

  def _answer(self, index, work):
    try:
      self._ready.put((np.int32(index), *work()))
    except Exception as error:  # it is raised again where the answer is waited for
      self._ready.put(error)

  def _begin(self, index, seed):
    observation, _ = self._envs[index].reset(seed=seed)
    return observation, observation, np.float32(0), np.bool_(False), np.bool_(False), np.bool_(True)

  def _step(self, index, action):
    env = self._envs[index]
    led_to, reward, terminated, truncated, _ = env.step(action)
    observation = env.reset()[0] if terminated or truncated else led_to
    return (
        observation, led_to, np.float32(reward), np.bool_(terminated), np.bool_(truncated), np.bool_(False)
    )
