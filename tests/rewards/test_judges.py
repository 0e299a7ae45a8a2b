"""Judges that speak: what they read, what is read of them, and what it comes to."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages.pairwise import pairwise
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.chain import chain
from rlx.envs.text import EOS_ID
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards import judges
from rlx.rollout import judges as rollouts

TASK = chain(modulus=7, min_steps=2, max_steps=2, checks=0, held_out_share=0.2)
DECODING = Decoding(
    max_tokens=7, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(EOS_ID,),
    pad_id=0,
)
POLICY = types.SimpleNamespace(decoding=DECODING)
PROMPT = 3
ONE = judges.pointwise(TASK, asks='=', marker='#', words='0 1')
GRADED = judges.pointwise(TASK, asks='=', marker='#', words='0 1 2 3 4')
PAIR = judges.pairwise(TASK, group_size=3, beside='=', asks=';', marker='#', words='1 2')
ALL = judges.listwise(TASK, group_size=3, orders=3, beside='=', asks=';', marker='#', words='0 1 2')
KEY = jax.random.key(0)


def tokens(text, columns=0):
  row = [EOS_ID if c == '$' else int(TASK.encode(c)[0]) for c in text]
  return row + [0] * (columns - len(row))


def rows(*said):
  """Rows that answer `34=`, padded to ten columns."""
  columns = PROMPT + DECODING.max_tokens
  places, ends = jnp.arange(columns)[None], jnp.array([PROMPT + len(text) for text in said])[:, None]
  return {
      'tokens': jnp.array([tokens('34=' + text, columns) for text in said]), 'valid': places < ends,
      'action_mask': (places >= PROMPT) & (places < ends), 'prompt_lengths': jnp.full(len(said), PROMPT),
  }


GROUP = rows('#0$', '3;0;#0$', '5;#5')


def asked(form, batch=GROUP):
  made = judges.questions(form, POLICY, batch)
  return [TASK.decode(row[:length]) for row, length in zip(made.tokens, made.lengths, strict=True)]


def test_a_judge_reads_problem_and_answers_without_their_ends():
  assert asked(ONE) == ['34=#0=', '34=3;0;#0=', '34=5;#5=']
  assert asked(PAIR) == [
      '34=#0=3;0;#0;', '34=#0=5;#5;', '34=3;0;#0=#0;', '34=3;0;#0=5;#5;', '34=5;#5=#0;', '34=5;#5=3;0;#0;',
  ]
  assert asked(ALL) == ['34=#0=3;0;#0=5;#5;', '34=3;0;#0=5;#5=#0;', '34=5;#5=#0=3;0;#0;']


class Reader:
  """A judge that says, sample by sample, what a function of the question has written down."""

  def __init__(self, write, decoding=DECODING):
    self.write, self.decoding = write, decoding

  def saying(self, **changes):
    return Reader(self.write, DECODING.__class__(**{**vars(self.decoding), **changes}))

  def sample(self, params, prompts, lengths, key, *, group_size):
    del params, key
    texts = [TASK.decode(np.asarray(row)[: int(n)]) for row, n in zip(prompts, lengths, strict=True)]
    most = self.decoding.max_tokens
    said = [self.write(text, i)[:most] for text in texts for i in range(group_size)]
    starts = np.repeat(np.asarray(lengths), group_size)
    found = np.zeros((len(said), prompts.shape[1] + most), np.int32)
    mask = np.zeros(found.shape, bool)
    for row, (start, text) in enumerate(zip(starts, said, strict=True)):
      found[row, :start] = np.repeat(np.asarray(prompts), group_size, axis=0)[row, :start]
      found[row, start : start + len(text)] = tokens(text)
      mask[row, start : start + len(text)] = True
    return {'tokens': jnp.array(found), 'action_mask': jnp.array(mask), 'prompt_lengths': jnp.array(starts)}


def judged(form, write, batch=GROUP, **how):
  reward = judges.by_verdicts(POLICY, Reader(write), form, **{'thoughts': 0, 'votes': 1, **how})
  return reward({'judge': {}}, batch, KEY)


def test_votes_are_averaged_and_what_is_off_format_is_left_out():
  """Of three votes on the first row one is off format; on the last all are, so that it has no reward."""
  votes = {
      '34=#0=': ('#4$', '#1$', '4$'), '34=3;0;#0=': ('3;#2$', '#4$', '#0$'), '34=5;#5=': ('#5$', '#', '#1'),
  }
  found = judged(GRADED, lambda text, i: votes[text][i], thoughts=2, votes=3)
  np.testing.assert_allclose(found['rewards'], [(1 + 0.25) / 2, (0.5 + 1 + 0) / 3, np.nan])
  np.testing.assert_allclose(found['judge/off_format'], [1 / 3, 0, 1], rtol=1e-6)


def test_without_room_for_thoughts_who_thinks_is_off_format():
  found = judged(ONE, lambda text, i: '3;#1$')
  assert np.isnan(found['rewards']).all()


def test_a_win_rate_is_the_pairwise_advantage_and_a_half():
  """The first beats the second in one order alone, both beat the third."""
  wins = {'34=#0=3;0;#0;': 1, '34=3;0;#0=#0;': 1, '34=#0=5;#5;': 1, '34=5;#5=#0;': 2, '34=3;0;#0=5;#5;': 1,
          '34=5;#5=3;0;#0;': 2}
  found = judged(PAIR, lambda text, i: f'#{wins[text]}$')['rewards']
  np.testing.assert_allclose(found, [0.75, 0.75, 0])
  first = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0]])  # 1 where i, shown first, beats j
  np.testing.assert_allclose(found - 0.5, pairwise(jnp.array(first)), atol=1e-6)
  favours = judged(PAIR, lambda text, i: '#1$')['rewards']
  np.testing.assert_allclose(favours, 0.5)  # who is always for the first one says nothing


def test_a_list_is_graded_in_its_order_and_a_place_that_is_favoured_falls_out():
  grades = {'#0': '0', '3;0;#0': '2', '5;#5': '1'}
  write = lambda text, i: '#' + ''.join(grades[answer] for answer in text[3:-1].split('=')) + '$'
  np.testing.assert_allclose(judged(ALL, write)['rewards'], [0, 1, 0.5])
  np.testing.assert_allclose(judged(ALL, lambda text, i: '#210$')['rewards'], 0.5)
  found = judged(ALL, lambda text, i: '#01$')
  assert np.isnan(found['rewards']).all() and found['judge/off_format'].tolist() == [1, 1, 1]


class Chances(Reader):
  """A judge whose logits are known: that of the word 1 is the number of the answer's characters."""

  def saying(self, **changes):
    return Chances(self.write, self.decoding)

  def next_logits(self, params, found, lengths, *, prompt_columns):
    texts = [TASK.decode(np.asarray(row)[: int(n)]) for row, n in zip(found, lengths, strict=True)]
    assert all(text.endswith('#') for text in texts)
    logits = np.zeros((len(texts), TASK.vocab_size), np.float32)
    logits[:, tokens('1')[0]] = [len(text.split('=')[1]) for text in texts]
    logits[:, tokens('2')[0]] = [text.count(';') for text in texts]
    return jnp.array(logits)


