"""Packed rows: the scores and gradients of padded rows, from fewer tokens."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_sample import DECODINGS, MODEL, PARAMS, drawn

from rlx.engine import packing as packings
from rlx.engine import sample as engine
from rlx.engine.packing import Packing
from rlx.engine.speaker import Critic, Judge, Scoring
from rlx.models import lora
from rlx.models.heads import RowHead, TokenHead, init_value
from rlx.run import costs
from tests.cases import cases

SEVEN = dataclasses.replace(DECODINGS['plain'], max_tokens=7)
score = jax.jit(
    engine.score, static_argnums=1, static_argnames=('decoding', 'chunk_size', 'packing')
)


@functools.partial(jax.jit, static_argnames=('model', 'decoding', 'packing'))
def value_and_grad(params, batch, weights, *, model, decoding, packing):
  """Scores and the gradient of a weighted sum of them."""

  def loss(params):
    logprobs, entropy = engine.score(params, model, batch, decoding=decoding, chunk_size=7, packing=packing)
    return jnp.sum(weights * logprobs) + jnp.sum(jnp.cos(weights) * entropy), (logprobs, entropy)

  return jax.value_and_grad(loss, has_aux=True)(params)


def weights_of(batch, seed=0):
  return jnp.array(np.random.default_rng(seed).normal(size=batch['tokens'].shape), jnp.float32)


def assert_close(one, other):
  jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5), one, other)


def ragged(model, *, num_prompts=5, group_size=3, prompt_columns=4, max_tokens=7, seed=0):
  """Rows of random lengths, an empty completion and a full one among them; garbage in the padding."""
  rng = np.random.default_rng(seed)
  num_rows = num_prompts * group_size
  prompt_lengths = np.repeat(rng.integers(1, prompt_columns + 1, num_prompts), group_size)
  own = rng.integers(0, max_tokens + 1, num_rows)
  own[:2] = 0, max_tokens
  columns = np.arange(prompt_columns + max_tokens)
  tokens = rng.integers(0, model.vocab_size, (num_rows, columns.size))
  prompts = tokens[::group_size].repeat(group_size, axis=0)
  tokens = np.where(columns < prompt_lengths[:, None], prompts, tokens)
  valid = columns < (prompt_lengths + own)[:, None]
  action_mask = valid & (columns >= prompt_lengths[:, None])
  action_mask &= rng.random(action_mask.shape) < 0.8  # observations stand between actions
  return {
      'tokens': jnp.array(tokens, jnp.int32),
      'valid': jnp.array(valid),
      'action_mask': jnp.array(action_mask),
      'prompt_lengths': jnp.array(prompt_lengths, jnp.int32),
      'groups': jnp.array(np.arange(num_rows) // group_size, jnp.int32),
  }


@pytest.mark.parametrize(
    ('columns', 'rows', 'share', 'kept'),
    cases(
        [(9, 4, False, 0), (20, 2, True, 0), (64, 1, True, 0), (20, 1, True, 2), (20, 2, True, 100)],
        at_once=[(20, 1, True, 2)],
    ),
)
def test_scores_and_gradients_are_those_of_padded_rows(columns, rows, share, kept):
  batch, decoding = drawn('all_filters'), DECODINGS['all_filters']
  run = functools.partial(value_and_grad, PARAMS, batch, weights_of(batch), model=MODEL, decoding=decoding)
  packing = Packing(columns=columns, rows=rows, share_prompts=share, kept=kept)
  (value, scores), grads = run(packing=packing)
  (expected_value, expected_scores), expected_grads = run(packing=None)
  assert_close((value, scores, grads), (expected_value, expected_scores, expected_grads))
  assert np.abs(expected_grads['embedding']).max() > 0.1


def rows_in_use(batch, packing):
  layout = packings.lay_out(batch, packing)
  assert layout.tokens.shape[0] % packing.rows == 0 and layout.num_used <= layout.tokens.shape[0]
  return layout


@pytest.mark.slow
def test_no_two_tokens_have_one_place_but_in_a_shared_prompt():
  for seed in range(5):
    batch = ragged(MODEL, seed=seed)
    for share in (False, True):
      layout = rows_in_use(batch, Packing(columns=16, rows=3, share_prompts=share))
      cells, tokens = np.asarray(layout.cells), np.asarray(layout.tokens).reshape(-1)
      valid = np.asarray(batch['valid'])
      np.testing.assert_array_equal(tokens[cells[valid]], np.asarray(batch['tokens'])[valid])
      own = valid & (np.arange(valid.shape[1]) >= np.asarray(batch['prompt_lengths'])[:, None])
      counted = cells[own] if share else cells[valid]
      assert len(np.unique(counted)) == len(counted)
      assert np.all(cells[~valid] == layout.tokens.size)
      assert np.all(cells[valid] < 16 * int(layout.num_used))


def test_a_shared_prompt_takes_its_place_once():
  """Three rows of 4 + 2 tokens fit 10 columns if the prompt is there once, and need two rows otherwise."""
  batch = {
      'tokens': jnp.arange(18).reshape(3, 6) % 6,
      'valid': jnp.ones((3, 6), bool),
      'action_mask': jnp.arange(6)[None] + jnp.zeros((3, 1), int) >= 4,
      'prompt_lengths': jnp.full(3, 4),
      'groups': jnp.zeros(3, jnp.int32),
  }
  shared = rows_in_use(batch, Packing(columns=10, rows=1, share_prompts=True))
  assert shared.num_used == 1
  np.testing.assert_array_equal(shared.tokens[0], [0, 1, 2, 3, 4, 5, 4, 5, 4, 5])
  np.testing.assert_array_equal(shared.places.positions[0], [0, 1, 2, 3, 4, 5, 4, 5, 4, 5])
  np.testing.assert_array_equal(shared.places.own_starts[0], [0, 0, 0, 0, 4, 4, 6, 6, 8, 8])
  np.testing.assert_array_equal(shared.sources[0], [0, 0, 1, 2, 3, 4, 3, 6, 3, 8])
  np.testing.assert_array_equal(shared.action_index[0], [-1, -1, -1, -1, 0, 1, 0, 1, 0, 1])
  assert rows_in_use(batch, Packing(columns=10, rows=1, share_prompts=False)).num_used == 3
  assert rows_in_use(batch, Packing(columns=12, rows=1, share_prompts=False)).num_used == 2


@pytest.mark.parametrize('share', [False, True])
@pytest.mark.slow
def test_the_order_of_rows_and_the_padding_change_nothing(share):
  batch, decoding = drawn('plain'), DECODINGS['plain']
  packing = Packing(columns=14, rows=2, share_prompts=share)
  run = functools.partial(score, PARAMS, MODEL, decoding=decoding, chunk_size=16, packing=packing)
  expected = run(batch)
  order = np.random.default_rng(0).permutation(len(batch['tokens']))
  moved = run({name: x[order] for name, x in batch.items()})
  assert_close(moved, jax.tree.map(lambda x: x[order], expected))
  garbage = {**batch, 'tokens': np.where(batch['valid'], batch['tokens'], 5)}
  jax.tree.map(np.testing.assert_array_equal, run(garbage), expected)


def test_a_group_stands_together_and_what_is_small_fills_the_room_behind_the_large():
  """Prompts of 2 tokens. Groups of 2 + 4 + 4, 2 + 3 + 3 and 2 + 1 + 1 tokens in rows of 14 columns."""
  own = np.array([1, 4, 3, 1, 4, 3])
  columns = np.arange(8)
  batch = {
      'tokens': jnp.zeros((6, 8), jnp.int32), 'valid': jnp.array(columns < 2 + own[:, None]),
      'action_mask': jnp.array((columns >= 2) & (columns < 2 + own[:, None])),
      'prompt_lengths': jnp.full(6, 2), 'groups': jnp.array([7, 3, 5, 7, 3, 5]),
  }
  layout = rows_in_use(batch, Packing(columns=14, rows=1, share_prompts=True))
  cells = np.asarray(layout.cells)
  assert layout.num_used == 2
  np.testing.assert_array_equal(cells[:, 0] // 14, [0, 0, 1, 0, 0, 1])
  np.testing.assert_array_equal(cells[:, 0] % 14, [10, 0, 0, 10, 0, 0])


def test_little_room_is_left():
  """Answers of a log-normal length; where each row went into the newest packed row, it was 0.77 and 0.86."""
  num_prompts, rng = 24, np.random.default_rng(24)
  own = np.clip(rng.lognormal(np.log(24) - 0.32, 0.8, 4 * num_prompts).round(), 2, 64)
  columns = np.arange(96)
  valid = columns < 32 + own[:, None]
  batch = {
      'tokens': jnp.zeros(valid.shape, jnp.int32), 'valid': jnp.array(valid),
      'action_mask': jnp.array(valid & (columns >= 32)), 'prompt_lengths': jnp.full(len(own), 32),
      'groups': jnp.arange(len(own)) // 4,
  }
  for share, tokens, filled in ((True, 32 * num_prompts + own.sum(), 0.84), (False, valid.sum(), 0.9)):
    layout = rows_in_use(batch, Packing(columns=192, rows=1, share_prompts=share))
    assert tokens > filled * 192 * int(layout.num_used)


@pytest.mark.slow
def test_a_part_that_is_kept_is_read_once_and_not_twice():
  """The products of a forward pass, one of four."""
  batch, parts = drawn('plain'), 3

  def products(kept):
    lowered = value_and_grad.lower(
        PARAMS, batch, weights_of(batch), model=MODEL, decoding=DECODINGS['plain'],
        packing=Packing(columns=20, rows=2, share_prompts=True, kept=kept),
    )
    return costs.read(lowered.compile().as_text(), trips=lambda loop: parts).flops

  assert 0.6 < products(100) / products(0) < 0.85


def test_a_judge_says_the_same_of_packed_rows():
  batch = ragged(MODEL)
  params = {'trunk': PARAMS, 'reward_head': jnp.linspace(-1.0, 1.0, MODEL.width)}

  @functools.partial(jax.jit, static_argnames='packing')
  def run(params, packing):
    judge = Judge(head=RowHead(MODEL), scoring=Scoring(chunk_tokens=64, packing=packing))
    total = lambda params: jnp.sum(jnp.sin(judge.apply(params, batch)))
    return judge.apply(params, batch), jax.grad(total)(params)

  assert_close(run(params, Packing(columns=16, rows=2, share_prompts=True, kept=1)), run(params, None))


@pytest.mark.slow
def test_a_population_is_packed_each_member_by_itself():
  batches = [ragged(MODEL, seed=seed) for seed in (0, 1)]
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *batches)
  packing = Packing(columns=16, rows=2, share_prompts=True, kept=1)
  run = functools.partial(
      value_and_grad, model=MODEL, decoding=SEVEN, packing=packing
  )
  params = [PARAMS, jax.tree.map(lambda x: 1.1 * x, PARAMS)]
  weights = [weights_of(batch) for batch in batches]
  together = jax.vmap(run)(jax.tree.map(lambda *x: jnp.stack(x), *params), stacked, jnp.stack(weights))
  for i in range(2):
    assert_close(jax.tree.map(lambda x, i=i: x[i], together), run(params[i], batches[i], weights[i]))


@pytest.mark.slow
def test_values_of_actions_are_those_of_padded_rows():
  batch = ragged(MODEL)
  trunk = init_value(PARAMS)
  params = {**trunk, 'value_head': jnp.linspace(-1.0, 1.0, MODEL.width)}
  weights = weights_of(batch) * batch['action_mask']

  @functools.partial(jax.jit, static_argnames='packing')
  def run(params, packing):
    critic = Critic(head=TokenHead(MODEL), scoring=Scoring(chunk_tokens=64, packing=packing))
    total = lambda params: jnp.sum(weights * critic.apply(params, batch))
    return critic.apply(params, batch), jax.grad(total)(params)

  values, grads = run(params, Packing(columns=16, rows=2, share_prompts=True))
  expected, expected_grads = run(params, None)
  assert_close(values, jnp.where(batch['action_mask'], expected, 0))
  assert_close(grads, expected_grads)


@pytest.mark.slow
@pytest.mark.parametrize('kept', [0, 2])
def test_frozen_parameters_get_no_gradient_of_their_own(kept):
  """Of an adapted policy only adapters are differentiated: no array of the base's shape is summed or kept."""
  adapters = lora.Lora(rank=2, alpha=4.0, targets='layers/(query|up)', full='')
  batch = ragged(MODEL)
  trained = lora.init(jax.random.key(0), PARAMS, adapters)

  def loss(trained, packing):
    policy = lora.attach(PARAMS, trained, adapters)
    logprobs, _ = engine.score(policy, MODEL, batch, decoding=SEVEN, chunk_size=16, packing=packing)
    return logprobs.sum()

  packing = Packing(columns=20, rows=2, share_prompts=True, kept=kept)
  gradient = jax.jit(jax.grad(loss), static_argnums=1)
  assert_close(gradient(trained, packing), gradient(trained, None))
  loops = [
      eqn for eqn in jax.make_jaxpr(jax.grad(loss), static_argnums=1)(trained, packing).eqns
      if eqn.primitive.name == 'while'
  ]
  carried = [v.aval.shape for v in loops[-1].outvars]
  assert PARAMS['embedding'].shape not in carried and trained['layers']['query_lora_a'].shape in carried
  held = {v.aval.shape for loop in loops for v in loop.outvars}
  assert not held & {(kept, *leaf.shape) for leaf in jax.tree.leaves(PARAMS['layers']) if leaf.ndim > 2}


