"""How old may samples be, and what helps? Age in train steps x bound of the ratio x correction, ten seeds.

    python -m rlx.experiments.studies.staleness --output=docs/studies/staleness

Two-digit addition with the quickstart's decoder: four updates on each batch, which policies of `lag` train
steps before drew. What the literature does about it are two things, taken apart here: the ratio is clipped
about the policy at the start of the train step instead of the one that sampled, and a weight makes up for how
the two differ. AReaL (S087), https://arxiv.org/abs/2505.24298, does both; other weights are cut off at a
bound, or are of whole rows. All begin from the same ten models.
"""

from pathlib import Path

import numpy as np

from rlx.experiments.configs.systems import areal_arithmetic
from rlx.experiments.studies import common

LAGS = (1, 4, 8)
FRESH = 'fresh'
CORRECTIONS = {
    'none': {'name': 'losses.corrections.none'},
    'clipped about the newer policy': {
        'name': 'losses.corrections.truncated', 'ratio_min': 1.0, 'ratio_max': 1.0
    },
    'and weighed, at most 2': {'name': 'losses.corrections.truncated', 'ratio_max': 2.0},
    'and weighed, 0 above 5': {'name': 'losses.corrections.masked', 'ratio_min': 0.0, 'ratio_max': 5.0},
    'and rows weighed, 0 above 3': {'name': 'losses.corrections.masked', 'ratio_min': 0.0, 'ratio_max': 3.0},
}
OF_ROWS = 'and rows weighed, 0 above 3'
AGES = {'0.2': LAGS, '0.05': LAGS[-1:]}  # by the ratio's bound: GRPO's, and of `systems/areal_arithmetic`
VARIANTS = tuple(
    (bound, age, name) for bound, lags in AGES.items()
    for age, name in ((FRESH, 'none'), *((f'{lag} old', name) for lag in lags for name in CORRECTIONS))
)


def get_config(variant, *, steps: int, smoke: bool):
  """Samples of a variant's age, and its objective."""
  bound, age, correction = variant
  lag = 0 if age == FRESH else int(age.split()[0])
  config = areal_arithmetic.get_config(f'smoke={smoke},lag={lag}')
  config.steps = steps
  config.algorithm.surrogate.update(clip_low=float(bound), clip_high=float(bound))
  config.algorithm.correction = CORRECTIONS[correction]
  if correction == OF_ROWS:
    config.algorithm.correction_level = {'name': 'losses.ratios.sequence_product'}
  if not smoke:
    config.log.steps_per_dispatch = config.evals.held_out.every = config.checkpoint.every = 50
  return config


def main(argv: list[str] | None = None) -> None:
  """Runs the study and writes a page and its figure."""
  options = common.parser('staleness', __doc__, steps=200, sft_steps=160, seeds=10)
  options.set_defaults(every=50)
  arguments = options.parse_args(argv)
  variants = VARIANTS[: 3 if arguments.smoke else None]
  configs = {v: get_config(v, steps=arguments.steps, smoke=arguments.smoke) for v in variants}
  begun = areal_arithmetic.get_config('smoke' if arguments.smoke else '')
  del begun.sampling
  begun.population.size = arguments.seeds
  curves, seconds = common.from_the_same_models(configs, arguments, samples=8, begun=begun)
  write(Path(arguments.output), curves, arguments, seconds)


def write(output: Path, curves, arguments, seconds: float) -> None:
  """The page and its figure, from the curve of each variant."""
  bound, oldest = VARIANTS[0][0], f'{LAGS[-1]} old'
  shown = {', '.join(v[1:]): x for v, x in curves.items() if v[0] == bound and v[1] in (FRESH, oldest)}
  common.draw(
      output.with_suffix('.png'), shown, 'greedy', title=f'Old samples, bound {bound}',
      label='held-out accuracy (greedy)',
  )
  page = PAGE.format(
      seeds=arguments.seeds, steps=arguments.steps, minutes=seconds / 60, figure=f'{output.stem}.png',
      before=common.spread(next(iter(curves.values())).values['greedy'][0]),
  )
  output.with_suffix('.md').write_text(page + ''.join(_row(curves, variant) for variant in curves))


def _row(curves, variant) -> str:
  fresh, values = curves[variant[0], FRESH, 'none'].values['greedy'], curves[variant].values
  beside = '' if variant[1] == FRESH else common.gain(values['greedy'][-1] - fresh[-1])
  over = '' if variant[1] == FRESH else common.gain((values['greedy'] - fresh).mean(axis=0))
  entropy = f'{np.median(values["train/policy/entropy"][-1]):.3f}'
  return '| ' + ' | '.join([*variant, common.spread(values['greedy'][-1]), beside, over, entropy]) + ' |\n'


PAGE = """\
# Old samples, and what is done about them

Written by `python -m rlx.experiments.studies.staleness`; {seeds} seeds, {steps} steps, {minutes:.0f}
CPU-minutes.

GRPO on two-digit addition with the quickstart's decoder, four updates on each batch of 256 rows, the mean
over tokens. Batches were drawn by the policy of so many train steps before (the first ones of every 50 steps
are younger: the age grows from 0). All begin from the same {seeds} models, supervised until {before} %
(median over seeds, smallest to largest) are right. Without a correction the ratio is that to the policy which
sampled, and clipped about it; with one it is clipped about the policy at the start of the train step, alone
or weighed by the ratio of these two, of tokens or of whole rows.

![accuracy over training]({figure})

Held-out accuracy in per cent, median over seeds (smallest to largest); beside fresh samples with the same
bound, points of accuracy seed by seed: their mean with its 95 % interval. Entropy in nats, at the end.

| bound | age | correction | at the end | beside fresh | mean over training, beside fresh | entropy |
|---|---|---|---|---|---|---|
"""


if __name__ == '__main__':
  main()
