"""Episodes of an expert: of problems as they are drawn, or of a few that are always the same."""

import algorithms_table as toy
import jax
import numpy as np
import pytest

from rlx.envs.worlds.rooms import rooms
from rlx.rollout.turns import expert_turns

WORLD = rooms(height=1, width=4, num_mazes=1, loops=0, num_keys=0, held_out_share=0.2)


def shown(num_problems):
  """Prompts of two steps."""
  rollout = expert_turns(
      WORLD, toy.WORLD_POLICY, batch_size=32, turn_tokens=1, max_turns=1, num_problems=num_problems
  )
  draw, world, found = jax.jit(rollout.draw), rollout.begin(jax.random.key(0)), set()
  for key in jax.random.split(jax.random.key(1)):
    data = {} if rollout.data is None else {'data': rollout.data}
    batch, world = draw({}, {**world, **data}, key)
    tokens, lengths = np.asarray(batch['tokens']), np.asarray(batch['prompt_lengths'])
    found |= {tuple(row[:length]) for row, length in zip(tokens, lengths, strict=True)}
  return found


@pytest.mark.slow
def test_so_many_problems_are_shown_and_no_more():
  assert 1 <= len(shown(2)) <= 2 < len(shown(0)), 'without a number there are as many as are drawn'
