"""Report: the curve draws whatever a run has, and a page of model-written text stays inert."""

import base64
from html.parser import HTMLParser
import io
import math
import re
import subprocess
import sys

from matplotlib.figure import Figure
import numpy as np
from PIL import Image
import pytest

from rlx.run import report, writers

NAN = float('nan')
ACCURACY = 'eval/held_out/accuracy'


def write_rows(workdir, rows):
  """rows: (step, stage, metrics)."""
  writer = writers.MetricsWriter(workdir, resume_step=-1)
  for step, stage, metrics in rows:
    writer.write(step, stage, metrics)
  writer.close()


def score(step, **more):
  return {ACCURACY: step / 100, 'reward/mean': step / 80, 'loss/total': 1 / (step + 1), **more}


def members(name, *values):
  return writers.summarise_population({name: np.array(values)})


RUNS = {
    'two stages': [(s, 'sft' if s < 9 else 'grpo', score(s) if s % 3 == 0 else {}) for s in range(30)],
    'one row': [(0, 'grpo', score(0))],
    'one evaluation': [(s, 'grpo', {'reward/mean': 0.5}) for s in range(9)] + [(9, 'grpo', score(9))],
    'no reward': [(s, 'sft', {ACCURACY: s / 9, 'loss/total': 1 / (s + 1)}) for s in range(9)],
    'no accuracy': [(s, 'grpo', {'reward/mean': s / 9}) for s in range(9)],
    'loss alone': [(s, 'sft', {'loss/total': 1 / (s + 1)}) for s in range(9)],
    'no metrics': [(s, 'sft', {}) for s in range(3)],
    'no rows': [],
    'nan': [(s, 'grpo', score(s) if s % 2 else {'reward/mean': NAN, ACCURACY: NAN}) for s in range(9)],
    'nan last': [(0, 'grpo', score(1)), (1, 'grpo', {ACCURACY: NAN, 'reward/mean': math.inf})],
    'all nan': [(s, 'grpo', {'reward/mean': NAN, ACCURACY: NAN, 'loss/total': NAN}) for s in range(3)],
    'population': [
        (s, 'grpo', members('reward/mean', 0.1, s / 9, NAN) | members(ACCURACY, 0.2, s / 9))
        for s in range(9)
    ],
    'population, nan': [(s, 'grpo', members(ACCURACY, NAN, NAN)) for s in range(3)],
    'negative rewards': [(s, 'grpo', {'reward/mean': -5.0 + s, ACCURACY: 0.01}) for s in range(9)],
    'many stages': [(s, f'stage_{s // 2}_$x^$', score(s)) for s in range(50)],
    'a stage of one step': [(s, 'sft' if s == 3 else 'grpo', score(s)) for s in range(9)],
}


@pytest.mark.parametrize('rows', RUNS.values(), ids=RUNS.keys())
def test_curve_of_any_run_is_a_picture(tmp_path, rows):
  write_rows(tmp_path, rows)
  path = report.write_curve(tmp_path, title='a title with $two$ dollars and a stray _{', headline=ACCURACY)
  assert path == tmp_path / 'curve.png'
  image = Image.open(path)
  image.load()
  assert image.size == (1200, 700)
  assert [file.name for file in tmp_path.glob('*.tmp')] == []


@pytest.fixture
def figures(monkeypatch):
  """The figures that were saved, to look at what they hold."""
  saved = []
  savefig = Figure.savefig
  monkeypatch.setattr(Figure, 'savefig', lambda self, *a, **k: (saved.append(self), savefig(self, *a, **k)))
  return saved


def texts(figure):
  return [text.get_text() for text in [*figure.texts, *(t for axes in figure.axes for t in axes.texts)]]


