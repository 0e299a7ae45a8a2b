"""From a name in a config to the function that it means, without a registry."""

from collections.abc import Callable
import difflib
import importlib
import pkgutil

from rlx.errors import ConfigError


def resolve(name: str, package: str) -> Callable:
  """The function that a name in a config means.

  `grpo` in `rlx.algorithms` is the function `grpo` of the module `rlx.algorithms.grpo`, or else of the module
  `rlx.algorithms` itself; a name with dots, such as `yours.algorithms.mine`, is looked up from the top.

  Raises:
    ConfigError: there is no such module or function.
  """
  path = name if '.' in name else f'{package}.{name}'
  function = path.rpartition('.')[2]
  for module_name in (path, path.rpartition('.')[0]):
    try:
      module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
      if not module_name.startswith(error.name or ''):
        raise  # the module is there, and imports something that is not
      continue
    if callable(found := getattr(module, function, None)):
      return found
  siblings = getattr(importlib.import_module(package), '__path__', None)
  names = [module.name for module in pkgutil.iter_modules(siblings)] if siblings else []
  nearest = difflib.get_close_matches(function, names, n=1)
  hint = f'; did you mean {nearest[0]!r}?' if nearest else ''
  raise ConfigError(f'name={name!r}: there is no function {function!r} in {path}{hint}')
