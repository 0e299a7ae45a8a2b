"""Report: the curve draws whatever a run has, and a page of model-written text stays inert."""

import base64
import hashlib
from html.parser import HTMLParser
import io
import json
import math
import re
import subprocess
import sys

from matplotlib.figure import Figure
import numpy as np
from PIL import Image
import pytest

from rlx.errors import ConfigError
from rlx.run import curves, report, style, writers
from tests.cases import cases

pytestmark = pytest.mark.figures
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


AT_ONCE = ('two stages', 'no metrics', 'nan last', 'population', 'many stages')


@pytest.mark.parametrize('name', cases(RUNS, at_once=AT_ONCE))
def test_curve_of_any_run_is_a_picture(tmp_path, name):
  write_rows(tmp_path, RUNS[name])
  path = curves.write_curve(tmp_path, title='a title with $two$ dollars and a stray _{', headline=ACCURACY)
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
  curves.write_curve(tmp_path, title='SFT, then GRPO', headline=ACCURACY)
  shown = texts(figures[0])
  assert 'SFT, then GRPO' in shown and '91.2 %' in shown and '95.0 %' in shown
  assert 'held-out accuracy 95.0 % → 91.2 %  ·  1,200 train steps  ·  best 95.0 % at step 300' in shown
  assert ' sft' in shown and ' grpo' in shown
  labels = {axes.get_ylabel() for axes in figures[0].axes}
  assert labels == {'held-out accuracy', 'training reward'}


def test_curve_of_a_headline_that_is_no_share(tmp_path, figures):
  rows = [(s, 'ppo', {'eval/episodes/return': -200.0 + s, 'episode/return': -210.0 + s}) for s in range(5)]
  write_rows(tmp_path, rows)
  curves.write_curve(tmp_path, title='PPO', headline='eval/episodes/return')
  assert [axes.get_ylabel() for axes in figures[0].axes] == ['return of an episode']
  assert '-196.0' in texts(figures[0])
  assert any('return of an episode -200.0 → -196.0' in text for text in texts(figures[0]))


def test_curve_without_rewards_has_the_loss_on_a_second_panel(tmp_path, figures):
  write_rows(tmp_path, RUNS['no reward'])
  curves.write_curve(tmp_path, title='SFT', headline=ACCURACY)
  assert [axes.get_ylabel() for axes in figures[0].axes] == ['held-out accuracy', 'training loss']


def test_curve_shows_every_value_within_its_axes(tmp_path, figures):
  """A low accuracy enlarges its axis; a high reward beside it must not be cut off."""
  write_rows(tmp_path, [(s, 'grpo', {ACCURACY: 0.01 * s, 'reward/mean': 0.9}) for s in range(5)])
  curves.write_curve(tmp_path, title='a hard task', headline=ACCURACY)
  limits = {axes.get_ylabel(): axes.get_ylim() for axes in figures[0].axes}
  assert limits['held-out accuracy'][1] < 6
  low, high = limits['training reward']
  assert low < 0.9 < high


def test_smoothing_by_hand():
  values = np.array([0.0, 3.0, NAN, 9.0, *[NAN] * 56])  # 60 values: one place to each side
  smooth = style.smooth(values)
  np.testing.assert_allclose(smooth[:6], [1.5, 1.5, 6.0, 9.0, 9.0, NAN])
  short = np.array([1.0, NAN, 5.0])
  np.testing.assert_array_equal(style.smooth(short), short)


@pytest.mark.parametrize('rows', RUNS.values(), ids=RUNS.keys())
def test_panels_of_any_run(tmp_path, rows):
  write_rows(tmp_path, rows)
  for title, svg in curves.write_panels(writers.read_metrics(tmp_path / 'metrics.jsonl'), ACCURACY):
    assert title and svg.startswith(b'<?xml') and b'</svg>' in svg


def test_panels_are_those_that_a_run_has_measured(tmp_path, figures):
  measured = {
      ACCURACY: 0.5, 'policy/entropy': 1.0, 'judge/loss/total': 1.0, 'loss/total': 2.0, 'kl/reference': NAN,
      'tokens/response_mean': 9.0, 'optimizer/grad_norm': 0.1, 'reward/std': 1.0, 'turns/mean': 2.0,
      'tools/calls': 1.0, 'tools/failed_timeout': 0.1, 'tools/failed_cut': 0.2,
  }
  write_rows(tmp_path, [(s, 'grpo', measured) for s in range(3)])
  panels = curves.write_panels(writers.read_metrics(tmp_path / 'metrics.jsonl'), ACCURACY)
  assert [title for title, _ in panels] == [
      'held-out accuracy', 'entropy, nats an action', 'tokens of a response', 'turns of an episode',
      'tool calls of an episode', 'failed tool calls of an episode', 'gradient norm', 'losses',
  ]
  legend = figures[-1].axes[0].get_legend()
  assert sorted(text.get_text() for text in legend.get_texts()) == ['judge/loss/total', 'total']


