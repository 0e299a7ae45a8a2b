"""The value of stories (`envs/stories.py`) as a model of a run."""

import jax

from rlx.envs.stories import StoryValue
from rlx.models import mlp
from rlx.models.model import Model


def story_value(*, hidden: tuple[int, ...]) -> Model:
  """What readers make of surprise and coherence, an MLP of both; it begins with 0 for all.

  Args:
    hidden: sizes of the layers.
  """
  begin = lambda key, models: mlp.init(key, (2, *hidden, 1), scale=1.0, final_scale=0.0, layer_norm=False)
  of_event = lambda params, features: mlp.apply(params, features, jax.nn.relu)[..., 0]
  return Model(functions=StoryValue(of_event=of_event), init=begin)
