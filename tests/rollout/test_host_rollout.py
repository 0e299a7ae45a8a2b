"""Episodes with tools in Python: rows, words around results, and what a run repeats."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import plain_tools
import pytest

from rlx.data import dataset as datasets
from rlx.data import tokenizer as tokenizers
from rlx.engine.decoding import Decoding
from rlx.engine.host_turns import Said
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.host.calls import hermes_json, inline, whole
from rlx.envs.worlds.rooms import rooms
from rlx.errors import ConfigError
from rlx.experiments.data import FOLDER
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout.host_turns import Table, Words, episodes, marked_solutions
from rlx.rollout.toolbox import Desk, toolbox
from rlx.types import check
from tests.once import once

MODEL_FOLDER = f'{FOLDER}/tiny_model'
LIMITS = {
    'timeout_seconds': 5.0, 'max_calls': 20, 'workers': 2, 'result_tokens': 8, 'keep': 'head', 'before': '[',
    'after': ']', 'role': 'tool', 'reset_tokens': 0,
}


def rows_of(name, *, chat=False, **columns):
  return datasets.dataset(
      directory=MODEL_FOLDER, train=f'{FOLDER}/{name}_train.jsonl', held_out='', columns=columns, chat=chat,
      system='', max_prompt_tokens=256, max_completion_tokens=256, malformed='strict',
  )


PROBLEMS = rows_of('word_problems', prompt='{question}', completion=' {answer}')
CHATS = rows_of('word_problems', prompt='{question}', chat=True)
DECODING = Decoding(
    max_tokens=40, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=PROBLEMS.eos_ids, pad_id=PROBLEMS.pad_id,
)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=PROBLEMS.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8,
    mlp_size=32, context_length=256,
))
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))
ROOMS = rooms(height=2, width=2, num_mazes=2, loops=1, num_keys=1, held_out_share=0.2)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
KEY = jax.random.key(1)


def box(tools=None, environments=None, calls=plain_tools.whatever, **changes):
  tools = {'echo': plain_tools.echo} if tools is None else tools
  return toolbox(tools=tools, environments=environments or {}, calls=calls, **{**LIMITS, **changes})


@pytest.fixture(scope='module')
def table():
  made = Table(PROBLEMS, POLICY, box(), group_size=2, num_slots=4, turn_tokens=6)
  yield made
  made.close()


def asked(num=4):
  data = PROBLEMS.data
  columns = {name: jnp.asarray(data[name][:num]) for name in ('prompts', 'prompt_lengths')}
  return {**columns, 'rows': jnp.arange(num)}


def drawn(table, record='step', folder=None):
  table.keep_in(folder)
  return table.sample(PARAMS(), asked(), KEY, record=record, max_turns=4)


def assert_same(rows, others):
  assert rows.keys() == others.keys()
  for name in rows:
    np.testing.assert_array_equal(rows[name], others[name], err_msg=name)


def test_rows_hold_what_was_said_and_what_was_read_between_the_words_around_it(table):
  rows = drawn(table)
  check({name: jnp.asarray(x) for name, x in rows.items()})
  heard = rows['valid'] & ~rows['action_mask'] & (rows['turns'] >= 0)
  assert rows['tools/calls'].max() > 1 and rows['tools/failed_malformed'].any() and rows['truncated'].any()
  assert not rows['sampler_logprobs'][~rows['action_mask']].any()
  for row in range(8):
    for turn in range(int(rows['turns'][row].max()) + 1):
      here = rows['turns'][row] == turn
      said = PROBLEMS.decode(rows['tokens'][row][here & rows['action_mask'][row]])
      read = PROBLEMS.decode(rows['tokens'][row][here & heard[row]])
      calls = plain_tools.whatever(said)
      assert bool(read) <= bool(calls) and (not read or (read[0], read[-1]) == ('[', ']'))


def test_what_is_said_does_not_depend_on_how_long_tools_take(table):
  slow = Table(
      PROBLEMS, POLICY, box(tools={'echo': plain_tools.slow_echo}), group_size=2, num_slots=4, turn_tokens=6
  )
  assert_same(drawn(table), drawn(slow))
  assert slow.timings['rollout/waiting_share'] > 0 and slow.timings['tools/called'] > 4
  slow.close()


def test_a_step_is_repeated_from_its_record_without_a_call(table, tmp_path):
  rows = drawn(table, folder=tmp_path)
  again = drawn(table, folder=tmp_path)
  assert_same(rows, again)
  assert table.timings['tools/called'] == 0
  lines = [json.loads(line) for line in (tmp_path / 'step.jsonl').read_text().splitlines()]
  num = rows['tools/calls'].sum() - rows['tools/failed_malformed'].sum()
  assert sum('value' in line for line in lines) == num


@pytest.mark.parametrize('num', [0, 1, 3])
def test_a_step_goes_on_behind_a_record_that_was_cut(table, tmp_path, num):
  rows = drawn(table, folder=tmp_path)
  path = tmp_path / 'step.jsonl'
  path.write_bytes(b''.join(path.read_bytes().splitlines(keepends=True)[:num]) + b'{"pla')
  assert_same(rows, drawn(table, folder=tmp_path))


def test_worlds_give_rewards_and_their_words_stand_in_the_prompt():
  made = box(tools={'echo': plain_tools.echo}, environments={'w': plain_tools.Counter}, reset_tokens=0)
  worlds = Table(PROBLEMS, POLICY, made, group_size=2, num_slots=4, turn_tokens=6)
  rows = drawn(worlds)
  assert (rows['rewards'] == 0).all() and rows['scored'].all() and not rows['tools/worlds_lost'].any()
  worlds.close()
  made = box(environments={'w': plain_tools.Stillborn}, reset_tokens=16)
  worlds = Table(PROBLEMS, POLICY, made, group_size=2, num_slots=4, turn_tokens=6)
  rows = drawn(worlds)
  prompt = PROBLEMS.decode(rows['tokens'][0, : rows['prompt_lengths'][0]])
  assert prompt == PROBLEMS.prompts([0])[0] + ' (begins at 0)'
  worlds.close()


def test_the_last_words_of_a_world_end_the_episode():
  made = box(tools={}, environments={'w': plain_tools.Steps}, calls=functools.partial(whole, tool='step'))
  steps = Table(PROBLEMS, POLICY, made, group_size=2, num_slots=4, turn_tokens=6)
  rows = drawn(steps)
  steps.close()
  two = rows['tools/calls'] == 2
  assert two.any() and (rows['tools/calls'] <= 2).all() and (rows['rewards'] == rows['tools/calls']).all()
  assert not rows['truncated'][two].any() and (rows['turns'][two].max(axis=1) == 1).all()


def test_shapes_are_those_of_what_is_drawn(table):
  shapes = jax.eval_shape(lambda problems: table.shapes(PARAMS(), problems, KEY), asked())
  rows = drawn(table)
  assert {name: (x.shape, x.dtype) for name, x in shapes.items()} == {
      name: (x.shape, x.dtype) for name, x in rows.items()
  }


# --- words


def words(task, made, texts, *, is_cut=False):
  """What is read behind a turn of one episode that said some text."""
  desk = Desk(made)
  desk.open('step')
  table = Table(task, POLICY, made, group_size=1, num_slots=1, turn_tokens=6)
  seats = table._seats(np.array([0]))
  counterpart = Words(task, DECODING, made, desk, seats)
  tokens = task.encode(texts)
  if not is_cut:
    tokens = np.append(tokens, task.eos_ids[-1])
  counterpart.say(Said(0, 0, tokens, is_cut=is_cut, is_full=is_cut))
  [answer] = counterpart.answers(wait=True)
  desk.close()
  return answer, seats[0]


ADD = '<tool_call>{"name": "add", "arguments": {"x": %d, "y": 2}}</tool_call>'


@pytest.mark.parametrize('is_cut', [False, True])
def test_results_stand_behind_a_turn_as_the_chat_template_writes_them(is_cut):
  made = box(tools={'add': plain_tools.add}, calls=hermes_json)
  answer, _ = words(CHATS, made, ADD % 1 + 'and' + ADD % 5, is_cut=is_cut)
  text = CHATS.tokenizer.hf.decode(answer.tokens)
  conversation = [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'a'}]
  results = [{'role': 'tool', 'content': content} for content in ('3', '7')]
  whole = CHATS.tokenizer.render([*conversation, *results], generation_prompt=True)
  before = CHATS.tokenizer.render(conversation, generation_prompt=False)
  assert text == '<|im_end|>' * is_cut + '\n' + whole.removeprefix(before)


def test_names_of_special_tokens_in_results_are_text():
  made = box(tools={'fail': plain_tools.fail}, calls=hermes_json, result_tokens=64)
  call = '<tool_call>{"name": "fail", "arguments": {"how": "special"}}</tool_call>'
  for task, ends in ((CHATS, 1), (PROBLEMS, 0)):
    answer, _ = words(task, made, call)
    end = task.tokenizer.hf.convert_tokens_to_ids('<|im_end|>')
    assert list(answer.tokens).count(end) == ends
    assert '<|im_end|> and' in task.tokenizer.hf.decode(answer.tokens)


@pytest.mark.parametrize('keep', ['head', 'tail'])
def test_a_result_that_is_too_long_is_cut_and_counted(keep):
  made = box(tools={'fail': plain_tools.fail}, calls=hermes_json, keep=keep)
  call = '<tool_call>{"name": "fail", "arguments": {"how": "long"}}</tool_call>'
  answer, seat = words(PROBLEMS, made, call)
  assert len(answer.tokens) <= LIMITS['result_tokens'] + 4 and seat.failures == {'cut': 1}


@pytest.mark.parametrize('keep', ['head', 'tail'])
def test_of_a_flood_no_more_is_made_tokens_than_can_be_read(keep, monkeypatch):
  """A million characters take a second to be cut into tokens, for each call."""
  made = box(tools={'fail': plain_tools.fail}, calls=hermes_json, keep=keep)
  call = '<tool_call>{"name": "fail", "arguments": {"how": "flood"}}</tool_call>'
  tokenizer, seen = PROBLEMS.tokenizer, []
  encode = type(tokenizer).encode_between
  monkeypatch.setattr(
      type(tokenizer), 'encode_between', lambda self, *texts: seen.append(texts[1]) or encode(self, *texts)
  )
  answer, seat = words(PROBLEMS, made, call)
  enough = (LIMITS['result_tokens'] + 1) * tokenizer.longest
  assert max(map(len, seen)) <= enough < 10**6 and seat.failures == {'cut': 1}
  read = tokenizer.hf.decode(answer.tokens)
  assert ('fir' in read, 'ast' in read) == (keep == 'head', keep == 'tail')


def test_a_turn_without_a_call_is_the_answer_and_one_that_was_cut_is_none():
  made = box(tools={'add': plain_tools.add}, calls=hermes_json)
  ended, _ = words(PROBLEMS, made, '42')
  void, _ = words(PROBLEMS, made, '42', is_cut=True)
  assert ended.ended and ended.understood and not void.ended and void.stops and not void.understood


def test_a_template_that_changes_what_was_said_is_refused_at_the_start(tmp_path):
  tokenizer = tokenizers.load(MODEL_FOLDER)
  tokenizer.hf.chat_template = '{{ messages | length }}' + tokenizer.hf.chat_template
  with pytest.raises(ValueError, match='cannot be appended'):
    tokenizer.encode_answers(['3'], role='tool', ended=True)


# --- demonstrations


@pytest.mark.slow
def test_solutions_are_cut_where_sampling_cuts_and_results_are_read():
  calls = functools.partial(inline, tool='add', before='<<', after='=')
  made = box(tools={'add': plain_tools.add}, calls=calls, before='', after='>>')
  policy = Speaker(
      model=MODEL, decoding=Decoding(**{**vars(DECODING), 'max_tokens': 200}), scoring=POLICY.scoring
  )
  rollout = marked_solutions(PROBLEMS, policy, made, batch_size=4, marks=r'(<<[^<>=]*=)([^<>]*>>)')
  world = {**rollout.begin(KEY), 'data': rollout.data}
  rows, _ = jax.device_get(rollout.draw({}, world, KEY))
  for row in range(4):
    behind = rows['valid'][row] & (np.arange(rows['valid'].shape[1]) >= rows['prompt_lengths'][row])
    heard = behind & ~rows['action_mask'][row]
    text = PROBLEMS.rows[rows['rows'][row]]['completion']
    assert PROBLEMS.decode(rows['tokens'][row][behind]) == text
    results = [part.rpartition('=')[2] for part in text.split('>>')[:-1]]
    wanted = [i for one in results for i in PROBLEMS.tokenizer.encode_between('', one, '>>')]
    assert rows['tokens'][row][heard].tolist() == wanted and rows['turns'][row].max() == len(results)
  with pytest.raises(ConfigError, match='none of the'):
    marked_solutions(PROBLEMS, policy, made, batch_size=4, marks='(<<<)(>>>)')


# --- what is refused


def test_what_cannot_be_talked_to_is_refused_in_one_line():
  sizes = {'batch_size': 4, 'group_size': 2, 'num_slots': 2, 'turn_tokens': 6, 'max_turns': lambda step: 3}
  with pytest.raises(ConfigError, match="task.name='dataset'"):
    episodes(ROOMS, POLICY, box(), **sizes)
  with pytest.raises(ConfigError, match='turn_tokens=60'):
    episodes(PROBLEMS, POLICY, box(), **{**sizes, 'turn_tokens': 60})
  rollout = episodes(PROBLEMS, POLICY, box(), **sizes)
  with pytest.raises(ValueError, match='no other rollout'):
    rollout({'policy': PARAMS()}, rollout.begin(KEY), KEY)
