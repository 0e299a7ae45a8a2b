"""Rows of the table: policies that decide on several actions at once."""

from agents import Agent, Row
from rows_core import DISCOUNT, SHAPE, values_of_the_mode

from rlx.algorithms.control.sac import sac
from rlx.algorithms.control.sequence_rl import sequence_rl
from rlx.models import dynamics as models_of_the_world
from rlx.models import networks
from rlx.models.sequence import gaussian_head, gru_planner, sequence
from rlx.rollout.control.sequences import sequences


def build_sequence_rl(env):
  planner, head = gru_planner(env, size=16, **SHAPE), gaussian_head(env, size=16)
  pair = sequence(planner, head)
  policy, critic = pair.functions, networks.critics(env, num=2, layer_norm=False, **SHAPE)
  temperature, dynamics = networks.positive(initial=0.1), models_of_the_world.ensemble(env, num=1, **SHAPE)
  rollout = sequences(
      env, policy, length=2, num_envs=4, num_steps=1, capacity=4096, warmup_steps=64, batch_size=64
  )
  parent = sac(
      rollout, env, policy, critic, temperature, discount=DISCOUNT, target_rate=0.1, target_entropy=-3.0
  )
  algorithm = sequence_rl(parent, policy, critic, temperature, dynamics, length=2)
  trained = {
      'planner': planner, 'head': head, 'critic': critic, 'temperature': temperature, 'dynamics': dynamics,
  }
  return Agent(algorithm, policy, trained, {'target': 'critic'}, {'policy': pair})


ROWS = [Row('sequence-rl', build_sequence_rl, False, 3e-3, 1500, 1, values_of_the_mode)]
