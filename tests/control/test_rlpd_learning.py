"""RLPD against SAC from scratch: half of each batch is of a driver's records, from the first update on."""

import jax
import numpy as np
import optax
import pytest

from rlx.algorithms.control.redq import redq
from rlx.algorithms.control.sac import sac
from rlx.rollout.control.mixed import with_dataset
from rlx.rollout.control.replay import replay
from tests.papers import o2o_toy as toy

SCORE = 0.5  # share of episodes that arrive
CHUNKS, STEPS, WARMUP = 12, 100, 400


def steps_to_score(arrived):
  """Environment steps until an evaluation of each seed finds `SCORE`; beyond the run where none does."""
  found = np.concatenate([arrived[:, 1:] >= SCORE, np.ones((len(arrived), 1), bool)], axis=1)
  return (found.argmax(axis=1) + 1) * STEPS + WARMUP


@pytest.mark.slow
def test_records_save_steps_of_the_environment():
  """To arrive in half of the episodes takes a median of 1,300 steps of the environment with the records (400
  of them random, before the first update); one of 5 seeds does not come there within 1,600. SAC from
  scratch comes there on one seed, after 600, and never sees the goal on the others. Neither is steady yet:
  in the last evaluation RLPD's seeds arrive in 100, 97, 12, 3 and 0 %.
  """
  env, data = toy.SPARSE, toy.driven(toy.SPARSE, gain=1.5, noise=0.6, random_share=0.3)
  numbers = {**toy.SAC, 'target_entropy': -2.0}
  store = dict(num_envs=1, num_steps=1, capacity=2000, batch_size=256, warmup_steps=WARMUP)
  two, ten = toy.nets(env, temperature=0.01), toy.nets(env, num=10, temperature=0.01)
  online = replay(env, two.policy, **store)
  arms = {
      'rlpd': (redq(with_dataset(online, data, share=0.5), env, *ten, subset=1, **numbers), ten),
      'sac': (sac(online, env, *two, **numbers), two),
  }
  arrived = {}
  for name, (algorithm, nets) in arms.items():
    _, arrived[name], _ = toy.stage(
        algorithm, toy.fresh(nets._asdict(), jax.random.key(0)), policy=nets.policy, env=env, chunks=CHUNKS,
        steps=STEPS, minibatches=4, key=2, episodes=32, optimizer=optax.adam(5e-4),
    )
  ours, theirs = (steps_to_score(arrived[name]) for name in ('rlpd', 'sac'))
  assert np.median(ours) <= np.median(theirs) - 200
  assert (ours <= theirs).sum() >= 4
