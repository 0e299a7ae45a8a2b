"""Sections are calls: from a section of a config to what its function makes, with the parts that it asks for.

`name` is the function and the rest are its keyword-only arguments, so that a misspelt or unused value is an
error, and so is a missing one, but for what the signature itself has a default for. What a function needs
beside numbers (the task, the rollout, a model) it asks for by the name of a positional parameter; that is a
*part*, made once, when the first one asks. A nested section with a `name` is a part of its own where the
parameter is positional, and a function with its numbers bound where it is keyword-only. `names: {role:
model}` gives a role to a model of another name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import functools
import inspect
import typing
from typing import Any

from ml_collections import ConfigDict

from rlx import lens
from rlx.errors import ConfigError, did_you_mean, wanted_instead
from rlx.names import PACKAGES, resolve
from rlx.types import StatefulRollout

_OF_MODELS = ('rlx.models.', 'rlx.engine.speaker')  # modules of what models are, and are made into


def is_section(value: Any) -> bool:
  """Whether a value of a config means a function."""
  return isinstance(value, Mapping | ConfigDict) and 'name' in value


class Parts(Mapping):
  """What functions may ask for by name: each part is made when it is first asked for, once.

  A mapping from names to functions without arguments. `asked` are the names of the sections that were.
  """

  def __init__(
      self, sections: Mapping[str, Any], given: Mapping[str, Callable[[], Any]],
      outer: 'Parts | None' = None, check: Callable[[str, Mapping, Any], None] | None = None,
  ):
    """Nothing is made yet.

    Args:
      sections: of the config; those with a `name` are parts.
      given: parts that are no sections.
      outer: asked for what is in neither.
      check: `(name, section, made)`, called with what a section has made; raises where that cannot be used.
    """
    self.asked: set[str] = set()
    self._sections = {name: value for name, value in sections.items() if is_section(value)}
    self._given, self._outer, self._check = given, outer, check
    self._made: dict[str, Any] = {}
    self._making: list[str] = []

  def __getitem__(self, name: str) -> Callable[[], Any]:
    if name not in self:
      raise KeyError(name)
    return functools.partial(self._make, name)

  def __contains__(self, name: object) -> bool:
    here = name in self._given or name in self._sections
    return here or (self._outer is not None and name in self._outer)

  def __iter__(self) -> Iterator[str]:
    return iter({**self._sections, **self._given, **(dict.fromkeys(self._outer) if self._outer else {})})

  def __len__(self) -> int:
    return sum(1 for _ in self)

  def _make(self, name: str) -> Any:
    if name not in self._given and name not in self._sections:
      return self._outer[name]()
    self.asked.add(name)
    if name not in self._made:
      if name in self._making:
        circle = ' -> '.join([*self._making[self._making.index(name):], name])
        raise ConfigError(f'config: {circle} ask for each other in a circle')
      self._making.append(name)
      try:
        self._made[name] = self._given[name]() if name in self._given else self._of_section(name)
      finally:
        self._making.pop()
    return self._made[name]

  def _of_section(self, name: str) -> Any:
    made = build_section(self._sections[name], name, self, PACKAGES.get(name, ('rlx',)))
    if self._check:
      self._check(name, self._sections[name], made)
    return made


def build_section(
    section: Mapping, where: str, parts: Mapping[str, Callable], packages: Iterable[str]
) -> Any:
  """What the function of a section makes; arguments as for `call`."""
  require_named(section, where)
  return call(resolve(section['name'], *packages), section, where, parts, packages)


def functions_of(section: Mapping, where: str) -> list[Callable]:
  """The functions that a section and those inside it name; arguments as for `call`."""
  inside = [function for x in section.values() if is_section(x) for function in functions_of(x, where)]
  return [resolve(section['name'], *PACKAGES.get(where, ('rlx',)), 'rlx'), *inside]


def call(
    function: Callable, section: Mapping, where: str, parts: Mapping[str, Callable] | None = None,
    packages: Iterable[str] = ('rlx',),
) -> Any:
  """Calls a function with the values of a section.

  Args:
    function: positional parameters are sections inside this one, or taken from `parts` by name; keyword-only
      ones that have no default must be in the section, those that have one may be, and the section may hold
      nothing else (`name` and `names` aside). A function that takes any keywords (`**models`) is given what
      their sections make.
    section: of the config.
    where: the section's name, for errors.
    parts: name -> a function without arguments that makes the part.
    packages: where names of sections inside are looked up, before the whole of rlx.
  Raises:
    ConfigError: missing or unknown values, or values that the function refuses.
  """
  require_section(section, where)
  parts, inside = parts or {}, tuple(dict.fromkeys((*packages, 'rlx')))
  parameters = inspect.signature(function).parameters.values()
  kinds = {p.name: p.kind for p in parameters}
  annotations = {p.name: p.annotation for p in parameters}
  any_keyword = inspect.Parameter.VAR_KEYWORD in kinds.values()
  positional = [name for name, kind in kinds.items() if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
  roles = _roles(section, positional, parts, where, function)
  own = {p: section[p] for p in positional if p in section and is_section(section[p])}
  values = {k: v for k, v in section.items() if k not in ('name', 'names') and k not in own}
  if not any_keyword:
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    wanted = {p.name for p in keywords if p.default is p.empty or p.name in values}
    require_keys(values.keys(), wanted, where, f'{function.__name__}()')
    _check_types(values, keywords, where)
  nested = lambda key, value: build_section(value, f'{where}.{key}', parts, inside)
  deep = nested if any_keyword else lambda key, value: bound(value, f'{where}.{key}', inside)
  given = {key: deep(key, value) if is_section(value) else value for key, value in values.items()}

  def part(name: str) -> Any:
    if name in own:
      return nested(name, own[name])
    if name == 'speakers':
      return {role: parts[model]() for role, model in roles.items()}
    made = parts[roles.get(name, name)]()
    _check_kind(made, annotations[name], where, function, roles.get(name, name))
    return lens.uncast(made) if roles and isinstance(made, StatefulRollout) else made

  known = {*parts, *own, *roles, 'speakers'}
  if unknown := [name for name in positional if name not in known]:
    raise ConfigError(
        f'config.{where}: {function.__name__}() asks for {unknown}; write it here, or as a section or '
        f'a model of the run; known parts are {sorted(parts)}'
    )
  try:
    made = function(*(part(name) for name in positional), **given)
  except ConfigError:
    raise
  except ValueError as error:
    raise ConfigError(f'config.{where}: {error}') from error
  if made is None or isinstance(made, bool | int | float | str):
    called = f'{function.__module__}.{function.__name__}()'
    raise ConfigError(f'config.{where}: {called} returned {made!r}, which is no part of a run')
  renamed = {role: model for role, model in roles.items() if role != model}
  return lens.bind(made, renamed) if renamed and not where.startswith('models.') else made


def roles_in(section: Mapping, where: str) -> dict[str, str]:
  """What a section writes under `names`: role -> name of the model; nothing if it has none."""
  if 'names' not in section:
    return {}
  names = section['names']
  if not isinstance(names, Mapping | ConfigDict) or not all(isinstance(x, str) for x in names.values()):
    raise ConfigError(f"config.{where}.names={names!r} is a dictionary, {{'role': 'name of a model'}}")
  return dict(names)


def roles_of(function: Callable, section: Mapping, models: Iterable[str]) -> dict[str, str]:
  """Which models a section's function asks for: role -> name of the model."""
  names = roles_in(section, section['name'])
  positional = [
      p.name for p in inspect.signature(function).parameters.values()
      if p.kind <= p.POSITIONAL_OR_KEYWORD and p.name not in section
  ]
  asked = {name: names.get(name, name) for name in positional}
  if 'speakers' in positional:
    asked |= names
  return {role: name for role, name in asked.items() if name in set(models)}


