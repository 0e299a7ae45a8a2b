"""Configs: loading, overriding, and how two differ. What one builds is in `run/build.py`.

A config is the record of a result. Its sections are calls (`run/parts.py`).
"""

import ast
from collections.abc import Callable, Iterator, Mapping
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from rlx.errors import ConfigError, did_you_mean, raised
from rlx.names import modules

__all__ = [
  'ConfigError', 'assign', 'differences', 'find', 'flat', 'load', 'load_module', 'names', 'of_run',
  'override', 'parse_arg',
]

PACKAGE = 'rlx.experiments.configs'  # those that come with rlx


def load(path: str) -> ConfigDict:
  """The config of a file or a name (`find`), with or without an argument: `mine/x.py:argument`.

  A run keeps one as well: `runs/x/config.json`.

  Raises:
    ConfigError: there is no such config, or its file fails, or makes none.
  """
  name, _, argument = path.partition(':')
  filename = find(name)
  if filename.suffix == '.json':
    return ConfigDict(_with_tuples(read_json(filename))).lock()
  try:
    config = _get_config(filename)(argument)
  except ConfigError:
    raise
  except (Exception, SystemExit) as error:  # of whatever kind: it is the user's program
    raise ConfigError(f'--config={name} fails: {raised(error)}') from error
  if not isinstance(config, ConfigDict):
    raise ConfigError(
        f'--config={name}: get_config() returns {type(config).__name__}; it returns a ConfigDict of '
        'ml_collections'
    )
  return config.lock()


def load_module(filename: Path) -> ModuleType:
  """A config file as a module.

  Raises:
    ConfigError: it is no file of Python.
  """
  spec = importlib.util.spec_from_file_location('rlx_config', filename)
  if spec is None:
    raise ConfigError(f'--config={filename} is neither a .py nor a .json file')
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def _get_config(filename: Path) -> Callable[[str], ConfigDict]:
  """The function of a config file."""
  module = load_module(filename)
  if not callable(getattr(module, 'get_config', None)):
    raise ConfigError(f'--config={filename} defines no get_config(arg)')
  return module.get_config


def read_json(path: Path) -> dict[str, Any]:
  """A config that was kept as JSON.

  Raises:
    ConfigError: it cannot be read, or is something else.
  """
  try:
    tree = json.loads(path.read_bytes())
  except (OSError, ValueError) as error:
    raise ConfigError(f'{path} cannot be read as JSON: {error}') from error
  if not isinstance(tree, dict):
    raise ConfigError(f'{path} holds {type(tree).__name__}; a config is an object')
  return tree


def of_run(workdir: str | Path) -> dict[str, Any]:
  """The config of a run as JSON has it.

  Raises:
    ConfigError: the directory holds no run.
  """
  path = Path(workdir) / 'config.json'
  if not path.is_file():
    raise ConfigError(f'--workdir={workdir} holds no run (there is no config.json in it)')
  config = read_json(path)
  if not isinstance(config.get('log'), dict) or 'headline' not in config['log']:
    raise ConfigError(f'--workdir={workdir}: its config.json is of no run of rlx: it has no log.headline')
  return config


def find(name: str) -> Path:
  """The file of a config: `mine/x.py` or `mine/x` of the working directory, or else one of rlx.

  The latter is `quickstart/arithmetic`, or `dapo_arithmetic` where no other file is called so.

  Raises:
    ConfigError: there is none, or there are several.
  """
  for path in (Path(name), Path(f'{name}.py')):
    if path.is_file():
      return path
  known, asked = names(), name.removesuffix('.py')
  found = [asked] if asked in known else [each for each in known if each.endswith(f'/{asked}')]
  if len(found) > 1:
    raise ConfigError(f'--config={name} is in several places; say which: {", ".join(found)}')
  if not found:
    hint = did_you_mean(asked, known) or '; `rlx list configs` shows them'
    raise ConfigError(f'--config={name}: no such file in {Path.cwd()}, and no config of rlx{hint}')
  return known[found[0]]


def names() -> dict[str, Path]:
  """The configs that come with rlx: `quickstart/arithmetic` -> its file."""
  files = {module: path for module, path in modules(PACKAGE).items() if path.name != '__init__.py'}
  return {module.removeprefix(f'{PACKAGE}.').replace('.', '/'): path for module, path in files.items()}


def _with_tuples(tree):
  """What JSON made lists of are tuples again, as config files write them."""
  if isinstance(tree, dict):
    return {name: _with_tuples(x) for name, x in tree.items()}
  return tuple(map(_with_tuples, tree)) if isinstance(tree, list) else tree


