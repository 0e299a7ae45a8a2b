"""What the guides tell a user to write: it is written, checked, built and traced.

A block that begins with `# name.py` is that file. A file with `get_config` is a config: it is built at
`:smoke` and every stage of it traced. The other blocks are run, in their order.
"""

import importlib
import json
from pathlib import Path
import re
import sys

import jax
import pytest

from rlx import config as configs
from rlx.experiments import claims
from rlx.names import PACKAGES, resolve
from rlx.run import train, workdirs
from rlx.run.build import build
from tests.cases import cases

GUIDES = Path(__file__).parents[1] / 'docs' / 'guides'
BLOCK = re.compile(r'^```python\n(.*?)^```$', re.DOTALL | re.MULTILINE)
FILE = re.compile(r'# (\S+\.py)\n')


def blocks(guide: Path) -> list[str]:
  return BLOCK.findall(guide.read_text())


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """Where a user stands, whose package `mine` is found there."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(tmp_path))
  (tmp_path / 'mine').mkdir()
  (tmp_path / 'mine' / '__init__.py').touch()
  yield tmp_path
  for name in [name for name in sys.modules if name.split('.')[0] == 'mine']:
    del sys.modules[name]


EXECUTED = [
    *sorted(GUIDES.glob('own_*.md')),
    *(GUIDES / f'{name}.md' for name in ('debugging', 'agents', 'tools', 'selfplay')),
]


AT_ONCE = [GUIDES / 'own_model.md', GUIDES / 'debugging.md']


@pytest.mark.parametrize('guide', cases(EXECUTED, at_once=AT_ONCE), ids=lambda path: path.stem)
def test_what_a_guide_says_is_so(guide, folder):
  with jax.numpy_rank_promotion('allow'):  # as it is for a user
    follow(guide, folder)


def follow(guide: Path, folder: Path) -> None:
  """Writes what is a file, builds what is a config, runs the rest."""
  namespace = {}
  for text in blocks(guide):
    name = FILE.match(text)
    if not name:
      exec(compile(text, str(guide), 'exec'), namespace)  # the guide is ours
      continue
    (folder / name[1]).write_text(text)
    importlib.invalidate_caches()
    if 'def get_config' in text:
      config = configs.load(f'{name[1]}:smoke').unlock()
      config.mesh.data = 1
      train.check(build(config))


def test_the_guides_have_code():
  assert sum(len(blocks(guide)) for guide in GUIDES.glob('own_*.md')) >= 12


VERDICTS = {'yes': 'shows', 'in part': 'shows in part', 'no': 'does not show'}


def test_what_the_guide_of_preferences_says_of_claims_is_what_was_found():
  text = (GUIDES / 'preferences.md').read_text()
  rows = text.partition('| config | claim | shows |\n|---|---|---|\n')[2].split('\n\n')[0].splitlines()
  assert len(rows) > 20
  for row in rows:
    name, said = re.fullmatch(r'\| `(\w+)` \| [^|]+ \| (yes|in part|no)\b[^|]* \|', row).groups()
    kept = claims.result_path(f'preferences/{name}')
    if kept.exists():  # one that has not been run again since its config changed has none
      assert json.loads(kept.read_text())['verdict'].split(' (')[0] == VERDICTS[said], name


@pytest.mark.parametrize('path', sorted(GUIDES.glob('*.md')), ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
  links = re.findall(r'\]\(([^)#]+)\)', path.read_text())
  missing = [link for link in links if '://' not in link and not (path.parent / link).exists()]
  assert links and not missing


def test_names_in_the_guide_of_cleanrl_are_functions():
  text = (GUIDES / 'from_cleanrl.md').read_text()
  packages = tuple(dict.fromkeys(name for names in PACKAGES.values() for name in names)) + ('rlx',)
  names = {name for name in re.findall(r"'name': '([\w.:/-]+)'", text) if not name.endswith(':ID')}
  names |= {'stacked', 'scaled_reward', 'hindsight_replay', 'schedules.linear', 'schedules.exponential'}
  assert len(names) > 12
  for name in names:
    assert callable(resolve(name, *packages)), name


METRIC = re.compile(r"f?'([a-z][a-z_]*/[a-z_][a-z_0-9{}]*)'")
OF_PARTS = ('algorithms', 'rewards', 'rollout')  # what a run's metrics come from, but for those of every step


def test_the_metrics_of_every_part_are_explained():
  """A name that is put together is looked for by what is certain of it."""
  documented = (GUIDES.parent / 'metrics.md').read_text()
  named = {
      name for part in OF_PARTS for file in (GUIDES.parents[1] / 'rlx' / part).rglob('*.py')
      for name in METRIC.findall(file.read_text())
  }
  assert len(named) > 150
  certain = {name: f'`{name.partition("{")[0]}' + '`' * ('{' not in name) for name in named}
  assert not [name for name in sorted(named) if certain[name] not in documented]


def test_the_files_of_a_run_are_explained():
  documented = (GUIDES.parent / 'metrics.md').read_text()
  table = documented.partition('## What a run leaves')[2].partition('\n## ')[0]
  known = set(re.findall(r'`([a-z_.]+)/?`', table))
  assert not sorted({*workdirs.OURS} - known)
