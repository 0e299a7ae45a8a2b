"""Episodes of several seats whose table is Python, and where any seat may have tools."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import plain_tables
import plain_tools
import pytest
import test_host_rollout as single
from test_host_rollout import CHATS, KEY, PARAMS, PROBLEMS, asked

from rlx import lens
from rlx.engine.host_turns import Conversation, Said
from rlx.engine.turns import Turns
from rlx.envs.host.calls import hermes_json
from rlx.envs.host.checked import Checked
from rlx.errors import ConfigError
from rlx.learners import make_learners_step
from rlx.rollout.circle import Circle, Voices
from rlx.rollout.host_seats import episodes, for_learners
from rlx.rollout.host_turns import READ_TOKENS
from rlx.rollout.tabletop import tabletop
from rlx.types import HostRollout, check
from tests.cases import cases
from tests.once import once

SEATS, NUM, ROOM = ('a', 'b'), 8, 16
SIZES = {'group_size': 2, 'num_slots': 4, 'turn_tokens': 6}
# Words end: a model that knows nothing seldom says the one token for it.
DECODING = dataclasses.replace(single.DECODING, max_tokens=96, eos_ids=(*PROBLEMS.eos_ids, *range(40, 110)))
POLICY = dataclasses.replace(single.POLICY, decoding=DECODING)
PROGRAMS = Conversation(POLICY.model, DECODING, Turns(6, 1, READ_TOKENS), group_size=2, num_slots=4)
LIMITS = {
    'timeout_seconds': 5.0, 'workers': 2, 'hears': 'last', 'before': '(', 'after': ')', 'role': 'user',
    'reset_tokens': ROOM,
}
OTHER = once(lambda: POLICY.model.init(jax.random.key(7)))


def box(tools=None, environments=None, calls=plain_tools.now_and_then, **changes):
  return single.box(tools, environments, calls, **changes)


def table_of(*tables, **changes):
  return tabletop(environments={table.__name__: table for table in tables}, **{**LIMITS, **changes})


def circle_of(table, toolboxes=None, *, task=PROBLEMS, seats=SEATS, **changes):
  made = Circle(task, dict.fromkeys(seats, POLICY), table, toolboxes or {}, **{**SIZES, **changes})
  made._conversations = [PROGRAMS] * len(seats)  # compiled once for all tests
  return made


def played(circle, folder=None, *, models=None, record='step', max_turns=8):
  circle.keep_in(folder)
  models = models or dict.fromkeys(circle.seats, PARAMS())
  return circle.sample(models, asked(), KEY, record=record, max_turns=max_turns)


def drawn(table, toolboxes=None, **how):
  circle = circle_of(table, toolboxes)
  try:
    return played(circle, **how)
  finally:
    circle.close()


def assert_same(rows, others):
  assert rows.keys() == others.keys()
  for seat in rows:
    single.assert_same(rows[seat], others[seat])


@pytest.fixture(scope='module')
def ring():
  """Two seats, the first of which has a tool that anything may call."""
  made = circle_of(table_of(plain_tables.Ring), {'a': box()})
  yield made
  made.close()


def test_one_seat_has_the_rows_of_a_single_speaker_to_the_bit():
  alone = circle_of(table_of(plain_tables.Alone), {'policy': box()}, seats=('policy',))
  speaker = single.Table(
      PROBLEMS, POLICY, box(environments={'quiet': plain_tools.Quiet}, reset_tokens=ROOM), **SIZES
  )
  speaker._conversation = PROGRAMS
  rows, expected = played(alone, max_turns=4)['policy'], single.drawn(speaker)
  alone.close()
  speaker.close()
  for name in expected.keys() - {'tools/worlds_lost'}:
    np.testing.assert_array_equal(rows[name], expected[name], err_msg=name)
  assert expected['tools/calls'].max() > 1 and 0 < expected['truncated'].sum() < NUM
  more = {'seats', 'payoffs', 'rewards', 'token_rewards', 'trajectories', 'tools/tables_lost'}
  assert rows.keys() - expected.keys() == more
  for row in range(NUM):
    last = rows['action_mask'][row] & (rows['turns'][row] == rows['turns'][row].max())
    text = PROBLEMS.decode(rows['tokens'][row][last])
    calls = plain_tools.now_and_then(text)
    assert rows['rewards'][row] == rows['payoffs'][row] == (0 if calls else len(text) % 3 + 1)


def test_a_row_is_what_a_seat_said_and_what_it_alone_was_told(ring):
  rows = played(ring)
  for number, seat in enumerate(SEATS):
    batch = rows[seat]
    check({name: jnp.asarray(x) for name, x in batch.items()})
    assert (batch['seats'] == number).all() and (batch['groups'] == np.arange(NUM) // 2).all()
    behind = np.arange(batch['tokens'].shape[1])[None] >= batch['prompt_lengths'][:, None]
    heard = batch['valid'] & ~batch['action_mask'] & behind
    assert heard.any() and not batch['sampler_logprobs'][~batch['action_mask']].any()
    spoke = batch['action_mask'].any(axis=1)
    assert np.array_equal(spoke, batch['scored']) and np.isnan(batch['rewards'][~spoke]).all()
    np.testing.assert_allclose(batch['payoffs'][spoke], batch['rewards'][spoke])
    texts = [PROBLEMS.decode(row[there]) for row, there in zip(batch['tokens'], heard, strict=True)]
    words = {'a': '[(', 'b': '('}[seat]  # what stands around results, and around what a table says
    assert all(text[0] in words for text in texts if text) and any('(' in text for text in texts)
  assert rows['a']['tools/calls'].max() > 1 and not rows['b']['tools/calls'].any()
  assert np.array_equal(rows['a']['truncated'], rows['b']['truncated'])
  assert not rows['b']['scored'].all() and (rows['b']['payoffs'] > 0).all(), 'nobody was silent: no test'


def test_what_is_said_does_not_depend_on_how_long_tools_and_tables_take(ring):
  slow = {'name': f'{plain_tables.__name__}.Ring', 'seconds': 0.02}
  table = tabletop(environments={'Ring': slow}, **LIMITS)
  assert_same(played(ring), drawn(table, {'a': box(tools={'echo': plain_tools.slow_echo})}))


@pytest.mark.parametrize('num', cases([0, 2, 9], at_once=[2]))
def test_a_step_that_was_killed_goes_on_behind_its_records_and_then_repeats_from_them(ring, tmp_path, num):
  rows = played(ring, tmp_path)
  for path in (tmp_path / 'step.jsonl', tmp_path / 'step.a.jsonl'):
    lines = path.read_bytes().splitlines(keepends=True)
    names = {'step.jsonl': {'reset', 'step'}, 'step.a.jsonl': {'echo'}}[path.name]
    assert len(lines) > 9 and {json.loads(line)['tool'] for line in lines if b'value' in line} == names
    path.write_bytes(b''.join(lines[:num]) + b'{"pla')
  assert_same(rows, played(ring, tmp_path))
  assert ring.timings['tools/called'] and ring.timings['tables/called']
  assert_same(rows, played(ring, tmp_path))
  assert ring.timings['tools/called'] == ring.timings['tables/called'] == 0


def test_no_seat_sees_what_it_was_not_told():
  one, two = (
      drawn(table_of(table)) for table in (plain_tables.Secret, plain_tables.OtherSecret)
  )
  single.assert_same(one['b'], two['b'])
  assert one['b']['action_mask'].any(axis=1).all()
  prompt = lambda rows: PROBLEMS.decode(rows['tokens'][0, : rows['prompt_lengths'][0]])
  assert prompt(one['a']).endswith('one.') and prompt(one['b']) == PROBLEMS.prompts([0])[0]
  assert (one['a']['tokens'] != two['a']['tokens']).any(axis=1).all()


@pytest.mark.slow
def test_a_tool_that_fails_at_one_seat_leaves_the_other_going():
  """Nobody is told what was said, so the other one says the same to the bit, as far as there is room."""
  table, broken = table_of(plain_tables.Secret), box(tools={'echo': plain_tools.broken_echo})
  well, ill = (drawn(table, {'a': box(), 'b': one}, max_turns=99) for one in (box(), broken))
  assert ill['b']['tools/failed_raised'].sum() > 2 and not well['b']['tools/failed_raised'].any()
  whole = ~(well['a']['truncated'] | ill['a']['truncated'])
  assert (ill['b']['tools/failed_raised'][whole] > 0).any() and ill['b']['scored'][whole].all()
  for name in well['a'].keys() - {'turns/max'}:
    np.testing.assert_array_equal(well['a'][name][whole], ill['a'][name][whole], err_msg=name)


def test_a_table_that_is_lost_takes_the_rows_of_all_its_seats_out():
  circle = circle_of(table_of(plain_tables.Fails))
  rows = played(circle)
  answers = PROBLEMS.columns(range(4))['answer']
  lost = np.repeat([len(answer) % 4 != 3 for answer in answers], 2)
  messages = circle.heard()
  circle.close()
  assert lost.any() and not lost.all(), 'all rows fail alike: no test'
  for seat in SEATS:
    assert np.array_equal(rows[seat]['tools/tables_lost'], lost) and not rows[seat]['scored'][lost].any()
    assert np.isnan(rows[seat]['rewards'][lost]).all() and np.isnan(rows[seat]['payoffs'][lost]).all()
    assert not np.isnan(rows[seat]['payoffs'][~lost]).any()
  assert len(messages) == lost.sum() and all('the table of sequence' in message for message in messages)


def test_two_models_sit_at_two_seats_and_shapes_are_those_of_what_is_drawn(ring):
  models = {'a': PARAMS(), 'b': OTHER()}
  rows, same = played(ring, models=models), played(ring)
  spoke = same['b']['scored']
  assert (rows['b']['tokens'] != same['b']['tokens'])[spoke].any()
  shapes = jax.eval_shape(lambda problems: ring.shapes(models, problems, KEY), asked())
  for seat in SEATS:
    assert {name: (x.shape, x.dtype) for name, x in shapes[seat].items()} == {
        name: (x.shape, x.dtype) for name, x in rows[seat].items()
    }


def draw(rollout):
  """What a rollout of two seats, at which one model sits, draws in a step, and the world behind it."""
  rollout.host._conversations = [PROGRAMS] * 2
  bound = lens.bind(rollout, dict.fromkeys(SEATS, 'policy'))
  try:
    return bound({'policy': PARAMS()}, {**rollout.begin(KEY), 'data': rollout.data, 'at_step': 3}, KEY)
  finally:
    rollout.host.close()


@pytest.mark.slow
def test_the_rows_of_learnt_seats_are_one_batch_and_each_learner_gets_its_own():
  parts = PROBLEMS, dict.fromkeys(SEATS, POLICY), table_of(plain_tables.Ring), {}
  sizes = {'episodes': NUM, **SIZES, 'max_turns': lambda step: 4}
  batch, after = draw(episodes(*parts, **sizes, learnt=SEATS))
  assert batch['groups'].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9, 9, 10, 10, 11, 11]
  assert batch['seats'].tolist() == [0] * NUM + [1] * NUM and after['step'] == 1
  rollout = for_learners(*parts, **sizes, learners={'one': ('a',), 'two': ('b',)})
  rows, _ = draw(rollout)
  for name, where in (('one', slice(0, NUM)), ('two', slice(NUM, None))):
    np.testing.assert_array_equal(rows[name]['tokens'], batch['tokens'][where])
  assert isinstance(make_learners_step(rollout, None, {}).rollout, HostRollout)
  with pytest.raises(ValueError, match='host_seats.for_learners'):
    make_learners_step(dataclasses.replace(rollout, learners=()), None, {})


# --- words


def reply_to(circle, *, spoke, told):
  """The tokens that the second seat reads of texts, before or behind its first words."""
  one = circle._begun(np.array([0]))[0]
  one.told[1], one.spoke[1], one.ended[1] = told, spoke, spoke
  return Voices(circle, [one])._tokens(one, 1)


def test_what_a_seat_is_told_in_a_chat_is_one_message_behind_its_own():
  circle = circle_of(table_of(plain_tables.Ring), task=CHATS)
  text = lambda tokens: CHATS.tokenizer.hf.decode(tokens)
  message = '\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n'
  assert text(reply_to(circle, spoke=True, told=['x', 'y'])) == message.format('x\ny')
  assert text(reply_to(circle, spoke=False, told=['x'])) == '<|im_end|>' + message.format('x')
  assert reply_to(circle, spoke=False, told=[]) == []


@pytest.mark.parametrize(('hears', 'heard'), [('last', 'so 3'), ('all', '{call}[3]so 3')])
def test_the_table_hears_a_seat_behind_its_tools(hears, heard):
  tools = box(tools={'add': plain_tools.add}, calls=hermes_json)
  circle = circle_of(table_of(plain_tables.Repeats, hears=hears), {'a': tools})
  circle.desk.open('step')
  circle.desks['a'].open('step.a')
  voices = Voices(circle, circle._begun(np.array([0])))

  def reply(turn, text):
    tokens = np.append(PROBLEMS.encode(text), PROBLEMS.eos_ids[0])
    voices.say(0, Said(0, turn, tokens, is_cut=False, is_full=False))
    return voices.replies(wait=True)[0]

  call = single.ADD % 1
  result, last = reply(0, call), reply(1, 'so 3')
  circle.close()
  assert (result.next, PROBLEMS.decode(result.told[0])) == (0, '[3]')
  assert (last.next, PROBLEMS.decode(last.told[1])) == (1, f'({heard.format(call=call)})')


def test_a_checker_accepts_the_number_that_it_finds_itself_and_each_is_paid():
  table = Checked(attempts=2, again='\nAnswer:')
  play = lambda *said: [table.step(('solver', 'checker')[i % 2], text) for i, text in enumerate(said)]
  table.reset('1+1 = 2\n#### 1,002', question='?')
  assert play('so 7', 'it is 8', '#### 1002.0', '1002') == [
      ({'checker': 'so 7\nAnswer:'}, {}, 'checker'), ({'solver': '\nAnswer:'}, {'checker': 0.5}, 'solver'),
      ({'checker': '#### 1002.0\nAnswer:'}, {}, 'checker'), ({}, {'checker': 0.5, 'solver': 1.0}, None),
  ]
  table.reset('#### 2')
  assert play('none', 'none')[1] == ({'solver': '\nAnswer:'}, {'checker': 0.5}, 'solver')
  table.reset('#### 2')
  assert play('3', '3')[1] == ({}, {'checker': 0.0, 'solver': 0.0}, None)


# --- what is refused


def test_what_cannot_sit_at_a_table_is_refused_in_one_line():
  sizes = {'episodes': NUM, **SIZES, 'max_turns': lambda step: 4, 'learnt': ('a',)}
  table, both = table_of(plain_tables.Ring), dict.fromkeys(SEATS, POLICY)
  refused = lambda message: pytest.raises(ValueError, match=message)
  with refused(r"the seats \['b'\] have no model"):
    episodes(PROBLEMS, {'a': POLICY}, table, {}, **sizes)
  with refused(r"the speakers \['c'\] never speak"):
    episodes(PROBLEMS, {**both, 'c': POLICY}, table, {}, **sizes)
  with refused(r"toolboxes has \['c'\]"):
    episodes(PROBLEMS, both, table, {'c': box()}, **sizes)
  with refused('turn_tokens=97'):
    episodes(PROBLEMS, both, table, {}, **{**sizes, 'turn_tokens': 97})
  with refused(r"learnt from are \['c'\]"):
    episodes(PROBLEMS, both, table, {}, **{**sizes, 'learnt': ('c',)})
  with refused('without get_reward'):
    episodes(PROBLEMS, both, table, {'a': box(environments={'w': plain_tools.Counter})}, **sizes)
  with refused("task.name='dataset'"):
    episodes(single.ROOMS, both, table, {}, **sizes)
  with refused('several kinds of seats'):
    table_of(plain_tables.Ring, plain_tables.Alone)
  with refused('is no table'):
    table_of(plain_tools.Quiet)
  with refused('no other rollout'):
    rollout = episodes(PROBLEMS, both, table, {}, **sizes)
    rollout({}, rollout.begin(KEY), KEY)


@pytest.mark.parametrize(
    ('table', 'message'),
    [(plain_tables.Stranger, r"names \['c'\]; its seats are"), (plain_tables.Mute, 'it returns')],
)
def test_a_table_that_says_what_no_table_says_is_told_in_one_line(table, message):
  with pytest.raises(ConfigError, match=message):
    drawn(table_of(table))


def test_words_at_first_need_room():
  for tokens, message in ((0, 'reset_tokens=0'), (2, 'raise reset_tokens=2')):
    with pytest.raises(ConfigError, match=message):
      drawn(table_of(plain_tables.Secret, reset_tokens=tokens))
