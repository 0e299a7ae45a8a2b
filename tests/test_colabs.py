"""The notebooks run from top to bottom, are the same as their sources, and keep what they printed."""

import ast
import base64
import importlib
import inspect
from pathlib import Path

import jupytext
import nbclient
import pytest

COLABS = sorted((Path(__file__).parent.parent / 'colabs').glob('*.py'))
OPEN = 'https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/{}.ipynb'
INSTALL = """import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  %pip install --quiet git+https://github.com/rlx-project/rlx"""


def cases():
  return pytest.mark.parametrize('source', [pytest.param(path, id=path.stem) for path in COLABS])


def of_kind(notebook, kind):
  return [cell for cell in notebook.cells if cell.cell_type == kind]


@cases()
def test_notebook_is_its_source_and_short(source):
  notebook = jupytext.read(source)
  beside = jupytext.read(source.with_suffix('.ipynb'))
  cells = lambda notebook: [(cell.cell_type, cell.source) for cell in notebook.cells]
  assert cells(notebook) == cells(beside), f'run: make colabs COLABS={source.stem}'
  code = [cell.source for cell in of_kind(notebook, 'code')]
  assert len([line for source in code for line in source.splitlines() if line.strip()]) <= 130


@cases()
def test_notebook_opens_in_colab_and_installs_what_is_missing(source):
  badge, install, title = jupytext.read(source).cells[:3]
  assert badge.source.startswith('[![Open in Colab](') and f']({OPEN.format(source.stem)})' in badge.source
  assert install.source == INSTALL  # with the magic, which is a comment in the source
  assert title.source.startswith('# ')


@cases()
def test_notebook_was_executed_and_is_small(source):
  path = source.with_suffix('.ipynb')
  assert path.stat().st_size < 150_000
  code = of_kind(jupytext.read(path), 'code')
  counts = [cell.execution_count for cell in code]
  assert counts == [*range(1, len(code) + 1)], f'not executed in order; make colabs COLABS={source.stem}'
  outputs = [output for cell in code for output in cell.outputs]
  unwanted = [o for o in outputs if o.output_type == 'error' or o.get('name') == 'stderr']
  assert not unwanted
  figures = [o.data['image/png'] for o in outputs if 'image/png' in o.get('data', {})]
  assert len(figures) == 1 and len(base64.b64decode(figures[0])) < 100_000


@cases()
def test_notebook_names_what_there_is(source):
  """What it imports of rlx, and what it asks those modules for: all of it runs among the slow tests only."""
  tree = ast.parse(source.read_text())
  modules = {}
  for line in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)):
    if line.module.split('.')[0] == 'rlx':
      modules |= {one.asname or one.name: imported(line.module, one.name) for one in line.names}
  asked = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
  taken = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}  # a parameter of the same name
  for one in asked:
    name = getattr(one.value, 'id', '')
    if name not in taken and inspect.ismodule(module := modules.get(name)):
      assert hasattr(module, one.attr), f'{module.__name__} has no {one.attr}'


def imported(module, name):
  found = importlib.import_module(module)
  return getattr(found, name) if hasattr(found, name) else importlib.import_module(f'{module}.{name}')


@pytest.mark.slow
@cases()
@pytest.mark.filterwarnings('ignore')  # of the notebook machinery; the cells run in a process of their own
def test_notebook_runs(source, tmp_path):  # anywhere: Colab has no repository around it
  where = {'metadata': {'path': str(tmp_path)}}
  client = nbclient.NotebookClient(jupytext.read(source), timeout=600, kernel_name='python3', resources=where)
  client.execute()


def test_there_are_notebooks():
  own = {'own_reward', 'own_environment'}
  assert {path.stem for path in COLABS} >= own | {
      'tour', 'grpo_from_scratch', 'posttrain_a_hf_model', 'offline', 'control', 'agents', 'tools',
      'selfplay', 'preferences',
  }
