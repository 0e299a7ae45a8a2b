"""WebRL: a regression on advantages under a KL constraint, and a replay that the actor's perplexity filters.

https://arxiv.org/abs/2411.02337
"""

import types

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.webrl import is_familiar, outcome_advantages, webrl
from rlx.evaluation import evolved
from rlx.rollout import pairs

# Two episodes of three columns: turns of two tokens and of one, and one turn of three.
TURNS = jnp.array([[0, 0, 1], [0, 0, 0]])
MASK = jnp.ones((2, 3), bool)
VALUES = jnp.array([[0.2, 0.9, 0.6], [0.5, 0.9, 0.9]])  # inside a turn nothing is read


def advantages(lambda_, mask=MASK):
  outcomes = jnp.array([1.0, 0.0])
  return np.asarray(outcome_advantages(outcomes, VALUES, TURNS, mask, lambda_=lambda_))


def test_an_advantage_is_what_a_turn_added_and_what_became_of_it():
  np.testing.assert_allclose(advantages(0.0), [[0.8, 0.8, 0.4], [-0.5] * 3], rtol=1e-6)
  np.testing.assert_allclose(advantages(1.0), [[0.4, 0.4, 0.4], [-0.5] * 3], rtol=1e-6)
  np.testing.assert_allclose(advantages(0.5), [[0.6, 0.6, 0.4], [-0.5] * 3], rtol=1e-6)


def test_what_is_read_has_no_advantage():
  mask = MASK.at[0, 1].set(False)
  assert advantages(0.5, mask)[0, 1] == 0
  np.testing.assert_allclose(advantages(0.5, mask)[0, ::2], [0.6, 0.4], rtol=1e-6)


def test_only_what_is_neither_known_by_heart_nor_foreign_comes_back():
  logprobs = jnp.log(jnp.array([[0.99, 0.99, 1e-9], [0.7, 0.7, 1e-9], [0.1, 0.1, 1.0]]))
  mask = jnp.array([[True, True, False]] * 3)
  assert is_familiar(logprobs, mask, low=1 / 0.95, high=2.0).tolist() == [False, True, False]


def learning(beta=0.5):
  """WebRL whose models say their parameters: log-probs of tokens, and values before them."""
  scores = types.SimpleNamespace(score=lambda params, batch: (params, jnp.zeros_like(params)))
  critic = types.SimpleNamespace(apply=lambda params, batch: params)
  return webrl(
      None, None, scores, critic, scores, beta=beta, lambda_=0.5, value_coef=0.0, perplexity_min=1 / 0.95,
      perplexity_max=2.0,
  )


def missed(policy, *, rewards, reused):
  reference, values = jnp.full((2, 3), jnp.log(0.7)), jnp.log(VALUES / (1 - VALUES))
  batch = {
      'rewards': jnp.array(rewards), 'turns': TURNS, 'action_mask': MASK, 'valid': MASK,
      'sampler_logprobs': reference, 'reused': jnp.array(reused),
  }
  models = {'policy': policy, 'reference': reference, 'value': values}
  batch = learning().advantage(models, batch, jax.random.key(0))
  return float(learning().loss(models, batch, jax.random.key(0))[0]), batch


def test_the_loss_is_nothing_where_turns_are_tilted_by_their_advantages():
  reference = jnp.full((2, 3), jnp.log(0.7))
  loss, batch = missed(reference, rewards=[1.0, 0.0], reused=[False, False])
  assert loss > 0.01
  tokens_of_turn = jnp.array([[2, 2, 1], [3, 3, 3]])
  tilted = reference + batch['advantages'] / 0.5 / tokens_of_turn  # A / β, over the tokens of a turn
  np.testing.assert_allclose(missed(tilted, rewards=[1.0, 0.0], reused=[False, False])[0], 0, atol=1e-10)


def test_of_old_episodes_only_successes_that_are_familiar_count():
  known, foreign = jnp.full((2, 3), jnp.log(0.7)), jnp.full((2, 3), jnp.log(0.1))
  weights = lambda policy, rewards: np.asarray(
      missed(policy, rewards=rewards, reused=[False, True])[1]['weights'].sum(axis=1)
  )
  assert weights(known, [0.0, 1.0])[1] > 0 and weights(known, [0.0, 0.0])[1] == 0
  assert weights(foreign, [0.0, 1.0])[1] == 0 < weights(foreign, [0.0, 1.0])[0]


def outcomes(rewards):
  """Rows of a rollout, and a reward that says these of them."""
  return lambda models, world, key: ({'rows': jnp.arange(3)}, world), lambda models, batch, key: {
      **batch, 'rewards': jnp.array(rewards)
  }


def test_a_verdict_is_whether_the_reward_is_that_of_a_success():
  rows, _ = pairs.verdicts(*outcomes([0.0, 0.5, 1.0]), success=0.5)({}, {}, jax.random.key(0))
  assert rows['preferred'].tolist() == [False, True, True]


def test_what_is_asked_is_as_hard_as_what_has_failed_in_its_share():
  """Fresh tasks have one goal; of those that are remembered two have two, and the third place is empty."""
  task = types.SimpleNamespace(sample=lambda key, num, held_out: {'goals': jnp.ones(num)})
  failed = {'rows': {'goals': jnp.array([2, 2, 0])}, 'size': 2}
  goals = lambda share, world: float(
      evolved.asked(task, of='goals', share=share, problems=4).ask({}, world)['goals']
  )
  assert goals(0.25, {'failed': failed}) == 0.25 * 2 + 0.75
  assert goals(0.0, {'failed': failed}) == goals(0.25, {}) == 1.0
  assert goals(0.25, {'failed': {**failed, 'size': 0}}) == 1.0
