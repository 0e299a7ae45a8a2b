"""Configs: loading, overriding, and how two differ. What one builds is in `run/build.py`.

A config is the record of a result. Its sections are calls (`run/parts.py`).
"""

import ast
from collections.abc import Iterator, Mapping
import difflib
import importlib.util
import json
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from rlx.errors import ConfigError

__all__ = ['ConfigError', 'assign', 'differences', 'flat', 'load', 'override', 'parse_arg']


def load(path: str) -> ConfigDict:
  """The config of a file, `experiments/configs/x.py` or `x.py:argument`, or of a run, `runs/x/config.json`.

  Raises:
    ConfigError: there is no such file, or it has no `get_config`.
  """
  filename, _, argument = path.partition(':')
  if not Path(filename).is_file():
    raise ConfigError(f'--config={filename}: no such file (the working directory is {Path.cwd()})')
  if filename.endswith('.json'):
    return ConfigDict(_with_tuples(json.loads(Path(filename).read_text()))).lock()
  spec = importlib.util.spec_from_file_location('rlx_config', filename)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  if not hasattr(module, 'get_config'):
    raise ConfigError(f'--config={filename} defines no get_config(arg)')
  return module.get_config(argument).lock()


def _with_tuples(tree):
  """What JSON made lists of are tuples again, as config files write them."""
  if isinstance(tree, dict):
    return {name: _with_tuples(x) for name, x in tree.items()}
  return tuple(map(_with_tuples, tree)) if isinstance(tree, list) else tree


def parse_arg(argument: str, **defaults):
  """The value of a config's argument: `get_config('smoke=1,layers=4')` over defaults, with their types.

  A name without `=` is True. Raises `ConfigError` for a name that is not among the defaults.
  """
  values = ConfigDict(defaults)
  for part in filter(None, argument.split(',')):
    name, equals, text = part.partition('=')
    override(values, name, text if equals else 'True')
  return values


def override(config: ConfigDict, path: str, text: str) -> None:
  """Sets one value from the command line, keeping its type.

  Args:
    config: changed in place.
    path: dotted, e.g. `algorithm.clip_high`.
    text: the value as written.
  Raises:
    ConfigError: an unknown key (with the nearest name), or a value of another type.
  """
  parent, key = _find(config, path)
  if isinstance(parent[key], ConfigDict):
    raise ConfigError(f'--config.{path} is a section; set one of its values: {", ".join(parent[key])}')
  parent[key] = _parse(path, text, parent[key])


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


def _parse(path, text, old):
  kind = type(old)
  try:
    if kind is str:
      return text
    if kind is bool:
      return {'true': True, '1': True, 'false': False, '0': False}[text.lower()]
    value = ast.literal_eval(text)
    if kind is float and type(value) is int:
      return float(value)
    if type(value) is kind:
      return value
  except (ValueError, SyntaxError, KeyError):
    pass
  raise ConfigError(f'--config.{path}={text}: needs {kind.__name__}, like the {old!r} in the file')


def _unknown_key(config, prefix, path):
  known = [key for key, _ in flat(config)]
  nearest = difflib.get_close_matches(path, known, n=1, cutoff=0.4)
  hint = f'; did you mean {nearest[0]}?' if nearest else ''
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
