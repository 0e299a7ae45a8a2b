"""Data sets: which tokens a row becomes, which rows come when, and what is said of those that are no use."""

import gzip
import json
import logging
import shutil
import sys
import types

import chex
import jax
import jax.numpy as jnp
from ml_collections import ConfigDict, FrozenConfigDict
import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from rlx.data.dataset import dataset
from rlx.data.rows import read_rows
from rlx.experiments import init_model
from rlx.types import check
from tests.cases import cases

END, TURN_END = 0, 2  # <|endoftext|>, <|im_end|>
PROBLEMS = [{'question': f'How much is {i} + {i}?', 'answer': str(2 * i), 'level': i % 3} for i in range(10)]
USER, ASSISTANT = ({'role': role, 'content': f'I am the {role}.'} for role in ('user', 'assistant'))


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
  """A tokenizer for chat: its end token is <|im_end|>, and generation_config.json has <|endoftext|> too."""
  directory = tmp_path_factory.mktemp('chat')
  text = directory / 'text.txt'
  text.write_text('user assistant system\nHow much is 12 + 34? 46\nI am the user. I am the assistant.\n' * 9)
  tokenizer = init_model.train_tokenizer([text], 300)
  init_model.write_tokenizer(directory, tokenizer, context_length=64, chat_template='chatml')
  return directory


@pytest.fixture
def make(directory, tmp_path):
  """`make(rows, held_out_rows, **arguments)`: rows go through files."""

  def make(train, held_out=(), /, **arguments):
    paths = {}
    for name, rows in (('train', train), ('held_out', held_out)):
      path = tmp_path / f'{name}.jsonl'
      path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
      paths[name] = str(path) if rows else ''
    defaults = {
        'directory': str(directory), 'columns': {}, 'chat': False, 'system': '', 'max_prompt_tokens': 200,
        'max_completion_tokens': 200, 'malformed': 'strict',
    }
    return dataset(**{**defaults, **paths, **arguments})

  return make


def begin(data, seed=0):
  return {**data.begin(jax.random.key(seed)), 'data': data.data}


def demonstrations(data):
  """All rows in the order of the file, as NumPy."""
  batch = demonstrate(data, len(data.data['tokens']))[0]
  order = np.argsort(batch['rows'], kind='stable')
  return {name: array[order] for name, array in batch.items()}


def demonstrate(data, num, world=None):
  """A batch as NumPy, and the world."""
  world = begin(data) if world is None else world
  batch, world = jax.jit(lambda world: data.demonstrate(world, None, num))(world)
  check(batch)
  return jax.device_get(batch), world


def text(data, tokens, which):
  """The tokens of a row where `which` is True, with special ones."""
  return data.tokenizer.hf.decode(np.asarray(tokens)[np.asarray(which)].tolist())


def shown(data, batch):
  """Each row as (context before the first action, actions)."""
  before = np.arange(batch['tokens'].shape[1])[None] < batch['prompt_lengths'][:, None]
  rows = zip(batch['tokens'], before, batch['action_mask'], strict=True)
  return [(text(data, tokens, prompt), text(data, tokens, actions)) for tokens, prompt, actions in rows]


# --- what a row becomes -------------------------------------------------------------------------------------


def test_prompts_by_hand(make):
  data = make([{'prompt': 'How much?', 'answer': '1'}, {'prompt': 'How much is 12 + 34?', 'answer': '46'}])
  ids = [data.tokenizer.encode(row['prompt'], special=True) for row in data.rows]
  assert data.data['prompt_lengths'].tolist() == [len(row) for row in ids]
  assert data.prompt_columns == max(map(len, ids)) and data.answer_columns == data.action_columns == 0
  assert data.data['prompts'].tolist() == [row + [END] * (data.prompt_columns - len(row)) for row in ids]
  assert data.data['prompts'].dtype == np.int32 and data.data.keys() == {'prompts', 'prompt_lengths'}
  assert (data.eos_ids, data.pad_id) == ((TURN_END, END), END)
  assert data.vocab_size == len(data.tokenizer.hf) > 256
  assert data.decode(data.data['prompts'][0]) == 'How much?' and not data.conversational
  assert data.encode('How much?').tolist() == ids[0] and data.encode('').dtype == np.int32
  with pytest.raises(ValueError, match='task.train holds prompts only.*it needs a column completion'):
    data.demonstrate(begin(data), None, 2)


