"""Which tricks matter? Scale of advantages x upper clip x mean of tokens, and an overlong filter, ten seeds.

    python -m rlx.experiments.studies.tricks --output=docs/studies/tricks

Two-digit addition with the quickstart's decoder. All variants begin from the same ten models (supervised,
stopped early) and draw the same noise, so that differences are paired by seed. Each variant is ten runs in
one program. Four updates a batch: with one, ratios are 1 and no clip does anything.

The question is that of Tricks or Traps (S182), https://arxiv.org/abs/2508.08221.
"""

import itertools
from pathlib import Path

import numpy as np

from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.studies import common

SCALES = {'group std': 'normalised', 'no std': 'centred', 'batch std': 'batch_scaled'}
CLIPS = {'0.2': 0.2, '0.28': 0.28}
MEANS = {'sequence': 'sequence_mean', 'token': 'token_mean'}
FILTERS = {'all rows': False, 'overlong out': True}
FACTORS = {'scale': SCALES, 'upper clip': CLIPS, 'mean': MEANS, 'rows': FILTERS}
GRPO, LITE = ('group std', '0.2', 'sequence', 'all rows'), ('batch std', '0.2', 'token', 'all rows')


def get_config(variant, *, steps: int, seeds: int, smoke: bool):
  """The quickstart with the parts of a variant."""
  scale, clip, mean, rows = variant
  config = arithmetic.get_config('smoke') if smoke else arithmetic.get_config(steps=steps)
  config.population.size = seeds
  config.updates = {'epochs': 1, 'minibatches': 4, 'microbatches': 1}
  config.evals.held_out.every = config.checkpoint.every = config.log.steps_per_dispatch
  if not smoke:
    config.rollout.batch_size = 256
    config.log.steps_per_dispatch = 10
    config.evals.held_out.every = config.checkpoint.every = 10
  reduction = {'name': f'reductions.{MEANS[mean]}'}
  if FILTERS[rows]:
    reduction = {'name': 'reductions.without_truncated', 'reduction': reduction}
  config.algorithm = {
      'name': 'policy_gradient',
      'baseline': {'name': f'advantages.groups.{SCALES[scale]}'},
      'weight': {'name': 'losses.weights.equal'},
      'level': {'name': 'losses.ratios.ratio'},
      'surrogate': {'name': 'losses.policy.clipped', 'clip_low': 0.2, 'clip_high': CLIPS[clip]},
      'reduction': reduction,
      'kl': {'name': 'no_kl'},
      'kl_estimator': {'name': 'losses.regularizers.kl_k3'},
      'entropy_coef': 0.0,
      'correction': {'name': 'losses.corrections.none'},
      'correction_level': {'name': 'losses.ratios.ratio'},
  }
  return config


def main(argv: list[str] | None = None) -> None:
  """Runs the study and writes a page and its figures."""
  arguments = common.parser('tricks', __doc__, steps=150, sft_steps=160, seeds=10).parse_args(argv)
  settings = dict(steps=arguments.steps, seeds=arguments.seeds, smoke=arguments.smoke)
  # The filter is tried on GRPO alone: hardly a row is too long here.
  variants = [v for v in itertools.product(*FACTORS.values()) if v[:3] == GRPO[:3] or v[3] == GRPO[3]]
  variants = variants[: 2 if arguments.smoke else None]
  configs = {variant: get_config(variant, **settings) for variant in variants}
  curves, seconds = common.from_the_same_models(configs, arguments, samples=8)
  _write(Path(arguments.output), curves, arguments, seconds)


def _write(output: Path, curves, arguments, seconds: float) -> None:
  output.parent.mkdir(parents=True, exist_ok=True)
  shown = {', '.join(v): c for v, c in curves.items() if v in (GRPO, LITE) or _differs_by_one(v)}
  figure = output.with_suffix('.png')
  common.draw(
      figure, shown, 'greedy', title='GRPO and its variants, one change at a time',
      label='held-out accuracy (greedy)',
  )
  begun = common.spread(next(iter(curves.values())).values['greedy'][0])
  page = PAGE.format(
      seeds=arguments.seeds, steps=arguments.steps, minutes=seconds / 60, figure=figure.name, before=begun
  )
  output.with_suffix('.md').write_text(page + _by_factor(curves) + VARIANTS + _all_variants(curves))


def _mean_over_training(curve) -> np.ndarray:
  """[seeds] accuracy, averaged over all measurements: how fast it was learnt."""
  return curve.values['greedy'].mean(axis=0)


def _by_factor(curves) -> str:
  """What changing one factor does, over all settings of the others."""
  lines = []
  for index, (name, levels) in enumerate(FACTORS.items()):
    base, *others = levels
    for other in others:
      changed = {v: (*v[:index], other, *v[index + 1 :]) for v in curves if v[index] == base}
      pairs = [(curves[new], curves[old]) for old, new in changed.items() if new in curves]
      if pairs:
        ends = np.array([new.values['greedy'][-1] - old.values['greedy'][-1] for new, old in pairs])
        areas = np.array([_mean_over_training(new) - _mean_over_training(old) for new, old in pairs])
        lines.append(f'| {name} | {base} -> {other} | {_points(ends)} | {_points(areas)} |\n')
  return ''.join(lines)


def _all_variants(curves) -> str:
  lines = []
  for variant, curve in sorted(curves.items(), key=lambda x: -np.median(_mean_over_training(x[1]))):
    end = {name: values[-1] for name, values in curve.values.items()}
    numbers = (end['greedy'], _mean_over_training(curve), end['sampled'], end['pass@8'])
    cells = [*variant, *map(common.spread, numbers), f'{np.median(end["train/policy/entropy"]):.3f}']
    lines.append('| ' + ' | '.join(cells) + ' |\n')
  return ''.join(lines)


def _differs_by_one(variant) -> bool:
  return sum(a != b for a, b in zip(variant, GRPO, strict=True)) == 1


def _points(differences: np.ndarray) -> str:
  """[settings, seeds]: mean with its interval over seeds, the furthest, and how often it was better."""
  furthest = 100 * differences.flat[np.abs(differences).argmax()]
  better = 100 * np.mean(differences > 0)
  return f'{common.gain(differences.mean(axis=0))}, furthest {furthest:+.1f}, better in {better:.0f} %'


PAGE = """\
# Which tricks matter?

Written by `python -m rlx.experiments.studies.tricks`; {seeds} seeds, {steps} steps,
{minutes:.0f} CPU-minutes.

The quickstart's decoder (83 thousand parameters) on two-digit addition, 256 rows in groups of 8, four updates
a batch, no KL, no entropy bonus. All variants begin from the same {seeds} models, supervised and stopped at
{before} % (median over seeds, smallest to largest), and draw the same noise.

![accuracy over training]({figure})

## By factor

The change of one factor, all others alike: differences in points of accuracy, averaged over the settings of
the others, their mean over seeds with its 95 % interval; the furthest of all settings and seeds, and how many
were better.

| factor | change | at the end | mean over training |
|---|---|---|---|
"""
VARIANTS = """
## All variants

Median over seeds (smallest to largest), in per cent; entropy in nats.

| scale | upper clip | mean | rows | greedy | mean over training | sampled | pass@8 | entropy |
|---|---|---|---|---|---|---|---|---|
"""


if __name__ == '__main__':
  main()
