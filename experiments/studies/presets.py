"""Does the choice among policy gradients matter? All presets from the same models, at equal rollouts.

    python -m rlx.experiments.studies.presets --output=docs/studies/presets

Additions of numbers up to 30 with the quickstart's decoder (`:small`, 256 rows a step). The configs in
`experiments/configs/policy_gradient` begin from the same models, supervised and stopped early, and draw the
same noise, so that differences are paired by seed. Each is a population in one program. What a config without
a claim came to is written into its docstring. What was run is kept beside the page: the same command goes on,
and with other numbers of steps, seeds or problems everything is run anew.
"""

import json
from pathlib import Path
import time

import jax
import numpy as np

from rlx import config as configs
from rlx.experiments import results
from rlx.experiments.studies import common
from rlx.run import style

GRPO = 'grpo'
FAMILY = 'policy_gradient/{}_arithmetic'
NAMED = (  # presets, whose docstrings say what was seen here
    'cispo', 'clip_cov', 'dapo', 'deepseek_v32', 'dppo_tv', 'dr_grpo', 'dro', 'dual_clip', 'gmpo', 'gpg',
    'gspo', 'gspo_token', 'icepop', 'kl_cov', 'lite_ppo', 'luspo', 'maxrl', 'opo', 'optimal_token_baseline',
    'pass_at_k', 'ppo', 'reinforce', 'reinforce_plus_plus', 'reinforce_plus_plus_baseline',
    'reinforce_plus_plus_to_go', 'remax', 'rloo', 'sapo', 'truncated_importance', 'vespo',
)
SAMPLES = 8  # of a held-out problem


def get_config(name: str, *, steps: int, seeds: int, smoke: bool):
  """A preset's config at the study's size; `grpo` is the quickstart with two updates a batch."""
  path = 'quickstart/arithmetic' if name == GRPO else FAMILY.format(name)
  config = configs.load(f'{path}:{"smoke" if smoke else "small"}').unlock()
  if name == GRPO:
    config.updates.update(minibatches=2, microbatches=2)
  config.population.size = seeds
  if not smoke:
    config.steps, config.optimizer.decay_steps = steps, steps * config.updates.minibatches
    config.log.steps_per_dispatch = 10
    config.evals.held_out.every = config.checkpoint.every = 10
  return config


def main(argv: list[str] | None = None) -> None:
  """Runs what is not kept yet, and writes the page, its figure and the docstrings."""
  arguments = common.parser('presets', __doc__, steps=120, sft_steps=70).parse_args(argv)
  output = Path(arguments.output)
  kept = output.with_suffix('.json')
  settings = dict(steps=arguments.steps, seeds=arguments.seeds, smoke=arguments.smoke)
  asked = {**settings, **{name: getattr(arguments, name) for name in ('sft_steps', 'every', 'problems')}}
  found = json.loads(kept.read_text()) if kept.exists() else {}
  found = {name: one for name, one in found.items() if one['settings'] == asked}
  names = (GRPO, *NAMED)[: 2 if arguments.smoke else None]
  first = common.build(get_config(GRPO, **settings))
  with jax.set_mesh(first.mesh):
    models = common.supervised(first, arguments.sft_steps)
    for name in names:
      if name not in found:
        found[name] = {**_run(name, settings, models, arguments), 'settings': asked}
        output.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(common.in_lines(found))
        print(f'{name}: {common.spread(found[name]["greedy"][-1])}', flush=True)
  _write(output, found, arguments)
  for name in (x for x in NAMED if x in found and not arguments.smoke):
    results.rewrite(configs.find(FAMILY.format(name)), _sentence(found, name, arguments))


def _run(name: str, settings, models, arguments) -> dict:
  """A preset's curves [points, seeds] by name, and the CPU-seconds that they took."""
  began = time.process_time()
  run = common.build(get_config(name, **settings))
  measure = common.examine(run, problems=arguments.problems, samples=SAMPLES)
  _, curve = common.run_stage(run, 1, common.begin_stage(run, 1, models), measure, every=arguments.every)
  jax.clear_caches()
  values = {key: np.round(x, 4).tolist() for key, x in curve.values.items()}
  spent = round(time.process_time() - began)
  return {**values, 'updates': run.config.updates.minibatches, 'cpu_seconds': spent}