def test_completions_by_hand(make):
  rows = [
      {'prompt': 'How much?', 'completion': ' 12'}, {'prompt': 'How much is 1 + 1?\n', 'completion': '\n2'},
      {'prompt': 'How?', 'completion': ''}, {'prompt': 'How?', 'completion': '46<|endoftext|>'},
  ]
  data = make(rows)
  batch = demonstrations(data)
  encode = lambda text: data.tokenizer.encode(text, special=False)
  for i, row in enumerate(rows):
    prompt, answer = encode(row['prompt']), encode(row['completion'])
    answer += [] if i == 3 else [TURN_END]  # the end is not doubled
    ids = prompt + answer
    assert batch['tokens'][i, : len(ids)].tolist() == ids
    assert batch['valid'][i].tolist() == [j < len(ids) for j in range(batch['tokens'].shape[1])]
    assert np.flatnonzero(batch['action_mask'][i]).tolist() == list(range(len(prompt), len(ids)))
    assert batch['prompt_lengths'][i] == data.data['prompt_lengths'][i] == len(prompt)
    assert data.data['prompts'][i, : len(prompt)].tolist() == prompt
    assert batch['turns'][i, : len(ids)].tolist() == [-1] * len(prompt) + [0] * len(answer)
  assert data.action_columns == data.answer_columns == max(batch['action_mask'].sum(axis=1))
  assert sorted(batch['groups']) == [0, 1, 2, 3] and 'preferred' not in batch
  assert data.solutions([0, 2, 3]) == [' 12', '', '46']


def test_a_tokenizer_that_begins_with_bos_begins_prompts_once(directory, make, tmp_path):
  other = shutil.copytree(directory, tmp_path / 'bos')
  tokenizer = Tokenizer.from_file(str(directory / 'tokenizer.json'))
  special = [('<|im_start|>', 1), ('<|endoftext|>', 0)]
  tokenizer.post_processor = processors.TemplateProcessing(
      single='<|im_start|> $A <|endoftext|>', special_tokens=special
  )
  tokenizer.save(str(other / 'tokenizer.json'))
  data = make([{'prompt': 'How?', 'completion': '1'}], directory=str(other))
  tokens = data.data['tokens'][0].tolist()
  assert tokens.count(1) == 1 and tokens[0] == 1 and END not in tokens
  assert data.data['prompts'][0].tolist() == tokens[: len(data.data['prompts'][0])]
  assert shown(data, demonstrations(data)) == [('<|im_start|>How?', '1<|im_end|>')]


