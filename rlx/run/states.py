"""The state of a run at the start of each stage: made, or handed over from the stage before.

What a stage ends with goes on by name: models that a later stage wants, optimizer and world where the stage
keeps them for its next entry, memories that the next stage takes. The rest is let go.
"""

from collections.abc import Callable, Mapping
import functools
import math
from typing import Any
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from rlx import processes, sharding
from rlx.errors import ConfigError
from rlx.run.program import over_members
from rlx.run.stages import Run, Stage
from rlx.types import NO_MODELS, Key, Models, State


def begin(
    run: Run, entry: int, models: Models, at_step: int, frozen: Models = NO_MODELS,
    found: Mapping[str, Any] | None = None,
) -> State:
  """The state at the start of a stage, made directly in its shards; stacked for a population.

  Args:
    run: from `build`.
    entry: which of its stages.
    models: that those before hand on; empty for the first.
    at_step: train steps taken so far.
    frozen: of the stage, from `load_frozen`; not needed where it has none.
    found: `opt_state` and `world` as the stage left them when it was entered before; fresh ones if None.
  """
  stage, frozen = run.stages[entry], dict(frozen)
  loaded = stage.load({**models, **frozen}, run.mesh)
  if run.population > 1:
    loaded = jax.tree.map(lambda a: jnp.broadcast_to(a, (run.population, *a.shape)), loaded)
  make, copies, settle = _beginnings(run, stage)
  keys, run_keys, steps = _keys(run, entry, at_step)
  models = {**models, **loaded}
  if stage.missing({*models, *frozen}):
    models |= make(models, frozen, keys)
  if sources := stage.copied({*models, *frozen}):
    models |= copies({name: models[name] for name in sources.values() if name in models}, frozen)
  if found is None:
    own = {name: models[name] for name in stage.own if name not in frozen}
    opt_state, world = settle(own, frozen, keys)
    found = {'opt_state': opt_state, 'world': world}
  return State(
      step=steps, params={name: models[name] for name in stage.trained},
      slow={name: models[name] for name in stage.slow if name not in stage.frozen}, key=run_keys, **found,
  )


def hand_over(run: Run, entry: int, state: State, at_step: int, frozen: Models = NO_MODELS) -> State:
  """The state at the start of a stage that is not the first.

  Args:
    run: from `build`.
    entry: which of its stages.
    state: that the stage before ended with.
    at_step: train steps taken so far.
    frozen: of the stage, from `load_frozen`.
  """
  stage, found = run.stages[entry], _parked(run, entry, state).get(run.stages[entry].name)
  handed = _handed(run, entry, state, frozen)
  made = _with_luggage(run, entry, state, begin(run, entry, handed, at_step, frozen, found))
  if not (stage.takes and run.parks(entry - 1)):
    return made
  own = {name: jax.tree.map(jnp.copy, made.world[name]) for name in stage.takes}  # parked too, and donated
  return made.replace(world={**made.world, **own})


def _handed(run: Run, entry: int, state: State, frozen: Models) -> Models:
  """What the stages before hand on to one that wants it."""
  there = {**state.carried, **state.models}
  wanted = run.stages[entry].wants - set(frozen)
  return {name: model for name, model in there.items() if name in wanted}


def _parked(run: Run, entry: int, state: State) -> dict[str, Any]:
  """What earlier stages left for when they are entered again, with what the last one leaves."""
  left = run.stages[entry - 1]
  leaves = {left.name: {'opt_state': state.opt_state, 'world': state.world}} if run.parks(entry - 1) else {}
  return {**state.parked, **leaves}


def _with_luggage(run: Run, entry: int, before: State, state: State) -> State:
  """The state of a stage with what it takes from the one before, and what passes through to later ones."""
  stage, there = run.stages[entry], {**before.carried, **before.models}
  parked = {name: left for name, left in _parked(run, entry, before).items() if name != stage.name}
  return state.replace(
      world=_taken(stage, run.stages[entry - 1], before.world, state.world), parked=parked,
      carried={name: there[name] for name in sorted(run.carried(entry)) if name in there},
  )


def _taken(stage: Stage, left: Stage, before: Any, world: Any) -> Any:
  """The world of a stage with the memories that it takes from the stage before, in place of its own."""
  for name in stage.takes:
    if name not in before:
      raise ConfigError(
          f'stage {stage.name!r} takes {name!r}, but stage {left.name!r} remembers {sorted(before)}'
      )
    shapes = [jax.tree.map(lambda a: (a.shape, str(a.dtype)), x[name]) for x in (before, world) if name in x]
    if shapes[0] != shapes[-1]:
      raise ConfigError(
          f'stage {stage.name!r} takes {name!r}, which has other shapes in stage {left.name!r}: {shapes[0]}, '
          f'not {shapes[-1]}'
      )
    world = {**world, name: before[name]}
  return world


# Models begin in one program that runs once: on a CPU, compiling it so takes a quarter of the time, and the
# parameters are the same to the bit.
_ONCE = {'xla_backend_optimization_level': 1}


class _Placed:
  """A function whose results are made directly in their shards; compiled once for each kind of arguments."""

  def __init__(self, function: Callable, run: Run, options: Mapping[str, Any] | None):
    """Nothing is compiled yet; `options` are the compiler's, unless it is of no CPU or told to be quick."""
    self._function, self._run, self._compiled = lambda *given: _strong(function(*given)), run, {}
    is_cpu = run.mesh.devices.flat[0].platform == 'cpu'
    self._options = options if is_cpu and not jax.config.read('jax_disable_most_optimizations') else None

  def __call__(self, *arguments) -> Any:
    kind = jax.tree.structure(arguments)
    if kind not in self._compiled:
      shapes = jax.eval_shape(self._function, *arguments)
      places = sharding.state_shardings(shapes, self._run.mesh, self._run.axes)
      self._compiled[kind] = jax.jit(self._function, out_shardings=places, compiler_options=self._options)
    return self._compiled[kind](*arguments)


