"""Does RL pick one of the formats that a model was taught, and what does that cost? Five seeds.

    python -m rlx.experiments.studies.formats --output=docs/studies/formats

Two-digit addition whose demonstrations are written in two ways: `85`, or `-58`, a mark and the digits in
reverse order. Both are right. A model learns a mixture of them from scratch, and then by rewards alone; what
is told is the share of each format among samples, accuracy, and pass@8.

The question is that of Echo Chamber (S011), https://arxiv.org/abs/2504.07912, on a toy.
"""

from pathlib import Path
import time

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.arithmetic import ALPHABET, arithmetic
from rlx.envs.text import Task
from rlx.experiments.configs.quickstart import arithmetic as quickstart
from rlx.experiments.studies import common
from rlx.types import Batch

MARK = '-'


def two_formats(*, max_operand: int, reversed_share: float, held_out_share: float) -> Task:
  """Sums whose solutions are plain, or a mark and the digits in reverse order.

  Args:
    max_operand: the largest operand; 10 is the smallest.
    reversed_share: of the demonstrations that are reversed.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  """
  plain = arithmetic(
      min_operand=10, max_operand=max_operand, operators='+', held_out_share=held_out_share
  )
  columns = plain.answer_columns + 1

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problem_key, format_key = jax.random.split(key)
    problems = plain.sample(problem_key, num, held_out)
    solutions = jnp.pad(problems['solutions'], ((0, 0), (0, 1)))
    backwards = _reversed(solutions)
    chosen = jax.random.uniform(format_key, (num, 1)) < reversed_share
    return {
        **problems, 'solutions': jnp.where(chosen, backwards, solutions), 'plain': solutions,
        'backwards': backwards,
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    ways = [text.matches(problems[name], completions) for name in ('plain', 'backwards')]
    return jnp.maximum(*ways)

  return Task(
      alphabet=ALPHABET, prompt_columns=plain.prompt_columns, answer_columns=columns, sample=sample,
      verify=verify,
  )


def _reversed(solutions: jax.Array) -> jax.Array:
  """[N, A] a mark, the digits backwards, the end."""
  lengths = jnp.argmax(solutions == text.EOS_ID, axis=1)[:, None]
  column = jnp.arange(solutions.shape[1])[None]
  digits = jnp.take_along_axis(solutions, jnp.clip(lengths - column, 0, solutions.shape[1] - 1), axis=1)
  mark = text.characters(MARK, ALPHABET)[0]
  written = jnp.where(column == 0, mark, jnp.where(column == lengths + 1, text.EOS_ID, digits))
  return jnp.where(column <= lengths + 1, written, text.PAD_ID)


def get_config(share: float, *, steps: int, seeds: int, smoke: bool):
  """The quickstart on both formats."""
  config = quickstart.get_config('smoke') if smoke else quickstart.get_config(steps=steps)
  config.population.size = seeds
  config.task = {
      'name': 'rlx.experiments.studies.formats.two_formats',
      'max_operand': 99,
      'reversed_share': share,
      'held_out_share': 0.1,
  }
  config.sft.task = config.task
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 5
  if not smoke:
    config.rollout.batch_size = 256
    config.updates.microbatches = 1
    config.log.steps_per_dispatch = 10
    config.evals.held_out.every = config.checkpoint.every = 10
  return config


def main(argv: list[str] | None = None) -> None:
  """Runs the study and writes a page and its figures."""
  parser = common.parser('formats', __doc__, steps=300, sft_steps=200)
  parser.add_argument('--shares', type=float, nargs='+', default=(0.1, 0.5, 0.9), help='of reversed ones')
  arguments = parser.parse_args(argv)
  began = time.monotonic()
  taught, curves = {}, {}
  for share in arguments.shares:
    run = common.build(
        get_config(share, steps=arguments.steps, seeds=arguments.seeds, smoke=arguments.smoke)
    )
    with jax.set_mesh(run.mesh):
      measure = common.examine(run, problems=arguments.problems, samples=8, shares=_shares)
      models = common.supervised(run, arguments.sft_steps)
      state = common.begin_stage(run, 1, models)
      _, curve = common.run_stage(run, 1, state, measure, every=arguments.every)
    name = f'{100 * share:.0f} % reversed'
    curves[name], taught[name] = curve, share
    reversed_ = common.spread(curve.values['reversed'][-1])
    print(f'{time.monotonic() - began:6.0f} s  {name}: {reversed_} reversed', flush=True)
  _write(Path(arguments.output), curves, arguments, time.monotonic() - began)


def _shares(completions: jax.Array) -> dict[str, jax.Array]:
  """Kinds of completions [N, C]."""
  return {'reversed': completions[:, 0] == text.characters(MARK, ALPHABET)[0]}


def _write(output: Path, curves, arguments, seconds: float) -> None:
  output.parent.mkdir(parents=True, exist_ok=True)
  figure = output.with_suffix('.png')
  common.draw(
      figure, curves, 'reversed', title='What becomes of a mixture of formats',
      label='share of samples that are reversed',
  )
  lines = []
  for name, curve in curves.items():
    first, last = ({key: x[i] for key, x in curve.values.items()} for i in (0, -1))
    single = np.maximum(last['reversed'], 1 - last['reversed'])
    numbers = (first['reversed'], last['reversed'], single)
    numbers += tuple(x[key] for key in ('sampled', 'pass@8') for x in (first, last))
    cells = [name, *map(common.spread, numbers)]
    lines.append('| ' + ' | '.join(cells) + ' |\n')
  page = PAGE.format(
      seeds=arguments.seeds, sft_steps=arguments.sft_steps, steps=arguments.steps, minutes=seconds / 60,
      figure=figure.name,
  )
  output.with_suffix('.md').write_text(page + ''.join(lines))


PAGE = """\
# What becomes of a mixture of formats

Written by `python -m rlx.experiments.studies.formats`; {seeds} seeds, {minutes:.0f} minutes on two CPU cores.

Two-digit addition, answered as `85` or as `-58`, a mark and the digits in reverse order; both are right. The
quickstart's decoder learns a mixture of the two for {sft_steps} supervised steps, then from rewards alone for
{steps} steps of GRPO (256 rows in groups of 8, no KL).

![share of reversed samples over training]({figure})

In per cent of samples on held-out problems at temperature 1: median over seeds (smallest to largest). The
single format is whichever of the two is more frequent at the end.

| taught | reversed, before | after | single format | right, before | after | pass@8, before | after |
|---|---|---|---|---|---|---|---|
"""


if __name__ == '__main__':
  main()
