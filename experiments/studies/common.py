"""What studies share: seeds side by side in one program, a number a seed at every evaluation, figures."""

import argparse
from collections.abc import Callable, Iterable, Mapping
import dataclasses
import hashlib
import itertools
import json
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import numpy as np

from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.evaluation import aggregates
from rlx.experiments.commands import EXIT_REQUEUE
from rlx.run import build as builder
from rlx.run import states, style, train
from rlx.run.stages import Run
from rlx.types import Models, State

RESULTS = Path(__file__).parents[2] / 'docs' / 'studies'


@dataclasses.dataclass(frozen=True)
class Curve:
  """What a variant did: arrays [points, seeds] by name, at the steps [points] of its last stage."""

  steps: np.ndarray
  values: Mapping[str, np.ndarray]


def run_stage(run: Run, index: int, state: State, measure: Callable, *, every: int) -> tuple[State, Curve]:
  """Trains a stage from a state, measuring its policies before it, after every so many steps and at its end.

  Args:
    run: of a population, or of one.
    index: of the stage.
    state: at its beginning; it is donated.
    measure: of `examine`.
    every: train steps between measurements; a multiple of the steps in a dispatch.
  """
  stage = run.stages[index]
  of_all = lambda tree: tree if run.population > 1 else jax.tree.map(lambda a: a[None], tree)
  look = lambda state: measure(of_all(state.models['policy']))
  steps, seen, done = [0], [look(state)], 0
  while done < stage.num_steps:
    state, metrics = stage.program.dispatch(state, stage.rollout.data, {})
    done += run.log.steps_per_dispatch
    if done % every == 0 or done == stage.num_steps:
      steps.append(done)
      now = {f'train/{name}': of_all(metrics[name])[:, -1] for name in TRACKED if name in metrics}
      seen.append({**look(state), **now})
  names = seen[-1].keys()
  column = lambda name: np.stack([np.asarray(x.get(name, seen[1][name])) for x in seen])
  return state, Curve(np.array(steps), {name: column(name) for name in names})


def run_in_turn(run: Run, index: int, models: Models, measure: Callable, *, every: int) -> Curve:
  """`run_stage` of a run that cannot be a population: from the models of one seed after the other.

  Args:
    run: of one; its program is compiled once.
    index: of the stage.
    models: [seeds, ...] at its beginning.
    measure: of `examine`.
    every: as there.
  """
  curves = []
  for seed in range(len(jax.tree.leaves(models)[0])):
    state = begin_stage(run, index, jax.tree.map(lambda a, seed=seed: a[seed], models))
    state = state.replace(key=jax.random.fold_in(state.key, seed))
    curves.append(run_stage(run, index, state, measure, every=every)[1])
  together = lambda name: np.concatenate([curve.values[name] for curve in curves], axis=1)
  return Curve(curves[0].steps, {name: together(name) for name in curves[0].values})


def from_the_same_models(
    configs: Mapping[Any, ConfigDict], arguments, *, samples: int, begun: ConfigDict | None = None
) -> tuple[dict, float]:
  """Trains the last of two stages by each config, all from the models that a supervised stage has left.

  Args:
    configs: by variant; of populations of the same shapes, or of one run each, which seeds then take in turn.
    arguments: of `parser`.
    samples: k of pass@k.
    begun: whose supervised stage it is, of a population; None for the first of `configs`.
  Returns:
    variant -> `Curve`, and the CPU-seconds that all took. They are kept beside the page, as .json: the same
    command goes on behind the last variant that it finished, and another config is run anew.
  """
  kept = Path(arguments.output).with_suffix('.json')
  kept.parent.mkdir(parents=True, exist_ok=True)
  found = json.loads(kept.read_text()) if kept.exists() else {}
  begun = next(iter(configs.values())) if begun is None else begun
  asked = {name: getattr(arguments, name) for name in ('sft_steps', 'every', 'problems')}
  digest = lambda config: _digest([asked, samples, begun.to_json(), config.to_json()])
  settings = {variant: digest(config) for variant, config in configs.items()}
  names = {variant: variant if isinstance(variant, str) else ', '.join(variant) for variant in configs}
  is_there = lambda v: found.get(names[v], {}).get('settings') == settings[v]
  found = {names[v]: found[names[v]] for v in configs if is_there(v)}

  def keep(variant, curve: Curve, spent: int) -> None:
    found[names[variant]] = {'settings': settings[variant], 'cpu_seconds': spent, **_as_lists(curve)}
    kept.write_text(_in_lines(found))
    print(f'{spent:6} CPU-s  {names[variant]}: {spread(curve.values["greedy"][-1])}', flush=True)

  if missing := {v: config for v, config in configs.items() if not is_there(v)}:
    _train(missing, begun, arguments, samples, keep)
  read = lambda one: Curve(np.array(one['steps']), {k: np.array(x) for k, x in one['values'].items()})
  seconds = sum(one['cpu_seconds'] for one in found.values())
  return {variant: read(found[name]) for variant, name in names.items()}, seconds


