"""Models of worlds of facts (`envs/facts.py`); the world itself is `gold.world`, a verifier `gold.linear`."""

import jax.numpy as jnp

from rlx.envs import facts
from rlx.envs.gold import Worlds
from rlx.models.model import Model


def stating(world: Worlds) -> Model:
  """A policy that states claims; it begins as the base model, θ = 0.

  Args:
    world: what it stands on.
  """
  return Model(
      functions=facts.Stating(),
      init=lambda key, models: {'theta': jnp.zeros(models['world'].features.shape[-1])},
      stands_on=('world',), view=lambda own, models: {**own, 'world': models['world']},
  )