def test_curve_says_what_came_out(tmp_path, figures):
  rows = [(0, 'sft', {ACCURACY: 0.125}), (300, 'sft', {ACCURACY: 0.95, 'loss/total': 1.0})]
  rows += [(1200, 'grpo', {ACCURACY: 0.9116, 'reward/mean': 0.8})]
  write_rows(tmp_path, rows)
  report.write_curve(tmp_path, title='SFT, then GRPO', headline=ACCURACY)
  shown = texts(figures[0])
  assert 'SFT, then GRPO' in shown and '91.2 %' in shown and '12.5 %' in shown
  assert 'held-out accuracy 12.5 % → 91.2 %  ·  1,200 train steps  ·  best 95.0 % at step 300' in shown
  assert ' sft' in shown and ' grpo' in shown
  labels = {axes.get_ylabel() for axes in figures[0].axes}
  assert labels == {'held-out accuracy', 'training reward'}


def test_curve_of_a_headline_that_is_no_share(tmp_path, figures):
  rows = [(s, 'ppo', {'eval/episodes/return': -200.0 + s, 'episode/return': -210.0 + s}) for s in range(5)]
  write_rows(tmp_path, rows)
  report.write_curve(tmp_path, title='PPO', headline='eval/episodes/return')
  assert [axes.get_ylabel() for axes in figures[0].axes] == ['return of an episode']
  assert '-196.0' in texts(figures[0])
  assert any('return of an episode -200.0 → -196.0' in text for text in texts(figures[0]))


def test_curve_without_rewards_has_the_loss_on_a_second_panel(tmp_path, figures):
  write_rows(tmp_path, RUNS['no reward'])
  report.write_curve(tmp_path, title='SFT', headline=ACCURACY)
  assert [axes.get_ylabel() for axes in figures[0].axes] == ['held-out accuracy', 'training loss']


def test_curve_shows_every_value_within_its_axes(tmp_path, figures):
  """A low accuracy enlarges its axis; a high reward beside it must not be cut off."""
  write_rows(tmp_path, [(s, 'grpo', {ACCURACY: 0.01 * s, 'reward/mean': 0.9}) for s in range(5)])
  report.write_curve(tmp_path, title='a hard task', headline=ACCURACY)
  limits = {axes.get_ylabel(): axes.get_ylim() for axes in figures[0].axes}
  assert limits['held-out accuracy'][1] < 6
  low, high = limits['training reward']
  assert low < 0.9 < high


def test_smoothing_by_hand():
  values = np.array([0.0, 3.0, NAN, 9.0, *[NAN] * 56])  # 60 values: one place to each side
  smooth = report._smooth(values)
  np.testing.assert_allclose(smooth[:6], [1.5, 1.5, 6.0, 9.0, 9.0, NAN])
  short = np.array([1.0, NAN, 5.0])
  np.testing.assert_array_equal(report._smooth(short), short)


HOSTILE = '<script>alert("1")</script></pre><img src=x onerror=alert(1)>&amp;\udc80\x00'


def transcript(prompt, completion, correct, solution='42'):
  return {'prompt': prompt, 'completion': completion, 'solution': solution, 'correct': correct}


def page_of(workdir, **changes):
  content = {
      'title': 'GRPO on arithmetic',
      'before': [transcript('6*7=', '41', False), transcript('6*8=', '48', True, '48')],
      'after': [transcript('6*7=', 'It is\n42', True), transcript('6*8=', '48', True, '48')],
      'config': {'algorithm': {'clip_high': 0.28}, 'seed': 0},
      'environment': {'command': "rlx --config=a.py --workdir='my run'", 'jax': '0.10.2'},
      'summary': {'held-out accuracy': (0.125, 0.9116), 'train_seconds': 312.4, 'tokens': 1234567},
      'headline': ACCURACY,
  }
  write_rows(workdir, RUNS['two stages'])
  path = report.write_report(workdir, **content | changes)
  assert path == workdir / 'report.html'
  return path.read_bytes().decode('utf-8')


class Elements(HTMLParser):
  """Every element with its attributes; checks that they are closed in order."""

  def __init__(self, page):
    super().__init__()
    self.found, self.text, self._open = [], '', []
    self.feed(page)
    self.close()
    assert self._open == []

  def handle_starttag(self, tag, attrs):
    self.found.append((tag, dict(attrs)))
    if tag not in ('meta', 'img'):
      self._open.append(tag)

  def handle_endtag(self, tag):
    assert self._open.pop() == tag

  def handle_data(self, data):
    self.text += data


