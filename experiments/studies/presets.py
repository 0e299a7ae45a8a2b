"""Does the choice among policy gradients matter? All presets from the same models, at equal rollouts.

    python -m rlx.experiments.studies.presets --output=docs/studies/presets

Additions of numbers up to 30 with the quickstart's decoder (`:small`, 256 rows a step). The configs in
`experiments/configs/policy_gradient` begin from the same models, supervised and stopped early, and draw the
same noise, so that differences are paired by seed. Each is a population in one program. What a config without
a claim came to is written into its docstring. What was run is kept beside the page, and the same command goes
on behind it.
"""

from pathlib import Path

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
  settings = dict(steps=arguments.steps, seeds=arguments.seeds, smoke=arguments.smoke)
  names = (GRPO, *NAMED)[: 2 if arguments.smoke else None]
  runs = {name: get_config(name, **settings) for name in names}
  curves, seconds = common.from_the_same_models(runs, arguments, samples=SAMPLES)
  updates = {name: run.updates.minibatches for name, run in runs.items()}
  _write(Path(arguments.output), curves, updates, arguments, seconds)
  for name in (x for x in NAMED if x in curves and not arguments.smoke):
    results.rewrite(configs.find(FAMILY.format(name)), _sentence(curves, name, arguments))


def _sentence(curves, name: str, arguments) -> str:
  of = lambda name: common.spread(curves[name].values['greedy'][-1])
  return (
      f'held-out accuracy, median of {arguments.seeds} seeds (worst to best), after {arguments.steps} steps '
      f'at `:small`: {of(name)} %, GRPO from the same models {of(GRPO)} %; '
      '`python -m rlx.experiments.studies.presets`.'
  )


# --- the page -----------------------------------------------------------------------------------------------


def _write(output: Path, curves, updates, arguments, seconds: float) -> None:
  _draw(output.with_suffix('.png'), curves)
  head = PAGE.format(
      seeds=arguments.seeds, steps=arguments.steps, minutes=seconds / 60, figure=f'{output.name}.png',
      before=common.spread(curves[GRPO].values['greedy'][0]),
  )
  rows = ''.join(_row(curves, name, updates[name]) for name in _ordered(curves))
  output.with_suffix('.md').write_text(head + rows)


def _over(curves, name: str) -> np.ndarray:
  """[seeds] accuracy, averaged over all measurements."""
  return curves[name].values['greedy'].mean(axis=0)


def _ordered(curves) -> list[str]:
  """By the mean over training, the best first."""
  return sorted(curves, key=lambda name: -np.median(_over(curves, name)))


def _row(curves, name: str, updates: int) -> str:
  end = {key: x[-1] for key, x in curves[name].values.items()}
  path = 'quickstart/arithmetic' if name == GRPO else FAMILY.format(name)
  link = f'[{name}](../../experiments/configs/{path}.py)'
  spreads = map(common.spread, (end['greedy'], _over(curves, name), end[f'pass@{SAMPLES}']))
  # Beside GRPO over training, seed by seed.
  beside = '' if name == GRPO else common.gain(_over(curves, name) - _over(curves, GRPO))
  cells = [link, str(updates), *spreads, f'{np.median(end["train/policy/entropy"]):.3f}', beside]
  return '| ' + ' | '.join(cells) + ' |\n'


def _draw(path: Path, curves) -> None:
  """A line a preset: a dot a seed, and a bar at the median, of the accuracy at the end."""
  names = _ordered(curves)[::-1]
  figure = style.figure(7, 0.24 * len(names) + 1)
  figure.set_layout_engine('constrained')
  panel = figure.subplots()
  style.axes(panel, size=9)
  for place, name in enumerate(names):
    ends = 100 * curves[name].values['greedy'][-1]
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
