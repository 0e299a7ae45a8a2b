"""What is read from files runs no code: no pickles, in any module. (Configs are code, and are said to be.)"""

import ast
import pathlib
import pickle

import numpy as np
import pytest

from rlx.data import transitions

ROOT = pathlib.Path(__file__).parents[1]
# Between processes of one run, through sockets of their own or as the hosts of one mesh talk.
BETWEEN_PROCESSES = {
    'rlx/rewards/pool.py', 'rlx/rewards/workers.py', 'rlx/rewards/by_value.py', 'rlx/processes.py',
    'rlx/envs/host/serving.py',
}
# Into the sandbox and inside it, from the run alone; what comes out is read with `ast.literal_eval`.
INTO_THE_SANDBOX = {'rlx/rewards/sandbox.py', 'rlx/rewards/sent/supervisor.py'}
PICKLES = ('pickle', 'cloudpickle', 'dill', 'joblib', 'shelve', 'marshal')
LOADS = ('load', 'loads', 'Unpickler', 'open')
UNSAFE = ('load', 'read_pickle', 'unsafe_load')  # of other libraries


def dangers(source: str) -> list[str]:
  """The calls in a source that could run code which a file holds."""
  found, nodes = [], [*ast.walk(ast.parse(source))]
  for node in nodes:
    if not isinstance(node, ast.Attribute):
      found += _call(node) if isinstance(node, ast.Call) else []
    elif isinstance(node.value, ast.Name) and node.value.id in PICKLES and node.attr in LOADS:
      found.append(f'{node.value.id}.{node.attr}')  # called here, or handed on
  imported = [node for node in nodes if isinstance(node, ast.ImportFrom)]
  return found + [f'from {node.module} import' for node in imported if node.module in PICKLES]


def _call(node: ast.Call) -> list[str]:
  """A call of a library's `load` that reads pickles, or would by a default."""
  keywords = {keyword.arg: getattr(keyword.value, 'value', None) for keyword in node.keywords}
  if 'allow_pickle' not in keywords and getattr(node.func, 'attr', '') not in UNSAFE:
    return []
  name = ast.unparse(node.func)
  if keywords.get('allow_pickle', False) is not False:
    return [f'{name}(allow_pickle=..)']
  if name == 'torch.load' and keywords.get('weights_only') is not True:
    return ['torch.load']
  return [name] if name in {'pandas.read_pickle', 'pd.read_pickle', 'yaml.load', 'yaml.unsafe_load'} else []


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ('import pickle\npickle.load(f)', ['pickle.load']),
        ('f = pickle.loads', ['pickle.loads']),
        ('from pickle import load', ['from pickle import']),
        ('np.load(path, allow_pickle=True)', ['np.load(allow_pickle=..)']),
        ('np.load(path, allow_pickle=allowed)', ['np.load(allow_pickle=..)']),
        ('np.load(path)\nnp.load(path, allow_pickle=False)\njson.load(f)\nopen(p)', []),
        ('torch.load(path)', ['torch.load']),
        ('torch.load(path, weights_only=True)', []),
        ('pickle.dumps(x)', []),
    ],
)
def test_dangers_are_seen(source, expected):
  assert dangers(source) == expected


def test_no_module_reads_a_pickle_from_a_file():
  found = {}
  for top in ('rlx', 'kernels', 'experiments'):
    for path in sorted((ROOT / top).rglob('*.py')):
      name = path.relative_to(ROOT).as_posix()
      if name not in INTO_THE_SANDBOX and (calls := dangers(path.read_text())):
        found[name] = calls
  assert found.keys() == BETWEEN_PROCESSES, found
  assert {call for calls in found.values() for call in calls} == {'pickle.loads'}  # bytes, not files


class Trap:
  def __reduce__(self):
    return exec, ('raise SystemExit("it ran")',)


def test_a_data_set_with_a_pickle_in_it_is_refused_and_not_run(tmp_path):
  path = tmp_path / 'rows.npz'
  np.savez(path, observations=np.array([Trap()], object), allow_pickle=True)
  with pytest.raises(ValueError):
    transitions.load(path)
  with pytest.raises(SystemExit, match='it ran'):
    pickle.loads(pickle.dumps(Trap()))
