"""Math-Shepherd: labels of steps by completions, the head that learns them, and what steps come to."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.stepwise import stepwise
from rlx.engine.decoding import Decoding
from rlx.envs.chain import chain
from rlx.envs.text import EOS_ID
from rlx.evaluation.steps import sound_until
from rlx.rewards import of_steps
from rlx.rollout import labelled_steps
from rlx.types import StatefulRollout, check

TASK = chain(modulus=7, min_steps=2, max_steps=2, checks=0, held_out_share=0.2)
FIRST, MARKER = int(TASK.encode('0')[0]), int(TASK.encode('#')[0])
DECODING = Decoding(
    max_tokens=7, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(EOS_ID,),
    pad_id=0,
)
PROMPT, COLUMNS = 3, 10
SAID = ('3;0;#0$', '4;1;#1$', '3;0;5;#', '3;#0$')  # of `34=`; of the second, all but the first step follow


def tokens(text):
  row = [EOS_ID if c == '$' else int(TASK.encode(c)[0]) for c in text]
  return row + [0] * (COLUMNS - len(row))


def rows(said=SAID):
  found = jnp.array([tokens('34=' + text) for text in said])
  places, lengths = jnp.arange(COLUMNS)[None], jnp.array([PROMPT + len(text) for text in said])[:, None]
  return {
      'tokens': found, 'valid': places < lengths, 'action_mask': (places >= PROMPT) & (places < lengths),
      'prompt_lengths': jnp.full(len(said), PROMPT), 'answers': jnp.full((len(said), 1), FIRST),
      'operands': jnp.tile(jnp.array([[3, 4]]), (len(said), 1)),
  }


class Adder:
  """Adds what is left to the number that was said last; every second time it is one more."""

  decoding = DECODING

  def sample(self, params, prompts, lengths, key, *, group_size):
    del params, key
    steps = (lengths - PROMPT) // 2
    at = lambda x: jnp.take_along_axis(prompts, x[:, None], axis=1)[:, 0] - FIRST
    last = jnp.where(steps > 0, at(jnp.maximum(lengths - 2, 0)), 0)
    left = jnp.where(steps == 0, 7, jnp.where(steps == 1, 4, 0))
    each = lambda x: jnp.repeat(x, group_size, axis=0)
    more = jnp.tile(jnp.arange(group_size) % 2, len(prompts))
    answer = FIRST + (each(last + left) + more) % 7
    place = jnp.arange(prompts.shape[1] + 3)[None] - each(lengths)[:, None]
    found = jnp.pad(each(prompts), ((0, 0), (0, 3)))
    for i, word in enumerate((MARKER, answer[:, None], EOS_ID)):
      found = jnp.where(place == i, word, found)
    return {'tokens': found}


DRAWN = StatefulRollout(
    begin=lambda key: {}, data=None,
    draw=lambda models, world, key: (rows(), world),
)


def labelled(max_steps=3, **how):
  made = labelled_steps.by_completions(DRAWN, TASK, Adder(), separator=';', max_steps=max_steps, **how)
  batch, _ = jax.jit(made.draw)({'completer': {}}, {}, jax.random.key(0))
  check({name: x for name, x in batch.items() if name.startswith('step_')})
  return batch['step_ends'], batch['step_labels']


NONE = [0] * PROMPT


def test_a_label_is_how_often_the_right_answer_is_reached_from_there():
  """Of a sound prefix every second completion is right; of `4;` none. The answer has its own verdict."""
  ends, labels = labelled(completions=4, best_of=1)
  np.testing.assert_array_equal(ends, np.array([
      [*NONE, 0, 1, 0, 1, 0, 0, 1], [*NONE, 0, 1, 0, 1, 0, 0, 1], [*NONE, 0, 1, 0, 1, 0, 1, 1],
      [*NONE, 0, 1, 0, 0, 1, 0, 0],
  ], bool))
  np.testing.assert_allclose(labels, [
      [*NONE, 0, 0.5, 0, 0.5, 0, 0, 1], [*NONE, 0, 0, 0, 0, 0, 0, 0], [*NONE, 0, 0.5, 0, 0.5, 0, 0, 0],
      [*NONE, 0, 0.5, 0, 0, 1, 0, 0],
  ])


def test_the_hard_label_is_whether_there_is_a_way():
  _, labels = labelled(completions=4, best_of=4)
  np.testing.assert_allclose(labels[:2], [[*NONE, 0, 1, 0, 1, 0, 0, 1], [0] * COLUMNS])


def test_steps_beyond_the_last_that_is_asked_for_have_no_label():
  ends, labels = labelled(max_steps=1, completions=2, best_of=1)
  np.testing.assert_array_equal(ends[0], np.array([*NONE, 0, 1, 0, 0, 0, 0, 1], bool))
  np.testing.assert_allclose(labels[0], [*NONE, 0, 0.5, 0, 0, 0, 0, 1])


def test_an_outcome_is_the_label_of_all_steps():
  made = labelled_steps.by_outcome(
      DRAWN, TASK, types.SimpleNamespace(decoding=DECODING), separator=';', max_steps=3
  )
  batch, _ = made.draw({}, {}, jax.random.key(0))
  np.testing.assert_array_equal(batch['step_labels'][0] > 0, batch['step_ends'][0])
  assert not np.asarray(batch['step_labels'])[1:3].any()


def test_a_completer_needs_chance():
  silent = types.SimpleNamespace(decoding=DECODING.greedy)
  with pytest.raises(ValueError, match='chance'):
    labelled_steps.by_completions(
        DRAWN, TASK, silent, separator=';', max_steps=3, completions=4, best_of=1
    )


# --- the head -----------------------------------------------------------------------------------------------

HEAD = types.SimpleNamespace(behind=lambda params, batch: params)  # whose parameters are its numbers
ODDS = np.full((2, COLUMNS), 9.0, np.float32)
ODDS[:, [4, 6, 9]] = np.log([[9, 1, 3], [1, 4, 1]])  # chances 0.9, 0.5, 0.75 and 0.5, 0.8, 0.5


@pytest.mark.parametrize(('aggregation', 'expected'), [
    (of_steps.least, [0.5, 0.5, 0]), (of_steps.product, [0.9 * 0.5 * 0.75, 0.2, 0]),
    (of_steps.last, [0.75, 0.5, 0]),
])
def test_a_row_is_worth_what_its_steps_come_to(aggregation, expected):
  reward = of_steps.by_steps(TASK, HEAD, separator=';', aggregation=aggregation)
  batch = rows((*SAID[:2], ''))  # the last one says nothing
  found = reward({'process': jnp.array([*ODDS, ODDS[0]])}, batch, jax.random.key(0))
  np.testing.assert_allclose(found['rewards'], expected, rtol=1e-5)
  np.testing.assert_allclose(found['token_rewards'][0], [*NONE, 0, 0.9, 0, 0.5, 0, 0, 0.75], rtol=1e-5)
  assert found['process/steps'].tolist() == [3, 3, 0]


def test_what_a_head_learns_is_a_cross_entropy_over_steps():
  method = stepwise(None, HEAD)
  ends = np.zeros((2, COLUMNS), bool)
  ends[0, [4, 6, 9]] = ends[1, 4] = True
  labels = np.where(ends, 1.0, 0.0)
  labels[0, 6] = 0.25
  batch = method.advantage({}, {'step_ends': jnp.array(ends), 'step_labels': jnp.array(labels)}, None)
  value, metrics = method.loss({'process': jnp.array(ODDS)}, batch, None)
  by_hand = -(np.log(0.9) + np.log(0.5) + np.log(0.75) + np.log(0.5)) / 4  # at 1/2 any label costs log 2
  np.testing.assert_allclose(value, by_hand, rtol=1e-5)
  np.testing.assert_allclose(metrics['process/right'], 3 / 4)  # 0 is no log-odds above 0: of label 1 it errs


def test_a_row_is_sound_up_to_its_first_wrong_step():
  batch = rows()
  said = batch['tokens'][:, PROMPT:]
  found = np.asarray(sound_until(TASK, batch, batch, said))[:, [4, 6, 9]]
  np.testing.assert_array_equal(found, [[1, 1, 1], [0, 0, 0], [1, 1, 0], [1, 1, 1]])
