"""Guides: what they point to is there, and the names in them are of functions."""

from pathlib import Path
import re

import pytest

from rlx.names import resolve
from rlx.run.parts import PACKAGES

GUIDES = sorted((Path(__file__).parents[1] / 'docs/guides').glob('*.md'))


@pytest.mark.parametrize('path', GUIDES, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
  links = re.findall(r'\]\(([^)#]+)\)', path.read_text())
  missing = [link for link in links if '://' not in link and not (path.parent / link).exists()]
  assert links and not missing


def test_names_in_the_guide_of_cleanrl_are_functions():
  text = (Path(__file__).parents[1] / 'docs/guides/from_cleanrl.md').read_text()
  packages = tuple(dict.fromkeys(name for names in PACKAGES.values() for name in names)) + ('rlx',)
  names = {name for name in re.findall(r"'name': '([\w.:/-]+)'", text) if not name.endswith(':ID')}
  names |= {'stacked', 'scaled_reward', 'hindsight_replay', 'schedules.linear', 'schedules.exponential'}
  assert len(names) > 12
  for name in names:
    assert callable(resolve(name, *packages)), name
