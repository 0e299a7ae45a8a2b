"""Rows of the table: policies that decide on several actions at once."""

from agents import Agent, Row
from rows_core import DISCOUNT, SHAPE, values_of_the_mode

from rlx.algorithms.control import sequence_rl
from rlx.models import dynamics as models_of_the_world
from rlx.models import networks


def build_sequence_rl(env):
  policy = sequence_rl.gru_sequence(env, size=16, **SHAPE)
  trained = {
      'policy': policy,
      'critic': networks.critics(env, num=2, layer_norm=False, **SHAPE),
      'temperature': networks.positive(initial=0.1),
      'dynamics': models_of_the_world.ensemble(env, num=1, **SHAPE),
  }
  rollout = sequence_rl.sequences(
      env, policy, length=2, num_envs=4, num_steps=1, capacity=4096, warmup_steps=64, batch_size=64
  )
  algorithm = sequence_rl.sequence_rl(
      rollout, env, *trained.values(), length=2, discount=DISCOUNT, target_rate=0.1, target_entropy=-3.0
  )
  return Agent(algorithm, policy, trained, {'target': 'critic'})


ROWS = [Row('sequence-rl', build_sequence_rl, False, 3e-3, 1500, 1, values_of_the_mode)]
