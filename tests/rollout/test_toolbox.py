"""Calls of tools: every way to fail is words and a count, a record repeats them, and worlds are had again."""

import collections
import functools
import json
import random
import time

import plain_tools
import pytest

from rlx.envs.host.calls import Call, Malformed, hermes_json
from rlx.errors import ConfigError
from rlx.rollout import calls_again, calls_record
from rlx.rollout.calls_record import Record, digest_of
from rlx.rollout.toolbox import FAILURES, Desk, Seat, toolbox

LIMITS = {
    'timeout_seconds': 0.5, 'max_calls': 20, 'workers': 2, 'result_tokens': 32, 'keep': 'head', 'before': '',
    'after': '', 'role': 'tool', 'reset_tokens': 0,
}
FUNCTIONS = {'add': plain_tools.add, 'echo': plain_tools.echo, 'fail': plain_tools.fail}
COUNTER = {'counter': {'name': 'plain_tools.Counter', 'begins_at': 5}}


def box(tools=FUNCTIONS, environments=(), **changes):
  return toolbox(tools=tools, environments=dict(environments), calls=hermes_json, **{**LIMITS, **changes})


@pytest.fixture(scope='module')
def desk():
  made = Desk(box(tools={'echo': plain_tools.echo}, environments=COUNTER))
  made.open('step')
  yield made
  made.close()


@pytest.fixture(scope='module')
def functions():
  made = Desk(box())
  made.open('step')
  yield made
  made.close()


def of_world(number=0):
  return Seat(number, {'answer': '3'}, 'counter')


BROKEN = {
    'unknown': Call('shell', {}), 'malformed': Malformed('the call is no JSON'),
    'arguments': Call('add', {'x': '1', 'y': 2}), 'raised': Call('fail', {'how': 'raise'}),
    'timeout': Call('fail', {'how': 'hang'}), 'died': Call('fail', {'how': 'die'}),
}


@pytest.mark.parametrize('kind', BROKEN)
def test_a_call_that_fails_is_words_and_a_count_and_the_next_one_works(functions, kind):
  seat = Seat(0, {}, '')
  broken, right = functions.turn(seat, 0, [BROKEN[kind], Call('add', {'x': 1, 'y': 2})])
  assert broken.kind == kind and broken.text.startswith('Error: ') and '\n' not in broken.text
  assert right.text == '3' and seat.failures == {kind: 1} and seat.calls == 2 and not seat.is_lost


@pytest.mark.parametrize('how', ['forge', 'forge a kind'])
def test_a_reply_that_a_tool_forged_is_not_believed(functions, how):
  calls = [Call('fail', {'how': how}), Call('add', {'x': 1, 'y': 2})]
  forged, right = functions.turn(Seat(0, {}, ''), 0, calls)
  assert forged.kind == 'died' and 'cannot be read' in forged.text
  assert right.text == '3'


def test_what_no_tokenizer_reads_is_replaced(functions):
  [result] = functions.turn(Seat(0, {}, ''), 0, [Call('fail', {'how': 'halves'})])
  assert (result.kind, result.text) == ('', 'a\ufffd \U0001f600 \0')


def test_a_tool_that_exits_has_raised(functions):
  [result] = functions.turn(Seat(0, {}, ''), 0, [Call('fail', {'how': 'exit'})])
  assert result.kind == 'raised' and 'SystemExit' in result.text


def test_no_more_calls_are_made_than_an_episode_may_have():
  desk = Desk(box(max_calls=2))
  desk.open('step')
  results = desk.turn(Seat(0, {}, ''), 0, [Call('add', {'x': i, 'y': 0}) for i in range(4)])
  desk.close()
  assert [result.kind for result in results] == ['', '', 'limit', 'limit']


ARGUMENTS = {
    'missing': {'x': 1}, 'more': {'x': 1, 'y': 2, 'z': 3}, 'float': {'x': 1.5, 'y': 2},
    'bool': {'x': True, 'y': 2}, 'none': {'x': None, 'y': 2}, 'list': {'x': [1], 'y': 2}, 'text': 'x = 1',
}


@pytest.mark.parametrize('case', ARGUMENTS)
def test_arguments_are_checked_against_their_types_before_anything_runs(functions, case):
  [result] = functions.turn(Seat(0, {}, ''), 0, [Call('add', ARGUMENTS[case])])
  assert result.kind == 'arguments'


@pytest.mark.parametrize('name', ['reset', 'get_reward', 'inherited', '_hidden', '__init__', '__class__'])
def test_what_is_no_tool_of_a_world_cannot_be_called(desk, name):
  [result] = desk.turn(of_world(), 0, [Call(name, {})])
  assert result.kind == 'unknown'


def test_a_world_lives_through_its_episode_and_says_what_it_was_worth(desk):
  one, other = of_world(1), of_world(2)
  assert desk.turn(one, 0, [Call('add', {'number': 2}), Call('add', {'number': 3})])[1].text == '10'
  assert desk.turn(other, 0, [Call('add', {'number': 1})])[0].text == '6'
  assert desk.turn(one, 1, [Call('add', {'number': 1})])[0].text == '11'
  for seat in (one, other):
    desk.end(seat)
  assert (one.reward, other.reward) == (11, 6)