def _roles(section, positional, parts, where, function) -> dict[str, str]:
  """The section's `names`, where the function asks for these roles and there are such parts."""
  if 'names' not in section:
    return {}
  roles = roles_in(section, where)
  if (unknown := sorted(set(roles) - set(positional))) and 'speakers' not in positional:
    raise ConfigError(f'config.{where}.names has {unknown}, which {function.__name__}() does not ask for')
  if unknown := sorted(set(roles.values()) - set(parts)):
    raise ConfigError(f'config.{where}.names: {unknown} is no model of the run; known are {sorted(parts)}')
  return roles


def bound(value: Mapping, where: str, packages: Iterable[str]) -> Callable:
  """The function that a section means, with the rest of the section bound to it."""
  function = resolve(value['name'], *packages)
  parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
  given = {
      key: bound(x, f'{where}.{key}', packages) if is_section(x) else x
      for key, x in value.items() if key != 'name'
  }
  wanted = {p.name for p in parameters if p.default is p.empty or p.name in given}
  require_keys(given.keys(), wanted, where, f'{function.__name__}()')
  _check_types(given, parameters, where)
  return functools.partial(function, **given) if given else function


def _check_kind(made: Any, annotation: Any, where: str, function: Callable, name: str) -> None:
  """Raises `ConfigError` where a model is of another kind than the parameter is annotated with."""
  is_model = lambda kind: isinstance(kind, type) and kind.__module__.startswith(_OF_MODELS)
  wanted = typing.get_args(annotation) or (annotation,)
  if is_model(type(made)) and all(map(is_model, wanted)) and not isinstance(made, wanted):
    names = ' or '.join(kind.__name__ for kind in wanted)
    raise ConfigError(
        f'config.{where}: {function.__name__}() needs a {names}, and {name!r} is a '
        f'{type(made).__name__}; name another model'
    )


def _check_types(values: Mapping[str, Any], parameters: Iterable[inspect.Parameter], where: str) -> None:
  """Raises `ConfigError` where a value is not of the type that its parameter is annotated with."""
  for parameter in parameters:
    if parameter.name in values and not is_section(value := values[parameter.name]):
      require_type(value, parameter.annotation, f'{where}.{parameter.name}')


def require_type(value: Any, annotation: Any, where: str) -> None:
  """Raises `ConfigError` where a value is not what an annotation says; see `wanted_instead`."""
  if wanted := wanted_instead(value, annotation):
    raise ConfigError(f'config.{where}={_plain(value)!r}: needs {wanted}')


def require_named(value: Any, where: str) -> None:
  """Raises `ConfigError` where a value stands in the place of a section that means a function."""
  if not is_section(value):
    raise ConfigError(f"config.{where}={_plain(value)!r} is no section with a name, {{'name': .., ..}}")


def require_section(value: Any, where: str) -> None:
  """Raises `ConfigError` where a value stands in the place of a section."""
  if not isinstance(value, Mapping | ConfigDict):
    raise ConfigError(f'config.{where}={value!r}: it is a section, which is a dictionary')


def _plain(value: Any) -> Any:
  return value.to_dict() if isinstance(value, ConfigDict) else value


def require_keys(given: Iterable[str], wanted: set[str], where: str, who: str) -> None:
  """Raises `ConfigError` where a section lacks a key or has one that nobody knows."""
  unknown, missing = sorted(set(given) - wanted), sorted(wanted - set(given))
  if unknown:
    hint = did_you_mean(unknown[0], wanted)
    raise ConfigError(f'config.{where} has {unknown}, which {who} does not know{hint}')
  if missing:
    raise ConfigError(f'config.{where} lacks {missing}, which {who} needs')
