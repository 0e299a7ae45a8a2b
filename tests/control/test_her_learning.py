"""What hindsight is worth: bits that are flipped at random come to a goal of theirs all the time."""

import jax
import numpy as np
import optax
import pytest

from rlx.algorithms.control.dqn import dqn, max_target
from rlx.envs.control import bit_flip
from rlx.evaluation import episodes as evaluation
from rlx.models import networks
from rlx.rollout.control.replay import hindsight_replay
from tests.control import agents

NUM_BITS, SEEDS, STEPS = 12, 5, 3000
ENV = bit_flip.bit_flip(num_bits=NUM_BITS, max_steps=NUM_BITS)
POLICY = networks.epsilon_greedy(
    ENV, epsilon=0.1,
    network=lambda env: networks.action_values(env, hidden=(64, 64), activation='relu', layer_norm=False),
)


def solved(share):
  """[SEEDS] share of 200 episodes that end in their goal, after 48,000 steps of the environment."""
  rollout = hindsight_replay(
      ENV, POLICY, relabel=bit_flip.relabel, goal_size=NUM_BITS, share=share, horizon=NUM_BITS, num_envs=16,
      num_steps=1, capacity=16_000, warmup_steps=1600, batch_size=128,
  )
  algorithm = dqn(
      rollout, POLICY, target=max_target, discount=0.98, huber_delta=1.0, target_period=50
  )
  agent = agents.Agent(algorithm, POLICY, {'policy': POLICY}, {'target': 'policy'})
  state, _ = agents.trained(agent, optax.adam(1e-3), jax.random.split(jax.random.key(0), SEEDS), STEPS)
  act = lambda params, seen, key: POLICY.mode(params, seen)
  play = lambda params: evaluation.play(ENV, act, params, jax.random.key(1), 200, NUM_BITS)['success']
  return np.asarray(jax.jit(jax.vmap(play))(state.params['policy']).mean(axis=1))


@pytest.mark.slow
def test_goals_in_hindsight_solve_what_waiting_for_the_goal_does_not():
  """12 bits: with 4 goals in hindsight for each that was wanted, all 200 episodes of all 5 seeds arrive. DQN
  alone, which is a share of 0, has seen its goal a few times if at all: none of any seed does."""
  with_hindsight, without = solved(0.8), solved(0.0)
  assert with_hindsight.min() > 0.9, with_hindsight
  assert without.max() < 0.1, without
