"""Lenses: functions that look at models under other names, or through a view.

`through` shows an algorithm the models of a stage as they are seen (a LoRA as its base with adapters).
`bind` gives roles to models: where a section says `names: {'critic': 'policy'}`, what it builds finds under
`models['critic']` the model `policy`. Both are the same thing, a function `models -> models` in front of the
slots; through `track`, which writes, it goes back.
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
from typing import Any

import jax

from rlx.types import Algorithm, HostRollout, Key, Models, StatefulRollout, World

_HIDDEN = ' (by its own name)'  # what a role hides is kept under this, for parts that know nothing of roles

View = Callable[[Models], Models]


def through(view: View, algorithm: Algorithm) -> Algorithm:
  """The algorithm with its slots in front of `view`; `track` sees models' own parameters, as they are."""
  return dataclasses.replace(
      algorithm,
      rollout=rollout(view, algorithm.rollout),
      reward=annotate(view, algorithm.reward),
      advantage=annotate(view, algorithm.advantage),
      loss=lambda models, batch, key: algorithm.loss(view(models), batch, key),
      survey=annotate(view, algorithm.survey),
  )


def annotate(view: View, function):
  """A slot `(models, batch, key) -> batch` in front of a view."""
  return lambda models, batch, key: function(view(models), batch, key)


def bind(part: Any, roles: Mapping[str, str]) -> Any:
  """What a section with `names` has built, with its roles given to models.

  Args:
    part: an `Algorithm`, a rollout, an evaluation, an `Anchor`, or a function of the models.
    roles: role -> name of the model that has it.
  """
  view = functools.partial(cast, roles=roles)
  if isinstance(part, Algorithm):
    return dataclasses.replace(through(view, part), track=_track(part.track, roles))
  if isinstance(part, StatefulRollout):
    return rollout(view, part)
  if hasattr(part, 'ask'):  # an evaluation
    return dataclasses.replace(part, ask=_seeing(view, part.ask))
  if hasattr(part, 'annotate'):  # an anchor
    return dataclasses.replace(part, annotate=_seeing(view, part.annotate))
  return _seeing(view, part)


def _seeing(view: View, function):
  return lambda models, *rest: function(view(models), *rest)


def uncast(part: Any) -> Any:
  """A part as it is handed to one that has roles: it sees every model under its own name again."""
  if isinstance(part, StatefulRollout):
    return rollout(own_names, part)
  return lambda models, *rest: part(own_names(models), *rest)


def cast(models: Models, roles: Mapping[str, str]) -> Models:
  """The models, and those that have roles under these as well."""
  hidden = {role + _HIDDEN: models[role] for role in roles if role in models}
  return {**models, **hidden, **{role: models[name] for role, name in roles.items() if name in models}}


def own_names(models: Models) -> Models:
  """The models under their own names, whatever roles hide."""
  hidden = {name: model for name, model in models.items() if name.endswith(_HIDDEN)}
  plain = {name: model for name, model in models.items() if name not in hidden}
  return {**plain, **{name.removesuffix(_HIDDEN): model for name, model in hidden.items()}}


def rollout(view: View, rollout):
  """A rollout in front of a view."""
  if not isinstance(rollout, StatefulRollout):
    return lambda models, world, key: rollout(view(models), world, key)

  def draw(models: Models, world: World, key: Key):
    return rollout.draw(view(models), world, key)

  def warm_up(models: Models, world: World, key: Key) -> World:
    return rollout.warm_up(view(models), world, key)

  seen = dataclasses.replace(rollout, draw=draw, warm_up=warm_up)
  if isinstance(seen, HostRollout):
    return dataclasses.replace(seen, shapes=_seeing(view, seen.shapes))
  return seen


def _track(track, roles: Mapping[str, str]):
  """`track` under roles; what it writes goes back to the models that have them."""
  role_of = {name: role for role, name in roles.items()}

  def tracked(slow: Models, params: Models, update: jax.Array) -> Models:
    seen = track(cast(slow, roles), cast(params, roles), update)
    at = lambda name: role_of.get(name, name + _HIDDEN if name + _HIDDEN in seen else name)
    return {name: seen[at(name)] for name in slow}

  return tracked