def test_before_is_where_the_last_stage_begins(tmp_path):
  rows = [(0, 'sft', {ACCURACY: 0.0}), (1, 'sft', {}), (2, 'sft', {ACCURACY: 0.3}), (3, 'grpo', {})]
  rows += [(4, 'grpo', {ACCURACY: 0.9}), (5, 'grpo', {})]
  write_rows(tmp_path, rows)
  read = writers.read_metrics(tmp_path / 'metrics.jsonl')
  assert curves.before_and_after(read, ACCURACY) == (2, 0.3, 0.9)
  assert curves.before_and_after(read[:3], ACCURACY) == (0, 0.0, 0.3)
  assert curves.before_and_after(read[:1], ACCURACY) == (0, 0.0, 0.0)
  assert curves.before_and_after([], ACCURACY) == (0, None, None)


HOSTILE = '<script>alert("1")</script></pre><img src=x onerror=alert(1)>&amp;\udc80\x00'


def transcript(prompt, completion, correct, solution='42'):
  said = {'prompt': prompt, 'completion': completion, 'solution': solution, 'correct': correct}
  return {'split': 'held_out', **said}


CONFIG = {
    'stages': ['sft', 'main'], 'sft': {'algorithm': {'name': 'sft'}}, 'seed': 7, 'population': {'size': 1},
    'algorithm': {'name': 'grpo', 'clip_high': 0.28}, 'task': {'name': 'arithmetic'},
    'log': {'headline': ACCURACY},
}
BEFORE = [transcript('6*7=', '41', False), transcript('6*8=', '48', True, '48')]
AFTER = [transcript('6*7=', 'It is\n42', True), transcript('6*8=', '48', True, '48')]
START = {'step': 0, 'date': '2026-01-02T03:04:05+00:00', 'rlx': '0.1.0', 'commit': 'abc', 'jax': '0.10.2'}


def page_of(workdir, *, before=BEFORE, after=AFTER, config=CONFIG, start=START, rows=RUNS['two stages']):
  """The report of a run whose last stage goes from step 8 to 29."""
  write_rows(workdir, rows)
  (workdir / 'config.json').write_text(json.dumps(config))
  started = {'command': "rlx --config=a.py --workdir='my run'", **start}
  (workdir / 'starts.jsonl').write_text(json.dumps(started) + '\n')
  writer = writers.MetricsWriter(workdir, resume_step=29)
  for step, transcripts in ((8, before), (29, after)):
    writer.write_samples(step, transcripts)
  for step, seconds in ((8, 30.0), (20, 200.4), (29, 112.0)):  # started twice
    writer.write_timing(step, {'time/elapsed_seconds': seconds})
  writer.close()
  path = report.write_report(workdir)
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
    if tag not in ('meta', 'img', 'input'):
      self._open.append(tag)

  def handle_endtag(self, tag):
    assert self._open.pop() == tag

  def handle_data(self, data):
    self.text += data


def test_report_holds_the_numbers_and_the_way_to_repeat_them(tmp_path):
  rows = RUNS['two stages'][:8] + [(8, 'sft', score(8)), *RUNS['two stages'][9:29]]
  rows.append((29, 'grpo', score(91.16)))
  text = Elements(page_of(tmp_path, rows=rows)).text
  for expected in (
      'sft, then grpo on arithmetic',
      '8.0 % → 91.2 %',
      '5:12',  # 200.4 + 112 s
      '2026-01-02 03:04',
      'algorithm.clip_high',
      '0.28',
      "rlx --config=a.py --workdir='my run'",
      'It is\n42',
      '1 of 2 are right before the last stage and\n2 of 2 after',
  ):
    assert expected in text, expected


def page_full_of(workdir, text):
  said = transcript(text, text, True, text)
  config = {**CONFIG, 'task': {'name': text.rstrip('\udc80\x00')}, text: {text: text}}  # no font has these
  return page_of(workdir, before=[said], after=[said], config=config, start={'jax': text, text: text})