def parse_arg(argument: str, **defaults):
  """The value of a config's argument: `get_config('smoke=1,layers=4')` over defaults, with their types.

  A name without `=` is True.

  Raises:
    ConfigError: a name that is not among the defaults (with the nearest), or a value of another type.
  """
  values = ConfigDict(defaults)
  for part in filter(None, argument.split(',')):
    name, equals, text = part.partition('=')
    if name not in defaults:
      hint = did_you_mean(name, defaults) or f'; it takes {", ".join(defaults) or "none"}'
      raise ConfigError(f'the config takes no argument {name!r}{hint}')
    values[name] = _parse(f'the argument {part} of the config', text if equals else 'True', defaults[name])
  return values


def override(config: ConfigDict, path: str, text: str) -> None:
  """Sets one value from the command line, keeping its type, or a whole section.

  Args:
    config: changed in place.
    path: dotted, e.g. `algorithm.clip_high`.
    text: the value as written; `{'name': .., ..}` is a section, in the place of the one that is there or new.
  Raises:
    ConfigError: an unknown key (with the nearest name), or a value of another type.
  """
  if text.startswith('{') and _set_section(config, path, text):
    return
  parent, key = _find(config, path)
  if isinstance(parent[key], ConfigDict):
    raise ConfigError(f'--config.{path} is a section; set one of its values: {", ".join(parent[key])}')
  parent[key] = _parse(f'--config.{path}={text}', text, parent[key])


def assign(config: ConfigDict, path: str, value: Any) -> None:
  """Sets one value, or a whole section, from Python.

  Args:
    config: changed in place.
    path: dotted, as for `override`.
    value: of the type that stands there; a mapping takes the place of a section.
  Raises:
    ConfigError: an unknown key (with the nearest name), or a value of another type.
  """
  parent, key = _find(config, path)
  old = parent[key]
  if isinstance(old, ConfigDict):
    if not isinstance(value, Mapping):
      raise ConfigError(f'config.{path}={value!r}: it is a section, which a dict takes the place of')
    with parent.unlocked():
      parent[key] = ConfigDict(value)
    return
  try:
    parent[key] = tuple(value) if isinstance(old, tuple) else value
  except TypeError as error:
    wanted = f'{type(old).__name__}, like the {old!r} in the file'
    raise ConfigError(f'config.{path}={value!r}: needs {wanted}') from error


def _find(config: ConfigDict, path: str) -> tuple[ConfigDict, str]:
  """The section that holds a dotted name, and the last part of the name."""
  names, section = path.split('.'), config
  for i, name in enumerate(names):
    if not isinstance(section, ConfigDict) or name not in section:
      raise ConfigError(_unknown_key(config, '.'.join(names[: i + 1]), path))
    parent, section = section, section[name]
  return parent, names[-1]


def _set_section(config: ConfigDict, path: str, text: str) -> bool:
  """Puts a section in its place; False where that is a plain value, or inside of nothing."""
  *sections, key = path.split('.')
  parent = config
  for name in sections:
    parent = parent[name] if isinstance(parent, ConfigDict) and name in parent else None
  if parent is None or not isinstance(parent, ConfigDict):
    return False
  if key in parent and not isinstance(parent[key], ConfigDict):
    return False
  try:
    said = ast.literal_eval(text)
    if wrong := [name for name in said if not isinstance(name, str)]:
      raise TypeError(f'{wrong[0]!r} is no name')
    section = ConfigDict(said)
  except (ValueError, SyntaxError, TypeError, AttributeError) as error:
    hint = "a section is a dictionary of Python, {'name': 'grpo', ..}"
    raise ConfigError(f'--config.{path}={text}: {hint} ({error})') from error
  with config.unlocked():
    if key in parent:
      del parent[key]
    parent[key] = section
  return True


def _parse(said: str, text: str, old):
  """A text as a value of the type of another; the error begins with what was said."""
  kind = type(old)
  try:
    if kind is str:
      return text
    if kind is bool:
      return {'true': True, '1': True, 'false': False, '0': False}[text.lower()]
    value = float(text) if kind is float else ast.literal_eval(text)
    if type(value) is kind and value == value:  # NaN is no setting; infinity is a bound that never holds
      return value
  except (ValueError, SyntaxError, KeyError):
    pass
  raise ConfigError(f'{said}: needs {kind.__name__}, like the {old!r} in the file')


def _unknown_key(config, prefix, path):
  hint = did_you_mean(path, [key for key, _ in flat(config)], likeness=0.4)
  return f'--config.{path}: the config has no {prefix!r}{hint}'


def flat(config: Mapping, prefix: str = '') -> Iterator[tuple[str, Any]]:
  """Every value of a config with its dotted path."""
  for key, value in config.items():
    if isinstance(value, Mapping | ConfigDict):
      yield from flat(value, f'{prefix}{key}.')
    else:
      yield f'{prefix}{key}', value


def differences(old: Mapping, new: Mapping) -> list[str]:
  """`key: old -> new` for every value in which two configs (as dicts) differ."""
  old, new = dict(flat(old)), dict(flat(new))
  changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
  return [f'{key}: {old.get(key, "(absent)")!r} -> {new.get(key, "(absent)")!r}' for key in changed]
