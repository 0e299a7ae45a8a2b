"""The sampling engine: what is drawn, how it is written down, and that nothing but the key decides it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
import numpy as np
import pytest
import scipy.stats

from rlx import sharding, types
from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.kernels import switch
from rlx.models import transformer
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from tests.cases import cases

VOCAB, PAD, GROUP_SIZE = 8, 0, 3
MODEL = LanguageModel(TransformerConfig(
    vocab_size=VOCAB, num_layers=2, width=16, num_heads=4, num_kv_heads=2, head_size=4, mlp_size=16,
    context_length=16, logit_softcap=4.0,
))
PLAIN = Decoding(
    max_tokens=5, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
    pad_id=PAD,
)
DECODINGS = {
    name: dataclasses.replace(PLAIN, **changes)
    for name, changes in {
        'plain': {},
        'temperature': {'temperature': 0.5},
        'top_k': {'top_k': 3},
        'top_p': {'top_p': 0.6},
        'all_filters': {'temperature': 1.4, 'top_k': 5, 'top_p': 0.8, 'eos_ids': (1, 5), 'min_tokens': 2},
        'no_early_end': {'eos_ids': (1, 2, 3, 4), 'min_tokens': 5},
        'greedy': {'temperature': 0.0, 'eos_ids': (1, 7)},
    }.items()
}
ALL = pytest.mark.parametrize('name', DECODINGS)
FEW = pytest.mark.parametrize('name', cases(DECODINGS, at_once=('plain', 'all_filters')))
LENGTHS = np.array([3, 1, 4, 2])
PROMPTS = np.random.default_rng(0).integers(2, VOCAB, (4, 4)).astype(np.int32)
KEY = jax.random.key(3)
close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)

sample = jax.jit(engine.sample, static_argnums=1, static_argnames=('group_size', 'decoding'))
score = jax.jit(engine.score, static_argnums=1, static_argnames=('decoding', 'chunk_size'))
forward = jax.jit(MODEL.forward)


def make_params():
  shapes = jax.eval_shape(MODEL.init, jax.random.key(0))
  rng = np.random.default_rng(1)
  return jax.tree.map(lambda x: jnp.array(0.6 * rng.normal(size=x.shape), jnp.float32), shapes)


PARAMS = make_params()


@functools.cache
def drawn_on_device(name):
  """A batch of 4 x 3 rows."""
  batch = sample(PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=GROUP_SIZE, decoding=DECODINGS[name])
  types.check(batch)
  return batch


@functools.cache
def drawn(name):
  """The same as NumPy arrays."""
  return jax.tree.map(np.asarray, drawn_on_device(name))


def completions(batch):
  """The actions of each row."""
  rows = zip(np.asarray(batch['tokens']), batch['action_mask'], strict=True)
  return [tokens[mask].tolist() for tokens, mask in rows]


def next_logits(tokens):
  """[B, T, V]: logits of what follows each column, from a forward pass over whole rows."""
  hidden, _ = forward(PARAMS, jnp.array(tokens))
  return np.asarray(MODEL.logits(PARAMS, hidden), np.float64)


def distribution(logits, decoding, num_drawn):
  """The probabilities that the docstrings of `Decoding` promise, with a sort and a loop."""
  if num_drawn < decoding.min_tokens:
    logits = np.where(np.isin(np.arange(VOCAB), decoding.eos_ids), -np.inf, logits)
  probs = np.exp(logits / (decoding.temperature or 1.0))
  ranking = np.argsort(-probs)[: decoding.top_k or VOCAB]
  total, kept = probs[ranking].sum(), []
  for token in ranking:
    kept.append(token)
    if probs[kept].sum() >= decoding.top_p * total and decoding.top_p < 1:
      break
  out = np.zeros(VOCAB)
  out[kept] = probs[kept] / probs[kept].sum()
  return out


# --- what is written down ---------------------------------------------------------------------------------


@FEW
def test_rows_are_contiguous_and_say_what_they_hold(name):
  batch, decoding = drawn(name), DECODINGS[name]
  columns = np.arange(batch['tokens'].shape[1])
  assert len(columns) == PROMPTS.shape[1] + decoding.max_tokens
  for b, tokens in enumerate(batch['tokens']):
    length, prompt = LENGTHS[b // GROUP_SIZE], PROMPTS[b // GROUP_SIZE]
    num_actions = batch['action_mask'][b].sum()
    assert 1 <= num_actions <= decoding.max_tokens
    np.testing.assert_array_equal(batch['valid'][b], columns < length + num_actions)
    np.testing.assert_array_equal(batch['action_mask'][b], batch['valid'][b] & (columns >= length))
    np.testing.assert_array_equal(tokens[:length], prompt[:length])
    np.testing.assert_array_equal(tokens[length + num_actions :], PAD)
    np.testing.assert_array_equal(batch['turns'][b] < 0, columns < length)
    np.testing.assert_array_equal(batch['sampler_logprobs'][b][~batch['action_mask'][b]], 0)
    assert batch['prompt_lengths'][b] == length and batch['groups'][b] == b // GROUP_SIZE


@FEW
def test_no_column_is_weakly_typed(name):
  """What a reward in Python gives back is not: the program that learns would be traced a second time."""
  assert [column for column, x in drawn_on_device(name).items() if x.weak_type] == []


@ALL
def test_rows_end_at_their_first_end_token_or_at_the_limit(name):
  batch, decoding = drawn(name), DECODINGS[name]
  for actions, truncated in zip(completions(batch), batch['truncated'], strict=True):
    ends = [i for i, token in enumerate(actions) if token in decoding.eos_ids]
    assert ends == ([] if truncated else [len(actions) - 1])
    assert len(actions) == decoding.max_tokens if truncated else len(actions) > decoding.min_tokens


def test_the_cases_above_hold_early_ends_and_truncations():
  for name in ('plain', 'all_filters'):
    assert 0 < drawn(name)['truncated'].mean() < 1
  last = [actions[-1] for actions in completions(drawn('all_filters'))]
  assert {1, 5} <= set(last)
  assert drawn('no_early_end')['truncated'].all()


# --- what is drawn ----------------------------------------------------------------------------------------


@FEW
def test_the_sampler_and_the_scorer_speak_of_the_same_distribution(name):
  batch, decoding = drawn(name), DECODINGS[name]
  logprobs, entropy = score(PARAMS, MODEL, batch, decoding=decoding, chunk_size=7)
  close(batch['sampler_logprobs'], logprobs)
  logits = next_logits(batch['tokens'])
  for b, t in np.argwhere(batch['action_mask']):
    probs = distribution(logits[b, t - 1], decoding, t - LENGTHS[b // GROUP_SIZE])
    token = batch['tokens'][b, t]
    np.testing.assert_allclose(logprobs[b, t], np.log(probs[token]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(entropy[b, t], scipy.stats.entropy(probs), rtol=1e-4, atol=1e-5)
  np.testing.assert_array_equal(np.asarray(logprobs)[~batch['action_mask']], 0)
  np.testing.assert_array_equal(np.asarray(entropy)[~batch['action_mask']], 0)


@pytest.mark.slow
def test_scores_have_finite_gradients_that_padding_cannot_reach():
  """-inf behind a filter, and in the padding targets that no filter would keep."""
  batch, decoding = drawn('all_filters'), DECODINGS['all_filters']

  @jax.jit
  @jax.grad
  def gradient(params, batch):
    logprobs, entropy = engine.score(params, MODEL, batch, decoding=decoding, chunk_size=7)
    return jnp.sum(jnp.square(logprobs)) + jnp.sum(entropy)

  gradients = gradient(PARAMS, batch)
  assert all(np.isfinite(leaf).all() and np.any(leaf) for leaf in jax.tree.leaves(gradients))
  poisoned = {**batch, 'tokens': np.where(batch['valid'], batch['tokens'], 6)}
  jax.tree.map(np.testing.assert_array_equal, gradient(PARAMS, poisoned), gradients)


@pytest.mark.parametrize(
    'changes', [{}, {'temperature': 0.7, 'top_k': 5, 'top_p': 0.85}], ids=['plain', 'filtered']
)
def test_pairs_of_tokens_have_their_exact_probabilities(changes):
  """χ² of 4,000 first and second tokens against p(a) p(b | a): also, no two draws share their noise."""
  num = 4000
  decoding = dataclasses.replace(PLAIN, max_tokens=2, eos_ids=(), **changes)
  prompt, length = PROMPTS[:1], LENGTHS[:1]
  batch = sample(PARAMS, MODEL, prompt, length, jax.random.key(0), group_size=num, decoding=decoding)
  drawn_pairs = np.asarray(batch['tokens'])[:, length[0] : length[0] + 2]
  observed = np.zeros((VOCAB, VOCAB))
  np.add.at(observed, tuple(drawn_pairs.T), 1)

  rows = np.tile(np.append(prompt[0, : length[0]], 0), (VOCAB, 1))
  rows[:, -1] = np.arange(VOCAB)
  logits = next_logits(rows)
  first = distribution(logits[0, -2], decoding, 0)
  expected = num * np.stack([first[a] * distribution(logits[a, -1], decoding, 1) for a in range(VOCAB)])
  np.testing.assert_array_equal(observed[expected == 0], 0)
  common = expected >= 5
  count = lambda x: np.append(x[common], x[~common].sum() + 1e-9)
  statistic = np.sum((count(observed) - count(expected)) ** 2 / count(expected))
  assert common.sum() > 10
  assert statistic < scipy.stats.chi2.ppf(0.999, common.sum())


def test_greedy_is_argmax():
  batch = drawn('greedy')
  best = next_logits(batch['tokens']).argmax(-1)[:, :-1]
  mask = batch['action_mask'][:, 1:]
  np.testing.assert_array_equal(batch['tokens'][:, 1:][mask], best[mask])
  filtered = DECODINGS['all_filters']
  assert filtered.greedy == dataclasses.replace(filtered, temperature=0.0, top_k=0, top_p=1.0)


# --- what decides it --------------------------------------------------------------------------------------

IDS = np.arange(12) * 7 + 3  # of rows in the order of PROMPTS, three each


def rerun(rows, *, grouped, columns=4, max_tokens=5):
  """Samples the rows (prompt, id) again in another arrangement; their completions by (prompt, id)."""
  prompts = [prompt for prompt, _ in (rows[::GROUP_SIZE] if grouped else rows)]
  ids = jnp.array([i for _, i in rows])
  padded = np.pad(PROMPTS[prompts], ((0, 0), (0, columns - 4)), constant_values=6)
  batch = sample(
      PARAMS, MODEL, padded, LENGTHS[prompts], KEY, group_size=GROUP_SIZE if grouped else 1,
      decoding=dataclasses.replace(PLAIN, max_tokens=max_tokens), sequence_ids=ids,
  )
  logprobs = [row[mask] for row, mask in zip(batch['sampler_logprobs'], batch['action_mask'], strict=True)]
  return dict(zip(rows, zip(completions(batch), logprobs, strict=True), strict=True))


ROWS = [(i // GROUP_SIZE, int(sequence_id)) for i, sequence_id in enumerate(IDS)]


@pytest.mark.parametrize(
    'arrangement',
    [
        pytest.param(  # other order of prompts
            {'rows': ROWS[9:] + ROWS[3:6] + ROWS[:3] + ROWS[6:9], 'grouped': True}, marks=pytest.mark.slow
        ),
        pytest.param({'rows': ROWS[3:6], 'grouped': True}, marks=pytest.mark.slow),  # alone
        {'rows': [ROWS[i] for i in np.random.default_rng(0).permutation(12)], 'grouped': False},
        {'rows': ROWS, 'grouped': True, 'columns': 9},  # more padding behind the prompts
    ],
    ids=['order', 'batch_size', 'groups', 'padding'],
)
def test_a_sequence_is_decided_by_the_key_and_its_id_alone(arrangement):
  base, result = rerun(ROWS, grouped=True), rerun(**arrangement)
  for row, (tokens, logprobs) in result.items():
    assert tokens == base[row][0]
    close(logprobs, base[row][1])
  assert len(result) == len(arrangement['rows'])


def test_a_longer_limit_only_adds_tokens():
  base, longer = rerun(ROWS, grouped=True), rerun(ROWS, grouped=True, max_tokens=7)
  assert all(longer[row][0][:5] == base[row][0] for row in ROWS)
  assert any(len(longer[row][0]) > 5 for row in ROWS)


def test_ids_and_keys_are_alive():
  """Samples of one prompt differ, follow their ids when these are swapped, and change with the key."""
  run = lambda key, ids: completions(
      sample(PARAMS, MODEL, PROMPTS[:1], LENGTHS[:1], key, group_size=12, decoding=PLAIN, sequence_ids=ids)
  )
  ids = jnp.arange(12)
  base, order = run(KEY, ids), np.random.default_rng(0).permutation(12)
  assert len({tuple(tokens) for tokens in base}) > 6
  assert run(KEY, ids[order]) == [base[i] for i in order]
  assert run(KEY, ids) == base
  assert run(jax.random.key(4), ids) != base
  assert run(KEY, jnp.zeros(12, int)) == [base[0]] * 12


@pytest.mark.parametrize('sizes', [pytest.param((8, 1, 1), marks=pytest.mark.slow), (2, 2, 2)], ids=str)
def test_eight_devices_say_what_one_says(sizes):
  rows = np.arange(8) % 4
  args = PROMPTS[rows], LENGTHS[rows]
  alone = sample(PARAMS, MODEL, *args, KEY, group_size=2, decoding=PLAIN)
  mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
  params = jax.device_put(PARAMS, sharding.shardings(PARAMS, mesh, MODEL.axes))
  args = jax.device_put(args, NamedSharding(mesh, PartitionSpec(sharding.ROWS)))

  @jax.jit
  def spread(params, prompts, lengths):
    return engine.sample(params, MODEL, prompts, lengths, KEY, group_size=2, decoding=PLAIN)

  with jax.set_mesh(mesh):
    together = spread(params, *args)
  assert together['tokens'].addressable_shards[0].data.shape[0] < 16  # the rows did spread
  assert completions(together) == completions(alone)
  jax.tree.map(close, together, alone)


@pytest.mark.parametrize('eos_ids', [(1, 2, 3), tuple(range(VOCAB))], ids=['some', 'all_end_at_once'])
def test_the_loop_ends_with_the_last_row(monkeypatch, eos_ids):
  """As many decoding steps as the longest row has tokens behind its first."""
  steps, decode = [], transformer.decode

  def counted(*args):
    jax.debug.callback(lambda: steps.append(1))
    return decode(*args)

  monkeypatch.setattr(transformer, 'decode', counted)
  decoding = dataclasses.replace(PLAIN, eos_ids=eos_ids, max_tokens=12)
  run = lambda key: engine.sample(
      PARAMS, MODEL, PROMPTS[:2], LENGTHS[:2], key, group_size=1, decoding=decoding
  )
  batch = jax.jit(run)(KEY)
  jax.effects_barrier()
  lengths = [len(actions) for actions in completions(batch)]
  assert len(steps) == max(lengths) - 1 < 11
  if len(eos_ids) == VOCAB:
    assert lengths == [1, 1] and not batch['truncated'].any()


# --- filters ----------------------------------------------------------------------------------------------

PROBS = np.array([0.05, 0.5, 0.15, 0.3])


@pytest.mark.parametrize(
    ('changes', 'kept'),
    [
        ({}, [0, 1, 2, 3]),
        ({'top_p': 0.45}, [1]),
        ({'top_p': 1e-6}, [1]),  # never empty
        ({'top_p': 0.55}, [1, 3]),
        ({'top_p': 0.79}, [1, 3]),
        ({'top_p': 0.81}, [1, 2, 3]),
        ({'top_p': 0.96}, [0, 1, 2, 3]),
        ({'top_k': 1}, [1]),
        ({'top_k': 3}, [1, 2, 3]),
        ({'top_k': 99}, [0, 1, 2, 3]),
        ({'top_k': 2, 'top_p': 0.6}, [1]),  # 0.5 is 62 % of the two that are left
        ({'top_k': 2, 'top_p': 0.7}, [1, 3]),
        ({'temperature': 0.5, 'top_p': 0.69}, [1, 3]),  # squared and normalised: 0.685 and 0.247
        ({'temperature': 0.5, 'top_p': 0.68}, [1]),
        ({'min_p': 0.29}, [1, 2, 3]),  # 0.15 is 0.3 of the likeliest
        ({'min_p': 0.31}, [1, 3]),
        ({'min_p': 1.0}, [1]),
        ({'temperature': 0.5, 'min_p': 0.35}, [1, 3]),  # 0.36 of it, squared
        ({'temperature': 0.5, 'min_p': 0.37}, [1]),
    ],
    ids=str,
)
def test_filters_keep_the_smallest_set(changes, kept):
  decoding = dataclasses.replace(PLAIN, eos_ids=(), **changes)
  logits = np.log(PROBS)[None].astype(np.float32)
  adjusted = np.asarray(decoding.adjust(jnp.array(logits)))[0]
  assert np.flatnonzero(np.isfinite(adjusted)).tolist() == kept
  np.testing.assert_allclose(adjusted[kept], logits[0, kept] / decoding.temperature, rtol=1e-6)


LOOKING_BACK = dataclasses.replace(
    PLAIN, temperature=0.7, repetition_penalty=1.8, presence_penalty=0.6, eos_ids=(), max_tokens=6
)


@pytest.mark.parametrize('temperature', cases([0.0, 0.7], at_once=[0.7]))
def test_penalties_look_at_what_the_row_has_said(temperature):
  """A loop over rows and columns: logits of all that stands there, less for what the answer has said."""
  decoding = dataclasses.replace(LOOKING_BACK, temperature=temperature)
  batch = sample(PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=2, decoding=decoding)
  raw = np.asarray(next_logits(batch['tokens']), np.float64)
  changed = 0
  for row in range(len(batch['tokens'])):
    length = int(batch['prompt_lengths'][row])
    for column in range(length, length + decoding.max_tokens):
      logits = raw[row, column - 1].copy()
      for token in range(VOCAB):
        if token in batch['tokens'][row, :column]:
          logits[token] = logits[token] / 1.8 if logits[token] > 0 else logits[token] * 1.8
        if token in batch['tokens'][row, length:column]:
          logits[token] -= 0.6
      changed += logits.argmax() != raw[row, column - 1].argmax()
      drawn_token = int(batch['tokens'][row, column])
      if temperature == 0:
        assert drawn_token == logits.argmax()
      logits /= temperature or 1
      expected = logits[drawn_token] - np.log(np.exp(logits).sum())
      close(batch['sampler_logprobs'][row, column], expected, atol=1e-4)
  assert changed > 5


@pytest.mark.slow
def test_rows_that_look_back_are_neither_scored_nor_drawn_in_slots():
  batch = sample(PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=2, decoding=PLAIN)
  with pytest.raises(ValueError, match=r'repetition_penalty=1\.8.* to train, set 1 and 0'):
    engine.score(PARAMS, MODEL, batch, decoding=LOOKING_BACK, chunk_size=4)
  with pytest.raises(ValueError, match='without slots'):
    engine.sample(
        PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=2, decoding=LOOKING_BACK, num_slots=2
    )
  with pytest.raises(ValueError, match='min_p=1.5, repetition_penalty=1.0'):
    dataclasses.replace(PLAIN, min_p=1.5)


def test_filters_leave_out_ends_that_come_too_early_and_keep_targets():
  decoding = dataclasses.replace(PLAIN, top_k=2)  # token 1, the likeliest, ends
  finite = lambda *args, **kwargs: np.flatnonzero(
      np.isfinite(decoding.adjust(jnp.log(jnp.array([PROBS])), *args, **kwargs)[0])
  ).tolist()
  assert finite() == [1, 3]
  assert finite(may_end=False) == [2, 3]
  assert finite(jnp.array([0])) == [0, 1, 3]
  assert finite(jnp.array([1]), may_end=False) == [1, 2, 3]


def test_actions_are_the_columns_behind_the_prompt():
  batch = {'prompt_lengths': jnp.array([1, 3])}
  array = jnp.arange(10).reshape(2, 5)
  np.testing.assert_array_equal(engine.actions(batch, array, 2), [[1, 2], [8, 9]])
  stacked = engine.actions(batch, jnp.stack([array, -array], axis=-1), 2)
  np.testing.assert_array_equal(stacked[..., 1], [[-1, -2], [-8, -9]])


@pytest.mark.parametrize(
    'changes',
    [
        {'max_tokens': 0},
        {'min_tokens': 6},
        {'min_tokens': -1},
        {'temperature': -0.1},
        {'top_k': -1},
        {'top_p': 0.0},
        {'top_p': 1.1},
        {'sampler': 'cdf'},
    ],
    ids=str,
)
def test_bad_decoding_raises_and_names_the_value(changes):
  with pytest.raises(ValueError, match='{}={!r}'.format(*next(iter(changes.items())))):
    dataclasses.replace(PLAIN, **changes)


def test_prompts_and_completions_must_fit_the_context():
  with pytest.raises(ValueError, match='4 tokens and max_tokens=13 do not fit the context of 16'):
    sample(
        PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=1,
        decoding=dataclasses.replace(PLAIN, max_tokens=13),
    )


@pytest.mark.parametrize('num_slots', cases([0, 5], at_once=[5]))
@pytest.mark.parametrize(
    ('dtype', 'apart_by'), cases([('float32', 1e-5), ('bfloat16', 0.02)], at_once=[('float32', 1e-5)])
)
def test_layers_one_by_one_say_what_a_stack_says(monkeypatch, dtype, apart_by, num_slots):
  """As a GPU's decoding loop keeps weights, keys and values, whatever they are computed in."""
  model = MODEL.replace(dtype=dtype, qkv_bias=True)
  params = model.init(jax.random.key(1))
  run = lambda: jax.jit(functools.partial(
      engine.sample, model=model, group_size=2, decoding=PLAIN, num_slots=num_slots
  ))(params, prompts=PROMPTS, prompt_lengths=LENGTHS, key=KEY)
  stacked = run()
  monkeypatch.setattr(switch, 'device', lambda: switch.Device('gpu', 'NVIDIA H200', (9, 0)))
  apart = run()
  assert completions(apart) == completions(stacked)
  np.testing.assert_allclose(apart['sampler_logprobs'], stacked['sampler_logprobs'], atol=apart_by)
