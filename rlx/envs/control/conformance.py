"""The contract of a control environment as one function that a test calls.

`check_environment(my_environment, num_steps=its_time_limit)` passes, or says in a sentence what is wrong. It
plays random actions, so it sees only what those lead to.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control.environment import Continuous, Discrete, Environment, State, Timestep
from rlx.errors import raised
from rlx.types import Key

_NUM_ENVS = 16
_STEPS_BEYOND = 4  # the time limit
OWN_METRICS = ('return', 'return_worst', 'length', 'unfinished', 'score')  # of episodes, beside `info`


class _Played(NamedTuple):
  """Random actions until some steps behind the time limit, all [T, B]."""

  states: State
  actions: jax.Array
  keys: jax.Array
  steps: Timestep  # what they led to
  other_keys: Timestep  # what the same states and actions lead to with other keys
  beyond: Timestep  # with the first keys, and actions beyond [-1, 1] where they are continuous
  clipped: Timestep  # with those actions clipped


def check_environment(env: Environment, *, num_steps: int) -> None:
  """Raises `ValueError` where an environment breaks the contract of `rlx.envs.control.environment`.

  Checked: shapes and dtypes, which are the same after reset and after a step; random numbers come from the
  keys; the same keys lead to the same steps, in one trace or another, alone or under `vmap`; all is finite up
  to the end of an episode; `terminated` and `truncated` are never both, and what lasts to the time limit is
  truncated there; an environment does not begin again by itself; actions outside of [-1, 1] act as clipped
  ones; what can be drawn gives pictures.

  An environment whose reset or step draws no random numbers is deterministic in it; one that draws them has
  to use the key that it is given, which is read off its program and not off a few samples.

  Args:
    env: any environment.
    num_steps: its time limit.
  Raises:
    ValueError: a property that does not hold.
  """
  reset_key, play_key = jax.random.split(jax.random.key(0))
  info = check_forms(env, reset_key)
  starts, played = _played(env, reset_key, play_key, num_steps)
  steps = played.steps
  names = sorted(steps.info)
  _require(names == info, f'info has {info} in one trace and {names} in another; its names do not change')
  _check_finite(starts, steps)
  _check_ends(steps, num_steps)
  _check_alone(env, played)
  _check_goes_on(starts, steps, played.other_keys)
  for name, free, clipped in _pairs(played.beyond, played.clipped):
    same = _close(free, clipped)
    _require(same, f'{name} differs between actions beyond [-1, 1] and the same ones clipped; clip in step')
  _check_pictures(env, played.states)


def _require(condition, message):
  if not condition:
    raise ValueError(message)


def _check_pictures(env: Environment, states: State) -> None:
  """The first and the last state of an environment, drawn."""
  if env.draw is None:
    return
  for place in (0, -1):
    picture = env.draw(jax.tree.map(lambda x: np.asarray(x)[place, 0], states))
    what = f'{getattr(picture, "dtype", type(picture))}{list(np.shape(picture))}'
    good = isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.shape[2:] == (3,)
    _require(good, f'draw gives {what}; it needs uint8 [H, W, 3] in NumPy')


def check_forms(env: Environment, key: Key) -> list[str]:
  """What can be told of an environment without computing anything; returns the names in `info`.

  Raises:
    ValueError: reset or step cannot be traced, or a shape or dtype is not what the contract says.
  """
  _require(isinstance(env, Environment), f'it is {_kind(env)}; it needs an Environment')
  good = isinstance(env.actions, Discrete | Continuous)
  _require(good, f'actions={env.actions!r}; it needs Discrete or Continuous')
  shape, ends = env.observation_shape, (env.random_return, env.expert_return)
  is_shape = isinstance(shape, tuple) and all(isinstance(n, int) for n in shape)
  _require(is_shape, f'observation_shape={shape!r}; it needs a tuple of integers')
  are_numbers = all(isinstance(x, Real) for x in ends)
  _require(are_numbers, f'random_return={ends[0]!r}, expert_return={ends[1]!r}; numbers, NaN if not known')
  _require(
      not env.is_scored or env.random_return < env.expert_return,
      f'random_return={env.random_return}, expert_return={env.expert_return}; an expert earns more',
  )
  reset, begun = _traced('reset', env.reset, key)
  _require(
      isinstance(begun, tuple) and len(begun) == 2,
      f'reset returns {_kind(begun)}; it needs (state, observation)',
  )
  state, observation = begun
  step, new = _traced('step', env.step, state, jax.eval_shape(env.actions.sample, key), key)
  _require(isinstance(new, Timestep), f'step returns {_kind(new)}; it needs a Timestep')
  _check_arrays({'the observation of reset': observation}, env.observation_shape, jnp.float32)
  _check_arrays({'the observation of step': new.observation}, env.observation_shape, jnp.float32)
  _check_arrays({'terminated': new.terminated, 'truncated': new.truncated}, (), jnp.bool_)
  for name in new.info:
    _require(isinstance(name, str), f'info has the key {name!r}; keys are names of metrics')
    _require(name not in OWN_METRICS, f'info[{name!r}] is the name of what rlx measures itself; take another')
  info = {f'info[{name!r}]': value for name, value in new.info.items()}
  _check_arrays({'reward': new.reward, **info}, (), jnp.float32)
  forms = [jax.tree.map(lambda x: f'{x.dtype}{x.shape}', tree) for tree in (state, new.state)]
  _require(forms[0] == forms[1], f'the state is {forms[0]} after reset and {forms[1]} after a step')
  _check_randomness('reset', reset)
  _check_randomness('step', step)
  return sorted(new.info)


def _traced(name: str, function: Callable, *args) -> tuple[Any, Any]:
  """The program of a function, and the shapes of what it returns."""
  try:
    return jax.make_jaxpr(function, return_shape=True)(*args)
  except Exception as error:  # of whoever wrote it, of JAX, or of a wrapper around something odd
    raise ValueError(f'{name} cannot be traced: {raised(error)}') from error


def _kind(x: Any) -> str:
  return 'nothing' if x is None else f'a {type(x).__name__}'


def _check_arrays(arrays, shape, dtype):
  for name, x in arrays.items():
    wanted = f'it needs {jnp.dtype(dtype)}{tuple(shape)}'
    _require(hasattr(x, 'shape'), f'{name} is {_kind(x)}; {wanted}')
    _require(x.shape == tuple(shape) and x.dtype == dtype, f'{name} is {x.dtype}{x.shape}; {wanted}')


def _check_randomness(name, program):
  """Who draws random numbers uses the key, which is the last argument."""
  key = program.jaxpr.invars[-1]
  used = any(key is x for equation in program.jaxpr.eqns for x in equation.invars)
  _require(
      used or 'random_bits' not in str(program),
      f'{name} draws random numbers, but not from the key that it is given',
  )


def _played(env, reset_key, play_key, num_steps) -> tuple[jax.Array, _Played]:
  """First observations [B, ...], and what follows."""

  @jax.jit
  def run():
    states, observations = jax.vmap(env.reset)(jax.random.split(reset_key, _NUM_ENVS))
    inputs = jax.random.split(play_key, (3, num_steps + _STEPS_BEYOND, _NUM_ENVS))
    _, played = jax.lax.scan(step, states, (jax.vmap(jax.vmap(env.actions.sample))(inputs[0]), *inputs[1:]))
    return observations, played

  def step(states, inputs):
    actions, keys, other_keys = inputs
    beyond, clipped = actions, actions
    if isinstance(env.actions, Continuous):
      beyond, clipped = 3 * actions, jnp.clip(3 * actions, -1, 1)
    # All four in one vmap, since to compile a step takes longer than to take it.
    variants = jax.vmap(jax.vmap(env.step), in_axes=(None, 0, 0))(
        states, jnp.stack([actions, actions, beyond, clipped]), jnp.stack([keys, other_keys, keys, keys])
    )
    steps = [jax.tree.map(lambda x: x[index], variants) for index in range(4)]
    return steps[0].state, _Played(states, actions, keys, *steps)

  return run()


def _pairs(steps: Timestep, others: Timestep):
  """(name, array, array) of what an agent gets to see of steps."""
  for name in ('observation', 'reward', 'terminated', 'truncated'):
    yield name, np.asarray(getattr(steps, name)), np.asarray(getattr(others, name))
  for name in steps.info:
    yield f'info[{name!r}]', np.asarray(steps.info[name]), np.asarray(others.info[name])


def _close(x, y):
  return np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True)


def _alive(steps) -> np.ndarray:
  """[T, B] bool, True up to the step that ends the first episode."""
  ended = np.asarray(steps.ended)
  return np.cumsum(ended, axis=0) - ended == 0


def _check_finite(starts, steps):
  _require(np.isfinite(starts).all(), 'the observation of reset is not finite')
  alive = _alive(steps)
  for name, x, _ in _pairs(steps, steps):
    bad = ~np.isfinite(x.reshape(*alive.shape, -1)).all(axis=-1) & alive
    _require(not bad.any(), f'{name} is not finite in {bad.sum()} of {alive.sum()} steps of random actions')


def _check_ends(steps, num_steps):
  terminated, truncated = np.asarray(steps.terminated), np.asarray(steps.truncated)
  both = (terminated & truncated).sum()
  _require(not both, f'{both} steps are terminated and truncated; what has ended cannot be cut off')
  lasting = _alive(steps)[num_steps - 1]
  if not lasting.any():
    return  # random actions do not live to see the clock
  ended = (terminated | truncated)[num_steps - 1]
  _require(ended[lasting].all(), f'an episode goes on after its time limit of {num_steps} steps')
  _require(
      truncated[num_steps - 1].any(),
      f'{lasting.sum()} episodes of {num_steps} steps are all terminated then; a time limit truncates',
  )
  late = np.cumsum(truncated, axis=0) > 0
  _require(
      (terminated | truncated | ~late).all(),
      'a step behind the time limit is not truncated: the episode has begun again by itself',
  )


def _check_alone(env, played: _Played):
  """The steps of the first environment, one by one in a trace of their own."""
  one = jax.tree.map(lambda x: x[:, 0], (played.states, played.actions, played.keys))
  alone = jax.jit(lambda inputs: jax.lax.map(lambda x: env.step(*x), inputs))(one)
  together = jax.tree.map(lambda x: x[:, 0], played.steps)
  for name, x, y in _pairs(alone, together):
    _require(_close(x, y), f'the same keys give another {name} when traced again, or alone and under vmap')


def _check_goes_on(starts, steps, other_keys):
  """A step that ends an episode shows where that led, and not the start of another one.

  A start is told by what it depends on: where a step's outcome does not depend on its key, that of the last
  step does not either; and where every episode begins alike, none ends with that sight.
  """
  ended, observations, starts = (np.asarray(x) for x in (steps.ended, steps.observation, starts))
  differs = (observations != np.asarray(other_keys.observation)).reshape(*ended.shape, -1).any(axis=-1)
  _require(
      differs[~ended].any() or not differs[ended].any(),
      'what a step leads to depends on the key only where it ends an episode: it begins another by itself',
  )
  last = observations[np.asarray(steps.terminated) & _alive(steps)]
  _require(
      not last.size or not (starts == starts[:1]).all() or (last != starts[:1]).any(),
      'episodes end with the sight that they begin with: a step begins another episode by itself',
  )
