"""The value of stories (`envs/stories.py`) as a model of a run."""

from rlx.envs.stories import StoryValue
from rlx.models.model import Model


def story_value(*, hidden: tuple[int, ...]) -> Model:
  """What readers make of surprise and coherence; it begins with 0 for all.

  Args:
    hidden: sizes of the layers.
  """
  value = StoryValue(hidden=tuple(hidden))
  return Model(functions=value, init=lambda key, models: value.init(key))