def test_chat_makes_messages_of_strings(make):
  data = make([{'prompt': 'How?', 'completion': '12'}], chat=True, system='Be brief.')
  prompt = '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHow?<|im_end|>\n'
  prompt += '<|im_start|>assistant\n'
  assert shown(data, demonstrations(data)) == [(prompt, '12<|im_end|>')]
  assert data.conversational and data.solutions([0]) == ['12']
  assert data.prompts([0]) == [[
      {'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'How?'},
  ]]
  problems = make([{'prompt': 'How?'}], chat=True, system='Be brief.')
  assert np.array_equal(problems.data['prompts'], data.data['prompts'])
  assert make([{'prompt': 'How?'}], chat=True).prompts([0]) == [[{'role': 'user', 'content': 'How?'}]]


def test_what_the_assistant_said_in_a_prompt_is_context(make):
  data = make([{'prompt': [USER, ASSISTANT, USER], 'completion': [ASSISTANT]}])
  [(prompt, actions)] = shown(data, demonstrations(data))
  assert prompt.count('I am the assistant.<|im_end|>') == 1 and actions == 'I am the assistant.<|im_end|>'
  assert data.held_out_data is None and data.prompts([0]) == [[USER, ASSISTANT, USER]]


def test_the_end_of_a_turn_ends_rows_of_conversations_though_no_file_names_it(directory, make, tmp_path):
  """As with base models, which come with a template for chat."""
  base = shutil.copytree(directory, tmp_path / 'base')
  (base / 'generation_config.json').unlink()
  settings = json.loads((base / 'tokenizer_config.json').read_text())
  (base / 'tokenizer_config.json').write_text(json.dumps({**settings, 'eos_token': '<|endoftext|>'}))
  rows = [{'prompt': 'How?', 'completion': '12'}]
  chat, plain = (make(rows, directory=str(base), chat=chat) for chat in (True, False))
  assert (chat.eos_ids, plain.eos_ids) == ((END, TURN_END), (END,))
  assert [shown(data, demonstrations(data))[0][1] for data in (chat, plain)] == [
      '12<|im_end|>', '12<|endoftext|>',
  ]


def test_messages_by_hand(make):
  rows = [
      {'messages': [USER, ASSISTANT, USER, {'role': 'tool', 'content': 'No.'}, ASSISTANT, USER]},
      {'messages': [USER, ASSISTANT]},
  ]
  data = make(rows)
  batch = demonstrations(data)
  user = '<|im_start|>user\nI am the user.<|im_end|>\n'
  begins, says = '<|im_start|>assistant\n', 'I am the assistant.<|im_end|>'
  tool = '<|im_start|>tool\nNo.<|im_end|>\n'
  assert shown(data, batch) == [(user + begins, says * 2), (user + begins, says)]
  assert [text(data, batch['tokens'][i], batch['valid'][i]) for i in range(2)] == [
      user + begins + says + '\n' + user + tool + begins + says, user + begins + says,
  ]
  # A turn lasts until the next one begins.
  turn = lambda k: text(data, batch['tokens'][0], batch['valid'][0] & (batch['turns'][0] == k))
  assert [turn(k) for k in (-1, 0, 1, 2)] == [user + begins, f'{says}\n{user}{tool}{begins}', says, '']
  actions = np.flatnonzero(batch['action_mask'][0])
  assert data.action_columns == data.answer_columns == actions[-1] - actions[0] + 1
  assert data.prompts([0, 1]) == [[USER], [USER]] and data.conversational
  assert data.decode(data.data['prompts'][0]) == data.decode(data.data['prompts'][1])
  assert data.solutions([0, 1]) == ['I am the assistant.'] * 2


PAIRS = [
    {'prompt': 'How much?', 'chosen': ' 12', 'rejected': ' 46 much'},
    {'prompt': 'How?', 'chosen': 'I am', 'rejected': 'the'},
    {'prompt': 'Much?', 'chosen': 'user', 'rejected': 'system'},
]


def test_pairs_by_hand(make):
  data = make(PAIRS)
  batch, world = demonstrate(data, 4)
  rows = batch['rows']
  assert rows[0] == rows[1] and rows[2] == rows[3] and rows[0] != rows[2]
  assert batch['groups'].tolist() == [0, 0, 1, 1]
  assert batch['preferred'].tolist() == [True, False, True, False]
  assert world['cursor'] == 2
  assert shown(data, batch) == [
      (PAIRS[row]['prompt'], f'{PAIRS[row][column]}<|im_end|>')
      for row, column in zip(rows, ['chosen', 'rejected'] * 2, strict=True)
  ]
  assert data.solutions([0, 1]) == [' 12', 'I am']
  with pytest.raises(ValueError, match='3 rows cannot hold whole pairs.*take 4'):
    data.demonstrate(begin(data), None, 3)


@pytest.mark.parametrize(
    ('chosen', 'rejected', 'prompt', 'answers'),
    [
        ('How? I am', 'How? You are', 'How?', (' I am', ' You are')),  # not 'How? '
        ('Howmuch', 'Howmany', 'Howm', ('uch', 'any')),
    ],
)
def test_the_prompt_of_a_pair_may_be_what_its_answers_share(make, chosen, rejected, prompt, answers):
  data = make([{'chosen': chosen, 'rejected': rejected}])
  assert data.prompts([0]) == [prompt]
  assert shown(data, demonstrations(data)) == [(prompt, f'{answer}<|im_end|>') for answer in answers]


@pytest.mark.parametrize('column', [{}, {'prompt': 'I am the user.'}])
def test_the_prompt_of_a_pair_of_conversations_may_be_what_they_share(make, column):
  """Also where `prompt` is there as a string beside answers that repeat it as messages."""
  other = {'role': 'assistant', 'content': 'How?'}
  data = make([{**column, 'chosen': [USER, ASSISTANT], 'rejected': [USER, other]}])
  assert data.prompts([0]) == [[USER]]
  assert [actions for _, actions in shown(data, demonstrations(data))] == [
      'I am the assistant.<|im_end|>', 'How?<|im_end|>',
  ]


def test_labels_by_hand(make):
  labels = [True, False, False, True, True]
  data = make([{'prompt': f'{i}?', 'completion': 'No', 'label': label} for i, label in enumerate(labels)])
  batch, _ = demonstrate(data, 5)
  assert batch['preferred'].tolist() == [labels[row] for row in batch['rows']]
  assert data.columns([1])['label'] == [False]


def test_special_tokens_in_a_message_do_not_end_a_turn(make):
  data = make([{'prompt': 'a<|im_end|>', 'completion': 'b<|im_end|>c'}], chat=True)
  batch = demonstrations(data)
  assert data.data['tokens'][0].tolist().count(TURN_END) == 2
  assert shown(data, batch)[0][1] == 'b<|im_end|>c<|im_end|>'


# --- columns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', [dict, ConfigDict, FrozenConfigDict])
def test_columns_are_made_of_columns(make, kind):
  columns = {'prompt': 'Q: {question}\n{{A}}:', 'completion': ' {answer}', 'info': '{meta[x]}{level:03d}'}
  data = make([{**row, 'meta': {'x': 'y'}} for row in PROBLEMS], columns=kind(columns))
  assert data.prompts([3]) == ['Q: How much is 3 + 3?\n{A}:']
  assert data.solutions([3, 4]) == [' 6', ' 8']
  assert data.columns([4, 3]) == {
      'question': ['How much is 4 + 4?', 'How much is 3 + 3?'], 'answer': ['8', '6'], 'level': [1, 0],
      'meta': [{'x': 'y'}] * 2, 'completion': [' 8', ' 6'], 'info': ['y001', 'y000'],
  }


@pytest.mark.parametrize('template', ['{question', '{}', '{0}', '{question}}', '{a b}'])
def test_templates_that_are_none_are_refused(make, template):
  with pytest.raises(ValueError, match=r'columns.prompt=.*literal braces are doubled'):
    make(PROBLEMS, columns={'prompt': template})


def test_columns_that_some_rows_lack_are_none(make):
  data = make([{'prompt': 'a', 'x': 1}, {'prompt': 'b', 'y': 2}], [{'prompt': 'c', 'z': 3}])
  columns = data.columns(np.array([0, 2, 1]))
  assert columns == {'x': [1, None, None], 'y': [None, None, 2], 'z': [None, 3, None]}


# --- held-out rows ------------------------------------------------------------------------------------------

COLUMNS = {'prompt': '{question}', 'completion': '{answer}'}


def test_held_out_rows_follow_the_training_rows(make):
  data = make(PROBLEMS[:6], PROBLEMS[6:], columns=COLUMNS)
  asked = data.held_out(3)
  assert asked['rows'].tolist() == [6, 7, 8] and asked['rows'].dtype == np.int32
  assert asked['prompts'].shape == (3, data.prompt_columns) == (3, data.data['prompts'].shape[1])
  prompts = [data.decode(p[:n]) for p, n in zip(asked['prompts'], asked['prompt_lengths'], strict=True)]
  assert prompts == data.prompts(asked['rows']) == [row['question'] for row in PROBLEMS[6:9]]
  assert data.columns(asked['rows'])['answer'] == data.solutions(asked['rows']) == ['12', '14', '16']
  batch = data.held_out_demonstrations(4)
  check(batch)
  assert [actions for _, actions in shown(data, batch)] == [f'{2 * i}<|im_end|>' for i in range(6, 10)]
  assert batch['rows'].tolist() == [6, 7, 8, 9]
  chex.assert_trees_all_equal_shapes_and_dtypes(batch, demonstrate(data, 4)[0])
  for ask in (data.held_out, data.held_out_demonstrations):
    with pytest.raises(ValueError, match='5 held-out rows are asked for, and task.held_out has 4'):
      ask(5)


def test_the_longest_row_may_be_held_out(make):
  long = {'question': 'How much is ' * 9, 'answer': '12 + 34 ' * 9}
  data = make(PROBLEMS, [long], columns=COLUMNS)
  [length], batch = data.held_out(1)['prompt_lengths'], data.held_out_demonstrations(1)
  assert data.prompt_columns == length and data.action_columns == batch['action_mask'].sum()
  assert text(data, batch['tokens'][0], batch['valid'][0]) == f'{long["question"]}{long["answer"]}<|im_end|>'


def test_held_out_pairs_keep_together(make):
  data = make(PAIRS[:1], PAIRS[1:])
  batch = data.held_out_demonstrations(4)
  assert batch['rows'].tolist() == [1, 1, 2, 2] and batch['preferred'].tolist() == [True, False] * 2
  assert data.solutions([1, 2]) == ['I am', 'user']


def test_without_held_out_rows_nothing_can_be_asked(make):
  data = make(PROBLEMS, columns=COLUMNS)
  for ask in (data.held_out, data.held_out_demonstrations):
    with pytest.raises(ValueError, match='task.held_out is empty'):
      ask(1)


def test_held_out_rows_that_are_trained_on_are_said(make, caplog):
  with caplog.at_level(logging.WARNING):
    make(PROBLEMS[:6], PROBLEMS[4:], columns=COLUMNS)
  assert [record.getMessage().split(': ', 1)[1].split(' also')[0] for record in caplog.records] == [
      '2 held-out prompts are'
  ]


# --- order --------------------------------------------------------------------------------------------------


def test_steps_by_hand(make):
  """The label of a step is at its last token, which is that of the line break behind it."""
  rows = [
      {'prompt': '12 + 34?\n', 'completions': ['12 user', '46\n', 'I'], 'labels': [True, 0.25, False]},
      {'prompt': 'How?\n', 'completions': ['system'], 'labels': [True]},
  ]
  data = make(rows, rows)
  assert (data.num_answers, data.answer_columns) == (1, 1 + max(len(data.encode('12 user\n46\nI\n')), 2))
  for batch in (demonstrations(data), data.held_out_demonstrations(2)):
    for row, ends, labels, tokens, mask in zip(
        rows, *(batch[k] for k in ('step_ends', 'step_labels', 'tokens', 'action_mask')), strict=True
    ):
      assert labels[ends].tolist() == [float(x) for x in row['labels']] and not labels[~ends].any()
      begins = int(mask.argmax())
      for step, end in zip(row['completions'], np.flatnonzero(ends), strict=True):
        assert data.decode(tokens[begins : end + 1]) == step.rstrip('\n') + '\n'
        begins = end + 1
      assert mask[begins] and tokens[begins] in data.eos_ids and not mask[begins + 1 :].any()


def test_tokens_of_steps_are_those_of_the_answer_as_it_is_met(make):
  """A step's tokens do not depend on those behind it, and the columns are those of any demonstration."""
  steps = ['I am the user.', ' 12 + 34', '46']
  rows = [{'prompt': 'How?\n', 'completions': steps[:num], 'labels': [True] * num} for num in (1, 2, 3)]
  batch = demonstrations(make(rows))
  for short, long in ((0, 1), (1, 2)):
    num = int(np.flatnonzero(batch['step_ends'][short])[-1]) + 1
    np.testing.assert_array_equal(batch['tokens'][short, :num], batch['tokens'][long, :num])
    np.testing.assert_array_equal(batch['step_ends'][short, :num], batch['step_ends'][long, :num])


@pytest.mark.parametrize('num', cases([1, 3, 4, 10, 25], at_once=(4, 25)))
def test_an_epoch_visits_every_row_once(make, num):
  data = make(PROBLEMS, columns={'prompt': '{question}'})
  draw = jax.jit(lambda world: data.draw(world, None, num))
  rows, world = [], begin(data)
  while len(rows) < 60:
    problems, world = draw(world)
    assert world.keys() == {'cursor', 'order_key'}
    assert world['cursor'].dtype == jnp.int32 and not world['cursor'].weak_type
    world = {**world, 'data': data.data}
    assert np.array_equal(problems['prompts'], data.data['prompts'][problems['rows']])
    assert np.array_equal(problems['prompt_lengths'], data.data['prompt_lengths'][problems['rows']])
    rows += problems['rows'].tolist()
  epochs = [tuple(rows[i : i + 10]) for i in range(0, 60, 10)]
  assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
  assert len(set(epochs)) == 6


def test_the_key_chooses_the_order_and_the_draw_key_does_not(make):
  data = make(PROBLEMS, columns={'prompt': '{question}'})
  draw = jax.jit(lambda world, key: data.draw(world, key, 10)[0]['rows'])
  rows = lambda seed, key: draw(begin(data, seed), jax.random.key(key)).tolist()
  assert rows(0, 0) == rows(0, 9) != rows(1, 0)


def test_a_restored_world_goes_on_with_the_same_rows(make):
  data, again = (make(PROBLEMS, columns=COLUMNS) for _ in range(2))
  _, world = demonstrate(data, 8)
  cursor, key = np.asarray(world['cursor']), np.asarray(jax.random.key_data(world['order_key']))
  restored = {'cursor': jnp.asarray(cursor), 'order_key': jax.random.wrap_key_data(jnp.asarray(key))}
  one, _ = demonstrate(data, 8, {**world, 'data': data.data})
  other, _ = demonstrate(again, 8, {**restored, 'data': again.data})
  chex.assert_trees_all_equal(one, other)
  assert one['rows'].tolist() != demonstrate(data, 8)[0]['rows'].tolist()


def test_a_population_shares_the_data(make):
  data = make(PROBLEMS, columns=COLUMNS)
  keys = jax.random.split(jax.random.key(0), 3)
  worlds = jax.vmap(data.begin)(keys)
  draw = jax.jit(lambda world: data.draw({**world, 'data': data.data}, None, 10))
  problems, worlds = jax.vmap(draw)(worlds)
  assert worlds['cursor'].tolist() == [10] * 3
  for i in range(3):
    alone, _ = draw(data.begin(keys[i]))
    assert problems['rows'][i].tolist() == alone['rows'].tolist()


def test_data_of_one_row(make):
  data = make(PROBLEMS[:1], columns=COLUMNS)
  assert demonstrate(data, 3)[0]['rows'].tolist() == [0, 0, 0]


# --- malformed rows -----------------------------------------------------------------------------------------

GOOD = {
    'prompt': {'prompt': 'How?'},
    'completion': {'prompt': 'How?', 'completion': '12'},
    'messages': {'messages': [USER, ASSISTANT]},
    'pair': {'prompt': 'How?', 'chosen': '1', 'rejected': '2'},
    'implicit': {'chosen': 'How? 1', 'rejected': 'How? 2'},
    'chats': {'prompt': [USER], 'completion': [ASSISTANT]},
    'label': {'prompt': 'How?', 'completion': '12', 'label': True},
    'steps': {'prompt': 'How?', 'completions': ['12', '34'], 'labels': [True, 0.5]},
    'step_pair': {'prompt': 'How?', 'chosen': ['12', '34'], 'rejected': ['12', '35']},
}
HALF = 'How \ud83d'
STEPS = {'prompt': 'How?', 'completions': ['12', '34'], 'labels': [True, False]}
BAD = [
    ('prompt', '{"prompt": "How?"', 'not JSON', "Expecting ',' delimiter"),
    ('prompt', '[' * 100_000, 'not JSON', '(?:recursion|Stack overflow)'),  # by calls, or by bytes (3.14)
    ('prompt', b'{"prompt": "\xff\xfe"}', 'not JSON', "can't decode byte 0xff"),
    ('prompt', ['How?'], 'not an object', "\"\\['How\\?'\\]\" is list"),
    ('prompt', None, 'not an object', 'NoneType'),
    ('prompt', {'question': 'How?'}, "no 'prompt'", 'this one has question'),
    ('prompt', {}, "no 'prompt'", 'this one has none'),
    ('prompt', {'prompt': None}, "no 'prompt'", 'this one has prompt'),
    ('prompt', {'prompt': 12}, "'prompt' is not a string or messages", 'it is 12'),
    ('prompt', {'prompt': ['How?']}, "'prompt' is not a string or messages", 'a message is'),
    ('prompt', {'prompt': [{'role': 'user'}]}, "'prompt' is not a string or messages", '"role": "user"'),
    ('prompt', {'prompt': [{'content': 'a'}]}, "'prompt' is not a string or messages", '"content": "a"'),
    ('prompt', {'prompt': [{**USER, 'content': ['a']}]}, "'prompt' is not a string or messages", 'it is'),
    ('prompt', {'prompt': ' \n'}, 'empty prompt', 'delete the row'),
    ('prompt', {'prompt': HALF}, "'prompt' is not Unicode", 'ud83d'),
    ('prompt', {'prompt': [USER]}, 'strings and messages are mixed', 'chat'),
    ('prompt', {'prompt': 'How? ' * 99}, 'prompt too long', r'\d+ tokens, max_prompt_tokens=100: raise it'),
    ('completion', {'prompt': 'How?', 'completion': 'How? ' * 99}, 'completion too long', 'max_completion'),
    ('completion', {'prompt': 'How?'}, "no 'completion'", 'the first rows have it'),
    ('completion', {'prompt': 'How?', 'completion': [ASSISTANT]}, 'the prompt is a string and', 'chat'),
    ('completion', {'prompt': 'How?', 'completion': 1.5}, "'completion' is not a string or messages", '1.5'),
    ('messages', {'messages': 'How?'}, "'messages' is not messages", 'How'),
    ('messages', {'messages': []}, 'the assistant says nothing', r'roles are \[\]'),
    ('messages', {'messages': [USER]}, 'the assistant says nothing', 'user'),
    ('messages', {'messages': [ASSISTANT, USER]}, 'nobody speaks before the assistant', 'assistant'),
    ('messages', {'messages': [USER, {**ASSISTANT, 'content': HALF}]}, "'messages' is not Unicode", 'ud83d'),
    ('messages', {'messages': [{**USER, 'content': 'How? ' * 99}, ASSISTANT]}, 'prompt too long', '100'),
    ('pair', {'prompt': 'How?', 'chosen': '1'}, "no 'rejected'", 'the first rows have it'),
    ('pair', {'prompt': 'How?', 'chosen': '1', 'rejected': 'How? ' * 99}, 'completion too long', '100'),
    ('pair', {'prompt': 'How?', 'chosen': [USER], 'rejected': '1'}, 'only one of chosen and', 'same'),
    ('pair', {**PAIRS[0], 'rejected': ' 12'}, 'chosen and rejected are the same', 'delete'),
    ('pair', {'prompt': 'How?', 'chosen': '1', 'rejected': ' '}, "'rejected' is empty", 'no token'),
    ('pair', {'prompt': 'How?', 'chosen': [USER, ASSISTANT], 'rejected': [USER, USER]},
     'the prompt is not what the answers begin with', "it is 'How[?]'"),
    ('implicit', {'chosen': 'How? 1', 'rejected': 'How?'}, "'rejected' is empty", 'no token'),
    ('implicit', {'chosen': 'How?', 'rejected': 'How?'}, 'chosen and rejected are the same', 'column'),
    ('implicit', {'chosen': 'Yes', 'rejected': 'No'}, 'empty prompt', 'delete'),
    ('chats', {'prompt': [], 'completion': [ASSISTANT]}, 'empty prompt', 'delete'),
    ('chats', {'prompt': [USER, ASSISTANT], 'completion': [ASSISTANT]}, 'the prompt ends in the', 'move'),
    ('chats', {'prompt': [USER], 'completion': [USER]}, 'an answer does not begin with', 'move'),
    ('chats', {'prompt': [USER], 'completion': []}, 'an answer does not begin with', 'move'),
    ('label', {'prompt': 'How?', 'completion': '12', 'label': 1}, "'label' is not true or false", 'it is 1'),
    ('steps', {**STEPS, 'labels': [True]}, "another number of 'labels' than", '1 labels of 2 steps'),
    ('steps', {**STEPS, 'labels': True}, "'labels' is no list", 'it is true'),
    ('steps', {**STEPS, 'labels': [True, 2]}, 'a label of a step is neither', 'it is 2'),
    ('steps', {**STEPS, 'labels': [True, float('nan')]}, 'a label of a step is neither', 'it is nan'),
    ('steps', {**STEPS, 'labels': [True, None]}, 'a label of a step is neither', 'it is None'),
    ('steps', {**STEPS, 'completions': '12'}, "'completions' is no list of steps", 'it is "12"'),
    ('steps', {**STEPS, 'completions': []}, "'completions' is no list of steps", r'it is \[\]'),
    ('steps', {**STEPS, 'completions': ['12', ' ']}, "a step of 'completions' is empty", 'step 2'),
    ('steps', {**STEPS, 'completions': ['12', HALF]}, "'completions' is not Unicode", 'ud83d'),
    ('steps', {**STEPS, 'prompt': [USER]}, 'steps behind messages', 'a string'),
    ('steps', {**STEPS, 'prompt': ''}, 'empty prompt', 'delete'),
    ('steps', {**STEPS, 'completions': ['12', 'How? ' * 99]}, 'completion too long', '100'),
    ('step_pair', {**STEPS, 'chosen': ['12'], 'rejected': '35'}, "'rejected' is no list of steps", '35'),
    ('step_pair', {**STEPS, 'chosen': '12', 'rejected': '35'}, 'answers with steps and without', 'lists'),
    ('step_pair', {**STEPS, 'chosen': ['12'], 'rejected': ['12\n']}, 'chosen and rejected are the same', ''),
]


@pytest.mark.parametrize(('kind', 'bad', 'reason', 'detail'), BAD)
def test_a_malformed_row_raises_or_is_counted(make, tmp_path, caplog, kind, bad, reason, detail):
  lines = [json.dumps(GOOD[kind]).encode()] * 4
  lines[2] = bad if isinstance(bad, bytes) else (bad if isinstance(bad, str) else json.dumps(bad)).encode()
  path = tmp_path / 'rows.jsonl'
  path.write_bytes(b'\n'.join(lines))
  limits = {'max_prompt_tokens': 100, 'max_completion_tokens': 100}
  message = rf'rows.jsonl, line 3: {reason}.* \(.*{detail}.*malformed=.skip'
  with pytest.raises(ValueError, match=message) as error:
    make([], train=str(path), malformed='strict', **limits)
  assert '\n' not in str(error.value)
  with caplog.at_level(logging.WARNING):
    data = make([], train=str(path), malformed='skip', **limits)
  [(name, count)] = data.skipped.items()
  assert count == 1 and name.startswith(reason) and len(data.rows) == len(data.data['prompts']) == 3
  [record] = caplog.records
  assert record.getMessage() == f'{path}: 1 of 4 rows left out (1 x {name}): line 3: {name}'


def test_reasons_are_counted_over_both_files(make, caplog):
  train = [GOOD['prompt'], {'prompt': ''}, {'x': 1}, {'prompt': ''}, GOOD['prompt']]
  with caplog.at_level(logging.WARNING):
    data = make(train, [{'prompt': ''}, {'prompt': 'How much?'}], malformed='skip')
  assert data.skipped == {'empty prompt': 3, "no 'prompt'": 1}
  lines = [record.getMessage().rpartition('/')[2] for record in caplog.records]
  assert lines == [
      "train.jsonl: 3 of 5 rows left out (2 x empty prompt, 1 x no 'prompt'): "
      "line 2: empty prompt; line 3: no 'prompt'; line 4: empty prompt",
      'held_out.jsonl: 1 of 2 rows left out (1 x empty prompt): line 1: empty prompt',
  ]


def test_more_than_a_stated_share_of_malformed_rows_refuses(make, caplog):
  rows = [GOOD['pair']] * 8 + [{**GOOD['pair'], 'rejected': ''}] * 2
  with caplog.at_level(logging.WARNING):
    data = make(rows, malformed=0.2)
  assert len(data.rows) == 8 and data.skipped == {"'rejected' is empty": 2}
  assert "line 9: 'rejected' is empty; line 10: 'rejected' is empty" in caplog.records[0].getMessage()
  with pytest.raises(ValueError, match=r"2 of 10 .* malformed=0.1 \(line 9: 'rejected' is empty; .*raise it"):
    make(rows, malformed=0.1)
  with pytest.raises(ValueError, match='malformed=1.5 is neither'):
    make(rows, malformed=1.5)


def test_columns_that_cannot_be_made_are_malformed_rows(make):
  rows = [{'a': '1', 'b': [2]}, {'a': None, 'b': [2]}, {'b': [2]}, {'a': '1', 'b': []}]
  columns = {'prompt': '{a}{b[0]}'}
  data = make(rows, columns=columns, malformed='skip')
  assert data.prompts([0]) == ['12']
  assert data.skipped == {
      "no 'a' for the new column 'prompt'": 2, "the new column 'prompt' cannot be filled": 1,
  }
  with pytest.raises(ValueError, match=r"line 2: no 'a' for the new column 'prompt' \(the row has a, b;"):
    make(rows, columns=columns)


def test_a_file_of_unknown_columns_says_how_to_make_known_ones(make):
  hint = r"no column that is known \(it has question, answer, level; task.columns={'prompt': '{question}'}"
  with pytest.raises(ValueError, match=f'line 1: {hint}'):
    make(PROBLEMS)
  with pytest.raises(ValueError, match=f'none of the last 10 rows can be used; line 1: {hint}'):
    make(PROBLEMS, malformed='skip')


def test_what_the_chat_template_refuses_is_a_malformed_row(make, directory, tmp_path):
  strict = shutil.copytree(directory, tmp_path / 'strict')
  refusal = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
  (strict / 'chat_template.jinja').write_text(refusal + init_model.CHATML)
  rows = [{'prompt': [USER]}, {'prompt': [{'role': 'system', 'content': 'a'}, USER]}]
  with pytest.raises(ValueError, match='line 2: the chat template cannot write it .*: no system; malformed='):
    make(rows, directory=str(strict))
  data = make(rows, directory=str(strict), malformed='skip')
  assert data.skipped == {'the chat template cannot write it': 1}


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'malformed': 'ignore'}, "malformed='ignore' is neither"),
        ({'max_prompt_tokens': 0}, "'max_prompt_tokens': 0.*at least 1"),
        ({'max_completion_tokens': -1}, "'max_completion_tokens': -1.*at least 1"),
        ({'system': 'Be brief.'}, "system='Be brief.' is a message, and chat is False"),
        ({'directory': 'nowhere'}, 'nowhere is no directory'),
        ({'train': 'nowhere.jsonl'}, 'nowhere.jsonl: no such file'),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make, arguments, message):
  with pytest.raises(ValueError, match=message):
    make([GOOD['prompt']], **arguments)