def test_report_holds_the_numbers_and_the_way_to_repeat_them(tmp_path):
  text = Elements(page_of(tmp_path)).text
  for expected in (
      '12.5 % → 91.2 %',
      '5:12',
      '1,234,567',
      'algorithm.clip_high',
      '0.28',
      "rlx --config=a.py --workdir='my run'",
      'It is\n42',
      '1 of 2 are right before training and 2 of 2 after',
  ):
    assert expected in text, expected


def page_full_of(workdir, text):
  said = transcript(text, text, True, text)
  return page_of(
      workdir,
      title=text.rstrip('\udc80\x00'),  # no font has glyphs for these
      before=[said],
      after=[said],
      config={text: {text: text}},
      environment={'command': text, text: text},
      summary={text: text},
  )


def test_report_escapes_whatever_it_is_given(tmp_path):
  elements = [
      [(tag, sorted(attributes)) for tag, attributes in Elements(page_full_of(tmp_path / name, text)).found]
      for name, text in (('plain', 'x'), ('hostile', HOSTILE))
  ]
  assert elements[0] == elements[1]  # hostile text makes no element and no attribute
  page = (tmp_path / 'hostile' / 'report.html').read_text()
  assert '<script' not in page and '&lt;script&gt;alert(&quot;1&quot;)' in page


def test_report_needs_no_other_file(tmp_path):
  page = page_of(tmp_path)
  assert not re.search(r'https?:|url\(|@import|<link|<script', page)
  (image,) = [attributes for tag, attributes in Elements(page).found if tag == 'img']
  data = base64.b64decode(image['src'].removeprefix('data:image/png;base64,'))
  assert data == (tmp_path / 'curve.png').read_bytes()
  assert Image.open(io.BytesIO(data)).size == (1200, 700)


def test_transcripts_of_the_same_prompt_stand_side_by_side(tmp_path):
  before = [transcript('a', 'a first', False), transcript('a', 'a second', False), transcript('b', 'b', True)]
  after = [transcript('c', 'c', True), transcript('a', 'a third', True)]
  page = page_of(tmp_path, before=before, after=after)
  rows = [re.findall(r'<td>(.*?)</td>', row, re.S) for row in re.findall(r'<tr>(<td>.*?)</tr>', page, re.S)]
  cells = [[re.sub(r'<.*?>|\n|[✓✗].*', '', cell) for cell in row] for row in rows]
  assert cells == [
      ['a', '42', 'a first', 'a third'],
      ['a', '42', 'a second', ''],
      ['b', '42', 'b', ''],
      ['c', '42', '', 'c'],
  ]


def test_report_without_transcripts_leaves_the_table_out(tmp_path):
  assert 'What the model writes' not in page_of(tmp_path, before=[], after=[])


def test_headline_numbers_by_hand():
  shown = {
      ('eval/held_out/accuracy', 0.9116): '91.2 %',
      ('truncated_fraction', np.float32(0.5)): '50.0 %',
      ('train_seconds', 3723): '1:02:03',
      ('step_seconds', 0.0213): '0.0213',
      ('tokens', 1234567): '1,234,567',
      ('tokens_per_second', 118234.3): '1.182e+05',
      ('reward', -0.5): '-0.5',
      ('accuracy', NAN): 'nan',
      ('accuracy', None): 'unknown',
      ('device', 'H200'): 'H200',
      ('bitwise', True): 'True',
  }
  assert {key: report._shown(*key) for key in shown} == shown


def test_importing_the_module_does_not_import_matplotlib():
  program = "import sys; from rlx.run import report; sys.exit('matplotlib' in sys.modules)"
  subprocess.run([sys.executable, '-c', program], check=True)


def test_pyplot_is_never_imported(tmp_path):
  write_rows(tmp_path, RUNS['two stages'])
  program = f"""
import sys
from rlx.run import report
report.write_curve({str(tmp_path)!r}, title='a run', headline={ACCURACY!r})
sys.exit('matplotlib.pyplot' in sys.modules)
"""
  subprocess.run([sys.executable, '-c', program], check=True)
