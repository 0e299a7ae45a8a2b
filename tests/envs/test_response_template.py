"""Calls as a model directory says that they are written: its response template, read by transformers."""

import json
import shutil
from types import SimpleNamespace

import pytest

from rlx import config as configs
from rlx.data import tokenizer as tokenizers
from rlx.engine.host_turns import Said
from rlx.envs.host.calls import Call, Malformed, hermes_json
from rlx.envs.host.response_template import ResponseTemplate
from rlx.errors import ConfigError
from rlx.experiments.data import FOLDER
from rlx.rollout.host_turns import Words
from rlx.run.parts import build_section

WHOLE = {'type': 'function', 'function': '{content}'}
NAMED = {'type': 'function', 'function': {'name': '{name}', 'arguments': '{content}'}}
THOUGHT = {'open': '<think>', 'close': '</think>', 'content': 'text'}
HERMES = {'open_pattern': r'\s*<tool_call>', 'close': '</tool_call>', 'repeats': True, 'content': 'json'}
XML = {
    'open_pattern': r'<function=(?P<name>\w+)>', 'close': '</function>', 'repeats': True,
    'content': 'xml-inline', 'transform': NAMED,
    'content_args': {'tag_pattern': r'<parameter=(?P<key>\w+)>(?P<value>.*?)</parameter>'},
}
MARKED = {  # by special tokens, as Gemma 4 has them
    'open_pattern': r'<\|im_start\|>call:(?P<name>\w+)', 'close': '<|endoftext|>', 'repeats': True,
    'content': 'json', 'transform': NAMED,
}
SCHEMA = {'type': 'object', 'properties': {'x': {'type': 'integer'}, 'to': {'type': 'string'}}}
SCHEMAS = [{'type': 'function', 'function': {'name': 'add', 'description': 'Adds.', 'parameters': SCHEMA}}]
ONE = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'


def template(tool_calls, **more):
  fields = {'content': {'close': '<|im_end|>', 'content': 'text'}, 'thought': THOUGHT}
  fields |= {'tool_calls': tool_calls} if tool_calls else {}
  start = '<|im_start|>assistant\n'
  return {'defaults': {'role': 'assistant'}, 'start_anchor': start, 'fields': fields, **more}


def directory(tmp_path, response_template, *, begun=''):
  """The tiny model with a response template; its chat template writes `begun` before each turn."""
  folder = tmp_path / 'model'
  folder.mkdir()
  for name in ('tokenizer.json', 'generation_config.json'):
    shutil.copy(f'{FOLDER}/tiny_model/{name}', folder / name)
  with open(f'{FOLDER}/tiny_model/tokenizer_config.json') as file:
    config = json.load(file)
  if response_template is not None:
    config['response_template'] = response_template
  (folder / 'tokenizer_config.json').write_text(json.dumps(config))
  turns = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
  end = f'{{% if add_generation_prompt %}}<|im_start|>assistant\n{begun}{{% endif %}}'
  (folder / 'chat_template.jinja').write_text(turns + end)
  return str(folder)


def test_the_format_of_hermes_is_read_as_our_own_function_does(tmp_path):
  read = ResponseTemplate(SCHEMAS, directory=directory(tmp_path, template({**HERMES, 'transform': WHOLE})))
  two = f'I add.\n{ONE}\n{ONE.replace("1", "2")}<|im_end|>'
  assert read(two) == hermes_json(two) == [Call('add', {'x': 1}), Call('add', {'x': 2})]
  for answer in ('It is 3.', '', '<|im_end|>'):
    assert read(answer) == []
  wrong = '<tool_call>{"name": "add"', '<tool_call>add(1)</tool_call>', '<tool_call>[1]</tool_call>'
  nested = f'<tool_call>{"[" * 100_000}</tool_call>'
  no_object = ONE.replace('{"x": 1}', '[1]')
  for text in (*wrong, nested, no_object):
    [found] = read(text)
    assert isinstance(found, Malformed) and '\n' not in found.problem


def test_arguments_that_are_written_as_text_get_the_types_of_the_tools(tmp_path):
  read = ResponseTemplate(SCHEMAS, directory=directory(tmp_path, template(XML)))
  text = '<function=add><parameter=x>7</parameter><parameter=to>7</parameter></function>'
  assert read(text) == [Call('add', {'x': 7, 'to': '7'})]
  assert read(text.replace('>7<', '>seven<')) == [Call('add', {'x': 'seven', 'to': 'seven'})]


def test_what_the_chat_template_begins_for_the_assistant_belongs_to_the_turn(tmp_path):
  quiet = template({**HERMES, 'transform': WHOLE})
  read = ResponseTemplate(SCHEMAS, directory=directory(tmp_path, quiet, begun='<think>'))
  assert read(f'perhaps {ONE}? No.</think>Three.') == []  # a call that is only thought of
  assert read(f'hm</think>{ONE}') == [Call('add', {'x': 1})]


def test_special_tokens_are_seen_in_a_toolbox_that_is_told_so(tmp_path):
  place = directory(tmp_path, template(MARKED))
  section = {'name': 'envs.host.response_template.ResponseTemplate', 'directory': place}
  config = configs.load('tools/word_problems_grpo:smoke').unlock()
  config.toolbox.calls = section
  box = build_section(config.toolbox, 'toolbox', {}, ('rlx',))
  assert box.calls.sees_special_tokens
  tokenizer = tokenizers.load(place)
  ids = tokenizer.encode('<|im_start|>call:calculator{"expression": "1+1"}<|endoftext|>', special=False)
  assert box.calls(tokenizer.spelled(ids)) == [Call('calculator', {'expression': '1+1'})]
  assert box.calls(tokenizer.decode(ids)) == []
  assert calls_of_a_turn(box, tokenizer, ids) == [Call('calculator', {'expression': '1+1'})]


def calls_of_a_turn(box, tokenizer, ids):
  """What an episode hands to its desk when these tokens were said."""
  handed = []

  def submit(turn, seat, number, calls):
    handed.extend(calls)
    return SimpleNamespace(add_done_callback=lambda callback: None)

  task = SimpleNamespace(tokenizer=tokenizer, decode=tokenizer.decode)
  words = Words(task, None, box, SimpleNamespace(submit=submit, turn=None), [None])
  words.say(Said(0, 0, ids, is_cut=False, is_full=False))
  return handed


@pytest.mark.parametrize(('response_template', 'message'), [
    (None, 'has no response_template.*tokenizer_config.json.*calls.hermes_json'),
    (template(None), "the fields .*'content', 'thought'.*calls are read from 'tool_calls'"),
    (template({**HERMES, 'shape': 1}), 'is none: .*unknown keys'),
    (template(HERMES, version=9), 'is none: Unsupported response_template version'),
    ('hermes', 'is none: .*must be a dict'),
])
def test_a_directory_that_does_not_say_it_is_refused_in_one_line(tmp_path, response_template, message):
  with pytest.raises(ConfigError, match=message) as error:
    ResponseTemplate(SCHEMAS, directory=directory(tmp_path, response_template))
  assert '\n' not in str(error.value)


def test_a_directory_that_is_none_is_refused(tmp_path):
  with pytest.raises(ConfigError, match='is no directory'):
    ResponseTemplate([], directory=str(tmp_path / 'nowhere'))
