"""Second attempts: who is asked again, what is put in place of what, and what stays as it was."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs import text
from rlx.envs.mixture import together
from rlx.envs.skills import skills
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import inject
from rlx.types import check
from tests.once import once

TASK = skills(modulus=2, num_skills=1, used=(0,), min_steps=2, max_steps=2, held_out_share=0.5)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8, mlp_size=16,
    context_length=16,
))
DECODING = Decoding(
    max_tokens=TASK.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=TASK.eos_ids, pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
SIZES = dict(batch_size=24, group_size=4, num_slots=0)
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))


def mixed(task):
  """Right where a digit is said first, so that some groups of an untrained policy fail and some do
  not; behind a prompt that begins with a hint or an attempt, always."""

  def reward(models, batch, key):
    del models, key
    first = jnp.take_along_axis(batch['tokens'], batch['prompt_lengths'][:, None], axis=1)[:, 0]
    helped = batch['prompt_lengths'] > task.prompt_columns
    return {**batch, 'rewards': (helped | (first == 6) | (first == 7)).astype(jnp.float32)}

  return reward


def drawn(rollout, key=3):
  batch, world = jax.jit(rollout.draw)({'policy': PARAMS()}, {}, jax.random.key(key))
  assert world == {}
  check(batch)
  return jax.tree.map(np.asarray, batch)


@pytest.mark.slow
def test_other_forms_are_left_out_and_what_a_mixture_judges_by_is_kept():
  """Its tasks' own solutions end in the same word, and are no form: a rollout that asks again needs them."""
  both = together([TASK, TASK], shares=(1, 1))
  problems = both.sample(jax.random.key(0), 4, False)
  assert 'task0_hinted_prompts' in problems
  kept = inject.without_forms(problems)
  assert not [name for name in kept if name.endswith('_prompts')]
  np.testing.assert_array_equal(both.verify(kept, problems['solutions']), np.ones(4))


@pytest.fixture(scope='module')
def hinted():
  reward = mixed(TASK)
  return drawn(inject.hinted(
      TASK, POLICY, reward, **SIZES, form='hinted', num_retried=6, kept_rows=1
  ))


def test_hints_are_for_groups_without_a_success(hinted):
  by_group = lambda name: hinted[name].reshape(6, 4)
  failed = by_group('inject/failed_groups')
  assert 0 < failed.mean() < 1 and (failed == failed[:, :1]).all()
  assert (by_group('injected') == failed & (np.arange(4) >= 1)).all()
  long = by_group('prompt_lengths') > TASK.prompt_columns
  assert (long == by_group('injected')).all(), 'a row has the prompt that it was sampled from'
  assert (by_group('rewards')[failed & ~long] == 0).all() and by_group('rewards')[~failed[:, 0]].any(1).all()
  assert (by_group('groups') == np.arange(6)[:, None]).all()


@pytest.mark.slow
def test_rows_can_be_trained_on(hinted):
  """What the scorer says of a row is what the sampler said when it drew it, hinted or not."""
  logprobs, _ = POLICY.score(PARAMS(), hinted)
  np.testing.assert_allclose(logprobs, hinted['sampler_logprobs'], atol=1e-5)
  problems = {'solutions': hinted['solutions']}
  again = verifier(TASK, POLICY)({}, hinted, jax.random.key(0))['rewards']
  completions = engine.completions_of(hinted, DECODING)
  np.testing.assert_array_equal(again, TASK.verify(problems, completions))


@pytest.mark.slow
def test_retry_by_hand():
  """Groups 0 and 2 failed; where one group is asked again, it is the first of them."""
  groups = jnp.repeat(jnp.arange(3), 2)
  rows = {'rewards': jnp.array([0.0, 0, 1, 0, 0, 0]), 'x': jnp.arange(6), 'groups': groups}

  def again(numbers):
    twice = jnp.repeat(numbers, 2)
    return {'rewards': jnp.ones(twice.shape), 'x': twice * 10 + 100, 'groups': jnp.zeros_like(twice)}

  new, injected = inject.retry(rows, again, group_size=2, num_retried=2, kept_rows=1)
  assert injected.tolist() == [False, True, False, False, False, True]
  assert new['x'].tolist() == [0, 100, 2, 3, 4, 120]
  assert new['rewards'].tolist() == [0, 1, 1, 0, 0, 1] and new['groups'].tolist() == [0, 0, 1, 1, 2, 2]
  new, injected = inject.retry(rows, again, group_size=2, num_retried=1, kept_rows=0)
  assert new['x'].tolist() == [100, 100, 2, 3, 4, 5] and injected.tolist() == [True] * 2 + [False] * 4
  new, injected = inject.retry(rows, again, group_size=2, num_retried=3, kept_rows=0)
  assert new['x'].tolist() == [100, 100, 2, 3, 120, 120] and injected.sum() == 4


