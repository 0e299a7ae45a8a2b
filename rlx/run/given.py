"""Objects that a config cannot say: rows in memory, functions of a notebook. The config keeps their digests.

A run that is built with such objects has a section `given`, name -> digest (nested as the objects are), and
the objects are parts under these names: a function asks for them as for any other part. The digests are how a
run that is resumed knows whether it was handed the same objects again.

The digest of a function is that of its source, with all decorators around it, of its defaults and of the
values that it closes over, of a method also of those of its object; a helper that it calls may change unseen.
The digest of rows is that of their values.
"""

from collections.abc import Callable, Mapping
import contextlib
import functools
import hashlib
import inspect
import json
import re
import textwrap
from typing import Any

from ml_collections import ConfigDict
import numpy as np

from rlx import config as configs
from rlx.errors import ConfigError

NOTHING: Mapping[str, Any] = {}


def digests(given: Mapping[str, Any]) -> dict[str, Any]:
  """What `config.given` holds of some objects: of each its digest, of a mapping those of its values."""
  of = lambda value: digests(value) if isinstance(value, Mapping) else digest_of(value)
  return {name: of(value) for name, value in given.items()}


def digest_of(value: Any) -> str:
  """16 hexadecimal digits of the SHA-256 of a function's source or of rows' values."""
  found = hashlib.sha256()
  if callable(value):
    found.update(_source(value).encode())
  else:
    for row in value:
      found.update(_row(row).encode() + b'\n')
  return found.hexdigest()[:16]


def _row(row: Any) -> str:
  try:
    return json.dumps(row, sort_keys=True, default=_values)
  except TypeError:  # keys of several kinds
    return _values(row)


def _source(function: Callable) -> str:
  """What a function does, as text: its source and the values that it holds."""
  if isinstance(function, functools.partial):
    held = (function.args, sorted(function.keywords.items()))
    return _source(function.func) + _values(held)
  if not inspect.isroutine(function):
    return _text(type(function)) + _values(vars(function))
  layers = [function]
  while hasattr(layers[-1], '__wrapped__'):
    layers.append(layers[-1].__wrapped__)
  return ''.join(map(_of_layer, layers))


def _of_layer(function: Callable) -> str:
  """The source of a function or of one decorator around it, its defaults, and what it closes over."""
  cells = [cell.cell_contents for cell in getattr(function, '__closure__', None) or ()]
  held = [getattr(value, '__qualname__', value) for value in cells]
  defaults = [getattr(function, name, None) for name in ('__defaults__', '__kwdefaults__')]
  owner = getattr(function, '__self__', None)
  of_owner = vars(owner) if hasattr(owner, '__dict__') and not inspect.ismodule(owner) else None
  return _text(function) + _values((held, defaults, of_owner))


def _text(function: Any) -> str:
  """The source; where there is none, the compiled code."""
  try:
    return textwrap.dedent(inspect.getsource(function))
  except (OSError, TypeError):
    code = getattr(function, '__code__', None)
    return repr((code.co_code, code.co_consts, code.co_names)) if code else _values(function)


def _values(held: Any) -> str:
  """Values as text that is the same in every process: without places in memory, or the order of a set.

  Arrays are told by their bytes, for NumPy's own text leaves out the middle of long ones.
  """
  if isinstance(held, Mapping):
    return f'{{{", ".join(sorted(f"{_values(key)}: {_values(x)}" for key, x in held.items()))}}}'
  if isinstance(held, set | frozenset):
    return f'{{{", ".join(sorted(map(_values, held)))}}}'
  if isinstance(held, list | tuple):
    return f'({", ".join(map(_values, held))})'
  if hasattr(held, 'dtype') and hasattr(held, 'shape'):
    with contextlib.suppress(TypeError, ValueError, RuntimeError):  # such as keys of JAX
      array = np.asarray(held)
      known = array.tobytes() if array.dtype != object else _values(array.tolist()).encode()
      return f'{array.dtype}{array.shape} {hashlib.sha256(known).hexdigest()}'
  return re.sub(r' at 0x[0-9a-f]+', '', repr(held))


def check(config: ConfigDict, given: Mapping[str, Any]) -> None:
  """Refuses objects that are not those which a config was made with.

  Raises:
    ConfigError: one is missing, is not known, or is another one.
  """
  known = config.given.to_dict() if 'given' in config else {}
  if missing := sorted(known.keys() - given.keys()):
    raise ConfigError(
        f'config.given has {missing}, objects of Python that no file holds; hand them over again with '
        'rlx.finetune(..), in the same workdir'
    )
  now = digests(given)
  if changed := configs.differences(known, now):
    raise ConfigError(f'config.given: other objects than the config was made with ({"; ".join(changed)})')
