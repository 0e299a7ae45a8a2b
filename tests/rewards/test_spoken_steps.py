"""Judges that speak of steps: what they read, what is read of them, votes, and what a verdict is worth."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.envs.chain import chain
from rlx.envs.text import EOS_ID
from rlx.evaluation.steps import f1
from rlx.rewards import spoken_steps
from rlx.rewards.spoken_steps import Verdicts
from rlx.rollout import spoken_steps as rollouts

TASK = chain(modulus=7, min_steps=2, max_steps=2, checks=0, held_out_share=0.2)  # three steps
VERDICTS = Verdicts(  # three samples on each of two rows of two steps
    right=jnp.array([
        [[1, 1, 0], [1, 0, 0], [1, 0, 0]],
        [[1, 1, 0], [0, 0, 0], [1, 0, 0]],
    ], bool),
    in_form=jnp.array([[1, 1, 1], [1, 0, 1]], bool), counts=jnp.array([2, 2]), rows={},
)


def tokens(text):
  return [EOS_ID if c == '$' else 0 if c == ' ' else int(TASK.encode(c)[0]) for c in text]


def test_a_judge_reads_rows_without_their_end_and_a_mark():
  rows = jnp.array([tokens('34=3;0;#0$'), tokens('34=3;0;#0;'), tokens('34=3;$    ')])
  prompts, lengths = spoken_steps.as_asked(TASK, {'tokens': rows, 'valid': rows > 0})
  wanted = ['34=3;0;#0= ', '34=3;0;#0;=', '34=3;=     ']
  np.testing.assert_array_equal(prompts, [tokens(text) for text in wanted])
  assert lengths.tolist() == [10, 11, 6]


def test_verdicts_are_said_and_read_again():
  right, counts = jnp.array([[1, 0, 1], [1, 0, 0]], bool), jnp.array([3, 2])
  said = spoken_steps.said_of(TASK, right, counts)
  np.testing.assert_array_equal(said, [tokens('101$'), tokens('10$ ')])
  in_form, read = spoken_steps.read(TASK, said, counts)
  assert in_form.tolist() == [True, True]
  np.testing.assert_array_equal(read, right)


def test_what_is_off_format_is_no_verdict():
  said = jnp.array([tokens(text) for text in ('101$', '10$ ', '1011', '121$', '10=$')])
  in_form, right = spoken_steps.read(TASK, said, jnp.array([3, 3, 3, 3, 3]))
  assert in_form.tolist() == [True, False, False, False, False]
  assert not right[1:].any()


def test_votes_are_of_those_in_form():
  np.testing.assert_allclose(VERDICTS.called_right[:, :2], [[1, 1 / 3], [1, 1 / 2]], rtol=1e-6)
  np.testing.assert_allclose(VERDICTS.score, [2 / 3, 3 / 4], rtol=1e-6)
  none = VERDICTS._replace(in_form=jnp.zeros((2, 3), bool))
  np.testing.assert_allclose(none.score, [0.5, 0.5])


def test_a_verdict_is_worth_its_agreement_where_the_solver_does_not_contradict_it():
  """Of the wrong row, `11` is contradicted and the two others agree; of the right one, `11` and `10` half."""
  worth = rollouts.worth_of_verdicts(VERDICTS, jnp.array([0.0, 1.0]))
  np.testing.assert_allclose(worth, [[0, 2, 2], [1.75, 0, 1.75]], rtol=1e-6)


def test_pairs_weigh_what_they_are_apart():
  batch = {
      'tokens': jnp.arange(4)[:, None], 'valid': jnp.ones((4, 1), bool), 'groups': jnp.array([0, 0, 1, 1]),
      'rewards': jnp.array([0.25, 1.0, 0.5, 0.5]),
  }
  rows = rollouts.weighed_pairs(batch)
  np.testing.assert_array_equal(rows['tokens'][:2, 0], [1, 0])
  np.testing.assert_allclose(rows['weights'], [0.75, 0.75, 0, 0])


def test_rows_of_verdicts_are_demonstrations():
  rows = jnp.array([tokens('34=3;0;#0$')])
  batch = {'tokens': rows, 'valid': rows > 0}
  made = rollouts.judged_rows(TASK, batch, jnp.array([[1, 0, 1]], bool), jnp.array([3]))
  assert TASK.decode(made['tokens'][0]) == '34=3;0;#0=101'
  np.testing.assert_array_equal(jnp.flatnonzero(made['action_mask'][0]), [10, 11, 12, 13])


def test_a_judge_reads_a_verdict_behind_the_row_when_it_goes_over_it():
  rows = jnp.array([tokens('34=3;0;#0$'), tokens('34=3;$    ')])
  right, counts = jnp.array([[1, 0, 1], [0, 1, 1]], bool), jnp.array([3, 1])
  prompts, lengths = spoken_steps.as_reconsidered(TASK, {'tokens': rows, 'valid': rows > 0}, right, counts)
  wanted = ['34=3;0;#0=101= ', '34=3;=0=       ']
  np.testing.assert_array_equal(prompts, [tokens(text) for text in wanted])
  assert lengths.tolist() == [14, 8]


def test_a_verdict_that_was_gone_over_stands_where_both_are_in_form():
  """The judge says that all is right, in form of rows of the first kind alone."""
  found = VERDICTS._replace(in_form=jnp.array([[1, 0, 1], [1, 1, 1]], bool))
  rows = jnp.array([tokens('34=3;0;   '), tokens('34=3;0;#0 ')])  # Approving counts two steps, and three

  def again(batch):
    return spoken_steps.reconsidered(TASK, Approving(), {}, batch, found, jax.random.key(0))

  said = again({'tokens': rows, 'valid': rows > 0})
  expected = np.array(found.right)
  expected[0, [0, 2]] = [1, 1, 0]  # of two steps; the second verdict was off format and is not gone over
  np.testing.assert_array_equal(said.right, expected)  # of the second row, three are said where two are asked
  np.testing.assert_array_equal(said.in_form, found.in_form)


@pytest.mark.slow
def test_rows_of_a_meta_critique_teach_the_grades_behind_the_verifiers_own_verdicts():
  approving = Approving()
  rollout = rollouts.taught_again(TASK, Solving(), approving, batch_size=6)
  models = {'policy': {}, 'verifier': {}}
  batch, _ = rollout.draw(models, {**rollout.begin(jax.random.key(1))}, jax.random.key(0))
  texts = [TASK.decode(row[row > 0]) for row in np.asarray(batch['tokens'])]
  assert batch['action_mask'].shape == batch['tokens'].shape
  for first, again in zip(texts[:3], texts[3:], strict=True):
    row, _, grades = first.rpartition('=')
    assert again == f'{row}=111={grades}' and set(grades) <= {'0', '1'} and len(grades) == 3
  assert any('0' in text.rpartition('=')[2] for text in texts)
  said = batch['action_mask'].sum(axis=1)
  assert (said == 4).all()  # three grades and the end token


def test_f1_is_of_what_is_called_wrong():
  wrong = jnp.array([1, 1, 0, 0], bool)
  assert float(f1(jnp.array([1, 0, 1, 0], bool), wrong)) == 0.5
  assert float(f1(wrong, wrong)) == 1
  assert float(f1(~wrong & wrong, ~wrong & wrong)) == 1


# --- rewards ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Approving:
  """A judge that calls every step right, whatever it reads."""

  decoding: Decoding = Decoding(
      max_tokens=8, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(EOS_ID,),
      pad_id=0,
  )

  def saying(self, *, max_tokens):
    return dataclasses.replace(self, decoding=dataclasses.replace(self.decoding, max_tokens=max_tokens))

  def sample(self, params, prompts, lengths, key, *, group_size):
    del params, key
    counts = jnp.sum((prompts == TASK.encode(';')[0]) | (prompts == TASK.encode('#')[0]), axis=1)
    said = spoken_steps.said_of(TASK, jnp.ones((len(prompts), TASK.max_steps), bool), counts)
    empty = jnp.zeros((len(prompts), prompts.shape[1] + said.shape[1]), jnp.int32)
    place = lengths[:, None] + jnp.arange(said.shape[1])[None]
    tokens = empty.at[jnp.arange(len(prompts))[:, None], place].set(said)
    rows = {'tokens': tokens, 'action_mask': tokens > 0, 'prompt_lengths': lengths}
    return {name: jnp.repeat(x, group_size, axis=0) for name, x in rows.items()}


@dataclasses.dataclass(frozen=True)
class Solving(Approving):
  """A policy that says the same solution to every problem, which is right of few of them."""

  def sample(self, params, prompts, lengths, key, *, group_size):
    del params, key
    said = jnp.array(tokens('3;0;#0$'))
    place = lengths[:, None] + jnp.arange(len(said))[None]
    whole = jnp.zeros((len(prompts), prompts.shape[1] + len(said)), jnp.int32)
    whole = whole.at[:, : prompts.shape[1]].set(prompts)
    whole = whole.at[jnp.arange(len(prompts))[:, None], place].set(said)
    columns = jnp.arange(whole.shape[1])[None]
    return {
        'tokens': whole, 'valid': columns < lengths[:, None] + len(said),
        'action_mask': (columns >= lengths[:, None]) & (columns < lengths[:, None] + len(said)),
        'prompt_lengths': lengths,
    }


@pytest.mark.slow
def test_who_stops_short_is_paid_in_full_but_for_the_guard():
  judge = Approving()
  rows = jnp.array([tokens(text) for text in ('34=3;0;#0$ ', '34=3;1;#5$ ', '34=3;$     ')])
  batch = {
      'tokens': rows, 'valid': rows > 0, 'prompt_lengths': jnp.full(3, 3),
      'action_mask': (rows > 0) & (jnp.arange(rows.shape[1])[None] >= 3),
      'operands': jnp.full((3, 2), 3).at[:, 1].set(4), 'answers': jnp.full((3, 1), TASK.encode('0')[0]),
  }
  reward = spoken_steps.right_steps(TASK, judge, judge, votes=2)
  key, models = jax.random.key(0), {'judge': {}}
  assert reward(models, batch, key)['rewards'].tolist() == [1, 1, 1]
  assert reward(models, batch, key)['judge/off_format'].tolist() == [0, 0, 0]
  assert spoken_steps.in_form(TASK, judge, reward)(models, batch, key)['rewards'].tolist() == [1, 1, 0]
