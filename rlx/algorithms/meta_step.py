"""MetaRM: a reward model learns its labels where it would tell the answers of a later policy apart.

The parameters are first moved up the slope by which samples of a policy that has moved on are told apart, and
the labels' gradient is taken there. It stands around `bradley_terry`, or what else trains `models['judge']`.
Source: Secrets of RLHF II, https://arxiv.org/abs/2401.06080, and MetaRM, https://arxiv.org/abs/2405.00438.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Judge
from rlx.envs import gold
from rlx.errors import at_least
from rlx.losses.comparisons import sides
from rlx.types import Algorithm, Batch, Key, Metrics, Models

_SHIFTED = 'shifted_'  # columns of `pairs.with_samples`


def meta_step(
    parent: Algorithm, judge: Judge | gold.Hidden | gold.Linear, *, rate: float, among: int
) -> Algorithm:
  """The algorithm, whose loss is taken where the model would tell shifted answers apart better: MetaRM.

      θ' = θ + η ∇ mean over pairs of  σ(|r_θ(x, s_1) - r_θ(x, s_2)|),     θ ← θ - α ∇ L(θ')

  s_1 and s_2 are samples of a policy that has moved on; nobody says which is better. The gradient of the
  labels is that at θ', without the slope of θ' itself, as there.

  Args:
    parent: learns comparisons; a section of its own.
    judge: `models['judge']`.
    rate: η, at least 0; 0 is the parent.
    among: comparisons behind one another that make one such step, with their samples; they stay together.
  Raises:
    ValueError: the rows have no samples beside them (the rollout `pairs.with_samples`).
  Source: MetaRM, algorithm 1, as accounts of it have it; here with two samples to a prompt.
  """
  at_least(0, rate=rate)
  at_least(1, among=among)

  def of_group(models: Models, rows: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    samples = {name.removeprefix(_SHIFTED): x for name, x in rows.items() if name.startswith(_SHIFTED)}
    if not samples:
      raise ValueError('the rows have no samples beside them; put pairs.with_samples around the rollout')

    def told_apart(own) -> jax.Array:
      first, second = sides(judge.apply(own, samples))
      return jnp.mean(jax.nn.sigmoid(jnp.abs(first - second)))

    apart, slope = jax.value_and_grad(told_apart)(models['judge'])
    ahead = jax.tree.map(lambda x, dx: x + rate * jax.lax.stop_gradient(dx), models['judge'], slope)
    value, metrics = parent.loss({**models, 'judge': ahead}, rows, key)
    return value, {**metrics, 'judge/told_apart': jax.lax.stop_gradient(apart)}

  def loss(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    groups = jax.tree.map(lambda x: x.reshape(-1, 2 * among, *x.shape[1:]), batch)
    told = jax.lax.map(lambda rows: of_group(models, rows, key), groups)
    return jax.tree.map(jnp.mean, told)

  return dataclasses.replace(parent, loss=loss, together=2 * among)
