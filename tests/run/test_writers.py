"""Writers: what a resumed run finds, the exactness of numbers, and the manners of the live line."""

import io
import itertools
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import termios

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlx.run import trackers, writers

PROGRESS = {
    'stage': 'grpo',
    'num_steps': 1200,
    'reward': 0.871,
    'headline': ('eval/held_out/accuracy', 0.912),
    'tokens_per_second': 118_234.0,
    'env_steps_per_second': 0.0,
    'seconds_left': 34.2,
}


def train(workdir, *, resume_step, stop):
  """Stands in for a run whose numbers are a function of the step; every second step has samples."""
  writer = writers.MetricsWriter(workdir, resume_step=resume_step, trackers=[trackers.tensorboard()])
  for step in range(resume_step + 1, stop + 1):
    metrics = {'reward/mean': np.float32(1 / (step + 1)), 'loss/total': np.float32(step) / 7}
    writer.write(step, 'sft' if step < 4 else 'grpo', metrics)
    writer.write_timing(step, {'time/seconds': 0.25})
    if step % 2 == 0:
      writer.write_samples(step, [{'split': 'train', 'prompt': f'{step} + 1 =', 'reward': np.float32(0.1)}])
  writer.close()


def deterministic_files(workdir):
  files = [workdir / 'metrics.jsonl', *sorted((workdir / 'samples').iterdir())]
  return {file.name: file.read_bytes() for file in files}


def scalars(workdir, tag):
  events = EventAccumulator(str(workdir / 'tensorboard')).Reload()
  return [(event.step, event.value) for event in events.Scalars(tag)]


def steps(path):
  return [row['step'] for row in writers.read_metrics(path)]


@pytest.mark.parametrize('resume_step', [-1, 0, 3, 6, 7])
def test_resumed_run_equals_an_uninterrupted_one(tmp_path, resume_step):
  train(tmp_path / 'whole', resume_step=-1, stop=9)
  train(tmp_path / 'resumed', resume_step=-1, stop=7)  # got further than its last checkpoint
  train(tmp_path / 'resumed', resume_step=resume_step, stop=9)
  assert deterministic_files(tmp_path / 'resumed') == deterministic_files(tmp_path / 'whole')
  assert steps(tmp_path / 'resumed' / 'timing.jsonl') == list(range(10))


@pytest.mark.parametrize('cut', [1, 2, 15, 40])
def test_a_torn_last_line_is_dropped(tmp_path, cut):
  train(tmp_path / 'whole', resume_step=-1, stop=9)
  train(tmp_path / 'torn', resume_step=-1, stop=7)
  for name in ('metrics.jsonl', 'timing.jsonl'):
    path = tmp_path / 'torn' / name
    os.truncate(path, path.stat().st_size - cut)
  kept = steps(tmp_path / 'torn' / 'metrics.jsonl')
  assert kept in ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7])  # 7 where only the newline is missing
  train(tmp_path / 'torn', resume_step=6, stop=9)
  assert deterministic_files(tmp_path / 'torn') == deterministic_files(tmp_path / 'whole')


def test_a_whole_last_line_without_its_newline_is_kept(tmp_path):
  train(tmp_path, resume_step=-1, stop=3)
  before = (tmp_path / 'metrics.jsonl').read_bytes()
  os.truncate(tmp_path / 'metrics.jsonl', len(before) - 1)
  writers.MetricsWriter(tmp_path, resume_step=3).close()
  assert (tmp_path / 'metrics.jsonl').read_bytes() == before


def test_a_broken_line_in_the_middle_is_an_error_that_names_it(tmp_path):
  (tmp_path / 'metrics.jsonl').write_text('{"step": 0, "stage": "sft"}\n{"step": 1, "sta\n{"step": 2}\n')
  with pytest.raises(ValueError, match=r'metrics\.jsonl, line 2'):
    writers.read_metrics(tmp_path / 'metrics.jsonl')
  with pytest.raises(ValueError, match='line 2'):
    writers.MetricsWriter(tmp_path, resume_step=2)
  assert len((tmp_path / 'metrics.jsonl').read_text().splitlines()) == 3  # nothing was dropped


