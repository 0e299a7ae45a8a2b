"""Losses of preferences from several starts, with few comparisons and many: a table from one command.

    python -m rlx.experiments.studies.starts --output=docs/studies/starts

DPO, IPO, KTO and CPO begin from a base model, from one that has learnt demonstrations for the same prompts
(SFT), or from one that has learnt demonstrations for other prompts (instructed), and learn from the same
comparisons of the base model's answers. Worlds and measures are those of `rlx/envs/gold.py`.

Source of the question: S147, https://arxiv.org/abs/2404.14723, with language models on benchmarks.
"""

import argparse
from collections.abc import Mapping
import functools
from pathlib import Path
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx.envs import gold
from rlx.experiments.studies import common
from rlx.experiments.studies.preferences import BETA, METHODS
from rlx.run import style
from rlx.step import make_train_step, repeat
from rlx.types import Batch, State

POLICY = gold.LogLinear()
LOSSES = ('DPO', 'IPO', 'KTO', 'CPO')
STARTS = ('base', 'SFT', 'instructed')
PROMPTS = 32  # and as many others, for which the instructed model has seen demonstrations
WORLD = dict(num_prompts=2 * PROMPTS, num_answers=16, width=16, hump=1.5, hidden=0.5, spread=1.0)
SIZES = (32, 128, 512)  # comparisons
SHARPNESS = 1.0  # of labels
EXPERT, SHOWN, SFT_STEPS = 1.0, 4, 100  # its price of a nat; demonstrations a prompt; steps
ROWS = 64  # of a batch


def halves(world: gold.World) -> tuple[gold.World, gold.World]:
  """The prompts that comparisons are about, and the others."""
  return (jax.tree.map(lambda x: x[:PROMPTS], world), jax.tree.map(lambda x: x[PROMPTS:], world))


def sft(world: gold.World, key: jax.Array, *, steps: int, rate: float) -> jax.Array:
  """θ [D] of the base model after demonstrations of an expert for each of a world's prompts."""
  expert = gold.best(world, world.gold, beta=EXPERT)
  answers = jax.random.categorical(key, expert, shape=(SHOWN, len(expert))).T
  optimizer, params = optax.adam(rate), POLICY.init(world)

  def nll(theta):
    return -jnp.mean(jnp.take_along_axis(POLICY.logprobs({**params, 'theta': theta}), answers, axis=1))

  def step(carry, _):
    theta, memory = carry
    updates, memory = optimizer.update(jax.grad(nll)(theta), memory)
    return (theta + updates, memory), None

  begin = (params['theta'], optimizer.init(params['theta']))
  return jax.lax.scan(step, begin, None, length=steps)[0][0]


def started(world: gold.World, key: jax.Array, *, rate: float) -> gold.World:
  """[3] the world of the comparisons with each of `STARTS` in the place of its base model."""
  mine, others = halves(world)
  keys = jax.random.split(key)
  learnt = functools.partial(sft, steps=SFT_STEPS, rate=rate)
  thetas = (jnp.zeros(WORLD['width']), learnt(mine, keys[0]), learnt(others, keys[1]))
  bases = [POLICY.logprobs({'theta': theta, 'world': mine}) for theta in thetas]
  return jax.tree.map(lambda *x: jnp.stack(x), *(mine.replace(base=base) for base in bases))