def _strong(tree: Any) -> Any:
  """The same arrays without the weak types that Python's numbers make. What leaves a train step has none: a
  state that began with one would have its stage compiled a second time."""
  is_key = lambda a: jnp.issubdtype(a.dtype, jax.dtypes.prng_key)
  return jax.tree.map(lambda a: a if is_key(a) else jnp.asarray(a, a.dtype), tree)


@functools.lru_cache(maxsize=32)
def _beginnings(run: Run, stage: Stage) -> tuple[_Placed, _Placed, _Placed]:
  """The functions that begin a stage, compiled once however often it is entered: models, copies, the rest."""
  make = lambda models, frozen, key: stage.make({**models, **frozen}, key)
  copies = lambda models, frozen: stage.copies({**models, **frozen})
  settle = lambda models, frozen, key: stage.settle({**models, **frozen}, key)
  functions = ((make, (0, None, 0), _ONCE), (copies, (0, None), None), (settle, (0, None, 0), None))
  return tuple(
      _Placed(over_members(function, run.population, axes), run, options)
      for function, axes, options in functions
  )


def gone_on(run: Run, entry: int, state: State) -> State:
  """A restored state with what its rollout could not save begun anew: environments on the host.

  Args:
    run: from `build`.
    entry: the stage that the state is in.
    state: as it was restored; its world is donated.
  """
  anew = run.stages[entry].rollout.anew

  def begun(world, key, step):
    return anew(world, jax.random.fold_in(jax.random.fold_in(key, zlib.crc32(b'anew') % 2**31), step))

  members = over_members(begun, run.population, (0, 0, 0))
  return state.replace(world=jax.jit(members, donate_argnums=0)(state.world, state.key, state.step))


def load_frozen(run: Run, entry: int, loaded: Models) -> Models:
  """The models of a stage that come from files and stay as they are; `loaded` are those of the one before."""
  stage = run.stages[entry]
  read = lambda name: stage.models[name].load(name, run.mesh)
  return {name: loaded[name] if name in loaded else read(name) for name in stage.frozen}


def _keys(run: Run, entry: int, at_step: int) -> tuple[Key, Key, jax.Array]:
  """The key for what begins in a stage, that of its noise, and its first step; [N] for a population.

  A stage that is entered again has other keys.
  """
  visit = run.visit(entry)

  def of_seed(seed: jax.Array) -> tuple[Key, Key]:
    begin_key, run_key = jax.random.split(jax.random.key(seed))
    fold = lambda key: jax.random.fold_in(key, visit) if visit else key
    return fold(begin_key), fold(run_key)

  seeds = run.config.seed + np.arange(run.population, dtype=np.uint32)
  if run.population == 1:
    made = (*of_seed(seeds[0]), jnp.int32(at_step))
  else:
    made = (*jax.vmap(of_seed)(seeds), jnp.full(run.population, at_step, jnp.int32))
  return processes.put(made, jax.sharding.NamedSharding(run.mesh, jax.sharding.PartitionSpec()))


def abstract_state(run: Run, entry: int) -> tuple[State, Models]:
  """Shapes, dtypes and shardings of the state in a stage, and of its frozen models; nothing is computed."""
  return _abstract_states(run)[entry]


def check_room(run: Run, entry: int) -> None:
  """Raises `ConfigError` where a stage and its models are more than a device has room for."""
  leaves = jax.tree.leaves_with_path(abstract_state(run, entry))
  needed = sharding.bytes_per_device([x for _, x in leaves], [x.sharding for _, x in leaves])
  room = sharding.memory_of(run.mesh.local_devices[0])
  if room is None or needed <= room:
    return
  path, largest = max(leaves, key=lambda leaf: math.prod(leaf[1].shape))
  name = jax.tree_util.keystr(path[1:], simple=True, separator='/')
  raise ConfigError(
      f'stage {run.stages[entry].name!r} begins with {needed / 1e9:,.1f} GB on each device, which has '
      f'{room / 1e9:,.1f}; its largest array is {name} {list(largest.shape)}: make models, stores or the '
      'population smaller, or split the weights over more devices (`--config.mesh.fsdp`)'
  )


@functools.lru_cache(maxsize=4)
def _abstract_states(run: Run) -> list[tuple[State, Models]]:
  """As `abstract_state`, of all stages."""
  state, found = None, []
  for entry, stage in enumerate(run.stages):
    make = lambda name, stage=stage: stage.models[name].model.init(jax.random.key(0), {})
    frozen = {name: jax.eval_shape(functools.partial(make, name)) for name in stage.frozen}
    handed = {} if state is None else _handed(run, entry, state, frozen)
    fresh = jax.eval_shape(functools.partial(_enter, run, stage), handed, frozen, *_keys(run, entry, 0))
    state = fresh if state is None else _with_luggage(run, entry, state, fresh)
    found.append((_placed(run, state), _placed(run, frozen)))
  return found


def _enter(run: Run, stage: Stage, models: Models, frozen: Models, key: Key, run_key: Key, at_step) -> State:
  """`stage.enter`, of all members, without the models that are in no state."""
  def enter(models, frozen, key, run_key, at_step):
    state = stage.enter({**models, **frozen}, key, run_key, at_step)
    return state.replace(slow={name: x for name, x in state.slow.items() if name not in stage.frozen})

  return over_members(enter, run.population, (0, None, 0, 0, 0))(models, frozen, key, run_key, at_step)


def _placed(run: Run, tree: Any) -> Any:
  place = lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)
  return jax.tree.map(place, tree, sharding.state_shardings(tree, run.mesh, run.axes))
