"""Speculation: the same rows with any drafter, and fewer steps with a good one."""

import dataclasses
import functools
import heapq
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_sample
from test_sample import GROUP_SIZE, KEY, MODEL, PARAMS, PLAIN, completions

from rlx import sharding
from rlx.engine import sample as engine
from rlx.engine import slots, speculate
from rlx.engine.speaker import Speaker
from rlx.engine.speculate import Speculation
from rlx.kernels import switch
from rlx.models import drafter
from rlx.rollout import prompts
from tests.cases import cases

PROMPTS, LENGTHS = jnp.asarray(test_sample.PROMPTS), jnp.asarray(test_sample.LENGTHS)
NUM_ROWS, MAX_TOKENS = len(PROMPTS) * GROUP_SIZE, 11
DECODINGS = {
    name: dataclasses.replace(PLAIN, max_tokens=MAX_TOKENS, **changes)
    for name, changes in {
        'plain': {},
        'filtered': {
            'temperature': 1.4, 'top_k': 6, 'top_p': 0.9, 'eos_ids': (1, 5), 'min_tokens': 2,
            'sampler': 'inverse_cdf',
        },
        'greedy': {'temperature': 0.0, 'eos_ids': ()},
    }.items()
}
OTHER = jax.tree.map(lambda x: x[..., ::-1], PARAMS)  # as far from the policy as any model of its shape
ALL_TOKENS = jnp.full(NUM_ROWS, MAX_TOKENS, jnp.int32)
static = functools.partial(jax.jit, static_argnames=('name', 'num_slots', 'guess', 'num_drafts', 'max_live'))


def speculation_of(guess, num_drafts, max_live, draft_params):
  """`guess` is the longest n-gram, or 'model'."""
  model = lambda: speculate.by_model(draft_params, MODEL)
  return Speculation(model() if guess == 'model' else speculate.ngram(longest=guess), num_drafts, max_live)


@static
def sample(params, draft_params, key, budgets, *, name, num_slots, guess, num_drafts, max_live):
  return engine.sample(
      params, MODEL, PROMPTS, LENGTHS, key, group_size=GROUP_SIZE, decoding=DECODINGS[name],
      num_slots=num_slots, budgets=budgets,
      speculation=speculation_of(guess, num_drafts, max_live, draft_params),
  )


@functools.cache
def drawn(name):
  """The batch without speculation, as NumPy arrays."""
  batch = jax.jit(lambda: engine.sample(
      PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=GROUP_SIZE, decoding=DECODINGS[name]
  ))()
  return jax.tree.map(np.asarray, batch)


@functools.cache
def speculated(name, num_slots, guess, num_drafts, max_live, draft='policy'):
  """The batch with speculation, as NumPy arrays."""
  draft_params = {'policy': PARAMS, 'other': OTHER}[draft]
  return jax.tree.map(np.asarray, sample(
      PARAMS, draft_params, KEY, ALL_TOKENS, name=name, num_slots=num_slots, guess=guess,
      num_drafts=num_drafts, max_live=max_live,
  ))


def assert_same(batch, other):
  """All columns of the other to the bit, but log-probs up to rounding."""
  for name in other.keys() - {'sampler_logprobs'}:
    np.testing.assert_array_equal(batch[name], other[name], err_msg=name)
  np.testing.assert_allclose(batch['sampler_logprobs'], other['sampler_logprobs'], rtol=1e-5, atol=1e-5)


def row_lengths(name):
  return np.array([len(row) for row in completions(drawn(name))])


# Programs are shared between tests where they can be: most of the time here is compilation.
WIDE = ('plain', 5, 'model', 3, 5)  # drafts in every step, and refills
TAIL = ('filtered', NUM_ROWS, 'model', 1, 7)  # drafts in the tail only
ALONE = ('plain', 1, 2, 20, 2)  # more drafts than tokens


# --- what is said -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'case', [WIDE, (*WIDE, 'other'), TAIL, (*TAIL, 'other'), ALONE], ids=str
)
@pytest.mark.slow
def test_rows_are_those_without_speculation(case):
  assert_same(speculated(*case), drawn(case[0]))