def _train(configs: Mapping[Any, ConfigDict], begun: ConfigDict, arguments, samples: int, keep: Callable):
  """Each config from the models that `begun` leaves; calls `keep(variant, curve, CPU-seconds)` after each."""
  began, first, every = time.process_time(), build(begun), arguments.every
  with jax.set_mesh(first.mesh):
    measure = examine(first, problems=arguments.problems, samples=samples)
    models = supervised(first, arguments.sft_steps)
    for variant, config in configs.items():
      run = build(config)
      if run.population > 1:
        _, curve = run_stage(run, 1, begin_stage(run, 1, models), measure, every=every)
      else:
        curve = run_in_turn(run, 1, models, measure, every=every)
      keep(variant, curve, round(time.process_time() - began))
      jax.clear_caches()  # of programs that are done with
      began = time.process_time()


def _digest(values: list) -> str:
  return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _as_lists(curve: Curve) -> dict:
  values = {name: np.round(x.astype(np.float64), 4).tolist() for name, x in curve.values.items()}
  return {'steps': curve.steps.tolist(), 'values': values}


def _in_lines(found: Mapping[str, Any]) -> str:
  """JSON with a line a variant."""
  lines = (f'{json.dumps(name)}: {json.dumps(one)}' for name, one in found.items())
  return '{' + ',\n'.join(lines) + '}\n'


TRACKED = ('policy/entropy', 'tokens/response_mean', 'rollout/policy_lag', 'correction/mean')


def begin_stage(run: Run, index: int, models, at_step: int = 0) -> State:
  """The states at the start of a stage, with the models that an earlier one trained (they are copied)."""
  return states.begin(run, index, jax.tree.map(jnp.copy, models), at_step)


