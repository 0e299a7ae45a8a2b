"""Named models of a run: how their parameters begin, what they stand on, and what is seen under their names.

An entry of a config's `models` builds either functions with an `init` of their own (a `Network`, a `Policy`,
a `LanguageModel`), or a `Model`: functions, and what they have to do with other models. There are three such
relations, and they are kept apart:

- *copied from*: `init` is given other models, once, when the run begins (a drafter, a critic);
- *stands on*: `view` is given other models at every call, and gradients reach those that are trained (LoRA, a
  head on a shared trunk);
- *made of*: the same, without parameters of its own (`init` is None).

A model is asked for by a role, the name of a parameter of the function that makes it. Roles are names of
models; `names: {role: model}` in the section says otherwise.
"""

from collections.abc import Callable, Mapping
import dataclasses
from pathlib import Path
from typing import Any

import jax

from rlx.types import Key, Models

Params = Any


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Model:
  """Functions, and how their parameters come to be.

  Attributes:
    functions: what is given to those who ask for the model by its name.
    init: `(key, models) -> parameters`; `models` are those that it asked for, by their roles, as they are
      seen. None for a model that is made of others alone.
    stands_on: the roles that `view` asks for; the others are copied from at the start.
    view: `(parameters, models) -> parameters`, as the functions take them.
    load: `mesh -> parameters`, in their shards, of a model that begins from files; its `init` then gives the
      structure. None for one that does not.
    source: what it begins from, for people: a directory; '' for nothing.
    save: `(directory, parameters, models) -> the folders written`, for other tools; None where there
      is no such format. Parameters and models as for `view`.
    axes: what the trailing axes of its parameters mean, by the last name on their path; see `sharding.py`.
    made_for: the task or environment that it was trained in, where that was another run; None for a new one.
  """

  functions: Any
  init: Callable[[Key, Models], Params] | None
  stands_on: tuple[str, ...] = ()
  view: Callable[[Params, Models], Params] = lambda own, models: own
  load: Callable[[jax.sharding.Mesh], Params] | None = None
  source: str = ''
  save: Callable[[Path, Params, Models], tuple[Path, ...]] | None = None
  axes: Mapping[str, tuple] = dataclasses.field(default_factory=dict)
  made_for: Any = None


def as_model(made: Any) -> Model:
  """The `Model` of what an entry of `models` has built: functions with an `init(key)`, or a `Model` already.

  Raises:
    ValueError: it is neither.
  """
  if isinstance(made, Model):
    return made
  if not hasattr(made, 'init'):
    raise ValueError(f'{type(made).__name__} has no init: a model is a Network, a Policy, .. or a Model')
  axes = made.axes if hasattr(made, 'axes') else {}
  return Model(functions=made, init=lambda key, models: made.init(key), axes=axes)