def test_rows_are_ragged_enough_for_these_tests():
  for name in ('plain', 'filtered'):
    lengths = sorted(row_lengths(name))
    assert lengths[0] < 5 and lengths[-1] == MAX_TOKENS, lengths


@pytest.mark.slow
def test_a_row_ends_within_its_budget():
  """Also where the budget ends inside a block of right drafts."""
  budgets = jnp.resize(jnp.array([1, 3, 5, 2]), NUM_ROWS)
  _, num_slots, guess, num_drafts, max_live = WIDE
  batch = sample(
      PARAMS, PARAMS, KEY, budgets, name='plain', num_slots=num_slots, guess=guess, num_drafts=num_drafts,
      max_live=max_live,
  )
  for row, whole, budget in zip(completions(batch), completions(drawn('plain')), budgets, strict=True):
    assert row == whole[:budget]
  cut = row_lengths('plain') > budgets
  np.testing.assert_array_equal(batch['truncated'], drawn('plain')['truncated'] | cut)
  np.testing.assert_array_equal(batch['sampler_logprobs'] != 0, batch['action_mask'])
  assert np.nanmin(batch['speculation/right_fraction']) == 1
  assert cut.any() and not cut.all()


@pytest.mark.slow
def test_a_population_says_what_its_members_say():
  keys = jax.random.split(jax.random.key(1), 2)
  name, num_slots, guess, num_drafts, max_live = TAIL
  run = lambda key: sample(
      PARAMS, PARAMS, key, ALL_TOKENS, name=name, num_slots=num_slots, guess=guess, num_drafts=num_drafts,
      max_live=max_live,
  )
  together = jax.vmap(run)(keys)
  for index, key in enumerate(keys):
    assert_same(jax.tree.map(lambda x, index=index: x[index], together), run(key))