def test_rows_have_step_and_stage_first_and_then_sorted_names(tmp_path):
  writer = writers.MetricsWriter(tmp_path, resume_step=-1)
  writer.write(12, 'grpo', {'reward/mean': 0.5, 'eval/x/accuracy': 1.0, 'count': 3})
  writer.close()
  text = (tmp_path / 'metrics.jsonl').read_text()
  assert text == '{"step": 12, "stage": "grpo", "count": 3, "eval/x/accuracy": 1.0, "reward/mean": 0.5}\n'


def test_numbers_come_back_exactly_and_are_written_shortly(tmp_path):
  random = np.random.default_rng(0)
  bits = random.integers(0, 2**32, size=3000, dtype=np.uint32)
  singles = [x for x in bits.view(np.float32) if np.isfinite(x)]
  singles += [np.float32(x) for x in (0.1, 1 / 3, 1e-45, 3.4028235e38, -0.0, 16777216.0, 123456792.0)]
  doubles = [0.1, 1 / 3, 1e300, 5e-324, 2.0**53 + 2, 123456789.0]
  values = {f'f/{i:04d}': x for i, x in enumerate(singles)} | {f'd/{i}': x for i, x in enumerate(doubles)}
  writer = writers.MetricsWriter(tmp_path, resume_step=-1)
  writer.write(0, 'sft', values)
  writer.write(1, 'sft', {'single': np.float32(0.1), 'as_double': float(np.float32(0.1)), 'int': np.int64(2)})
  writer.close()
  row, short = writers.read_metrics(tmp_path / 'metrics.jsonl')
  for name, value in values.items():
    assert type(value)(row[name]) == value and np.signbit(row[name]) == np.signbit(value), name
  assert short == {'step': 1, 'stage': 'sft', 'single': 0.1, 'as_double': 0.1, 'int': 2}


def test_what_json_lacks_comes_back_as_float(tmp_path):
  writer = writers.MetricsWriter(tmp_path, resume_step=-1)
  writer.write(0, 'nan', {'a': math.nan, 'b': np.float32('inf'), 'c': -math.inf})
  rewards = np.array([0.1, np.nan], np.float32)
  writer.write_samples(0, [{'rewards': rewards, 'right': np.True_, 'text': 'é\udc80\n'}])
  writer.close()
  line = (tmp_path / 'metrics.jsonl').read_text()
  assert json.loads(line) == {'step': 0, 'stage': 'nan', 'a': 'nan', 'b': 'inf', 'c': '-inf'}
  (row,) = writers.read_metrics(tmp_path / 'metrics.jsonl')
  assert math.isnan(row['a']) and row['b'] == math.inf and row['c'] == -math.inf and row['stage'] == 'nan'
  sample = json.loads((tmp_path / 'samples' / 'step_00000000.jsonl').read_text(encoding='utf-8'))
  assert sample == {'rewards': [0.1, 'nan'], 'right': True, 'text': 'é\udc80\n'}


def test_a_step_is_written_once_and_a_metric_is_one_number(tmp_path):
  writer = writers.MetricsWriter(tmp_path, resume_step=-1)
  writer.write(3, 'sft', {'a': 1.0})
  for step in (3, 2):
    with pytest.raises(ValueError, match=f'step {step} comes after step 3'):
      writer.write(step, 'sft', {'a': 1.0})
  with pytest.raises(ValueError, match=r"'b' of shape \(2,\)"):
    writer.write(4, 'sft', {'a': 1.0, 'b': np.zeros(2)})
  with pytest.raises(ValueError, match="'step'"):
    writer.write_timing(4, {'step': 1.0})
  writer.write(4, 'sft', {'a': 2.0})  # the failed attempts have left nothing behind
  writer.close()
  assert steps(tmp_path / 'metrics.jsonl') == [3, 4]
  resumed = writers.MetricsWriter(tmp_path, resume_step=4)
  with pytest.raises(ValueError, match='step 4 comes after step 4'):
    resumed.write(4, 'sft', {'a': 1.0})
  resumed.close()


def test_samples_of_later_steps_go_and_other_files_stay(tmp_path):
  train(tmp_path, resume_step=-1, stop=8)
  (tmp_path / 'samples' / 'notes.txt').write_text('mine')
  writers.MetricsWriter(tmp_path, resume_step=4).close()
  names = sorted(path.name for path in (tmp_path / 'samples').iterdir())
  assert names == ['notes.txt', *(f'step_{step:08d}.jsonl' for step in (0, 2, 4))]