@pytest.mark.slow
def test_memory_follows_the_tokens_of_a_part():
  """Sixteen times the rows take no more activations."""

  def temporary(num_prompts):
    batch = ragged(MODEL, num_prompts=num_prompts, prompt_columns=8, max_tokens=56)
    packing = Packing(columns=64, rows=2, share_prompts=True)
    decoding = dataclasses.replace(SEVEN, max_tokens=56)
    lowered = value_and_grad.lower(
        PARAMS, batch, weights_of(batch), model=MODEL, decoding=decoding, packing=packing
    )
    return lowered.compile().memory_analysis().temp_size_in_bytes

  rows = 3 * 64  # 64 rows of 64 columns of 16 numbers in 2 layers, a dozen arrays each, if all were held
  few, many = temporary(4), temporary(64)
  assert many - few < 0.3 * 12 * rows * 64 * 16 * 2 * 4


def test_a_row_too_wide_is_one_clear_error():
  batch = ragged(MODEL)
  with pytest.raises(ValueError, match='packed_columns=10 is less than the 11 columns'):
    packings.lay_out(batch, Packing(columns=10, rows=2, share_prompts=True))
  with pytest.raises(ValueError, match='packed_rows=0'):
    Packing(columns=10, rows=0, share_prompts=True)
  with pytest.raises(ValueError, match='packed_kept=-1'):
    Packing(columns=10, rows=1, share_prompts=True, kept=-1)
