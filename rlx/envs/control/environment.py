"""What a control environment is: two pure functions for one episode, in gymnasium's words.

`reset` begins an episode, `step` goes on with it. Both are written for a single environment and are vmapped
by the rollouts. An episode ends because the world says so (`terminated`: nothing comes after it, its value is
0) or because somebody stopped the clock (`truncated`: the value behind it counts). `with_time_limit` is the
clock. Environments never begin again by themselves: `step_or_reset` does, and keeps the observation that the
last step really led to, which is what a value is bootstrapped from. `conformance.py` checks all this for any
environment, yours too.
"""

from collections.abc import Callable
import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.types import Key

State = Any  # of an environment: a pytree of arrays


@dataclasses.dataclass(frozen=True)
class Discrete:
  """Actions 0, ..., num - 1, int32 []."""

  num: int

  @property
  def shape(self) -> tuple[int, ...]:
    return ()

  def sample(self, key: Key) -> jax.Array:
    """A uniformly random action."""
    return jax.random.randint(key, (), 0, self.num)

  @property
  def uniform_logprob(self) -> float:
    """Of an action that `sample` draws."""
    return -math.log(self.num)


@dataclasses.dataclass(frozen=True)
class Continuous:
  """Actions in [-1, 1]^size, float32 [size]; the environment scales them, and clips what is outside."""

  size: int

  @property
  def shape(self) -> tuple[int, ...]:
    return (self.size,)

  def sample(self, key: Key) -> jax.Array:
    """A uniformly random action."""
    return jax.random.uniform(key, (self.size,), minval=-1.0, maxval=1.0)

  @property
  def uniform_logprob(self) -> float:
    """The log-density of an action that `sample` draws."""
    return -self.size * math.log(2)


class Timestep(NamedTuple):
  """What an action led to.

  Attributes:
    state: of the environment, after the action.
    observation: [...] float32 of that state.
    reward: [] float32 for the action.
    terminated: [] bool, the episode is over and nothing would have come after it.
    truncated: [] bool, the episode is over because it was cut off.
    info: name -> [] float32 that is reported as `episode/name` when the episode ends, such as `success`.
  """

  state: State
  observation: jax.Array
  reward: jax.Array
  terminated: jax.Array
  truncated: jax.Array
  info: dict[str, jax.Array]

  @property
  def ended(self) -> jax.Array:
    return self.terminated | self.truncated


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Environment:
  """A control problem.

  Attributes:
    reset: `key -> (state, observation)`.
    step: `(state, action, key) -> Timestep`. The key is for what is random in the world.
    observation_shape: of one observation, float32.
    actions: what an agent may do.
    random_return: undiscounted return of uniformly random actions, where normalised scores are 0; NaN where
      nobody knows it, and then there are no scores.
    expert_return: undiscounted return of a good policy, where they are 100; likewise.
    draw: `state -> [H, W, 3] uint8`, a picture for people, in NumPy (`drawing.py`); None where there is none.
  """

  reset: Callable[[Key], tuple[State, jax.Array]]
  step: Callable[[State, jax.Array, Key], Timestep]
  observation_shape: tuple[int, ...]
  actions: Discrete | Continuous
  random_return: float
  expert_return: float
  draw: Callable[[State], np.ndarray] | None = None

  @property
  def is_scored(self) -> bool:
    """Whether returns have a scale."""
    return not math.isnan(self.random_return + self.expert_return)

  def score(self, undiscounted_return: jax.Array | float) -> jax.Array | float:
    """The return on the scale where random actions have 0 and a good policy 100."""
    return 100 * (undiscounted_return - self.random_return) / (self.expert_return - self.random_return)


def with_time_limit(env: Environment, max_steps: int) -> Environment:
  """The environment whose episodes are cut off (`truncated`) after `max_steps` steps.

  Raises:
    ValueError: `max_steps` is not positive.
  """
  if max_steps < 1:
    raise ValueError(f'max_steps={max_steps}: an episode has at least 1 step')

  def reset(key: Key):
    state, observation = env.reset(key)
    return (state, jnp.int32(0)), observation

  def step(state, action: jax.Array, key: Key) -> Timestep:
    inner, count = state
    new = env.step(inner, action, key)
    count = count + 1
    return new._replace(
        state=(new.state, count), truncated=new.truncated | ((count >= max_steps) & ~new.terminated)
    )

  return dataclasses.replace(env, reset=reset, step=step, draw=draw_inner(env))


def draw_inner(env: Environment) -> Callable[[State], np.ndarray] | None:
  """`draw` of an environment around another one, whose state is a tuple that begins with the inner state."""
  return None if env.draw is None else lambda state: env.draw(state[0])


def step_or_reset(
    env: Environment, state: State, action: jax.Array, key: Key
) -> tuple[Timestep, State, jax.Array]:
  """One step, and where the agent stands after it: at the start of a new episode if this one has ended.

  Returns:
    `(timestep, state, observation)`: the timestep is of the episode that the action was in, whether it ended
    or not; the state and the observation are what the next action is for.
  """
  step_key, reset_key = jax.random.split(key)
  new = env.step(state, action, step_key)
  fresh = env.reset(reset_key)
  state, observation = jax.tree.map(
      lambda a, b: jnp.where(new.ended, a, b), fresh, (new.state, new.observation)
  )
  return new, state, observation


def timestep(
    state: State, observation: jax.Array, reward: jax.Array, *, terminated: jax.Array | bool = False,
    **info: jax.Array,
) -> Timestep:
  """A `Timestep` that no clock has cut off, with the dtypes that the contract asks for."""
  return Timestep(
      state=state,
      observation=observation.astype(jnp.float32),
      reward=jnp.asarray(reward, jnp.float32),
      terminated=jnp.asarray(terminated, bool),
      truncated=jnp.zeros((), bool),
      info={name: jnp.asarray(value, jnp.float32) for name, value in info.items()},
  )