def supervised(run: Run, steps: int) -> Models:
  """The models of the first stage after so many steps, whatever its stop rule."""
  stage = run.stages[0]
  state = begin_stage(run, 0, {})
  for _ in range(max(steps // run.log.steps_per_dispatch, 1)):
    state, _ = stage.program.dispatch(state, stage.rollout.data, {})
  return state.models


def build(config: ConfigDict) -> Run:
  """The run of a config, whose programs can be traced."""
  run = builder.build(config)
  train.check(run)
  return run


def examine(run: Run, *, problems: int, samples: int, shares: Callable = lambda completions: {}) -> Callable:
  """`params [seeds, ...] -> {greedy, sampled, pass@k}`, [seeds] each, on held-out problems; compiled.

  Args:
    run: its task checks completions itself.
    problems: how many.
    samples: k, completions of each that are sampled.
    shares: `completions [N, max_tokens] -> {name: bool [N]}`, kinds whose share of what is sampled is told.
  """
  task, model, decoding = run.task, run.stages[-1].models['policy'].model.functions, _decoding(run)

  def ask(params, how, group_size):
    asked = task.sample(jax.random.key(0), problems, True)
    batch = engine.sample(
        params, model, asked['prompts'], asked['prompt_lengths'], jax.random.key(1),
        group_size=group_size, decoding=how,
    )
    columns = {name: jnp.repeat(x, group_size, axis=0) for name, x in asked.items()}
    completions = engine.completions_of(batch, decoding)
    return completions, task.verify(columns, completions).reshape(problems, group_size)

  def measure(params):
    completions, right = ask(params, decoding, samples)
    return {
        **{name: x.mean(dtype=jnp.float32) for name, x in shares(completions).items()},
        'greedy': ask(params, decoding.greedy, 1)[1].mean(),
        'sampled': right.mean(),
        f'pass@{samples}': jnp.mean(right.max(axis=1)),
    }

  return jax.jit(jax.vmap(measure))


def _decoding(run: Run):
  config = run.config
  return Decoding(eos_ids=run.task.eos_ids, pad_id=run.task.pad_id, **config.decoding)


def spread(values: np.ndarray) -> str:
  """Median over seeds, and the smallest and largest: `91.2 (88.0 to 93.1)`, in per cent."""
  values = 100 * np.asarray(values)
  return f'{np.median(values):.1f} ({values.min():.1f} to {values.max():.1f})'


def gain(differences: np.ndarray) -> str:
  """What accuracy differs by, [seeds] shares: mean and 95 % interval, `+1.2 (+0.3 to +2.0)`, in points."""
  return interval(100 * np.asarray(differences), digits=1)


def interval(differences: np.ndarray, digits: int = 3) -> str:
  """Mean over seeds and its 95 % interval, of [seeds]: `+0.012 (+0.003 to +0.020)`."""
  values = np.asarray(differences)
  low, high = aggregates.bootstrap_interval(values[:, None], lambda x: x.mean((-2, -1)))
  return f'{values.mean():+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})'


def draw(path: Path, curves: Mapping[str, Curve], name: str, *, title: str, label: str) -> None:
  """Median over seeds with the range of all, a line a variant."""
  figure = style.figure(7, 4)
  figure.set_layout_engine('constrained')
  panel = figure.subplots()
  style.axes(panel, size=9.5)
  looks = itertools.product(('-', '--', ':'), style.COLORS)  # more variants than colors
  for (variant, curve), (dashes, color) in zip(curves.items(), looks, strict=False):
    values = curve.values[name]
    panel.plot(
        curve.steps, np.median(values, axis=1), dashes, label=variant, linewidth=1.6, color=color
    )
    style.band(panel, curve.steps, values.min(axis=1), values.max(axis=1), color)
  style.values_axis(panel, label, size=9.5)
  panel.set_title(title, fontsize=11, color=style.TEXT, loc='left')
  panel.set_xlabel('train step', fontsize=10.5, color=style.FAINT, loc='left')
  style.legend(panel, size=7)
  path.write_bytes(style.image(figure))


def parser(name: str, doc: str, *, steps: int, sft_steps: int, seeds: int = 5) -> argparse.ArgumentParser:
  """The command line that studies share; its defaults are those of the page in the repository."""
  options = argparse.ArgumentParser(prog=name, description=doc.splitlines()[0])
  options.add_argument('--output', default=str(RESULTS / name), help='of the page and its figure')
  options.add_argument('--seeds', type=int, default=seeds)
  options.add_argument('--steps', type=int, default=steps, help='of each variant')
  options.add_argument('--sft_steps', type=int, default=sft_steps, help='before')
  options.add_argument('--every', type=int, default=30, help='steps between measurements')
  options.add_argument('--problems', type=int, default=500, help='held out')
  options.add_argument('--smoke', action='store_true', help='seconds, learns nothing')
  return options


class Command:
  """A run of the command line, and what is changed of its config."""

  def __init__(self, config: str, argument: Mapping[str, Any], changes: Mapping[str, Any]):
    """Args: the config; its argument; the values that are changed, by their paths."""
    self._config = ':'.join(filter(None, (config, ','.join(f'{name}={x}' for name, x in argument.items()))))
    self._changes = changes

  def make(self, workdir: Path, *, stopped_once: bool = False) -> None:
    """Trains, unless it was done before.

    Args:
      workdir: where the run is kept.
      stopped_once: the first time it is stopped behind its first checkpoint, and started again.
    Raises:
      RuntimeError: it ended otherwise.
    """
    if (workdir / 'done').exists():
      return
    command = [
        str(Path(sys.executable).parent / 'rlx'), f'--config={self._config}', f'--workdir={workdir}',
        '--quiet', *(f'--config.{name}={value}' for name, value in self._changes.items()),
    ]
    stopped = workdir / 'stopped'
    if stopped_once and not stopped.exists():
      process = subprocess.Popen(command)
      while process.poll() is None and not any(workdir.glob('checkpoints/*[0-9]')):
        time.sleep(0.2)
      process.send_signal(signal.SIGTERM)
      if process.wait() not in (EXIT_REQUEUE, 0):
        raise RuntimeError(f'{workdir}: exit code {process.returncode}; see above')
      stopped.write_text(f'{process.returncode}\n')
    subprocess.run(command, check=True)
    (workdir / 'done').touch()


def evaluated(workdir: Path) -> Iterable[dict]:
  """Rows of a run's metrics that have an evaluation."""
  for line in (workdir / 'metrics.jsonl').read_text().splitlines():
    row = json.loads(line)
    if any(name.startswith('eval/') for name in row):
      yield row