@pytest.mark.parametrize('how', ['hang', 'die'])
def test_a_world_whose_process_was_killed_is_begun_again_with_its_calls(desk, how):
  seat = of_world(3)
  desk.counted()
  desk.turn(seat, 0, [Call('add', {'number': 2}), Call('draw', {})])
  [failed] = desk.turn(seat, 1, [Call('fail', {'how': how})])
  assert failed.kind == {'hang': 'timeout', 'die': 'died'}[how] and not seat.is_lost
  assert desk.turn(seat, 2, [Call('add', {'number': 1})])[0].text == '8'
  counts, messages = desk.counted()
  assert (counts.rebuilt, counts.changed, messages) == (2, 0, [])
  desk.end(seat)
  assert seat.reward == 8


def test_a_world_that_cannot_be_begun_is_lost_and_said():
  desk = Desk(box(environments={'w': plain_tools.Stillborn}, tools={}, reset_tokens=8))
  desk.open('step')
  seat = Seat(0, {'answer': 'bad'}, 'w')
  desk.turn(seat, 0, [Call('add', {'number': 2})])
  desk.end(seat)
  _, [message] = desk.counted()
  desk.close()
  assert seat.is_lost and seat.reward is None and 'no such world' in message


def test_a_world_that_says_something_needs_room_for_it():
  desk = Desk(box(environments={'w': plain_tools.Stillborn}, tools={}))
  desk.open('step')
  with pytest.raises(ConfigError, match='reset_tokens=0'):
    desk.turn(Seat(0, {}, 'w'), 0, [Call('add', {'number': 2})])
  desk.close()


# --- the record


def play(folder, tools, *, upto=99, calls=None):
  """The results of some turns of two sequences, of a function and of a world, and what was counted."""
  desk = Desk(box(tools={'echo': tools}, environments=COUNTER))
  desk.keep_in(folder)
  desk.open('step_00000003')
  results, seats = [], [of_world(0), of_world(1)]
  try:
    for turn in range(min(upto, 3)):
      for seat in seats:
        made = calls or [Call('echo', {'text': f't{turn}'}), Call('add', {'number': turn}), Call('draw', {})]
        results += desk.turn(seat, turn, made)
    for seat in seats if upto > 3 else []:
      desk.end(seat)
      results.append(seat.reward)
    return results, desk.counted()[0]
  finally:
    desk.close()


def differently(text: str) -> str:
  """Another answer each time.

  Args:
    text: ignored.
  """
  return f'{text} {random.SystemRandom().randrange(10**9)}'


def test_a_step_that_begins_again_repeats_every_recorded_call_with_any_tool(tmp_path):
  first, made = play(tmp_path, differently)
  again, none = play(tmp_path, differently)
  assert again == first and none.calls <= 1 < made.calls  # the one that tries the world out
  assert play(None, differently)[0] != first


def test_a_world_is_begun_again_only_where_a_new_call_needs_it(tmp_path):
  part, _ = play(tmp_path, plain_tools.echo, upto=2)
  whole, counts = play(tmp_path, plain_tools.echo)
  assert whole[: len(part)] == part and whole == play(None, plain_tools.echo)[0]
  assert (counts.rebuilt, counts.changed) == (8, 0)  # two calls of two turns of two sequences


def test_a_torn_line_is_dropped_and_what_was_under_way_is_called_again(tmp_path):
  whole, _ = play(tmp_path, plain_tools.echo)
  path = tmp_path / 'step_00000003.jsonl'
  lines = path.read_bytes().splitlines(keepends=True)
  for num in (1, 4, len(lines) - 3):
    for torn in (b'', lines[num][:-7]):
      path.write_bytes(b''.join(lines[:num]) + torn)
      again, counts = play(tmp_path, plain_tools.echo)
      assert again == whole
      assert counts.called_again == sum('value' not in json.loads(x) for x in lines[:num][-1:])


def test_another_call_than_the_recorded_one_is_refused_with_the_remedy(tmp_path):
  play(tmp_path, plain_tools.echo)
  with pytest.raises(ConfigError, match=r'sequence 0, turn 0, call 0 is recorded as echo .*delete this file'):
    play(tmp_path, plain_tools.echo, calls=[Call('echo', {'text': 'something else'})])


def test_a_file_that_is_no_record_is_refused(tmp_path):
  (tmp_path / 'calls.jsonl').write_text('{"place": [0, 0, 0]}\nno record\n')
  with pytest.raises(ConfigError, match='line 2'):
    Record(tmp_path / 'calls.jsonl')


def test_the_digest_is_of_what_is_called_with_what():
  digests = {digest_of(*x) for x in (('a', {'x': 1, 'y': 2}), ('a', {'x': '1', 'y': 2}), ('b', {'x': 1}))}
  assert len(digests) == 3 and digest_of('a', {'y': 2, 'x': 1}) == digest_of('a', {'x': 1, 'y': 2})