def recorded(models, memory, key):
  """Some of the first comparisons that there are, drawn by chance; how many is `size`."""
  del models
  pairs = jax.random.randint(key, (ROWS // 2,), 0, memory['data']['size'])
  rows = (2 * pairs[:, None] + jnp.arange(2)[None]).reshape(-1)
  batch: Batch = {name: x[rows] for name, x in memory['data']['rows'].items()}
  return {**batch, 'groups': jnp.arange(ROWS) // 2}, {}


def learnt(name: str, worlds: gold.World, data: Batch, *, steps: int, rate: float) -> jax.Array:
  """[starts, sizes, seeds, X, K] log-probs of policies after a loss.

  Args:
    name: of `LOSSES`.
    worlds: [seeds, starts] of `started`.
    data: [seeds, 2N, ..] comparisons, of which the smaller sizes see the first.
    steps: of Adam.
    rate: of learning.
  """
  optimizer = optax.adam(rate)
  step = repeat(
      make_train_step(METHODS[name].make(recorded), optimizer, epochs=1, minibatches=1, microbatches=1), steps
  )

  def one(world, size, rows, key):
    params = {'policy': POLICY.init(world)}
    state = State(
        step=jnp.int32(0), params=params, slow={'reference': params['policy']},
        opt_state=optimizer.init(params), world={}, key=key,
    )
    state, _ = step(state, {'rows': rows, 'size': size})
    return POLICY.logprobs(state.params['policy'])

  over_seeds = jax.vmap(one, (0, None, 0, 0))
  over_sizes = jax.vmap(over_seeds, (None, 0, None, None))
  over_starts = jax.vmap(over_sizes, (1, None, None, None))
  keys = jax.random.split(jax.random.key(3), len(worlds.gold))
  return jax.jit(over_starts)(worlds, jnp.array(SIZES), data, keys)


def main(argv: list[str] | None = None) -> None:
  """Runs the study and writes a page and its figure."""
  arguments = _parser().parse_args(argv)
  began, seeds, rate = time.monotonic(), arguments.seeds, arguments.rate
  keys = jax.random.split(jax.random.key(0), seeds)
  whole = jax.vmap(functools.partial(gold.gold_world, **WORLD))(keys)
  worlds = jax.jit(jax.vmap(functools.partial(started, rate=rate)))(whole, keys)  # [seeds, starts]
  base = jax.vmap(lambda world: halves(world)[0])(whole)
  label = functools.partial(gold.labelled, num=max(SIZES), sharpness=SHARPNESS)
  data = jax.jit(jax.vmap(label))(base, jax.random.split(jax.random.key(1), seeds))
  gains = jax.jit(jax.vmap(gold.gain))  # over the base model
  found = {'before': np.stack([[gains(base, worlds.base[:, k])] * len(SIZES) for k in range(len(STARTS))])}
  for name in arguments.losses:
    logprobs = learnt(name, worlds, data, steps=arguments.steps, rate=rate)
    found[name] = np.array([[gains(base, x) for x in of_start] for of_start in logprobs])
    print(f'{time.monotonic() - began:5.0f} s  {name}', flush=True)
  _write(Path(arguments.output), found, arguments, time.monotonic() - began)


def _write(output: Path, found: Mapping[str, np.ndarray], arguments, seconds: float) -> None:
  output.parent.mkdir(parents=True, exist_ok=True)
  _draw(output.with_suffix('.png'), found)
  cell = lambda x: f'{np.median(x):.2f} ({x.min():.2f} to {x.max():.2f})'
  lines = [
      f'| {start} | {name} | ' + ' | '.join(cell(gains[k, i]) for i in range(len(SIZES))) + ' |\n'
      for k, start in enumerate(STARTS) for name, gains in found.items()
  ]
  page = PAGE.format(
      seeds=arguments.seeds, steps=arguments.steps, prompts=PROMPTS, seconds=seconds, beta=BETA, shown=SHOWN,
      expert=EXPERT, figure=output.with_suffix('.png').name, sizes=' | '.join(map(str, SIZES)),
      rule='|'.join(['---'] * (2 + len(SIZES))), **{k: v for k, v in WORLD.items() if k != 'num_prompts'},
  )
  output.with_suffix('.md').write_text(page + ''.join(lines))


def _draw(path: Path, found: Mapping[str, np.ndarray]) -> None:
  figure = style.figure(9, 3)
  for k, (start, axes) in enumerate(zip(STARTS, figure.subplots(1, len(STARTS), sharey=True), strict=True)):
    for index, (name, gains) in enumerate(found.items()):
      line = dict(color='black', linestyle=':') if name == 'before' else dict(color=f'C{index}')
      axes.plot(SIZES, np.median(gains[k], axis=1), label=name, **line)
    axes.set(xscale='log', xlabel='comparisons', title=start)
  figure.axes[0].set_ylabel('gain over the base model')
  figure.axes[0].legend(fontsize=6)
  figure.savefig(path, dpi=120)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='starts', description=__doc__.partition('\n')[0])
  parser.add_argument('--output', default=str(common.RESULTS / 'starts'))
  parser.add_argument('--losses', nargs='+', default=list(LOSSES), choices=LOSSES, metavar='NAME')
  parser.add_argument('--seeds', type=int, default=10)
  parser.add_argument('--steps', type=int, default=300)
  parser.add_argument('--rate', type=float, default=1e-2, help='of learning')
  return parser


PAGE = """# Preferences: four losses, three starts, three sizes

Written by `python -m rlx.experiments.studies.starts`; {seconds:.0f} seconds on two CPU cores that had
other work. {seeds} seeds, each a world of its own ([rlx/envs/gold.py](../../rlx/envs/gold.py)): {prompts}
prompts with {num_answers} answers of {width} features, hump {hump}, hidden part {hidden}. The question is
that of [Insights into Alignment](https://arxiv.org/abs/2404.14723): what a loss gains without SFT, with it,
and from a model that was instructed elsewhere, by the number of comparisons.

*base* has seen nothing; *SFT* has learnt {shown} demonstrations for each of the prompts; *instructed* as many
for {prompts} other prompts. Demonstrations are of the best policy at a price of {expert} a nat. The start is
the reference too. Comparisons are of the base model's answers, the same for all; {steps} steps of Adam,
β = {beta}. Gains are of true reward over the *base* model, in standard deviations of the answers to a prompt:
median over seeds (lowest to highest). *before* is the start itself. Nothing was tuned to a loss, so this is
no ranking.

![gain by the number of comparisons]({figure})

| start | loss | {sizes} |
|{rule}|
"""


if __name__ == '__main__':
  main()
