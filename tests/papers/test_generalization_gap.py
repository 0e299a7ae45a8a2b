"""S204, https://arxiv.org/abs/2312.05742: what is learnt from data of some levels, and tried on others."""

import functools
from typing import NamedTuple

import jax
import numpy as np
import optax
import pytest

from rlx.algorithms.control import dqn
from rlx.algorithms.control.bc import bc
from rlx.algorithms.control.iql import iql
from rlx.data import transitions as datasets
from rlx.envs.control.levels import levels
from rlx.evaluation.levels import generalisation
from rlx.models import networks
from rlx.rollout.control.level_walks import wandering
from rlx.rollout.control.offline import offline
from tests.control import agents

MAX_STEPS = 20
UNSEEN = 1_000_000  # number of the first level that is held out
FEW, MANY = 10, 1000
SHAPE = dict(hidden=(64, 64), activation='relu')
SEEDS, STEPS, EPISODES = 5, 2000, 500


def maze(first_level, num_levels):
  return levels(size=5, first_level=first_level, num_levels=num_levels, max_steps=MAX_STEPS)


def walks(env, random_share, num_envs):
  return wandering(
      env, random_share=random_share, num_envs=num_envs, num_steps=80, discount=0.9, seed=0
  )


@pytest.mark.slow
def test_an_expert_arrives_and_a_wanderer_seldom_does():
  env = maze(0, 100)
  expert, wanderer = (walks(env, share, 20) for share in (0.0, 1.0))
  ended = np.asarray(datasets.episode_ends(expert)).reshape(20, 80)[:, :-1]  # the last steps are cut off
  arrived = np.asarray(expert['terminated']).reshape(20, 80)[:, :-1]
  assert ended.any() and (arrived == ended).all()
  assert wanderer['rewards'].mean() < expert['rewards'].mean() / 2
  with pytest.raises(ValueError, match='random_share=2'):
    walks(env, 2, 1)


@pytest.mark.slow
def test_the_gap_is_that_of_the_returns():
  """Levels in which the policy was not taught differ; with the same levels there is no gap."""
  env, policy = maze(0, 3), networks.categorical(maze(0, 3), **SHAPE)
  numbers = dict(episodes=40, max_steps=MAX_STEPS)
  params = policy.init(jax.random.key(0))
  examined = lambda first: generalisation(env, policy, held_out=lambda: maze(first, 3), **numbers)
  same, other = (jax.jit(examined(first).ask)({'policy': params}, {}) for first in (0, UNSEEN))
  assert same['gap'] == 0
  np.testing.assert_allclose(same['held_out_return'], same['return'])
  np.testing.assert_allclose(other['return'], same['return'])
  np.testing.assert_allclose(other['gap'], other['return'] - other['held_out_return'])
  assert other['gap'] != 0


# --- learning -----------------------------------------------------------------------------------------------


class Returns(NamedTuple):
  """[SEEDS] of the policy's mode: episodes that arrived, of all."""

  seen: np.ndarray
  unseen: np.ndarray

  @property
  def gap(self) -> np.ndarray:
    return self.seen - self.unseen


def cloner(env, rollout):
  policy = networks.categorical(env, **SHAPE)
  return agents.Agent(bc(rollout, policy), policy, {'policy': policy}, {})


def in_sample(env, rollout):
  policy, value = networks.categorical(env, **SHAPE), networks.state_value(env, **SHAPE)
  critic = networks.discrete_critics(env, num=2, **SHAPE)
  algorithm = iql(
      rollout, policy, value, critic, discount=0.9, target_rate=0.01, expectile=0.8, sharpness=10.0,
      weight_max=100.0,
  )
  return agents.Agent(
      algorithm, policy, {'policy': policy, 'value': value, 'critic': critic}, {'target': 'critic'}
  )


def q_learner(env, rollout):
  network = functools.partial(networks.action_values, layer_norm=False, **SHAPE)
  policy = networks.epsilon_greedy(env, network=network, epsilon=0.0)
  algorithm = dqn.dqn(
      rollout, policy, target=dqn.double_target, discount=0.9, huber_delta=1.0, target_period=100
  )
  return agents.Agent(algorithm, policy, {'policy': policy}, {'target': 'policy'})


MAKERS = {'bc': cloner, 'iql': in_sample, 'dqn': q_learner}


@functools.cache
def returns(name, num_levels, num_envs=100, random_share=0.25, steps=STEPS):
  """After learning from 80 `num_envs` rows of `num_levels` levels."""
  env = maze(0, num_levels)
  agent = MAKERS[name](env, offline(walks(env, random_share, num_envs), batch_size=128))
  keys = jax.random.split(jax.random.key(0), SEEDS)
  state, _ = agents.trained(agent, optax.adam(1e-3), keys, steps)
  examined = generalisation(
      env, agent.policy, held_out=lambda: maze(UNSEEN, MANY), episodes=EPISODES, max_steps=MAX_STEPS
  )
  answer = jax.jit(jax.vmap(lambda models: examined.ask(models, {})))(state.params)
  return Returns(np.asarray(answer['return']), np.asarray(answer['held_out_return']))


@pytest.mark.slow
def test_diversity_beats_size():
  """Held-out levels that are solved, of 5 seeds, after data of which a quarter of the moves is random:

      levels  rows      cloning           IQL
      10      8,000     0.194 (0.180)     0.200 (0.184)      median (worst)
      10      32,000    0.196 (0.172)
      1000    8,000     0.702 (0.684)     0.740 (0.724)

  All training levels are solved where there are 10, and 0.81 and 0.80 of 1000: the gap goes from 0.81 and
  0.80 to 0.10 and 0.07.
  """
  few, larger, many = returns('bc', FEW), returns('bc', FEW, num_envs=400), returns('bc', MANY)
  assert few.seen.min() > 0.95
  assert many.unseen.min() > few.unseen.max() + 0.3
  assert abs(np.median(larger.unseen) - np.median(few.unseen)) < 0.1
  assert np.median(few.gap) > 0.6 and np.median(many.gap) < 0.2
  of_iql = returns('iql', FEW), returns('iql', MANY)
  assert of_iql[1].unseen.min() > of_iql[0].unseen.max() + 0.3
  assert np.median(of_iql[0].gap) > 0.6 and np.median(of_iql[1].gap) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize('num_levels', [FEW, MANY])
def test_cloning_is_above_a_q_learner_on_levels_that_neither_has_seen(num_levels):
  """Of 5 seeds, DQN on the same rows solves 0.078 (best 0.100) of the held-out levels after 10 training
  levels and 0.196 (best 0.220) after 1000, where cloning solves 0.194 (worst 0.180) and 0.702 (0.684). The
  gap is not all of it: DQN, which asks for the value of moves that are not in the data, solves 0.41 and 0.19
  of its training levels.
  """
  assert returns('bc', num_levels).unseen.min() > returns('dqn', num_levels).unseen.max()


@pytest.mark.slow
def test_cloning_an_expert_is_as_good_as_in_sample_learning():
  """After 8,000 rows of an expert in 1000 levels: cloning 0.768 (worst 0.740) of the held-out levels, IQL
  0.758 (0.738). That cloning is ahead is less than the seeds differ by; and where a quarter of the moves is
  random, IQL, which can tell them, is ahead: 0.740 to 0.702.
  """
  cloning, of_iql = (returns(name, MANY, random_share=0.0).unseen for name in ('bc', 'iql'))
  assert np.median(cloning) > np.median(of_iql) - 0.03
  assert np.median(cloning) > 0.7
