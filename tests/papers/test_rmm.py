"""RMM: topics are merged in a bank, and a reranker is paid by citations alone.

https://arxiv.org/abs/2503.08026
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.rmm import choice_logprobs, rmm
from rlx.envs import sessions
from rlx.envs.text import EOS_ID, PAD_ID
from rlx.errors import ConfigError
from rlx.models.networks import Network
from rlx.rollout.sessions import cited_entries
from tests.cases import cases
from tests.once import once

SIZE = {'topics': 3, 'sessions': 2, 'turns': 3, 'values': 8, 'num_read': 2, 'held_out_share': 0.2}
BANKS = {name: getattr(sessions, name)(**SIZE) for name in ('by_topic', 'by_turn', 'by_session')}
SAMPLE = {name: jax.jit(task.sample, static_argnums=(1, 2)) for name, task in BANKS.items()}
KEY = jax.random.key(0)
PROBLEMS = {
    name: once(lambda sample=sample: jax.device_get(sample(KEY, 64, False)))
    for name, sample in SAMPLE.items()
}
TABLE = Network(init=None, apply=lambda params, queries, candidates: params)  # scores as they are


def told(name, i):
  """The bank of a user as text, what is asked, and the value that holds."""
  task, problem = BANKS[name], {column: x[i] for column, x in PROBLEMS[name]().items()}
  bank = [task.decode(x) for x in problem['candidates']]
  return bank, task.decode(problem['queries']), task.decode([problem['value']]), int(problem['gold'])


def test_a_topic_has_what_was_said_of_it_last_and_the_bank_is_in_the_order_of_time():
  for i in range(64):
    turns, asked, value, gold = told('by_turn', i)
    newest = {turn[0]: turn for turn in turns}
    order = sorted(newest, key=lambda topic: len(turns) - 1 - turns[::-1].index(newest[topic]))
    bank, also_asked, also_value, also_gold = told('by_topic', i)
    assert bank == [newest[topic] for topic in order] and len(bank) == 3
    whole, *_, session = told('by_session', i)
    assert whole == [''.join(turns[:3]), ''.join(turns[3:])] and session == gold // 3
    assert (asked, value) == (also_asked, also_value)
    assert turns[gold] == bank[also_gold] and bank[also_gold][1] == value
    assert all(turn[0] != turns[gold][0] for turn in turns[gold + 1:])


def test_a_letter_asks_for_the_same_topic_everywhere_and_it_is_another_letter():
  meant = {}
  for i in range(64):
    bank, asked, _, gold = told('by_topic', i)
    assert meant.setdefault(asked[0], bank[gold][0]) == bank[gold][0]
  assert any(asked.lower() != topic for asked, topic in meant.items())


@pytest.mark.parametrize('name', BANKS)
def test_the_expert_cites_the_newest_of_what_it_reads_and_says_when_nothing_is_there(name):
  task, problems = BANKS[name], PROBLEMS[name]()
  cited = np.asarray(task.cited(problems['solutions']))
  topics = {told(name, i)[1]: told('by_turn', i)[0][told('by_turn', i)[3]][0] for i in range(64)}
  for prompt, solution, place in zip(problems['prompts'], problems['solutions'], cited, strict=True):
    read, topic = task.decode(prompt)[:-2], topics[task.decode(prompt)[-2:]]
    pairs = [read[j:j + 2] for j in range(0, len(read), 2)]
    about = [j for j, pair in enumerate(pairs) if pair[0] == topic]
    if about:
      assert place == about[-1] // (len(pairs) // 2)
      assert task.decode(solution) == 'mn'[place] + pairs[about[-1]][1]
    else:
      assert place == -1 and task.decode(solution) == '-'
  assert 0.3 < (cited >= 0).mean() <= 1
  right = np.asarray(task.verify(problems, problems['solutions']))
  assert (right[cited < 0] == 0).all() and right.sum() > 0


@pytest.mark.slow
def test_what_is_held_out_is_a_topic_with_a_value():
  pairs = lambda held_out: {
      (tuple(query), int(value))
      for query, value in zip(
          *(np.asarray(x) for x in map(SAMPLE['by_topic'](KEY, 500, held_out).get, ('queries', 'value'))),
          strict=True,
      )
  }
  assert not pairs(True) & pairs(False) and pairs(True)


def test_chances_without_replacement_by_hand():
  scores = jnp.log(jnp.array([[0.5, 0.3, 0.2]]))
  choices = jnp.array([[1, 0]])
  np.testing.assert_allclose(choice_logprobs(scores, choices), np.log([[0.3, 0.5 / 0.7]]), rtol=1e-6)
  pairs = jnp.array([[i, j] for i in range(3) for j in range(3) if i != j])
  all_pairs = choice_logprobs(jnp.tile(scores, (6, 1)), pairs).sum(axis=1)
  np.testing.assert_allclose(jnp.exp(all_pairs).sum(), 1, rtol=1e-6)


def slope(cited):
  """Of the loss by the scores of two questions with three entries each, from equal chances."""
  algorithm = rmm(lambda *_: None, TABLE)
  batch = {
      'queries': None, 'candidates': None, 'choices': jnp.array([[0, 1], [2, 0]]), 'cited': jnp.array(cited)
  }
  batch = algorithm.advantage({}, batch, None)
  return jax.grad(lambda scores: algorithm.loss({'reranker': scores}, batch, None)[0])(jnp.zeros((2, 3)))


def test_a_score_rises_by_its_citation_beside_the_mean():
  # r = 1, -1, -1, -1 and b = -1/2: A = 3/2, -1/2, -1/2, -1/2; ∂ log π of the second draw is over two entries.
  first = 1.5 * np.array([2 / 3, -1 / 3, -1 / 3]) - 0.5 * np.array([0, 0.5, -0.5])
  second = -0.5 * np.array([-1 / 3, -1 / 3, 2 / 3]) - 0.5 * np.array([0.5, -0.5, 0])
  expected = -np.stack([first, second]) / 2
  np.testing.assert_allclose(slope([[True, False], [False, False]]), expected, atol=1e-6)


@pytest.mark.parametrize('cited', [False, True])
def test_citations_that_are_all_alike_teach_nothing(cited):
  np.testing.assert_allclose(slope([[cited] * 2] * 2), np.zeros((2, 3)), atol=1e-7)


def answering(place):
  """An answerer that cites the entry at a place, whatever it reads; -1 for none."""
  task = BANKS['by_turn']
  said = task.encode('-' if place < 0 else 'mn'[place] + '0')

  def sample(params, prompts, lengths, key, *, group_size):
    del params, lengths, key, group_size
    answer = jnp.zeros((len(prompts), 3), jnp.int32).at[:, :len(said)].set(said).at[:, len(said)].set(EOS_ID)
    none = jnp.zeros(prompts.shape, bool)
    return {
        'tokens': jnp.concatenate([prompts, answer], axis=1),
        'action_mask': jnp.concatenate([none, answer != PAD_ID], axis=1),
        'prompt_lengths': jnp.full(len(prompts), prompts.shape[1]),
    }

  return types.SimpleNamespace(sample=sample, decoding=types.SimpleNamespace(pad_id=PAD_ID, max_tokens=3))


@pytest.mark.parametrize('place', cases([-1, 0, 1], at_once=[-1, 0]))
def test_what_is_cited_is_the_entry_that_was_shown_there(place):
  """Of six entries the fifth and the second are taken, in this order nearly always; they are shown sorted."""
  scores = jnp.array([0.0, 50.0, 0.0, 0.0, 100.0, 0.0])
  table = Network(init=None, apply=lambda params, queries, candidates: jnp.tile(scores, (len(queries), 1)))
  rollout = cited_entries(BANKS['by_turn'], table, answering(place), batch_size=8)
  models = {'reranker': None, 'answerer': None}
  batch, _ = jax.jit(lambda key: rollout(models, rollout.begin(key), key))(KEY)
  np.testing.assert_array_equal(batch['choices'], [[4, 1]] * 8)
  np.testing.assert_array_equal(batch['cited'], [{-1: [0, 0], 0: [0, 1], 1: [1, 0]}[place]] * 8)
  np.testing.assert_array_equal(batch['memory/cited'], float(place >= 0))
  assert not {'gold', 'value', 'solutions'} & set(batch)
  shown = batch['candidates'][:, [1, 4]].reshape(8, -1)
  np.testing.assert_array_equal(batch['tokens'][:, :6], jnp.concatenate([shown, batch['queries']], axis=1))


def test_a_world_says_what_does_not_fit():
  with pytest.raises((ConfigError, ValueError), match='num_read'):
    sessions.by_session(**{**SIZE, 'num_read': 3})