@pytest.mark.slow
def test_a_policy_hints_itself():
  """What it wrote in answer to `asking` stands in front of the new prompts, as far as it is shown."""
  rollout = inject.self_hinted(
      TASK, POLICY, mixed(TASK), **SIZES, hint_tokens=1, num_retried=6, kept_rows=0
  )
  batch = drawn(rollout)
  blank = TASK.alphabet.index('?') + 2
  hints = batch['tokens'][batch['injected']][:, :2]
  assert (hints[:, 1] == blank).all(), 'the second token would be the whole answer'
  assert len(np.unique(hints[:, 0])) > 1
  assert (batch['tokens'][batch['injected']][:, 2:6] == batch['tokens'][~batch['injected']][:1, :4]).all()


@pytest.mark.slow
def test_three_attempts():
  """Each is for what failed so far; the direct rows say the same behind the problem's own prompt."""

  def reward(models, batch, key):
    del models, key
    lengths, first = batch['prompt_lengths'], jnp.take_along_axis(
        batch['tokens'], batch['prompt_lengths'][:, None], axis=1
    )[:, 0]
    decomposed = lengths == 6  # `0a;a;=`; the refined one has seven
    asked = jnp.arange(24) // 4
    right = (lengths == 7) | (decomposed & (asked < 2)) | ((first == 6) & (lengths < 6))
    return {**batch, 'rewards': right.astype(jnp.float32)}

  batch = drawn(inject.rethought(TASK, POLICY, reward, **SIZES, num_retried=6))
  attempts = batch['attempts'].reshape(6, 4)
  assert (attempts == attempts[:, :1]).all() and set(attempts[:, 0]) == {0, 1, 2}
  lengths = np.array([4, 6, 7])[batch['attempts']]
  np.testing.assert_array_equal(batch['prompt_lengths'], lengths)
  np.testing.assert_array_equal(batch['transferred'], batch['attempts'] > 0)
  semicolon = TASK.alphabet.index(';') + 2
  assert (batch['tokens'][batch['attempts'] == 2][:, 2] == semicolon).all()
  for i, length in enumerate(batch['prompt_lengths']):
    said = batch['tokens'][i, length : length + 3] * batch['action_mask'][i, length : length + 3]
    np.testing.assert_array_equal(batch['direct_tokens'][i, 4:7], said)
    spoken = batch['action_mask'][i, length : length + 3]
    np.testing.assert_array_equal(batch['direct_mask'][i, 4:7], spoken)
    np.testing.assert_array_equal(batch['direct_valid'][i, :7], [True] * 4 + spoken.tolist())
  assert (batch['direct_lengths'] == 4).all() and not batch['direct_mask'][:, 7:].any()
  first = [TASK.decode(row[:4]) for row in batch['direct_tokens']]
  assert set(first) <= {'0aa=', '1aa='}


def test_lessons_are_solutions_in_every_form():
  rollout = inject.lessons(TASK, POLICY, batch_size=200, forms=('', 'hinted', 'asking'))
  batch = drawn(rollout)
  seen = set()
  rows = (batch[name] for name in ('tokens', 'action_mask', 'prompt_lengths'))
  for tokens, mask, length in zip(*rows, strict=True):
    prompt, answer = TASK.decode(tokens[:length]), TASK.decode(tokens[length:])
    assert mask.sum() == len(answer) + 1 and tokens[mask][-1] == text.EOS_ID
    start = int(prompt[-4])
    values = f'{1 - start}{start}'
    assert prompt.endswith('aa=') and answer == (f'{values[0]}?' if '!' in prompt else values)
    seen.add(prompt[:-4])
  assert seen in ({'', '0?', '01!'}, {'', '1?', '10!'}), 'two digits make one problem to be trained on'


@pytest.mark.parametrize('change, message', [
    ({'num_retried': 0}, 'num_retried=0'), ({'num_retried': 7}, 'num_retried=7'),
    ({'kept_rows': 4}, 'kept_rows=4'), ({'group_size': 5}, 'group_size=5'),
])
def test_bad_sizes_are_refused(change, message):
  sizes = {**SIZES, 'form': 'hinted', 'num_retried': 6, 'kept_rows': 1, **change}
  with pytest.raises(ValueError, match=message):
    inject.hinted(TASK, POLICY, mixed(TASK), **sizes)


def test_hints_as_long_as_answers_are_refused():
  for hint_tokens in (0, 2):
    with pytest.raises(ValueError, match=f'hint_tokens={hint_tokens}'):
      inject.self_hinted(
          TASK, POLICY, mixed(TASK), **SIZES, hint_tokens=hint_tokens, num_retried=6, kept_rows=0
      )


@pytest.mark.slow
def test_unknown_forms_are_refused():
  problems = TASK.sample(jax.random.key(0), 2, False)
  with pytest.raises(ValueError, match="form='hint' is none of the forms"):
    inject.form_of(problems, 'hint')
  short = functools.partial(inject.lessons, TASK, POLICY.saying(max_tokens=2))
  with pytest.raises(ValueError, match='max_tokens=2'):
    short(batch_size=4, forms=('',))
