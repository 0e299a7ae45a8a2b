"""Environments in Python on the host, behind the device's loop: each step of it calls them once.

A rollout is one program, also where its environments are not: `stepping` asks a `Host` for the next step of
all environments together, by an `io_callback` inside the scan. What the device keeps of them is a ticket, one
number for each row, which goes into every call and comes out of it: so calls stay in their order, and the
members of a population have environments of their own.

The environments themselves are in no state and in no checkpoint. A run that goes on in another process opens
new ones, at the start of their episodes (`StatefulRollout.anew`), and is not bitwise the same. What was left
of their episodes is lost, and what a store remembers of these ends there, as cut off.
"""

import atexit
from collections.abc import Callable
import dataclasses
import itertools
from typing import Any, NamedTuple, Protocol
import weakref

import jax
from jax.experimental import io_callback
import jax.numpy as jnp
import numpy as np

from rlx.envs.control.environment import Continuous, Discrete, Environment, Timestep
from rlx.errors import ConfigError
from rlx.types import Key


class Led(NamedTuple):
  """What one step of B environments led to, as NumPy arrays.

  Attributes:
    led_to: [B, ...] float32, observations in the episodes that the actions were in, also where they ended.
    observations: [B, ...] float32 that the next actions are for: of a new episode where one has ended.
    rewards: [B] float32.
    terminated: [B] bool.
    truncated: [B] bool, never where `terminated` is.
  """

  led_to: np.ndarray
  observations: np.ndarray
  rewards: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray


class Many(Protocol):
  """B environments side by side; what an adaptor makes."""

  def reset(self, seed: int) -> np.ndarray:
    """Begins an episode in each; [B, ...] float32 observations."""

  def step(self, actions: np.ndarray) -> Led:
    """One step of each; those whose episodes end begin again."""

  def close(self) -> None:
    """Ends them."""


class Host:
  """Opens environments, and steps them from inside a compiled program."""

  def __init__(self, make: Callable[[int], Many], observation_shape: tuple[int, ...], action_shape, dtype):
    """Opens nothing yet.

    Args:
      make: B -> B environments.
      observation_shape: of one observation.
      action_shape: of one action.
      dtype: of the actions.
    """
    self._make, self._shape, self._action = make, observation_shape, (action_shape, dtype)
    self._tickets = itertools.count(1)
    self._open: dict[int, Many] = {}
    self._idle: list[tuple[int, Many]] = []  # (B, environments) that were given back
    atexit.register(_close, weakref.ref(self))  # processes of environments keep this one from ending

  def reset(self, key: Key, num: int, player: Any = ()) -> tuple[jax.Array, jax.Array]:
    """Opens `num` environments at the start of an episode: tickets [num] and observations [num, ...].

    Under `vmap` there are as many for each member of `key` or of `player`.
    """
    seed = jax.random.bits(key, (), jnp.uint32) >> 1  # as many as an int32 has
    shapes = (jax.ShapeDtypeStruct((num,), jnp.int32), self._observations(num))
    whose = [jnp.ravel(leaf)[:1] for leaf in jax.tree.leaves(player)[:1]]
    return io_callback(lambda seed, *whose: self._begin(int(seed), num), shapes, seed, *whose)

  def step(self, tickets: jax.Array, actions: jax.Array) -> tuple[Timestep, jax.Array, jax.Array]:
    """One step of all environments of `tickets` [B].

    Returns:
      `(timestep, tickets, observations)`: the timestep is of the episode that the action was in; the
      observations are what the next actions are for.
    """
    num = tickets.shape[0]
    flags = jax.ShapeDtypeStruct((num,), jnp.bool_)
    shapes = (
        tickets, Led(self._observations(num), self._observations(num),
                     jax.ShapeDtypeStruct((num,), jnp.float32), flags, flags),
    )
    tickets, led = io_callback(self._step, shapes, tickets, actions.astype(self._action[1]))
    new = Timestep(
        state=tickets, observation=led.led_to, reward=led.rewards, terminated=led.terminated,
        truncated=led.truncated, info={},
    )
    return new, tickets, led.observations

  def give_back(self, tickets: jax.Array) -> None:
    """The environments of `tickets` [B] are done with: the next `reset` of as many takes them."""
    io_callback(self._give_back, None, tickets)

  def close(self) -> None:
    """Ends all environments."""
    for many in [*self._open.values(), *(many for _, many in self._idle)]:
      many.close()
    self._open, self._idle = {}, []

  def _observations(self, num: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((num, *self._shape), jnp.float32)

  def _begin(self, seed: int, num: int):
    idle = next((pair for pair in self._idle if pair[0] == num), None)
    if idle is not None:
      self._idle.remove(idle)
    many, ticket = self._make(num) if idle is None else idle[1], next(self._tickets)
    self._open[ticket] = many
    return np.full(num, ticket, np.int32), many.reset(seed)

  def _step(self, tickets, actions):
    tickets = np.asarray(tickets)
    return tickets, self._at(tickets).step(np.asarray(actions))

  def _give_back(self, tickets) -> None:
    tickets = np.asarray(tickets)
    many = self._at(tickets)
    del self._open[int(tickets[0])]
    self._idle.append((len(tickets), many))

  def _at(self, tickets: np.ndarray) -> Many:
    if (ticket := int(tickets[0])) not in self._open:
      raise RuntimeError(
          f'environments on the host with ticket {ticket} are not open in this process: the rollout that '
          'holds them cannot go on from a checkpoint'
      )
    return self._open[ticket]


def _close(host: weakref.ref) -> None:
  if (still_there := host()) is not None:
    still_there.close()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HostEnvironment(Environment):
  """An environment whose steps are taken on the host, many at a time; `reset` and `step` of one refuse.

  Attributes:
    host: where it runs.
  """

  host: Host


def on_host(
    make: Callable[[int], Many], *, observation_shape: tuple[int, ...], actions: Discrete | Continuous,
    random_return: float, expert_return: float,
) -> HostEnvironment:
  """The environment that `make` opens any number of.

  Args:
    make: B -> B environments side by side, with rlx's actions.
    observation_shape: of one observation.
    actions: what an agent may do.
    random_return: as of any environment.
    expert_return: likewise.
  """
  dtype = np.int32 if isinstance(actions, Discrete) else np.float32
  return HostEnvironment(
      reset=_refuse, step=_refuse, observation_shape=observation_shape, actions=actions,
      random_return=random_return, expert_return=expert_return,
      host=Host(make, observation_shape, actions.shape, dtype),
  )


def host_of(env: Environment) -> Host | None:
  """Where the environment runs; None for one of pure functions.

  Raises:
    ConfigError: a wrapper of pure functions was put around it, which its steps would not see.
  """
  if not isinstance(env, HostEnvironment):
    return None
  if env.reset is not _refuse or env.step is not _refuse:
    raise ConfigError(
        'this wrapper is for environments of pure functions; wrap a gymnasium environment with a wrapper of '
        'gymnasium, in a function that the id is registered with'
    )
  return env.host


def _refuse(*unused: Any):
  del unused
  raise ConfigError(
      'the environment runs on the host, many at a time, and this part steps single ones on the device; '
      'unroll, recurrent and the kinds of replay take it, as do the evaluations of episodes'
  )
