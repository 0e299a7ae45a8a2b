"""Environments of EnvPool, https://github.com/sail-sg/envpool, which is imported when one is asked for.

EnvPool spends a step on a reset (gymnasium's *next step*). Here the environments whose episodes have ended
are reset at once, alone, by their numbers, so that every row is a transition.
"""

from collections.abc import Callable
import functools
import math

import numpy as np

from rlx.envs.control.adaptors.gymnasium import spaces_of
from rlx.envs.control.host import HostEnvironment, Led, on_host
from rlx.errors import ConfigError
from rlx.names import imported


def from_envpool(
    *, problem: str, random_return: float = math.nan, expert_return: float = math.nan
) -> HostEnvironment:
  """Environments of EnvPool, in its threads, with the limit on steps that is its own.

  Args:
    problem: EnvPool's name for it; observations and actions as for `from_gymnasium`.
    random_return: of random actions, for scores; left out where it is not known.
    expert_return: of a good policy, likewise.
  Raises:
    ConfigError: EnvPool is not installed or does not know the name, or spaces are of another kind.
  """
  envpool = imported('envpool', extra='envpool', who=f'envpool:{problem}')
  gymnasium = imported('gymnasium', extra='envpool', who=f'envpool:{problem}')
  if problem not in envpool.list_all_envs():
    raise ConfigError(f'envpool:{problem} is not known to EnvPool; envpool.list_all_envs() says what is')
  make = functools.partial(envpool.make, problem, env_type='gymnasium')
  spec = envpool.make_spec(problem)
  shape, ours, to_theirs = spaces_of(
      gymnasium.spaces, f'envpool:{problem}', spec.gymnasium_observation_space, spec.gymnasium_action_space
  )
  return on_host(
      lambda num: _Many(make, num, to_theirs), observation_shape=shape, actions=ours,
      random_return=random_return, expert_return=expert_return,
  )


class _Many:
  """Environments of EnvPool as `host.Many`."""

  def __init__(self, make, num: int, to_theirs: Callable[[np.ndarray], np.ndarray]):
    self._make, self._num, self._to_theirs, self._envs = make, num, to_theirs, None

  def reset(self, seed: int) -> np.ndarray:
    """As `host.Many`; EnvPool is seeded when it is made."""
    self.close()
    self._envs = self._make(num_envs=self._num, seed=seed)
    return np.asarray(self._envs.reset()[0], np.float32)

  def step(self, actions: np.ndarray) -> Led:
    """As `host.Many`."""
    led_to, rewards, terminated, truncated, info = self._envs.step(self._to_theirs(actions))
    led_to = np.array(led_to, np.float32)
    terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
    observations, ended = led_to, np.flatnonzero(terminated | truncated)
    if ended.size:
      fresh, said = self._envs.reset(ended.astype(np.int32))
      observations = led_to.copy()
      observations[said['env_id']] = fresh
    return Led(
        led_to=led_to, observations=observations, rewards=np.array(rewards, np.float32),
        terminated=terminated, truncated=truncated & ~terminated,
    )

  def close(self) -> None:
    """As `host.Many`."""
    if self._envs is not None:
      self._envs.close()