def test_a_record_can_be_read_as_it_was_written(tmp_path):
  play(tmp_path, plain_tools.echo)
  entries = calls_record.read(tmp_path / 'step_00000003.jsonl')
  assert [x.tool for x in entries[:4]] == ['echo', 'reset', 'add', 'draw'] and len(entries) == 2 * (3 * 3 + 2)
  assert all(x.digest == digest_of(x.tool, x.arguments) for x in entries if x.place[1] >= 0)


@pytest.mark.parametrize(('tool', 'changed'), [(plain_tools.echo, 0), (differently, 9)])
def test_a_record_runs_again_offline(tmp_path, tool, changed):
  play(tmp_path, tool)
  entries = calls_record.read(tmp_path / 'step_00000003.jsonl')
  made = box(tools={'echo': tool}, environments=COUNTER)
  found = calls_again.again(made, entries)
  assert len(found) == 2 * (3 * 3 + 1) and (sum(not one.is_same for one in found) > 0) == bool(changed)
  with pytest.raises(ConfigError, match='says the digest'):
    calls_again.again(made, [entries[0]._replace(arguments={'text': 'other'})])


# --- what is refused before anything runs


def untyped(x) -> str:
  """No hint."""
  return x


def undocumented(x: int) -> int:
  return x


REFUSED = {
    'no type hints': {'tools': {'f': untyped}}, 'no docstring': {'tools': {'f': undocumented}},
    'both are empty': {'tools': {}}, 'timeout_seconds': {'timeout_seconds': 0.0}, 'keep=': {'keep': 'middle'},
    'is no world': {'environments': {'w': plain_tools.add}}, 'max_calls': {'max_calls': 0},
    'there is no function': {'tools': {'f': {'name': 'no_such_tool'}}},
}


@pytest.mark.parametrize('words', REFUSED)
def test_what_is_no_tool_is_refused_in_one_line(words):
  with pytest.raises(ValueError, match=words) as caught:
    box(**REFUSED[words])
  assert '\n' not in str(caught.value)


def unstartable(x: int) -> int:
  """Cannot be had here.

  Args:
    x: a number.
  """
  return x


def refuse():
  raise RuntimeError('not here')


unstartable.trial = refuse


def test_a_tool_that_does_not_start_refuses_the_run():
  desk = Desk(box(tools={'f': unstartable}))
  with pytest.raises(ConfigError, match='does not start'):
    desk.open('step')


def test_schemas_are_those_that_chat_templates_take():
  of_function, *_ = box(tools={'more': functools.partial(plain_tools.add, y=1)}).schemas
  assert of_function['function']['name'] == 'more'
  x = {'type': 'integer', 'description': 'the first.'}
  wanted = {'type': 'object', 'properties': {'x': x}, 'required': ['x']}
  assert of_function['function']['parameters'] == wanted
  every = box(tools={'echo': plain_tools.echo}, environments=COUNTER).schemas
  assert [one['function']['name'] for one in every] == ['echo', 'add', 'draw', 'fail']


def torn(text, rng):
  """A text with some characters taken out, put in, or exchanged."""
  for _ in range(rng.randint(1, 4)):
    place = rng.randrange(len(text))
    put = rng.choice(('', '"', '}', '<', '\\', '\0', 'é', '[', '1', 'null'))
    text = text[:place] + put + text[place + 1 :]
  return text


@pytest.mark.slow
def test_of_two_hundred_broken_calls_none_is_silent_and_none_hangs(functions):
  rng, right = random.Random(0), '{"name": "add", "arguments": {"x": 1, "y": 2}}'
  ways = ('raise', 'exit', 'hang', 'die', 'forge')
  calls = [Call('fail', {'how': how}) for how in ways * 10] + [Call('nobody', {})] * 10
  while len(calls) < 200:
    [call] = hermes_json(f'<tool_call>{torn(right, rng)}</tool_call>')
    numbers = call.arguments if isinstance(call, Call) else {}
    if call[0] != 'add' or {*numbers} != {'x', 'y'} or {type(x) for x in numbers.values()} != {int}:
      calls.append(call)
  rng.shuffle(calls)
  kinds = collections.Counter()
  for number, call in enumerate(calls):
    began = time.monotonic()
    broken, added = functions.turn(Seat(number, {}, ''), 0, [call, Call('add', {'x': 1, 'y': 2})])
    assert broken.kind in FAILURES and broken.text.startswith('Error: '), (call, broken)
    assert added.text == '3' and time.monotonic() - began < 30
    kinds[broken.kind] += 1
  print(kinds)
  assert kinds.keys() >= {'unknown', 'malformed', 'arguments', 'raised', 'timeout', 'died'}


def test_every_kind_of_failure_is_tried_here():
  assert {*FAILURES} == {*BROKEN, 'limit', 'cut'}
