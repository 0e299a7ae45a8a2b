"""Only the step at which two answers part is learnt from. https://arxiv.org/abs/2406.18629"""

import dataclasses
import functools
import types

import algorithms_table as table
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.dpo import dpo
from rlx.engine.packing import Packing
from rlx.losses import preference
from rlx.rollout import pairs
from rlx.types import StatefulRollout, check

# Steps end with 9; the prompt is 2 tokens. The second pair parts where the worse answer stops, the last at
# the first step.
TOKENS = (
    ((2, 3, 4, 9, 5, 5, 9, 6, 9, 1), (2, 3, 4, 9, 5, 7, 7, 9, 1)),
    ((4, 3, 4, 9, 5, 9, 1), (4, 3, 4, 9, 1)),
    ((5, 3, 4, 9, 1), (5, 3, 6, 6, 9, 5, 9, 1)),
)
PARTING = (((4, 7), (4, 8)), ((4, 6), (4, 5)), ((2, 4), (2, 5)))  # [first, behind the last)
T = 10


def rows_of(tokens, prompt_lengths):
  """Rows [2N, T] of answers [N][2], whose steps end with 9."""
  rows = [list(row) for pair in tokens for row in pair]
  lengths = np.array([len(row) for row in rows])[:, None]
  padded = np.array([row + [0] * (T - len(row)) for row in rows], np.int32)
  columns, begins = np.arange(T)[None], np.array(prompt_lengths, np.int32)
  mask = (columns >= begins[:, None]) & (columns < lengths)
  return {
      'tokens': jnp.asarray(padded), 'valid': jnp.asarray(columns < lengths),
      'action_mask': jnp.asarray(mask), 'prompt_lengths': jnp.asarray(begins),
      'step_ends': jnp.asarray((padded == 9) & mask),
      'turns': jnp.where(mask, 0, -1), 'groups': jnp.arange(len(rows)) // 2,
  }


WHOLE = rows_of(TOKENS, [2] * 6)


def of(rows):
  return StatefulRollout(begin=lambda key: {}, draw=lambda models, world, key: (rows, world), data=None)


def parted():
  batch, _ = pairs.parting_steps(of(WHOLE)).draw({}, {}, jax.random.key(0))
  check(batch)
  return batch


def test_the_parting_step_by_hand():
  batch = parted()
  spans = [span for pair in PARTING for span in pair]
  for row, (first, behind) in enumerate(spans):
    expected = (np.arange(T) >= first) & (np.arange(T) < behind)
    np.testing.assert_array_equal(batch['action_mask'][row], expected)
    np.testing.assert_array_equal(batch['valid'][row], np.arange(T) < behind)
  assert batch['prompt_lengths'].tolist() == [first for first, _ in spans]
  np.testing.assert_array_equal(batch['tokens'], WHOLE['tokens'])


def gradient_of_tokens(batch):
  """[2N, T] of DPO by the log-prob of each token, as if each were a parameter."""
  score = lambda params, batch: (jnp.where(batch['action_mask'], params, 0), jnp.zeros_like(params))
  table_of_tokens = types.SimpleNamespace(score=score)
  algorithm = dpo(
      of(batch), table_of_tokens, table_of_tokens, loss=functools.partial(preference.sigmoid, beta=1.0)
  )
  models = {'policy': jnp.full((6, T), -1.5), 'reference': jnp.full((6, T), -2.0)}
  batch = algorithm.advantage(models, batch, jax.random.key(0))
  loss = lambda policy: algorithm.loss({**models, 'policy': policy}, batch, jax.random.key(0))[0]
  return np.asarray(jax.grad(loss)(models['policy']))


def test_only_the_parting_step_has_a_gradient():
  """Of whole answers what stands behind it has one too, and the steps before, which cancel in the sum."""
  batch = parted()
  of_step, of_whole = gradient_of_tokens(batch), gradient_of_tokens(WHOLE)
  np.testing.assert_array_equal(of_step != 0, batch['action_mask'])
  np.testing.assert_array_equal(of_whole != 0, WHOLE['action_mask'])
  better, worse = of_step[0::2], of_step[1::2]
  assert (better <= 0).all() and (worse >= 0).all()  # likelier and less likely


@pytest.mark.parametrize('packing', [
    None, pytest.param(Packing(columns=32, rows=2, share_prompts=True), marks=pytest.mark.slow)
])
def test_it_is_dpo_of_the_step_behind_a_longer_prompt(packing):
  """Loss and gradient are those of rows that end with the step, with the steps before in their prompt."""
  tokens = [
      tuple(row[:behind] for row, (_, behind) in zip(pair, spans, strict=True))
      for pair, spans in zip(TOKENS, PARTING, strict=True)
  ]
  short = rows_of(tokens, [first for pair in PARTING for first, _ in pair])
  policy = dataclasses.replace(
      table.POLICY, scoring=dataclasses.replace(table.SCORING, packing=packing),
      decoding=dataclasses.replace(table.DECODING, max_tokens=8),
  )
  params, reference = (table.MODEL.init(jax.random.key(i)) for i in (0, 1))
  vocabulary = table.TASK.vocab_size

  @jax.jit
  def value_and_gradient(batch):
    batch = {**batch, 'tokens': batch['tokens'] % vocabulary}
    algorithm = dpo(of(batch), policy, policy, loss=functools.partial(preference.sigmoid, beta=0.5))
    models = {'policy': params, 'reference': reference}
    batch = algorithm.advantage(models, batch, jax.random.key(0))
    loss = lambda own: algorithm.loss({**models, 'policy': own}, batch, jax.random.key(0))[0]
    return jax.value_and_grad(loss)(params)

  (value, gradient), (expected, expected_gradient) = value_and_gradient(parted()), value_and_gradient(short)
  assert abs(float(value) - np.log(2)) > 1e-3
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  jax.tree.map(
      functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), gradient, expected_gradient
  )


def test_answers_without_steps_are_refused():
  rows = {name: x for name, x in WHOLE.items() if name != 'step_ends'}
  with pytest.raises(ValueError, match='have no steps; chosen and rejected are to be lists'):
    pairs.parting_steps(of(rows)).draw({}, {}, jax.random.key(0))
