"""Text2Reward: SAC on a reward that was written as text, in the place of the environment's own.

What is new is where the reward comes from, `rewards.program`; the environment's own is only what
evaluations report. The algorithm is SAC as it is.

Source: Xie et al., 2023, https://arxiv.org/abs/2309.11489, section 3.
"""

import dataclasses

from rlx.types import Algorithm, Annotate


def text2reward(parent: Algorithm, reward: Annotate) -> Algorithm:
  """Any algorithm, here `sac`, whose batches are paid by `reward`, e.g. `program.shaped`."""
  return dataclasses.replace(parent, reward=reward)
