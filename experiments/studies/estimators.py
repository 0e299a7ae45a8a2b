"""Bias and variance of group advantages, where the gradient is known: softmax policies over eight answers.

    python -m rlx.experiments.studies.estimators --output=docs/studies/estimators

A policy is a table of logits [prompts, answers], one answer of a prompt is right, and the chance of it goes
from 5 to 95 % over prompts. So the gradient of the mean reward is a formula, and what an estimator says on
average, and how far its batches lie apart, is counted over thousands of batches. Nothing is trained.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from rlx.advantages import groups as advantages
from rlx.experiments.studies import common

PROMPTS, ANSWERS = 16, 8
SIZES = 2, 4, 8, 16  # rows of a prompt
Estimator = Callable[[jax.Array, jax.Array], jax.Array]  # rewards [B], groups [B] -> advantages [B]
ESTIMATORS: Mapping[str, Estimator] = {
    'no baseline': lambda rewards, groups: rewards,
    'no baseline, rewards of -1 and 1': lambda rewards, groups: 2 * rewards - 1,
    'mean of the batch': lambda rewards, groups: rewards - rewards.mean(),
    'mean of the group (Dr. GRPO)': advantages.centred,
    'mean of the others (RLOO)': advantages.leave_one_out,
    'over the deviation of the group (GRPO)': advantages.normalised,
    "over the batch's, of rewards (Lite PPO)": advantages.batch_scaled,
    "over the batch's, of what is centred (REINFORCE++)": advantages.batch_normalised,
}


def logits() -> jax.Array:
  """[prompts, answers]: the first answer is right, with a chance of 5 to 95 %; the others are alike."""
  right = jnp.linspace(0.05, 0.95, PROMPTS)[:, None]
  wrong = jnp.broadcast_to((1 - right) / (ANSWERS - 1), (PROMPTS, ANSWERS - 1))
  return jnp.log(jnp.concatenate([right, wrong], axis=1))


def exact(table: jax.Array) -> jax.Array:
  """[prompts, answers]: the gradient of the mean over prompts of the chance to be right."""
  return jax.grad(lambda table: jax.nn.softmax(table)[:, 0].mean())(table)


def estimated(table: jax.Array, key: jax.Array, estimator: Estimator, size: int) -> jax.Array:
  """[prompts, answers]: what a batch says, of a group of that many rows of each prompt."""
  prompts = jnp.repeat(jnp.arange(PROMPTS), size)
  answers = jax.random.categorical(key, table[prompts])
  weights = estimator((answers == 0).astype(jnp.float32), prompts * size)
  surrogate = lambda table: jnp.mean(weights * jax.nn.log_softmax(table)[prompts, answers])
  return jax.grad(surrogate)(table)


def measured(estimator: Estimator, size: int, *, batches: int) -> dict[str, float]:
  """What is known of an estimator.

  Returns:
    `length`: of its mean along the gradient, in lengths of the gradient; 1 is without bias.
    `turned`: degrees between its mean and the gradient.
    `noise`: the deviation of a batch from the mean, in lengths of the mean.
    `explained`: cos² between a batch and the gradient, as E<g, ĝ>² / (|g|² E|ĝ|²): what is left of a step
      once its length is chosen as well as can be. Bias and variance both count.
  """
  table = logits()
  keys = jax.random.split(jax.random.key(size), batches)
  draw = jax.jit(jax.vmap(lambda key: estimated(table, key, estimator, size)))
  found, truth = np.asarray(draw(keys), np.float64).reshape(batches, -1), np.asarray(exact(table)).reshape(-1)
  mean, squared = found.mean(axis=0), np.square(found).sum(axis=1).mean()
  along, norm = mean @ truth, np.linalg.norm(truth)
  cosine = along / (norm * np.linalg.norm(mean))
  return {
      'length': along / norm**2,
      'turned': np.degrees(np.arccos(np.clip(cosine, -1, 1))),
      'noise': np.sqrt(np.square(found - mean).sum(axis=1).mean()) / np.linalg.norm(mean),
      'explained': along**2 / (norm**2 * squared),
  }


def main(argv: list[str] | None = None) -> None:
  """Counts, and writes the page."""
  options = argparse.ArgumentParser(prog='estimators', description=__doc__.splitlines()[0])
  options.add_argument('--output', default=str(common.RESULTS / 'estimators'), help='of the page')
  options.add_argument('--batches', type=int, default=20_000)
  arguments = options.parse_args(argv)
  lines = []
  for name, estimator in ESTIMATORS.items():
    found = [measured(estimator, n, batches=arguments.batches) for n in SIZES]
    bias = found[SIZES.index(8)]
    cells = [name, f'{bias["length"]:.2f}', f'{bias["turned"]:.1f}', f'{bias["noise"]:.2f}']
    cells += [f'{100 * one["explained"]:.1f}' for one in found]
    lines.append('| ' + ' | '.join(cells) + ' |\n')
  output = Path(arguments.output)
  output.parent.mkdir(parents=True, exist_ok=True)
  head = PAGE.format(batches=arguments.batches)
  output.with_suffix('.md').write_text(head + ''.join(lines))


PAGE = """\
# Bias and variance of advantages

Written by `python -m rlx.experiments.studies.estimators`: {batches} batches a cell.

Tables of logits over eight answers, one of which is right; its chance goes from 5 to 95 % over sixteen
prompts, and a batch has a group of each. The gradient of the mean reward is known, and with it the bias: how
long the mean of an estimator is along the gradient (1: as long), and how many degrees it is turned away. The
noise is the deviation of a batch from that mean, over the mean's length. Explained is what both come to: cos²
between a batch and the gradient, in per cent, so that the length, which a learning rate makes up for, does
not count.

| advantage | length, groups of 8 | turned | noise | explained, groups of 2 | of 4 | of 8 | of 16 |
|---|---|---|---|---|---|---|---|
"""


if __name__ == '__main__':
  main()
