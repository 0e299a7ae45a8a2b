"""Tags and patterns: what counts as the form that was asked for."""

import pytest

from rlx.rewards import format as form
from rlx.rewards.texts import text_of

SEQUENCE = ('think', 'answer')
GOOD = '<think>1 < 2,\nso <b>yes</b></think>\n\n<answer>yes</answer>'


@pytest.mark.parametrize(
    ('text', 'whole', 'share'),
    [
        (GOOD, 1, 1),
        (f'  {GOOD}\n', 1, 1),
        ('<think></think><answer></answer>', 1, 1),
        (f'Well: {GOOD}', 0, 1),
        (f'{GOOD} done', 0, 1),
        ('<think>a</think> so <answer>b</answer>', 0, 1),
        ('<answer>b</answer><think>a</think>', 0, 0.5),  # only one of them stands behind the other
        ('<think>a</think><answer>b', 0, 0.5),
        ('<think>a</think>', 0, 0.5),
        ('<think>a</think><think>a</think><answer>b</answer>', 0, 0.5),
        ('<think>a<think>b</think></think><answer>b</answer>', 0, 0.5),
        ('<think>a<think>b</think><answer>c</answer>', 0, 0.5),
        ('<think>a</think>b</think><answer>c</answer>', 0, 0.5),
        ('<think>a<answer>b</answer></think>', 0, 0.5),
        ('<think>a<answer>b</think></answer>', 0, 0.5),
        ('</think>a<think><answer>b</answer>', 0, 0.5),
        ('<answer>b</answer>', 0, 0.5),
        ('<Think>a</Think><answer>b</answer>', 0, 0.5),
        ('think answer', 0, 0),
        ('', 0, 0),
    ],
)
def test_tags(text, whole, share):
  assert form.tags([text], sequence=SEQUENCE) == [whole]
  assert form.tags_partial([text], sequence=SEQUENCE) == [share]


def test_rows_are_independent_and_messages_are_read():
  rows = [GOOD, '', [{'role': 'assistant', 'content': GOOD}]]
  assert form.tags(rows, sequence=SEQUENCE) == [1, 0, 1]
  assert form.tags_partial(rows, sequence=[*SEQUENCE, 'more', 'most']) == [0.5, 0, 0.5]
  assert form.pattern(rows, regex='<think>.*</answer>') == [1, 0, 1]


@pytest.mark.parametrize('sequence', ['think', (), ('think', 'answer', 'think')])
def test_what_is_no_sequence_of_tags_is_an_error(sequence):
  for function in (form.tags, form.tags_partial):
    with pytest.raises(ValueError, match=r'sequence=.* is not a list of different tags'):
      function([GOOD], sequence=sequence)


def test_a_pattern_matches_whole_completions_over_lines():
  rows = ['a\nb', 'xa\nb', 'a\nbx', 'ab']
  assert form.pattern(rows, regex='a.b') == [1, 0, 0, 0]


def test_long_completions_are_read_in_linear_time():
  text = '<think>' * 300_000
  assert form.tags([text], sequence=SEQUENCE) == form.tags_partial([text], sequence=SEQUENCE) == [0]


def test_text_of():
  assert text_of('a') == 'a'
  assert text_of([{'role': 'assistant', 'content': 'a'}]) == 'a'
  assert text_of([{'role': 'tool', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]) == 'b'
  assert text_of([{'role': 'assistant', 'content': None, 'tool_calls': []}]) == ''
  for bad in (None, 3, [], ['a'], [{'content': ['a']}]):
    with pytest.raises(ValueError, match='a completion is a string or a list of messages'):
      text_of(bad)
