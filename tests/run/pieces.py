"""Parts of runs in tests that no module of rlx has; configs name them as functions of another package."""

import jax
import jax.numpy as jnp

from rlx.evaluation.evaluation import Evaluation
from rlx.models.model import Model


def seen() -> Evaluation:
  """How many models there are, and whether there is a world; no model is asked."""
  ask = lambda models, world: {'models': jnp.float32(len(models)), 'memories': jnp.float32(len(world))}
  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def between(first, second, *, share: float) -> Model:
  """A decoder made of two others of one shape: the mean of their weights."""
  mean = lambda x, y: share * x + (1 - share) * y
  return Model(
      functions=first, init=None, stands_on=('first', 'second'), axes=first.axes,
      view=lambda own, models: jax.tree.map(mean, models['first'], models['second']),
  )