def sigmoid(x):
  return 1 / (1 + np.exp(-np.asarray(x, float)))


def test_a_score_is_read_off_the_chance_of_yes():
  reward = judges.by_chances(POLICY, Chances(None), ONE, thoughts=0, votes=1)
  found = reward({'judge': {}}, GROUP, KEY)
  np.testing.assert_allclose(found['rewards'], sigmoid([2, 6, 4]), rtol=1e-5)
  odds, steps = np.exp([2, 6, 4]), np.exp([0, 2, 1])
  certain = (odds + 1) / (odds + steps + TASK.vocab_size - 2)
  np.testing.assert_allclose(found['judge/certainty'], certain, rtol=1e-5)


def test_the_chance_is_read_behind_each_critique():
  """Thoughts say two steps and none; of the grades 0, 1 and 2 the last has a logit of as many steps."""
  write = lambda text, i: (';;#1$', '3#')[i]
  form = judges.pointwise(TASK, asks='=', marker='#', words='0 1 2')
  reward = judges.by_chances(POLICY, Chances(write), form, thoughts=5, votes=2)
  found = reward({'judge': {}}, GROUP, KEY)['rewards']
  scores = []
  for steps in (2, 0):
    chances = np.exp([[0, odds, before + steps] for odds, before in ((2, 0), (6, 2), (4, 1))])
    scores.append((chances[:, 1] / 2 + chances[:, 2]) / chances.sum(axis=1))
  np.testing.assert_allclose(found, np.mean(scores, axis=0), rtol=1e-5)