def test_a_system_text_does_not_go_before_messages(make):
  with pytest.raises(ValueError, match='line 1: the prompt is messages already'):
    make([GOOD['chats']], chat=True, system='Be brief.')


def test_both_files_are_conversations_or_none_is(make):
  with pytest.raises(ValueError, match='only one of .*train.jsonl and .*held_out.jsonl has messages'):
    make([GOOD['chats']], [GOOD['prompt']])


# --- files --------------------------------------------------------------------------------------------------


def test_the_formats_give_the_same_rows(tmp_path):
  lines = '\n'.join(json.dumps(row) for row in PROBLEMS)
  (tmp_path / 'a.jsonl').write_text(lines)
  (tmp_path / 'bom.jsonl').write_text('\ufeff' + lines)
  (tmp_path / 'blank.jsonl').write_text('\n' + lines.replace('\n', '\r\n \n') + '\n\n')
  (tmp_path / 'a.jsonl.gz').write_bytes(gzip.compress(lines.encode()))
  (tmp_path / 'a.json').write_text(json.dumps(PROBLEMS, indent=1))
  read = {path.name: read_rows(str(path), malformed='strict') for path in tmp_path.iterdir()}
  assert len(read) == 5 and all(rows.rows == PROBLEMS for rows in read.values())
  assert read['a.jsonl'].places[:2] == ['line 1', 'line 2']
  assert read['blank.jsonl'].places[:2] == ['line 2', 'line 4']
  assert read['a.json'].places[:2] == ['row 1', 'row 2']