# --- how many steps it takes ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_drafter_that_is_the_policy_is_always_right():
  """So every step is a whole block: what it remembers of the past is whole, and so is what it is told."""
  batch, lengths = speculated(*WIDE), row_lengths('plain')
  blocks = -(-lengths // 4)
  np.testing.assert_allclose(batch['speculation/accepted'], (lengths - blocks) / blocks, rtol=1e-6)
  np.testing.assert_allclose(batch['speculation/free_fraction'], (lengths - blocks) / lengths, rtol=1e-6)
  np.testing.assert_array_equal(batch['speculation/right_fraction'], np.where(lengths > 1, 1, np.nan))
  free_at = [0] * 5  # when each slot is done with what it has
  for steps in blocks:
    heapq.heapreplace(free_at, free_at[0] + steps)
  np.testing.assert_array_equal(batch['speculation/steps'], max(free_at))


@pytest.mark.slow
@pytest.mark.parametrize('case', [WIDE, TAIL], ids=str)
def test_it_is_always_right_behind_a_refill_and_behind_plain_steps(case):
  """What it remembers is then copied from the bank, or read from the tokens so far."""
  good, bad = speculated(*case), speculated(*case, 'other')
  assert np.nanmin(good['speculation/right_fraction']) == 1
  assert np.nanmean(bad['speculation/right_fraction']) < 0.5
  assert bad['speculation/steps'][0] > good['speculation/steps'][0]


@pytest.mark.slow
@pytest.mark.parametrize('case', [TAIL, ('filtered', NUM_ROWS, 1, 1, 0)], ids=str)
def test_drafts_are_tried_in_the_tail_only(case):
  """One token a step while more rows are live, whole blocks from then on."""
  lengths, max_live = row_lengths('filtered'), case[-1]
  plain = next(step for step in range(MAX_TOKENS + 1) if (lengths > step).sum() <= max_live)
  left = np.maximum(lengths - plain, 0)
  blocks = -(-left // 2)
  batch = speculated(*case)
  assert_same(batch, drawn('filtered'))
  np.testing.assert_array_equal(batch['speculation/steps'], plain + blocks.max())
  np.testing.assert_array_equal(np.isnan(batch['speculation/accepted']), blocks == 0)
  np.testing.assert_allclose(batch['speculation/free_fraction'], (left - blocks) / lengths, rtol=1e-6)
  assert plain > 0 and (blocks.max() > 1) == (max_live > 0)


def test_ngrams_are_right_where_rows_repeat_themselves():
  """A greedy policy that looks at nothing but the newest token goes in circles; here through the rollout."""
  problems, num_rows = {'prompts': PROMPTS, 'prompt_lengths': LENGTHS}, LENGTHS.shape[0]
  task = types.SimpleNamespace(begin=None, data=None, draw=lambda world, key, num: (problems, world))
  policy = Speaker(model=MODEL, decoding=DECODINGS['greedy'], scoring=None)
  rollout = prompts.guessed_completions(
      task, policy, batch_size=num_rows, group_size=1, num_slots=4, ngram=3, draft_tokens=3, max_live=100
  )
  run = jax.jit(lambda params: rollout.draw({'policy': params}, {}, KEY)[0])
  assert_same(run(PARAMS), jax.tree.map(lambda x: x[::GROUP_SIZE], drawn('greedy')))
  layers = {**PARAMS['layers'], **{name: 0 * PARAMS['layers'][name] for name in ('attention_out', 'down')}}
  batch = run({**PARAMS, 'layers': layers})
  assert np.mean(batch['speculation/accepted']) > 1
  assert batch['speculation/steps'][0] < 0.75 * MAX_TOKENS


@pytest.mark.slow
def test_stopped_anywhere_it_goes_on_as_if_it_had_not_been():
  """While slots are many, where they become few, and after."""
  state, run = stoppable()
  whole, tally = run(state, 1000)
  assert whole.counts[:-1].tolist() == row_lengths('plain').tolist()
  for num_steps in (1, *range(4, int(whole.steps), 3), int(whole.steps) - 1):
    stopped, first = run(state, num_steps)
    assert stopped.steps == num_steps and not stopped.ended.all()
    end, second = run(stopped, 1000)
    for name in ('tokens', 'counts', 'ended', 'steps'):
      np.testing.assert_array_equal(getattr(end, name), getattr(whole, name))
    jax.tree.map(lambda a, b, c: np.testing.assert_array_equal(a + b, c), first, second, tally)
  assert tally.accepted.sum() == tally.compared.sum() > 0


def stoppable():
  """State at the beginning and `run(state, num_steps)`: four slots, drafts once two are left."""
  decoding, columns = DECODINGS['plain'], PROMPTS.shape[1] + MAX_TOKENS
  bank = jax.jit(lambda: slots.read_prompts(PARAMS, MODEL, PROMPTS, LENGTHS, columns=columns))()
  queue = slots.fresh(LENGTHS, ALL_TOKENS, group_size=GROUP_SIZE, max_tokens=MAX_TOKENS)
  keys = jax.vmap(functools.partial(jax.random.fold_in, KEY))(jnp.arange(NUM_ROWS + 1))
  draw = lambda params, model, hidden, sequence, count: engine.draw_tokens(
      params, model, decoding, keys[sequence], hidden, count
  )

  @jax.jit
  def run(state, num_steps):
    return speculate.run(
        PARAMS, MODEL, bank, queue, state, draw, decoding.is_eos, beginnings=PROMPTS,
        speculation=speculation_of('model', 1, 2, PARAMS), until=lambda slots: slots.steps >= num_steps,
    )

  return jax.jit(lambda: slots.begin(MODEL, bank, queue, num_slots=4))(), run


# --- drafters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('row', 'longest', 'drafts'),
    [
        ([5, 6, 7, 5, 6], 3, [7, 5, 6, 7]),  # then in circles
        ([4, 4, 4], 3, [4, 4, 4, 4]),
        ([1, 2, 9, 3, 2, 8, 1, 2], 2, [9, 3, 2, 8]),  # two tokens alike before one that is later
        ([1, 2, 9, 3, 2, 8, 1, 2], 1, [8, 1, 2, 8]),
        ([1, 5, 2, 5, 3, 5], 1, [3, 5, 3, 5]),  # the latest of those alike
        ([1, 2, 3], 2, [3, 3, 3, 3]),  # nothing alike
    ],
)
def test_ngrams_are_looked_up_in_the_row_itself(row, longest, drafts):
  """And never behind its newest token, where wrong drafts of earlier steps stand."""
  guess = speculate.ngram(longest=longest)
  propose = lambda history, newest: guess.propose(
      None, history, jnp.array([newest]), None, None, jnp.array([len(row) - 1]), 4
  )
  for stale in ([], row[:2] + row[:2], row[-2:] + row[-2:]):
    history = guess.read(jnp.array([row[:-1] + [0] + stale]), 20)
    proposed, history = propose(history, row[-1])
    assert proposed.tolist() == [drafts]
    assert history[0, 0, : len(row) + 4].tolist() == row + drafts


def test_a_first_drafter_is_the_beginning_of_its_policy():
  """A policy whose second block adds nothing is its own drafter."""
  layers = dict(PARAMS['layers'])
  for name in ('attention_out', 'down'):
    layers[name] = layers[name].at[1].set(0)
  policy = {**PARAMS, 'layers': layers}
  first = drafter.drafter(MODEL, num_layers=1)
  params = first.init(KEY, {'policy': policy})
  shapes = jax.eval_shape(first.functions.init, KEY)
  assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)
  hidden = [model.forward(x, PROMPTS)[0] for model, x in ((MODEL, policy), (first.functions, params))]
  np.testing.assert_allclose(*hidden, rtol=1e-6, atol=1e-6)


