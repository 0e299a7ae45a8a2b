"""What packing, slots and guesses cost in accuracy: GRPO with each of them, beside other random numbers.

    python -m rlx.experiments.studies.savings --output=docs/studies/savings

Additions of numbers up to 30 with the quickstart's small decoder. All begin from the same models and draw the
same noise: with exact arithmetic they would be the same runs, for a completion is decided by its key and its
number, wherever its row stands and whoever guesses its tokens. Sums are added in another order, so that runs
go apart by and by; how far they may, a run that draws other noise says.
"""

from pathlib import Path

import numpy as np

from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.studies import common

ROWS, GROUP, SLOTS = 256, 8, 64
PLAIN, CHANCE = 'rows as they are', 'other random numbers'
PACKED = {'packed_columns': 40, 'packed_rows': 16}  # four rows or so in one
GUESSED = {
    'name': 'guessed_completions', 'num_slots': SLOTS, 'ngram': 2, 'draft_tokens': 2, 'max_live': SLOTS
}
VARIANTS = {  # what is scored how, and sampled how
    PLAIN: ({}, {}),
    CHANCE: ({}, {}),
    'packed rows': (PACKED, {}),
    'packed rows, prompts shared': ({**PACKED, 'share_prompts': True}, {}),
    'slots': ({}, {'num_slots': SLOTS}),
    'guesses': ({}, GUESSED),
    'packed, shared, slots, guesses': ({**PACKED, 'share_prompts': True}, GUESSED),
}


def get_config(name: str, *, steps: int, seeds: int, smoke: bool):
  """The quickstart, scored and sampled as a variant does."""
  config = arithmetic.get_config(f'small=True,smoke={smoke}')
  score, rollout = VARIANTS[name]
  config.steps, config.population.size = steps, seeds
  config.seed = int(name == CHANCE)
  config.optimizer.decay_steps = max(steps - 20, 1)
  config.score.update(score)
  config.rollout.update({'batch_size': ROWS, 'group_size': GROUP, **rollout})
  config.updates.microbatches = 1
  config.log.steps_per_dispatch = config.evals.held_out.every = config.checkpoint.every = 2 if smoke else 10
  return config


def main(argv: list[str] | None = None) -> None:
  """Runs the study and writes a page and its figure."""
  arguments = common.parser('savings', __doc__, steps=150, sft_steps=100).parse_args(argv)
  settings = dict(steps=arguments.steps, seeds=arguments.seeds, smoke=arguments.smoke)
  configs = {name: get_config(name, **settings) for name in list(VARIANTS)[:: 3 if arguments.smoke else 1]}
  curves, seconds = common.from_the_same_models(configs, arguments, samples=GROUP)
  write(Path(arguments.output), curves, arguments, seconds)


def write(output: Path, curves, arguments, seconds: float) -> None:
  """The page and its figure, from the curve of each variant."""
  output.parent.mkdir(parents=True, exist_ok=True)
  figure = output.with_suffix('.png')
  common.draw(
      figure, curves, 'greedy', title='The same runs, computed in other ways',
      label='held-out accuracy (greedy)',
  )
  page = PAGE.format(
      seeds=arguments.seeds, steps=arguments.steps, minutes=seconds / 60, every=arguments.every,
      figure=figure.name, before=common.spread(curves[PLAIN].values['greedy'][0]), rows=ROWS, slots=SLOTS,
  )
  output.with_suffix('.md').write_text(page + ''.join(_row(curves, name) for name in curves))


def _row(curves, name: str) -> str:
  accuracy, plain = (curves[x].values['greedy'] for x in (name, PLAIN))
  cells = [name, common.spread(accuracy[-1])]
  for difference in (accuracy[1] - plain[1], accuracy[-1] - plain[-1], (accuracy - plain).mean(axis=0)):
    cells.append('' if name == PLAIN else _points(difference))
  return '| ' + ' | '.join(cells) + ' |\n'


def _points(difference: np.ndarray) -> str:
  """The mean over seeds with its 95 % interval, in points, and the furthest of them."""
  furthest = 100 * difference[np.abs(difference).argmax()]
  return f'{common.gain(difference)}, furthest {furthest:+.1f}'


PAGE = """\
# What packing, slots and guesses cost

Written by `python -m rlx.experiments.studies.savings`; {seeds} seeds, {steps} steps of {rows} rows,
{minutes:.0f} CPU-minutes.

GRPO on additions of numbers up to 30 with the quickstart's small decoder, from the same {seeds} models,
supervised until {before} % (median over seeds, smallest to largest) are right. With exact arithmetic all but
the second line would be the same runs: rows that are scored in packed rows or with the prompt of their group,
decoded in {slots} slots or with guesses of n-grams, are the same rows, drawn by the same keys. Sums are added
in another order, a token falls the other way now and then, and runs go apart. How far that may lead by
chance, the second line says: rows as they are, with other random numbers, from the same models.

![accuracy over training]({figure})

Held-out accuracy in per cent, median over seeds (smallest to largest); beside rows as they are, points of
accuracy, seed by seed: their mean with its 95 % interval, and the seed that is furthest away. "Early" is
after {every} steps.

| | at the end | early | at the end | mean over training |
|---|---|---|---|---|
"""


if __name__ == '__main__':
  main()
