"""SuperHF: the best of each group is learnt by heart, with a KL. https://arxiv.org/abs/2310.16763"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.superhf import superhf
from rlx.envs import gold

POLICY = gold.LogLinear()
WORLD = jax.jit(gold.gold_worlds(
    num_prompts=2, num_answers=4, width=3, hump=0.0, hidden=0.0, spread=1.0
).make)(jax.random.key(0))
REFERENCE = POLICY.init(WORLD)
MODELS = {'policy': {**REFERENCE, 'theta': jnp.array([0.5, -1.0, 0.3])}, 'reference': REFERENCE}
PROMPTS, ANSWERS = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 3, 0, 1])
REWARDS = np.array([0.1, 0.9, 0.3, 0.2, 0.0, np.nan])


def value(kl_coef):
  algorithm = superhf(None, None, POLICY, POLICY, kl_coef=kl_coef)
  mask = jnp.asarray(~np.isnan(REWARDS))[:, None]
  rows = gold.rows_of(jnp.asarray(PROMPTS), jnp.asarray(ANSWERS))
  batch = {
      **rows, 'groups': jnp.array([0, 0, 0, 1, 1, 1]), 'rewards': jnp.asarray(REWARDS, jnp.float32),
      'action_mask': rows['action_mask'] & mask,
  }
  batch = algorithm.advantage(MODELS, batch, jax.random.key(0))
  return float(algorithm.loss(MODELS, batch, jax.random.key(0))[0])


def test_the_loss_by_hand():
  """The best rows are the second and the fourth; a row without a reward counts nowhere."""
  logprobs, base = np.asarray(POLICY.logprobs(MODELS['policy'])), np.asarray(WORLD.base)
  nll = -(logprobs[0, 1] + logprobs[1, 3]) / 2
  np.testing.assert_allclose(value(0.0), nll, rtol=1e-5)
  ratios = (logprobs - base)[PROMPTS, ANSWERS][:5]
  np.testing.assert_allclose(value(0.7), nll + 0.7 * np.mean(ratios**2) / 2, rtol=1e-5)
  assert value(0.7) > value(0.0) + 0.01
