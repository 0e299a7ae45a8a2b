"""Will it fit? Parameters, bytes, and what the compiler says of each program, before anything runs."""

import jax

from rlx import sharding
from rlx.run import states, train
from rlx.run.stages import Run


def dry_run(run: Run) -> str:
  """A report in lines: per stage the sizes of the state and of the compiled train step.

  The programs are lowered and compiled on abstract values, on as many (possibly fake) devices as the mesh
  has. FLOPs are the compiler's estimate; it counts the body of a loop once, so that of a decoding loop or
  of `steps_per_dispatch` steps is a lower bound.

  Args:
    run: from `build`.
  """
  mesh = ' x '.join(f'{axis}={size}' for axis, size in run.mesh.shape.items())
  lines = [f'mesh        {mesh} ({jax.devices()[0].device_kind}), population {run.population}']
  with jax.set_mesh(run.mesh):
    for stage in run.stages:
      lines.append(f'stage {stage.name!r}: {stage.num_steps} steps')
      lines += _stage_lines(run, stage)
  return '\n'.join(lines)


def _stage_lines(run, stage) -> list[str]:
  state, frozen = states.abstract_state(run, run.stages.index(stage))
  place = lambda tree: sharding.state_shardings(tree, run.mesh, stage.axes)

  def line(label: str, tree, places) -> str:
    per_device = sharding.bytes_per_device(tree, places)
    return f'  {label:<22}{_millions(tree)} M numbers, {_mib(per_device)} a device'

  def of_models(models, what: str) -> list[str]:
    places = place(models)
    return [f'{line(name, models[name], places[name])} ({what})' for name in models]

  lines = of_models(state.params, 'trained') + of_models(state.slow, 'lagging')
  lines += of_models(frozen, 'frozen, in no checkpoint')
  lines.append(line('optimizer', state.opt_state, place(state.opt_state)))
  lines.append(line('whole state', state, place(state)))
  for program in train.trace(stage, state, frozen):
    lines += _program_lines(program.lower().compile())
  return lines


def _program_lines(compiled) -> list[str]:
  memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
  peak = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
  return [
      f'  {"program: temporaries":<22}{_mib(memory.temp_size_in_bytes)} a device',
      f'  {"program: in all":<22}{_mib(peak - memory.alias_size_in_bytes)} a device',
      f'  {"program: FLOPs":<22}at least {cost["flops"] / 1e9:.3f} G (loop bodies counted once)',
  ]


def _millions(tree) -> str:
  return f'{sum(leaf.size for leaf in jax.tree.leaves(tree)) / 1e6:.3f}'


def _mib(num_bytes: float) -> str:
  return f'{num_bytes / 2**20:.2f} MiB'