def _sentence(found, name: str, arguments) -> str:
  of = lambda name: common.spread(found[name]['greedy'][-1])
  return (
      f'held-out accuracy, median of {arguments.seeds} seeds (worst to best), after {arguments.steps} steps '
      f'at `:small`: {of(name)} %, GRPO from the same models {of(GRPO)} %; '
      '`python -m rlx.experiments.studies.presets`.'
  )


# --- the page -----------------------------------------------------------------------------------------------


def _write(output: Path, found, arguments) -> None:
  _draw(output.with_suffix('.png'), found)
  seconds = sum(x['cpu_seconds'] for x in found.values())
  head = PAGE.format(
      seeds=arguments.seeds, steps=arguments.steps, minutes=seconds / 60, figure=f'{output.name}.png',
      before=common.spread(found[GRPO]['greedy'][0]),
  )
  output.with_suffix('.md').write_text(head + ''.join(_row(found, name) for name in _ordered(found)))


def _ordered(found) -> list[str]:
  """By the mean over training, the best first."""
  return sorted(found, key=lambda name: -np.median(np.mean(found[name]['greedy'], axis=0)))


def _row(found, name: str) -> str:
  ends = {key: np.asarray(found[name][key][-1]) for key in ('greedy', f'pass@{SAMPLES}')}
  over = np.mean(found[name]['greedy'], axis=0)
  entropy = np.median(found[name]['train/policy/entropy'][-1])
  path = 'quickstart/arithmetic' if name == GRPO else FAMILY.format(name)
  link = f'[{name}](../../experiments/configs/{path}.py)'
  spreads = map(common.spread, (ends['greedy'], over, ends[f'pass@{SAMPLES}']))
  cells = [link, str(found[name]['updates']), *spreads, f'{entropy:.3f}', _beside(found, name)]
  return '| ' + ' | '.join(cells) + ' |\n'


def _beside(found, name: str) -> str:
  """How much more accurate than GRPO over training, seed by seed: mean and 95 % interval, in points."""
  if name == GRPO:
    return ''
  return common.gain(np.mean(found[name]['greedy'], axis=0) - np.mean(found[GRPO]['greedy'], axis=0))


def _draw(path: Path, found) -> None:
  """A line a preset: a dot a seed, and a bar at the median, of the accuracy at the end."""
  names = _ordered(found)[::-1]
  figure = style.figure(7, 0.24 * len(names) + 1)
  figure.set_layout_engine('constrained')
  panel = figure.subplots()
  style.axes(panel, size=9)
  for place, name in enumerate(names):
    ends = 100 * np.asarray(found[name]['greedy'][-1])
    panel.plot(ends, np.full(ends.shape, place), 'o', color=style.COLORS[0], markersize=3.5, alpha=0.6)
    panel.plot(np.median(ends), place, '|', color=style.TEXT, markersize=11, markeredgewidth=1.6)
  panel.set_yticks(range(len(names)), names, fontsize=8)
  label = 'held-out accuracy (greedy) at the end, per cent'
  panel.set_xlabel(label, fontsize=9.5, color=style.FAINT, loc='left')
  path.write_bytes(style.image(figure))


PAGE = """\
# Presets of the policy gradient

Written by `python -m rlx.experiments.studies.presets`; {seeds} seeds, {steps} steps of 256 rows,
{minutes:.0f} CPU-minutes in all.

Additions of numbers up to 30 with the quickstart's decoder (83 thousand parameters), groups of 8, no KL
unless the config says so. All begin from the same {seeds} models, supervised and stopped at {before} %
(median over seeds, smallest to largest), and draw the same noise. Of two updates a batch the second is off
policy.

![accuracy at the end]({figure})

Median over seeds (smallest to largest), in per cent; entropy in nats; beside GRPO the mean over training is
compared, seed by seed, with its 95 % interval (of five seeds such an interval is too narrow).

| config | updates a batch | at the end | mean over training | pass@8 | entropy | beside GRPO, points |
|---|---|---|---|---|---|---|
"""


if __name__ == '__main__':
  main()
