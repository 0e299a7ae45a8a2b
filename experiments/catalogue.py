"""What there is, read from the sources: algorithms, configs, and what sections can name, by their docstrings.

Shared by `docs/papers.md`, `docs/config.md`, `rlx list` and `rlx show`. Nothing that is read is imported.
"""

import ast
from collections.abc import Iterable
import functools
from pathlib import Path
import re

from rlx import config
from rlx.names import PACKAGES, modules

# Section -> what its functions return, by the annotation.
KINDS = {
    'models': (
        'Model', 'LanguageModel', 'Network', 'Policy', 'GaussianPolicy', 'GreedyPolicy', 'ImplicitPolicy',
        'Recurrent', 'Denoiser', 'Dynamics', 'History', 'Residual',
    ),
    'rollout': ('StatefulRollout', 'HostRollout', 'Rollout'), 'reward': ('Annotate', 'HostReward'),
    'stop': ('StopRule',), 'evals': ('Evaluation', 'HostEvaluation'),
    'optimizer': ('optax.GradientTransformation',),
    'task': (
        'Task', 'StepTask', 'VariedTask', 'SkillTask', 'StoryTask', 'RecordTask', 'SnippetTask',
        'SessionTask', 'ExaminedTask', 'TurnTask', 'JudgedTask', 'KitchenTask', 'CorrectedTask', 'CaseTask',
        'LessonTask', 'SeatTask', 'WordGame', 'Grid', 'Dataset', 'Streamed', 'Worlds',
    ),
    'env': ('Environment', 'MatrixGame'),
    'data': ('Batch',),
    'writers': ('Writer',),
}
PARTS = {
    'task': 'problems of a text run',
    'env': 'what a control run acts in',
    'data': 'recorded rows',
    'rollout': 'where batches come from',
    'reward': 'what rows are worth',
    'decoding': 'how language models speak: `max_tokens, min_tokens, temperature, top_k, top_p, min_p, ..`',
    'score': 'how rows are scored: `chunk_tokens, packed_columns, packed_rows, share_prompts, [packed_kept]`',
    'given': 'name -> digest of a part that was handed over as an object (`rlx.finetune`), such as `rows`',
}
_GIVEN = frozenset(('transcripts',))  # numbers that are asked for like parts: the builder knows them
_NO_PARTS = ('Any', 'Callable', 'jax.Array', 'Key', 'str', 'int', 'float')  # how their annotations begin
FORMULAS = ('losses', 'advantages', 'controllers')  # packages whose functions are choices inside a section
_PRESETS = ('rlx.algorithms.presets', 'rlx.algorithms.trees')  # modules of several algorithms
_CONTROL = 'rlx.algorithms.control'


def algorithms(package: str = 'rlx.algorithms') -> dict[Path, str]:
  """The docstrings of the files of a package that hold one algorithm each."""
  depth = package.count('.') + 1
  files = {module: path for module, path in modules(package).items() if module.count('.') == depth}
  ones = sorted(path for module, path in files.items() if module not in _PRESETS and path.stem != '__init__')
  return {path: docstring(path) for path in ones}


def control() -> dict[Path, str]:
  """The docstrings of the algorithms of control."""
  return algorithms(_CONTROL)


def presets() -> list[ast.FunctionDef]:
  """The algorithms that are choices among parts."""
  functions = [node for name in _PRESETS for node in _read(modules(name)[name])[1]]
  return [node for node in functions if not node.name.startswith('_')]


def configs() -> dict[Path, str]:
  """The sources of the configs that come with rlx."""
  return {path: path.read_text() for path in sorted(config.names().values())}


def functions(section: str) -> dict[str, ast.FunctionDef]:
  """The functions that a section of a config can name, sorted by module, as the sources have them."""
  kinds = KINDS[section]
  nodes = _functions(PACKAGES[section])
  return {f'{stem}.{node.name}': node for stem, node in nodes if _makes_a_part(node, kinds)}


def reward_functions() -> dict[str, ast.FunctionDef]:
  """The Python functions that score completions, which `reward.functions` can name."""
  scores = lambda node: 'completions' in [a.arg for a in node.args.args] and 'list' in _returns(node)
  nodes = _functions(PACKAGES['reward'])
  return {f'{stem}.{node.name}': node for stem, node in nodes if _public(node) and scores(node)}


def choices(kind: str) -> dict[str, ast.FunctionDef]:
  """The functions of a package of formulas, which sections inside an algorithm's or a rollout's can name."""
  nodes = _functions((f'rlx.{kind}',))
  return {f'{kind}.{stem}.{node.name}': node for stem, node in nodes if _public(node)}


def _functions(packages: Iterable[str]) -> list[tuple[str, ast.FunctionDef]]:
  """The functions at the top of the modules of packages: (last name of the module, node)."""
  paths = [path for package in packages for path in modules(package).values()]
  return [(path.stem, node) for path in paths for node in _read(path)[1]]


def _makes_a_part(node: ast.FunctionDef, kinds: Iterable[str]) -> bool:
  """Whether a function makes such a part, and asks for parts alone: no function, no arrays."""
  asks = [(a.arg, ast.unparse(a.annotation) if a.annotation else '') for a in node.args.args]
  parts = all(kind and not kind.startswith(_NO_PARTS) or name in {*PARTS, *_GIVEN} for name, kind in asks)
  return _public(node) and parts and bool(set(_returns(node).split(' | ')) & set(kinds))


def _public(node: ast.FunctionDef) -> bool:
  return not node.name.startswith('_') and bool(ast.get_docstring(node))


def _returns(node: ast.FunctionDef) -> str:
  return ast.unparse(node.returns) if node.returns else ''


def docstring(path: Path) -> str:
  """What a file says of itself."""
  return _read(path)[0]


def _read(path: Path) -> tuple[str | None, tuple[ast.FunctionDef, ...]]:
  """The docstring of a file, and the functions at its top, of whose bodies there is the docstring alone."""
  return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, written: int):
  del written  # a file that has been written since is another one
  tree = ast.parse(path.read_text())
  functions = tuple(node for node in tree.body if isinstance(node, ast.FunctionDef))
  for node in functions:
    node.body = node.body[:1]
  return ast.get_docstring(tree), functions


def short(name: str) -> str:
  """`module.function` as a config says it: the function alone where the module is called so."""
  module, function = name.split('.')
  return function if module == function else name


def chooses(source: str, name: str) -> bool:
  """Whether a config's source names a function: by its name, or by a function of its file."""
  if name not in source:  # nearly always, and far sooner than the rest
    return False
  named = rf'(?:[\w.]+\.)?{name}(?:\.\w+)?'
  by_keyword = rf"\bname='{named}'"
  by_assignment = rf"algorithm\.name(?:, [\w.]+)? = '{name}'"
  return bool(re.search(rf"'name': '{named}'|{by_keyword}|{by_assignment}", source))


def paragraph(text: str) -> str:
  """The first paragraph of a docstring, in one line."""
  return text.split('\n\n')[0].replace('\n', ' ')


def what(text: str) -> str:
  """What the first line of a module says behind the name of its subject."""
  return text.splitlines()[0].partition(': ')[2]


def urls(text: str) -> list[str]:
  """The addresses in a docstring, each once."""
  return list(dict.fromkeys(url.rstrip('.:') for url in re.findall(r'https?://[^\s,;)]+', text)))


def result(source: str) -> str:
  """What a config says that came out when it was run."""
  found = re.search(r'Result: (.*?)(?:\n\s*\n|""")', source, re.DOTALL)
  return ' '.join(found.group(1).split()) if found else 'not recorded'