UNREADABLE = {
    'empty': ('a.jsonl', b'', 'has no rows'),
    'empty list': ('a.json', b'[]', 'has no rows'),
    'no list': ('a.json', b'{"prompt": "a"}', 'holds no list of objects'),
    'half a list': ('a.json', b'[1, 2', 'not JSON'),
    'no object': ('a.json', b'[{"prompt": "a"}, 2]', 'row 2: not an object'),
    'half a file': ('a.jsonl.gz', gzip.compress(b'{"a": 1}\n' * 1000)[:-20], 'is damaged'),
    'no gzip': ('a.jsonl.gz', b'{"a": 1}', 'is damaged'),
    'csv': ('a.csv', b'a,b', r'ends in none of .jsonl, .jsonl.gz, .json, .parquet and is no hub id'),
}


@pytest.mark.parametrize('kind', UNREADABLE)
def test_files_that_cannot_be_read_are_one_line(tmp_path, kind):
  name, content, message = UNREADABLE[kind]
  (tmp_path / name).write_bytes(content)
  with pytest.raises(ValueError, match=message) as error:
    read_rows(str(tmp_path / name), malformed='strict')
  assert '\n' not in str(error.value) and name in str(error.value)


@pytest.mark.parametrize('name', ['rows.parquet', 'owner/name:train'])
def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch, name):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'rows.parquet').write_bytes(b'PAR1')
  monkeypatch.setitem(sys.modules, 'datasets', None)
  with pytest.raises(ValueError, match=rf"{name} needs the package datasets: pip install 'rlx\[hf\]'"):
    read_rows(name, malformed='strict')


