"""Rollouts that branch: what they say is what the policy would say, and nothing is decoded twice."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.fork import fork
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import prompts, tree
from rlx.types import check
from tests.once import once

TASK = fork(choices=3, length=2, before=1, after=5, letters=3, held_out_share=0.4)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=1, head_size=8, mlp_size=32,
    context_length=16,
))
DECODING = Decoding(
    max_tokens=8, min_tokens=1, temperature=1.5, top_k=6, top_p=1.0, sampler='inverse_cdf', eos_ids=(1,),
    pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
ENDLESS = POLICY.saying(min_tokens=8)
GREEDY = POLICY.saying(temperature=0.0, min_tokens=8)
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))
GROUP_SIZE, BATCH_SIZE = 4, 32
GROWTH = dict(
    batch_size=BATCH_SIZE, group_size=GROUP_SIZE, segment_tokens=2, first_branches=2, branching=2,
    uncertainty=0.0, repeated_tokens=0, least_logprob=-100.0,
)
LOOKING = dict(
    batch_size=BATCH_SIZE, group_size=GROUP_SIZE, first_rows=2, rows_per_round=2, epsilon=0.0,
    synonyms=('abc',),
)


@functools.cache
def program(kind, policy, changes):
  arguments = {**(GROWTH if kind is tree.segments else LOOKING), **dict(changes)}
  rollout = kind(TASK, policy, **arguments)
  return jax.jit(lambda params, key: rollout({'policy': params}, {}, key)[0])


@functools.cache
def grown(policy=POLICY, seed=0, kind=tree.segments, **changes):
  batch = program(kind, policy, tuple(changes.items()))(PARAMS(), jax.random.key(seed))
  return jax.tree.map(np.asarray, batch)


def actions(batch):
  return [tuple(row[mask].tolist()) for row, mask in zip(batch['tokens'], batch['action_mask'], strict=True)]


BOTH = pytest.mark.parametrize(
    'kind', [tree.segments, pytest.param(tree.explore, marks=pytest.mark.slow)], ids=['segments', 'explore']
)


@BOTH
@pytest.mark.slow
def test_rows_are_standard_ones_of_the_policy(kind):
  batch = grown(kind=kind)
  check(batch)
  plain = prompts.completions(
      TASK, POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, num_slots=0
  )({'policy': PARAMS()}, {}, jax.random.key(0))[0]
  assert {k: v.shape for k, v in plain.items()}.items() <= {k: v.shape for k, v in batch.items()}.items()
  for name in ('groups', 'prompt_lengths', 'solutions'):  # the same problems, a group's rows together
    np.testing.assert_array_equal(batch[name], plain[name], err_msg=name)
  room = TASK.prompt_columns
  np.testing.assert_array_equal(batch['tokens'][:, :room], plain['tokens'][:, :room])
  for row, truncated, mask in zip(actions(batch), batch['truncated'], batch['valid'], strict=True):
    assert 2 <= len(row) <= 8 and mask.sum() == room + len(row)
    assert truncated == (row[-1] != 1) and 1 not in row[:-1]
    assert not truncated or len(row) == 8
  assert len(set(map(len, actions(batch)))) > 3, 'these rows are no test'


@pytest.mark.slow
@BOTH
def test_logprobs_are_those_of_the_scorer(kind):
  """So keys and values were copied to the right rows, and go on from the right token."""
  batch = grown(kind=kind)
  expected, _ = jax.jit(POLICY.score)(PARAMS(), batch)
  np.testing.assert_allclose(batch['sampler_logprobs'], expected, atol=2e-5)
  assert batch['sampler_logprobs'].min() < -1 and not batch['sampler_logprobs'][~batch['action_mask']].any()


@pytest.mark.slow
@BOTH
def test_the_key_decides_everything(kind):
  program_of = program(kind, POLICY, ())
  again, other = (jax.tree.map(np.asarray, program_of(PARAMS(), jax.random.key(seed))) for seed in (0, 1))
  jax.tree.map(np.testing.assert_array_equal, grown(kind=kind), again)
  assert actions(other) != actions(again)


# --- segments -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nodes_are_what_rows_share():
  batch = grown(ENDLESS)
  nodes, parents = batch['nodes'], batch['parents']
  mask, start = batch['action_mask'], TASK.prompt_columns
  assert (nodes[mask] >= 0).all() and (nodes[~mask] == -1).all() and (parents[~mask] == -1).all()
  assert (parents[:, start : start + 2] == -1).all()
  np.testing.assert_array_equal(parents[:, start + 2 :], nodes[:, start:-2])
  shared = parted = 0
  for t in range(start, nodes.shape[1]):
    for a in range(BATCH_SIZE):
      for b in range(a):
        if nodes[a, t] == nodes[b, t]:
          assert batch['groups'][a] == batch['groups'][b]
          np.testing.assert_array_equal(batch['tokens'][a, : t + 1], batch['tokens'][b, : t + 1])
          shared += 1
        elif parents[a, t] == parents[b, t] != -1:
          parted += batch['tokens'][a, t] != batch['tokens'][b, t]
  assert shared > 20 and parted > 20
  assert len(set(actions(batch))) == BATCH_SIZE, 'siblings go different ways'


def test_a_prefix_is_decoded_once():
  """Nothing ends: a prompt has 2, 4, 4 and 4 rows in its four segments of two tokens."""
  batch = grown(ENDLESS)
  assert batch['tokens/sampled'].tolist() == [8 * 2 * (2 + 4 + 4 + 4)] * BATCH_SIZE
  columns = range(TASK.prompt_columns, batch['nodes'].shape[1])
  assert sum(len(set(batch['nodes'][:, t])) for t in columns) == batch['tokens/sampled'][0]


def test_places_go_to_rows_that_go_on():
  sources = lambda done, entropy, num, uncertainty=0.0: tree._sources(
      jnp.array(done), jnp.array(entropy), num=num, uncertainty=uncertainty
  ).tolist()
  even = [0.5, 0.5, 0.5]
  assert sources([False] * 3, even, 6) == [0, 1, 2, 0, 1, 2]
  assert sources([False, True, False], even, 6) == [0, 1, 2, 0, 2, 0]
  assert sources([True, True, False], even, 6) == [0, 1, 2, 2, 2, 2]
  assert sources([True] * 3, even, 5) == [0, 1, 2, 0, 1]
  # Weights 1 and e^2: the third row has seven shares to the first one's one.
  assert sources([False] * 3, [0.0, 0.0, 2.0], 7, 1.0) == [0, 1, 2, 2, 2, 2, 2]
  assert sources([False] * 3, [0.0, 0.0, 2.0], 5, -1.0) == [0, 1, 2, 0, 1]


@pytest.mark.slow
def test_where_all_have_ended_the_last_segment_is_sampled_again():
  """All rows are found unlikely and stop after one segment: so every row is a fresh draw from the prompt."""
  batch = grown(least_logprob=0.0)
  lengths, starts = batch['action_mask'].sum(axis=1), TASK.prompt_columns
  assert lengths.max() == 2 and batch['truncated'].any() and not batch['truncated'].all()
  np.testing.assert_array_equal(batch['truncated'], [row[-1] != 1 for row in actions(batch)])
  assert batch['tokens/sampled'][0] == lengths.sum()
  assert len(set(batch['nodes'][:, starts])) == BATCH_SIZE
  firsts = batch['tokens'][:, starts].reshape(-1, GROUP_SIZE)
  assert np.mean([len(set(row)) > 1 for row in firsts.tolist()]) > 0.7


@pytest.mark.slow
def test_rows_that_repeat_themselves_stop():
  """Greedy rows are those of the sampler, and run into loops; period 1 divides 2, so both are found."""
  endless = GREEDY.saying(max_tokens=12, min_tokens=12)
  stopped = grown(endless, repeated_tokens=2)
  free = jax.jit(functools.partial(endless.sample, group_size=1))(
      PARAMS(), prompts=stopped['tokens'][:, : TASK.prompt_columns], prompt_lengths=stopped['prompt_lengths'],
      key=jax.random.key(0),
  )
  loops = 0
  for whole, row in zip(actions(jax.tree.map(np.asarray, free)), actions(stopped), strict=True):
    assert whole[: len(row)] == row
    ends = [n for n in (4, 6, 8, 10, 12) if whole[n - 4 : n - 2] == whole[n - 2 : n]]
    assert len(row) == (ends[0] if ends else 12)
    loops += bool(ends) and ends[0] < 12
  assert loops > 3, 'this policy is no test'


@pytest.mark.parametrize('change, message', [
    ({'group_size': 3, 'first_branches': 1}, 'does not divide'), ({'branching': 1}, 'branching=1'),
    ({'segment_tokens': 0}, 'segment_tokens=0'),
])
def test_bad_arguments_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    tree.segments(TASK, POLICY, **{**GROWTH, **change})
  with pytest.raises(ValueError, match='do not fit the context'):
    grown(POLICY.saying(max_tokens=14))


# --- branching finished rows --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_branch_keeps_what_was_said_before():
  batch = grown(ENDLESS)
  rows, cuts = np.array([3, 0, 3, 20, 3]), np.array([0, 5, 7, 2, 5])
  branch = jax.jit(functools.partial(tree.branch_at, policy=ENDLESS))
  branched = branch(PARAMS(), batch=batch, rows=rows, cuts=cuts, key=jax.random.key(3))
  branched = jax.tree.map(np.asarray, branched)
  check(branched)
  new, old = actions(branched), actions(batch)
  for row, cut, tokens in zip(rows, cuts, new, strict=True):
    assert tokens[:cut] == old[row][:cut] and len(tokens) == 8
  assert sum(new != old[row] for row, new in zip(rows, new, strict=True)) >= 4
  np.testing.assert_array_equal(branched['groups'], batch['groups'][rows])
  np.testing.assert_array_equal(branched['prompt_lengths'], batch['prompt_lengths'][rows])
  expected, _ = jax.jit(ENDLESS.score)(PARAMS(), branched)
  np.testing.assert_allclose(branched['sampler_logprobs'], expected, atol=2e-5)


def test_branches_are_made_before_the_most_uncertain_action():
  entropy = np.array([[0.1, 0.9, 5.0], [0.3, 0.2, 0.8], [0.4, 0.4, 0.4], [0.5, 0.6, 0.1]], np.float32)
  counts = np.array([2, 3, 1, 2])
  pick = functools.partial(tree.entropy_positions, entropy, counts, num_prompts=2, num=3)
  rows, cuts = pick(jax.random.key(0), epsilon=0.0)
  assert rows.tolist() == [0, 0, 0, 3, 3, 3] and cuts.tolist() == [1] * 6  # the 5.0 is behind its row's end
  rows, cuts = pick(jax.random.key(0), epsilon=1.0)
  assert cuts.tolist() == [0] * 6
  keys = jax.random.split(jax.random.key(1), 200)
  restarts = jax.vmap(lambda key: pick(key, epsilon=0.25)[1] == 0)(keys).mean()
  assert abs(restarts - 0.25) < 0.06  # 600 draws: more than three deviations


def test_semantic_entropy_by_hand():
  """Four tokens, of which the first two mean the same."""
  meanings = np.array([[2, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 3]], np.float32)
  entropy = lambda *probs: tree.semantic_entropy(jnp.log(jnp.array(probs)), meanings)
  np.testing.assert_allclose(entropy(0.5, 0.5, 0, 0), 0, atol=1e-6)  # whatever it is, it means the same
  np.testing.assert_allclose(entropy(0, 0, 0, 1.0), 0, atol=1e-6)
  np.testing.assert_allclose(entropy(0, 0, 0.5, 0.5), np.log(2) * (1 - 0.5), rtol=1e-5)
  np.testing.assert_allclose(entropy(0.25, 0.25, 0.5, 0), 1.5 * np.log(2) * (1 - 0.5), rtol=1e-5)
  opposite = np.array([[1.0], [-1.0]])
  np.testing.assert_allclose(tree.semantic_entropy(jnp.zeros(2), opposite), np.log(2), rtol=1e-6)


@pytest.mark.slow
def test_entropies_are_of_the_distribution_at_each_action():
  batch = grown()
  plain = POLICY.saying(min_tokens=0, temperature=1.0, top_k=0)
  found = tree.entropies(PARAMS(), plain, batch, meanings=jnp.eye(TASK.vocab_size))
  hidden, _ = MODEL.forward(PARAMS(), batch['tokens'])
  start = TASK.prompt_columns
  probs = jax.nn.softmax(MODEL.logits(PARAMS(), hidden[:, start - 1 : -1]))
  expected = -jnp.sum(probs * jnp.log(probs), axis=-1) * (1 - jnp.sum(probs**2, axis=-1))
  mask = batch['action_mask'][:, start:]
  np.testing.assert_allclose(found[mask], expected[mask], atol=1e-5)


@pytest.mark.slow
def test_exploring_decodes_only_what_is_new():
  batch = grown(kind=tree.explore)
  starts, rows = TASK.prompt_columns, actions(batch)
  assert batch['tokens/sampled'][0] < batch['action_mask'].sum()
  old = [GROUP_SIZE * (i // GROUP_SIZE) + np.arange(2) for i in range(BATCH_SIZE)]
  found = tree.entropies(PARAMS(), POLICY, batch, meanings=tree._meaning_classes(TASK, ('abc',)))
  found = np.where(batch['action_mask'][:, starts:], found, -1)
  for i in (2, 7, 15):  # rows of the only round begin as the row of the two that was most uncertain
    best = max(old[i], key=lambda row: found[row].max())
    cut = int(found[best].argmax())
    assert rows[i][:cut] == rows[best][:cut]


@pytest.mark.parametrize('change, message', [
    ({'first_rows': 3, 'rows_per_round': 2}, 'do not add up'), ({'epsilon': 1.5}, 'epsilon=1.5'),
    ({'batch_size': 25}, 'does not divide'), ({'synonyms': ('ab', 'bc')}, 'in common'),
    ({'synonyms': ('xy',)}, 'not in the alphabet'),
])
def test_bad_arguments_of_exploring_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    tree.explore(TASK, POLICY, **{**LOOKING, **change})