def test_tensorboard_reads_metrics_and_timing(tmp_path):
  train(tmp_path, resume_step=-1, stop=3)
  rows = writers.read_metrics(tmp_path / 'metrics.jsonl')
  expected = [(row['step'], np.float32(row['reward/mean'])) for row in rows]
  assert scalars(tmp_path, 'reward/mean') == expected
  assert scalars(tmp_path, 'time/seconds') == [(step, 0.25) for step in range(4)]


@pytest.mark.parametrize('torn_bytes', [0, 5])
def test_tensorboard_forgets_what_a_resumed_run_does_again(tmp_path, torn_bytes):
  train(tmp_path, resume_step=-1, stop=7)
  (events,) = (tmp_path / 'tensorboard').iterdir()
  os.truncate(events, events.stat().st_size - torn_bytes)
  train(tmp_path, resume_step=4, stop=6)
  assert [step for step, _ in scalars(tmp_path, 'reward/mean')] == list(range(7))
  train(tmp_path, resume_step=-1, stop=2)
  assert [step for step, _ in scalars(tmp_path, 'reward/mean')] == [0, 1, 2]


def test_a_killed_process_loses_nothing_that_it_flushed(tmp_path):
  program = f"""
import os, signal
from rlx.run import trackers, writers
writer = writers.MetricsWriter({str(tmp_path)!r}, resume_step=-1, trackers=[trackers.tensorboard()])
for step in range(50):
  writer.write(step, 'sft', {{'a': 0.5}})
writer.write_timing(49, {{'time/seconds': 1.0}})
writer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
  result = subprocess.run([sys.executable, '-c', program], check=False)
  assert result.returncode == -signal.SIGKILL
  assert steps(tmp_path / 'metrics.jsonl') == list(range(50))
  assert steps(tmp_path / 'timing.jsonl') == [49]
  assert len(scalars(tmp_path, 'a')) == 50 and scalars(tmp_path, 'time/seconds') == [(49, 1.0)]


def test_importing_the_module_does_not_import_tensorboard():
  program = "import sys; from rlx.run import writers; sys.exit('tensorboardX' in sys.modules)"
  subprocess.run([sys.executable, '-c', program], check=True)


def test_population_summary_by_hand():
  metrics = {'a': np.array([3.0, 1.0, 2.0]), 'b': np.array([np.nan, 4.0, 1.0]), 'c': np.array([np.nan])}
  summary = writers.summarise_population(metrics)
  expected = {'a': 2.0, 'a.min': 1.0, 'a.max': 3.0, 'b': 2.5, 'b.min': 1.0, 'b.max': 4.0, 'b.nan': 1.0}
  assert {name: x for name, x in summary.items() if name[0] != 'c'} == expected
  assert math.isnan(summary['c']) and math.isnan(summary['c.min']) and summary['c.nan'] == 1.0
  for wrong in (np.float32(1.0), np.zeros((2, 3)), np.zeros(0)):
    with pytest.raises(ValueError, match=r'an array \[N\]'):
      writers.summarise_population({'d': wrong})


class Terminal(io.StringIO):
  """A fake terminal without a file descriptor: 80 columns."""

  def isatty(self):
    return True


def screen(text):
  """The lines that a person sees: carriage returns go back, `ESC [ K` erases the rest of the line."""
  lines, column = [''], 0
  for piece in re.findall(r'\x1b\[K|.', text, re.DOTALL):
    if piece == '\n':
      lines, column = [*lines, ''], 0
    elif piece == '\r':
      column = 0
    elif piece == '\x1b[K':
      lines[-1] = lines[-1][:column]
    else:
      lines[-1] = lines[-1][:column] + piece + lines[-1][column + 1 :]
      column += 1
  return lines


def test_live_line_on_a_terminal_rewrites_itself():
  stream, now = Terminal(), itertools.count(0.0, 0.5)
  line = writers.LiveLine(stream, quiet=False, clock=lambda: next(now))
  line.update(step=339, **{**PROGRESS, 'reward': None})
  line.update(step=340, **PROGRESS)
  expected = 'grpo   340/1200  reward 0.87  held-out 91.2 %  118k tokens/s  0:34 left'
  assert screen(stream.getvalue()) == [expected]
  line.say('saved step 340')
  assert screen(stream.getvalue()) == ['saved step 340', expected]
  line.close()
  assert screen(stream.getvalue()) == ['saved step 340', expected, '']


def test_live_line_shows_at_most_ten_updates_a_second_and_the_last_one():
  stream, now = Terminal(), [0.0]
  line = writers.LiveLine(stream, quiet=False, clock=lambda: now[0])
  for step in range(1000):  # a millisecond each
    now[0] = step / 1000
    line.update(step=step, **PROGRESS)
  assert stream.getvalue().count('\r') <= 11
  line.close()
  assert screen(stream.getvalue())[0].startswith('grpo   999/1200')


def test_live_line_fits_the_terminal():
  stream = Terminal()
  line = writers.LiveLine(stream, quiet=False)
  line.update(step=1, **{**PROGRESS, 'stage': 'x' * 100})
  assert len(screen(stream.getvalue())[0]) == 79

  leader, follower = pty.openpty()
  with open(follower, 'w') as stream:
    termios.tcsetwinsize(stream.fileno(), (24, 30))
    line = writers.LiveLine(stream, quiet=False)
    line.update(step=1, **PROGRESS)
    shown = os.read(leader, 1000).decode()
  os.close(leader)
  assert len(screen(shown)[0]) == 29


def test_live_line_elsewhere_prints_plain_lines_seldom():
  stream, now = io.StringIO(), [0.0]
  line = writers.LiveLine(stream, quiet=False, clock=lambda: now[0])
  for step in range(26):  # a second each
    now[0] = float(step)
    line.update(step=step, **PROGRESS)
  line.update(step=26, force=True, **PROGRESS)
  line.say('saved')
  line.update(step=27, **PROGRESS)  # held back, until the end
  line.close()
  shown = stream.getvalue()
  assert '\r' not in shown and '\x1b' not in shown
  starts = [text.split('/')[0].split()[-1] for text in shown.splitlines()]
  assert starts == ['0', '10', '20', '26', 'saved', '27']


@pytest.mark.parametrize('stream', [Terminal(), io.StringIO()])
def test_quiet_prints_nothing(stream):
  line = writers.LiveLine(stream, quiet=True)
  line.update(step=1, force=True, **PROGRESS)
  line.say('saved')
  line.close()
  assert stream.getvalue() == ''


def test_live_line_survives_the_end_of_its_terminal():
  class Gone(Terminal):
    def write(self, text):
      raise OSError(5, 'Input/output error')

  line = writers.LiveLine(Gone(), quiet=False)
  line.update(step=1, **PROGRESS)
  line.say('saved')
  line.close()


def test_live_line_leaves_out_what_is_not_known():
  stream = Terminal()
  line = writers.LiveLine(stream, quiet=False)
  unknown = {
      'reward': None, 'headline': None, 'tokens_per_second': math.nan, 'env_steps_per_second': None,
      'seconds_left': math.inf,
  }
  line.update(stage='sft', step=1, num_steps=5, **unknown)
  assert screen(stream.getvalue()) == ['sft  1/5']


def test_a_headline_that_is_no_share_is_shown_by_its_name():
  stream = Terminal()
  line = writers.LiveLine(stream, quiet=False)
  line.update(step=1, **{**PROGRESS, 'headline': ('eval/game/nash_conv', 3.4821)})
  assert 'game/nash_conv 3.482' in screen(stream.getvalue())[0]


def test_formats_by_hand():
  counts = {0: '0', 950: '950', 999.6: '1.0k', 1234: '1.2k', 9960: '10k', 118_234: '118k', 999_700: '1.0M'}
  assert {x: writers.format_count(x) for x in counts} == counts
  clocks = {0: '0:00', 34.2: '0:34', 59.7: '1:00', 725: '12:05', 3723: '1:02:03', -3: '0:00'}
  assert {x: writers.format_seconds(x) for x in clocks} == clocks


@pytest.mark.parametrize(('left', 'words'), [(2, 'ends at step'), (0, 'is gone'), (None, 'is gone')])
def test_rows_that_are_gone_are_told(tmp_path, left, words):
  train(tmp_path, resume_step=-1, stop=6)
  path = tmp_path / 'metrics.jsonl'
  lines = path.read_text().splitlines(keepends=True)
  said = []
  whole = writers.MetricsWriter(tmp_path, resume_step=3, say=said.append)
  whole.close()
  assert not said
  path.unlink() if left is None else path.write_text(''.join(lines[:left]))
  writers.MetricsWriter(tmp_path, resume_step=3, say=said.append).close()
  assert len(said) == 1 and 'the rows up to step 3' in said[0]
  assert words in said[0]
