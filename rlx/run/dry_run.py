"""Will it fit? Parameters, bytes, and what the compiler says of each program, before anything runs."""

import jax

from rlx import sharding
from rlx.run import costs, states, topologies, train
from rlx.run.stages import Run
from rlx.run.topologies import Topology

ASSUMED = (
    'times are the longest of computing, memory and links, each at its peak; no row ends early, and every '
    'row has the width of the longest'
)


def dry_run(run: Run, topology: Topology | None = None) -> str:
  """A report in lines: per stage the sizes of the state and of the compiled train step.

  The programs are lowered and compiled on abstract values, on as many (possibly fake) devices as the mesh
  has, or for devices that are not here. Loops count as often as they run (`costs.py`).

  Args:
    run: from `build`.
    topology: devices to compile for; those that are here if not given.
  Raises:
    ConfigError: the topology has another number of devices than the mesh, or its compiler is not installed.
  """
  mesh = run.mesh if topology is None else topologies.mesh_like(run.mesh, topology)
  sizes = ' x '.join(f'{axis}={size}' for axis, size in mesh.shape.items())
  lines = [f'mesh        {sizes} ({mesh.devices.flat[0].device_kind}), population {run.population}']
  for stage in run.stages:
    lines.append(f'stage {stage.name!r}: {stage.num_steps} steps')
    with train.explained(stage.name):
      lines += _stage_lines(run, stage, mesh, topology)
  return '\n'.join(lines if topology is None else [*lines, f'({ASSUMED})'])


def _stage_lines(run, stage, mesh, topology) -> list[str]:
  with jax.set_mesh(run.mesh):
    state, frozen = states.abstract_state(run, run.stages.index(stage))
  place = lambda tree: sharding.state_shardings(tree, run.mesh, stage.axes)

  def line(label: str, tree, places) -> str:
    per_device = sharding.bytes_per_device(tree, places)
    return f'  {label:<24}{_millions(tree)} M numbers, {_mib(per_device)} a device'

  def of_models(models, what: str) -> list[str]:
    places = place(models)
    return [f'{line(name, models[name], places[name])} ({what})' for name in models]

  lines = of_models(state.params, 'trained') + of_models(state.slow, 'lagging')
  lines += of_models(frozen, 'frozen, in no checkpoint')
  lines.append(line('optimizer', state.opt_state, place(state.opt_state)))
  lines.append(line('whole state', state, place(state)))
  with jax.set_mesh(mesh):  # where nothing may be computed: the devices need not be here
    traced = train.trace(stage, *(topologies.elsewhere(tree, mesh) for tree in (state, frozen)))
    platforms = None if topology is None else (topology.machine.platform,)
    compiled = [program.lower(lowering_platforms=platforms).compile() for program in traced]
  for index, program in enumerate(compiled):
    lines += _program_lines(program, index, len(compiled), topology)
  return lines


def _program_lines(compiled, index: int, number: int, topology: Topology | None) -> list[str]:
  memory = compiled.memory_analysis()
  peak = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
  peak -= memory.alias_size_in_bytes
  name = 'program' if number == 1 else f'program {index + 1}'
  line = lambda what, text: f'  {f"{name}: {what}":<24}{text}'
  lines = [
      line('temporaries', f'{_mib(memory.temp_size_in_bytes)} a device'),
      line('in all', f'{_mib(peak)} a device{_of_memory(peak, topology)}'),
  ]
  try:
    found = costs.read(compiled.as_text())
  except jax.errors.JaxRuntimeError as error:  # some programs of TPUs cannot be written out
    flops, reason = compiled.cost_analysis()['flops'] / 1e9, str(error).splitlines()[0]
    told = f'at least {flops:.3f} G a device, loop bodies counted once (no text of the program: {reason})'
    return [*lines, line('FLOPs', told)]
  return lines + [line(what, text) for what, text in _costs_told(found, topology).items()]


def _costs_told(found: costs.Costs, topology: Topology | None) -> dict[str, str]:
  sent = {kind: found.collective_bytes(kind) for kind in costs.COLLECTIVES}
  each = ', '.join(f'{kind} {_mib(size)}' for kind, size in sent.items() if size) or 'none'
  told = {
      'FLOPs': f'{found.flops / 1e9:.3f} G a device',
      'memory': f'{_mib(found.num_bytes)} read and written a device',
      'collectives': f'{each} received a device',
  }
  if topology is not None:
    seconds = topologies.roofline(found, topology)
    binding = max(seconds, key=seconds.get)
    each = ', '.join(f'{what} {time:.3g} s' for what, time in seconds.items())
    told['roofline'] = f'{seconds[binding]:.3g} s, bound by {binding} ({each})'
  return told


def _of_memory(peak: float, topology: Topology | None) -> str:
  if topology is None:
    return ''
  share = peak / topology.machine.memory
  return f', {share:.0%} of {topology.machine.memory / 1e9:.0f} GB' + (': does not fit' if share > 1 else '')


def _millions(tree) -> str:
  return f'{sum(leaf.size for leaf in jax.tree.leaves(tree)) / 1e6:.3f}'


def _mib(num_bytes: float) -> str:
  return f'{num_bytes / 2**20:.2f} MiB'