def test_report_escapes_whatever_it_is_given(tmp_path):
  elements = [
      [(tag, sorted(attributes)) for tag, attributes in Elements(page_full_of(tmp_path / name, text)).found]
      for name, text in (('plain', 'x'), ('hostile', HOSTILE))
  ]
  assert elements[0] == elements[1]  # hostile text makes no element and no attribute
  page = (tmp_path / 'hostile' / 'report.html').read_text()
  assert page.count('<script') == 2 and '&lt;script&gt;alert(&#34;1&#34;)' in page


def test_the_only_program_of_a_report_is_its_own(tmp_path):
  """The policy lets that one run, by its digest; what slips past the escaping is text."""
  page = page_of(tmp_path)
  policy = next(dict(a)['content'] for tag, a in Elements(page).found if 'http-equiv' in a)
  (program,) = re.findall(r'<script>(.*?)</script>', page, re.S)
  digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
  assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_report_needs_no_other_file(tmp_path):
  page = page_of(tmp_path)
  assert not re.search(r'https?:|url\(|@import|<link|<script src', page)
  images = [attributes for tag, attributes in Elements(page).found if tag == 'img']
  data = base64.b64decode(images[0]['src'].removeprefix('data:image/png;base64,'))
  assert data == (tmp_path / 'curve.png').read_bytes()
  assert Image.open(io.BytesIO(data)).size == (1200, 700)
  assert all(image['src'].startswith('data:image/svg+xml;base64,') for image in images[1:])
  assert [image['alt'] for image in images[1:]] == [
      f'{name} over train steps' for name in ('held-out accuracy', 'reward', 'losses')
  ]


def test_samples_of_every_step_are_in_the_page(tmp_path):
  said = transcript('1+1=', '</script><b>2\udc80', True)
  page = page_of(tmp_path, after=[said, {'split': 'train', 'reward': 1}])
  (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
  first, last = json.loads(data)
  assert (first['step'], last['step']) == (8, 29) and len(first['rows']) == 2
  assert last['rows'][0]['completion'] == '</script><b>2\udc80' and last['rows'][1]['split'] == 'train'


def test_samples_of_many_steps_are_thinned_to_some_with_the_first_and_the_last(tmp_path):
  page_of(tmp_path)
  for step in range(100, 400):
    (tmp_path / 'samples' / f'step_{step:08d}.jsonl').write_text('{"split": "train"}\n')
  steps = [one['step'] for one in report._samples(tmp_path)]
  assert len(steps) == 60 and steps[0] == 8 and steps[-1] == 399 and steps == sorted(set(steps))


def test_transcripts_of_the_same_prompt_stand_side_by_side(tmp_path):
  before = [transcript('a', 'a first', False), transcript('a', 'a second', False), transcript('b', 'b', True)]
  after = [transcript('c', 'c', True), transcript('a', 'a third', True)]
  page = page_of(tmp_path, before=before, after=after)
  found = re.findall(r'<tr>(.*?)</tr>', page, re.S)
  rows = [re.findall(r'<td data.*?>(.*?)</td>', row, re.S) for row in found]
  cells = [[re.sub(r'<.*?>|\n|[✓✗].*', '', cell) for cell in row] for row in rows if row]
  assert cells == [
      ['a', '42', 'a first', 'a third'],
      ['a', '42', 'a second', ''],
      ['b', '42', 'b', ''],
      ['c', '42', '', 'c'],
  ]


def test_report_of_a_run_without_texts(tmp_path):
  config = {name: x for name, x in CONFIG.items() if name != 'task'} | {'env': {'name': 'pendulum'}}
  write_rows(tmp_path, [(s, 'sac', {ACCURACY: 0.1}) for s in range(3)])
  (tmp_path / 'config.json').write_text(json.dumps(config))  # and neither samples nor starts
  page = report.write_report(tmp_path).read_text()
  assert 'grpo on pendulum' in page and 'What the model writes' not in page and 'Samples by step' not in page


def test_a_directory_without_a_run_is_refused_in_one_line(tmp_path):
  with pytest.raises(ConfigError, match='holds no run'):
    report.write_report(tmp_path)


def test_a_damaged_file_is_named(tmp_path):
  (tmp_path / 'config.json').write_text(json.dumps(CONFIG))
  (tmp_path / 'starts.jsonl').write_bytes(b'\xff')
  with pytest.raises(ConfigError, match=r'starts.jsonl is damaged .*; mend or delete it'):
    report.write_report(tmp_path)


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
from rlx.run import curves
curves.write_curve({str(tmp_path)!r}, title='a run', headline={ACCURACY!r})
sys.exit('matplotlib.pyplot' in sys.modules)
"""
  subprocess.run([sys.executable, '-c', program], check=True)
