"""Functions by name: from a name in a config to the function that it means, and arguments by their names."""

from collections.abc import Callable, Mapping
import functools
import importlib
import importlib.util
import inspect
from pathlib import Path
import re
from typing import Any

from rlx.errors import ConfigError, did_you_mean, raised

# Where the short names of a section are looked up; those of others below `rlx`.
PACKAGES = {
    'algorithm': ('rlx.algorithms',), 'rollout': ('rlx.rollout',), 'reward': ('rlx.rewards',),
    'task': ('rlx.envs', 'rlx.data'), 'env': ('rlx.envs',), 'data': ('rlx.data', 'rlx.rollout', 'rlx.envs'),
    'models': ('rlx.models', 'rlx.run.finished', 'rlx.run.stored'), 'evals': ('rlx.evaluation',),
    'optimizer': ('rlx.optimizers',),
    'stop': ('rlx.run.stop',), 'writers': ('rlx.run.trackers',),
}

_DEFINITION = re.compile(r'^(?:def|class) ([A-Za-z]\w*)', re.MULTILINE)


def resolve(name: str, *packages: str) -> Callable:
  """The function that a name in a config means.

  `grpo` in `rlx.algorithms` is the function `grpo` of the module `rlx.algorithms.grpo`, or of the package
  itself, or else of the one module below that has such a function. A name with dots is looked up in the same
  way (`control.ppo` below `rlx.algorithms`), and then from the top: `yours.algorithms.mine`. Modules are
  found by reading sources; only the one that is meant is imported.

  A name with a colon is of something that another project has: `gymnax:CartPole-v1` is `from_gymnax`, looked
  up as above, with what is behind the colon for its first keyword-only parameter.

  Args:
    name: as a config has it.
    packages: where it is looked up, in this order.
  Raises:
    ConfigError: there is no such module or function, or there are several.
  """
  if not (isinstance(name, str) and all(map(str.isidentifier, name.partition(':')[0].split('.')))):
    raise ConfigError(f'name={name!r} cannot be the name of a function')
  project, colon, what = name.partition(':')
  if colon:
    function = resolve(f'from_{project}', *packages)
    keywords = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    bound = functools.partial(function, **{keywords[0]: what})
    bound.__name__, bound.__module__ = function.__name__, function.__module__
    return bound
  for path in [f'{package}.{name}' for package in packages] + [name] * ('.' in name):
    if found := _exactly(path):
      return found
  *folders, function = name.split('.')
  ending = ''.join(f'.{folder}' for folder in folders)
  for package in packages:
    places = definitions(package).get(function, ())
    meant = [module for module in places if f'.{module}'.endswith((ending, f'{ending}.{function}'))]
    if len(meant) == 1:
      return getattr(importlib.import_module(meant[0]), function)
    if meant:
      short = sorted(f'{module.removeprefix(f"{package}.")}.{function}' for module in meant)
      raise ConfigError(f'name={name!r} is in several places; say which: {", ".join(short)}')
  raise ConfigError(f'name={name!r}: {_not_found(folders, function, packages)}')


def _not_found(folders, function: str, packages) -> str:
  """Why, and the nearest name that there is."""
  if folders and _is_missing(folders[0]) and not any(_is_below(folders[0], package) for package in packages):
    return f'no package {folders[0]!r} is installed, or in a folder of the module path'
  known = [name for package in packages for name in definitions(package)]
  return f'there is no function {function!r} below {" or ".join(packages)}{did_you_mean(function, known)}'


def _is_missing(package: str) -> bool:
  return importlib.util.find_spec(package) is None


def _is_below(folder: str, package: str) -> bool:
  return any(folder in module.split('.') for module in modules(package))


def _exactly(path: str) -> Callable | None:
  """The function of a module of its own name, or of the module in front of it."""
  function = path.rpartition('.')[2]
  for module_name in (path, path.rpartition('.')[0]):
    try:
      module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
      if not module_name.startswith(error.name or ''):
        raise  # the module is there, and imports something that is not
      continue
    except Exception as error:
      if module_name.startswith('rlx.'):
        raise
      raise ConfigError(f'{module_name} cannot be imported: {raised(error)}') from error
    if callable(found := getattr(module, function, None)):
      return found
  return None


@functools.cache
def modules(package: str) -> dict[str, Path]:
  """The modules of a package and of those below it: name -> file."""
  spec = importlib.util.find_spec(package)
  if spec.submodule_search_locations is None:
    return {package: Path(spec.origin)}
  found = {}
  for folder in spec.submodule_search_locations:
    for path in sorted(Path(folder).rglob('*.py')):
      parts = path.relative_to(folder).with_suffix('').parts
      found['.'.join((package, *(part for part in parts if part != '__init__')))] = path
  return found


@functools.cache
def definitions(package: str) -> dict[str, list[str]]:
  """Public functions and classes at the top of the modules of a package: name -> modules."""
  places: dict[str, list[str]] = {}
  for module, path in modules(package).items():
    for name in _DEFINITION.findall(path.read_text()):
      places.setdefault(name, []).append(module)
  return places


def imported(module: str, *, extra: str, who: str) -> Any:
  """An optional package, imported.

  Args:
    module: its name.
    extra: of rlx, that installs it.
    who: needs it, as the config says.
  Raises:
    ConfigError: it is not installed; one line with the command.
  """
  try:
    return importlib.import_module(module)
  except ImportError as error:
    missing = error.name or module
    raise ConfigError(f"{who} needs the package {missing}: pip install 'rlx[{extra}]'") from error


def fill(function: Callable, known: Mapping[str, Any]) -> Any:
  """Calls a function with what it asks for by the names of its positional parameters.

  So functions of different arguments fit one place: `f(rewards, groups)`, `f(rewards, lengths, groups)`.

  Args:
    function: its keyword-only parameters have values already (`functools.partial`), or defaults.
    known: what there is, by name.
  Raises:
    ValueError: it asks for something that there is not.
  """
  parameters = inspect.signature(function).parameters.values()
  wanted = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
  if missing := [name for name in wanted if name not in known]:
    name = getattr(function, 'func', function).__name__
    raise ValueError(f'{name}() asks for {missing}, which is none of {sorted(known)}')
  return function(*(known[name] for name in wanted))