def test_the_chance_to_be_preferred_is_read_of_both_orders():
  """Of words 1 and 2, the log-odds of the first are its characters less the steps of both."""
  found = judges.by_chances(POLICY, Chances(None), PAIR, thoughts=0, votes=1)({'judge': {}}, GROUP, KEY)
  ahead = lambda i, j: sigmoid((2, 6, 4)[i] - (0, 2, 1)[i] - (0, 2, 1)[j] - 1)  # and one where it is asked
  win = [np.mean([(ahead(i, j) + 1 - ahead(j, i)) / 2 for j in range(3) if j != i]) for i in range(3)]
  np.testing.assert_allclose(found['rewards'], win, rtol=1e-5)


@pytest.mark.slow
def test_chances_of_a_model_are_those_of_its_own_logits():
  """Whatever its decoding."""
  model = LanguageModel(TransformerConfig(
      vocab_size=TASK.vocab_size, num_layers=1, width=8, num_heads=2, num_kv_heads=1, head_size=4,
      mlp_size=12, context_length=24,
  ))
  params = model.init(KEY)
  decoding = Decoding(**{**vars(DECODING), 'temperature': 0.3, 'top_k': 1})
  judge = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=8, packing=None))
  reward = judges.by_chances(POLICY, judge, ONE, thoughts=0, votes=1)
  question = jnp.array([tokens('34=3;0;#0=#')])
  hidden, _ = model.forward(params, question)
  logits = model.logits(params, hidden[:, -1])[0]
  found = reward({'judge': params}, GROUP, KEY)['rewards'][1]
  np.testing.assert_allclose(found, sigmoid(logits[tokens('1')[0]] - logits[tokens('0')[0]]), rtol=1e-4)


# --- what they are shown ------------------------------------------------------------------------------------


@pytest.mark.parametrize(('form', 'expected'), [
    (ONE, ['34=#0=#0', '34=3;0;#0=#1', '']),  # of the last nothing is known
    (GRADED, ['34=#0=#1', '34=3;0;#0=#4', '']),
])
def test_right_verdicts_are_shown(form, expected):
  made = rollouts.demonstrated(jnp.array([0.25, 1.0, jnp.nan]), form, POLICY, GROUP)
  counts = made['action_mask'].any(axis=1)
  shown = [TASK.decode(row) if x else '' for row, x in zip(made['tokens'], counts, strict=True)]
  assert shown == expected
  np.testing.assert_array_equal(made['action_mask'][0].sum(), 3)  # marker, word, end
  assert (made['tokens'][0][made['valid'][0]][-1]) == EOS_ID


@pytest.mark.slow
def test_of_equal_answers_no_order_is_shown_and_lists_follow_theirs():
  rewards = jnp.array([0.5, 1.0, 0.5])
  made = rollouts.demonstrated(rewards, PAIR, POLICY, GROUP)
  counts = np.asarray(made['action_mask'].any(axis=1))
  np.testing.assert_array_equal(counts, [1, 0, 1, 1, 0, 1])
  assert [TASK.decode(row)[-1] for row in made['tokens'][counts]] == ['2', '1', '1', '2']
  made = rollouts.demonstrated(rewards, ALL, POLICY, GROUP)
  assert [TASK.decode(row)[-4:] for row in made['tokens']] == ['#121', '#211', '#112']


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(('make', 'message'), [
    (lambda: judges.pairwise(
        TASK, group_size=2, beside='=', asks='', marker='#', words='1 2 3'), 'one of two'),
    (lambda: judges.pointwise(TASK, asks='', marker='#', words='1 1'), 'all different'),
    (lambda: judges.pointwise(TASK, asks='', marker='#;', words='0 1'), 'needs to be one'),
    (lambda: judges.listwise(
        TASK, group_size=2, orders=3, beside='=', asks='', marker='#', words='0 1'), 'orders=3'),
    (lambda: judges.by_chances(POLICY, Reader(None), ALL, thoughts=0, votes=1), 'ask by_verdicts'),
    (lambda: judges.by_chances(POLICY, Reader(None), ONE, thoughts=0, votes=2), 'set votes=1'),
    (lambda: judges.questions(PAIR, POLICY, rows('#0$', '#1$')), 'no groups of 3'),
])
def test_what_cannot_be_is_refused(make, message):
  with pytest.raises(ValueError, match=message):
    make()