def test_parquet_and_the_hub_go_through_the_package(tmp_path, monkeypatch):
  """The package is replaced by one that notes what it is asked for."""
  asked = []
  note = lambda *args, **kwargs: asked.append((args, kwargs)) or PROBLEMS
  fake = types.SimpleNamespace(Dataset=types.SimpleNamespace(from_parquet=note), load_dataset=note)
  monkeypatch.setitem(sys.modules, 'datasets', fake)
  (tmp_path / 'rows.parquet').touch()
  for name in (str(tmp_path / 'rows.parquet'), 'owner/name:train[:5]', 'owner/name/main:test'):
    rows = read_rows(name, malformed='strict')
    assert rows.rows == PROBLEMS and rows.places[0] == 'row 1'
  assert [args for args, _ in asked[1:]] == [('owner/name', None), ('owner/name', 'main')]
  assert [kwargs for _, kwargs in asked[1:]] == [{'split': 'train[:5]'}, {'split': 'test'}]

  def fails(*args, **kwargs):
    raise ConnectionError('cannot reach the hub\nand more lines')

  fake.load_dataset = fails
  with pytest.raises(ValueError, match=r'owner/name:train cannot be loaded \(Conn.*: cannot reach the hub\)'):
    read_rows('owner/name:train', malformed='strict')