def test_the_drafter_of_a_sliding_window_keeps_the_windows_of_its_layers():
  config = dataclasses.replace(MODEL.shape, window=4, sliding_layers=(1,))
  assert drafter.config_of(config, num_layers=2) == config
  assert drafter.config_of(config, num_layers=1).window == 0
  with pytest.raises(ValueError, match=r'num_layers=3 is not in 1\.\.2'):
    drafter.config_of(config, num_layers=3)


@pytest.mark.parametrize('guess', cases([3, 'model'], at_once=['model']))
@pytest.mark.parametrize('where', cases(['gpu', 'mesh'], at_once=['gpu']))
def test_drafts_change_nothing_on_a_gpu_or_a_mesh(monkeypatch, where, guess):
  """With layers and caches as a GPU's loop keeps them, and with rows and drafts on shards of their own."""
  run = lambda: sample.__wrapped__(
      PARAMS, OTHER, KEY, ALL_TOKENS, name='plain', num_slots=4, guess=guess, num_drafts=2, max_live=4
  )
  alone = run()
  if where == 'gpu':
    monkeypatch.setattr(switch, 'device', lambda: switch.Device('gpu', 'NVIDIA H200', (9, 0)))
    again = run()
  else:
    with jax.set_mesh(sharding.make_mesh(data=2, fsdp=2, tensor=1)):
      again = jax.jit(run)()
  np.testing.assert_array_equal(again['tokens'], alone['tokens'])


# --- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'num_slots': 0}, 'num_slots=0 must be at least 1 for speculation'),
        ({'draft_tokens': 0}, 'draft_tokens=0 must be at least 1'),
        ({'max_live': -1}, 'max_live=-1 must be at least 0'),
        ({'ngram': 0}, 'ngram=0: the tokens that are looked up'),
        ({'group_size': 3}, 'group_size=3 does not divide'),
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(changes, message):
  numbers = dict(batch_size=4, group_size=2, num_slots=2, ngram=2, draft_tokens=2, max_live=2)
  with pytest.raises(ValueError, match=message):
    prompts.guessed_completions(None, None, **{**numbers, **changes})


def test_speculation_without_slots_is_refused():
  with pytest.raises(ValueError, match='num_slots=0 must be at least 1 for speculation'):
    engine.sample(
        PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=1, decoding=DECODINGS['plain'],
        speculation=speculation_of(2, 1, 1, None),
    )
