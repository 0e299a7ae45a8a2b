"""The reward of a run whose rollout has it already: that of the world in which its episodes were."""

from rlx.types import Annotate, Batch, Key, Models


def of_world() -> Annotate:
  """The rows as they are. Raises `ValueError` where they have no `rewards`."""

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    if 'rewards' not in batch:
      raise ValueError(
          "reward.name='of_world': these rows are not of a world and have no rewards; take "
          "rollout.name='turns.episodes', or another reward, such as 'verifier'"
      )
    return batch

  return reward
