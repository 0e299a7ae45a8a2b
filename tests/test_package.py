"""What is installed: a wheel with everything in it and nothing beside it, which runs from any folder."""

import configparser
from pathlib import Path
import shutil
import subprocess
import zipfile

import pytest

from tests import wheels

ROOT = Path(__file__).parent.parent
FOLDERS = {'rlx': 'rlx', 'experiments': 'rlx.experiments', 'kernels': 'rlx.kernels'}


@pytest.fixture(scope='module')
def setup() -> configparser.ConfigParser:
  parser = configparser.ConfigParser()
  parser.read(ROOT / 'setup.cfg')
  return parser


def lines(setup, section, key) -> list[str]:
  return [line for line in setup[section][key].splitlines() if line and not line.startswith('#')]


def sources() -> dict[Path, str]:
  """Files of rlx -> the packages that they are in."""
  found = {}
  for folder, package in FOLDERS.items():
    for path in sorted((ROOT / folder).rglob('*')):
      if path.is_file() and '__pycache__' not in path.parts:
        found[path] = '.'.join([package, *path.parent.relative_to(ROOT / folder).parts])
  return found


def test_every_package_is_named(setup):
  """Sorted, and each folder with sources is one: those that are not would be left out without a word."""
  packages = {package for path, package in sources().items() if path.suffix == '.py'}
  assert lines(setup, 'options', 'packages') == sorted(packages)
  assert all((path.parent / '__init__.py').exists() for path in sources() if path.suffix == '.py')


def test_the_extra_of_developers_has_those_that_tests_need(setup):
  dev = lines(setup, 'options.extras_require', 'dev')
  for extra in ('sweep', 'completion'):
    assert set(lines(setup, 'options.extras_require', extra)) <= set(dev), extra


def test_the_citation_is_of_this_version(setup):
  citation = (ROOT / 'CITATION.cff').read_text().splitlines()
  assert f'version: {setup["metadata"]["version"]}' in citation
  assert f'url: {setup["metadata"]["url"]}' in citation


@pytest.fixture(scope='module')
def wheel(tmp_path_factory) -> Path:
  pytest.importorskip('setuptools')
  return wheels.build(tmp_path_factory.mktemp('built'))


@pytest.fixture(scope='module')
def installed(wheel, tmp_path_factory) -> Path:
  return wheels.install(wheel, tmp_path_factory.mktemp('installed'))


def rlx(installed, folder, *arguments) -> str:
  done = subprocess.run(
      [installed / 'rlx', *arguments], cwd=folder, env=wheels.quiet(), text=True, capture_output=True,
      check=False,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def test_the_wheel_holds_every_file_and_no_other_name(wheel):
  names = set(zipfile.ZipFile(wheel).namelist())
  info = {name for name in names if '.dist-info/' in name}
  expected = set()
  for path in sources():
    inside = path.relative_to(ROOT)
    expected.add(str(inside if inside.parts[0] == 'rlx' else 'rlx' / inside))
  assert names - info == expected and 'rlx/py.typed' in names
  assert any(name.endswith('/licenses/LICENSE') for name in info)


def test_it_runs_from_an_empty_folder(installed, setup, tmp_path):
  assert rlx(installed, tmp_path, '--version') == f'rlx {setup["metadata"]["version"]}\n'
  assert str(ROOT) not in rlx(installed, tmp_path, 'show', 'quickstart/arithmetic')
  assert 'grpo' in rlx(installed, tmp_path, 'list', 'algorithms', '2402.03300')


CONFIG = """
from rlx.experiments.configs.math import gsm8k_grpo

def get_config(arg):
  config = gsm8k_grpo.get_config(arg)
  config.reward.functions.short = {'name': 'of_a_user.rewards.short', 'weight': 1.0, 'most': 20}
  return config
"""
REWARDS = """
def short(completions, *, most):
  return [float(len(text) < most) for text in completions]
"""


@pytest.mark.slow
@pytest.mark.parametrize('name', ['quickstart/arithmetic', 'control/ppo_cartpole', 'offline/iql_pointmass',
                                  'math/gsm8k_grpo', 'code/humaneval_grpo', 'sft/chat', 'of_a_user/config'])
def test_every_family_runs_from_an_empty_folder(name, installed, tmp_path):
  """Its data and its model are in the wheel; a reward and a config may be in the folder. The run resumes."""
  if name == 'code/humaneval_grpo' and shutil.which('bwrap') is None:
    pytest.skip('needs bubblewrap')
  (tmp_path / 'of_a_user').mkdir()
  (tmp_path / 'of_a_user/config.py').write_text(CONFIG)
  (tmp_path / 'of_a_user/rewards.py').write_text(REWARDS)
  assert 'look at runs/x' in rlx(installed, tmp_path, f'--config={name}:smoke', '--workdir=runs/x')
  rlx(installed, tmp_path, '--config=runs/x/config.json', '--workdir=runs/x')
  rows = (tmp_path / 'runs/x/metrics.jsonl').read_text()
  assert ('rewards/short' in rows) == (name == 'of_a_user/config')
