"""Comparisons that are bought in rounds or beside a reference, in worlds whose true reward is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold
from rlx.rollout.gold import against, rounds

POLICY = gold.LogLinear()
WORLDS = gold.gold_worlds(num_prompts=3, num_answers=5, width=4, hump=0.0, hidden=0.0, spread=1.0)
WORLD = jax.jit(WORLDS.make)(jax.random.key(0))
BASE = POLICY.init(WORLD)
FAR = {**BASE, 'theta': jnp.array([5.0, 0, 0, 0])}


def drawn(rollout, policies):
  """The batches of steps with these policies, one after the other, and the memory behind each."""
  draw = jax.jit(rollout)
  memory, batches, memories = rollout.begin(jax.random.key(1)), [], []
  for step, policy in enumerate(policies):
    batch, memory = draw({'world': WORLD, 'policy': policy, 'reference': BASE}, memory, jax.random.key(step))
    batches.append(jax.device_get(batch))
    memories.append(jax.device_get(memory['comparisons']['tokens']))
  return batches, memories


@pytest.mark.parametrize('remembered', [True, False])
def test_labels_are_bought_at_the_beginning_of_each_round(remembered):
  rollout = rounds(
      WORLDS, POLICY, batch_size=64, rounds=2, pairs=6, period=2, sharpness=1.0, remembered=remembered
  )
  batches, memories = drawn(rollout, [BASE, BASE, FAR, FAR, BASE, BASE])
  first, second = memories[0][0], memories[2][1]
  assert not memories[0][1].any() and not memories[1][1].any()
  for memory in memories[2:]:
    np.testing.assert_array_equal(memory[0], first)
    np.testing.assert_array_equal(memory[1], second)  # the last round goes on without new labels
  rows = lambda tokens: {tuple(map(tuple, pair)) for pair in tokens.reshape(-1, 2, 2)}
  assert rows(batches[1]['tokens']) <= rows(first)
  later = rows(np.concatenate([x['tokens'] for x in batches[2:]]))
  assert later == rows(np.concatenate([first, second])) if remembered else later <= rows(second)


def test_the_better_answer_stands_first_and_both_answer_one_prompt():
  rollout = rounds(
      WORLDS, POLICY, batch_size=64, rounds=1, pairs=40, period=1, sharpness=float('inf'), remembered=True
  )
  (batch,), _ = drawn(rollout, [BASE])
  prompts, answers = batch['tokens'].T
  np.testing.assert_array_equal(prompts[0::2], prompts[1::2])
  rewards = np.asarray(WORLD.gold)[prompts, answers]
  assert (rewards[0::2] > rewards[1::2]).all()


def test_whose_the_better_answer_is_is_said_and_equal_answers_do_not_count():
  rollout = against(WORLDS, POLICY, POLICY, batch_size=128, sharpness=1.0)
  batch, _ = jax.jit(rollout)({'world': WORLD, 'policy': FAR, 'reference': BASE}, {}, jax.random.key(0))
  prompts, answers = np.asarray(batch['tokens']).T
  says = np.exp(POLICY.logprobs(FAR)).argmax(axis=1)[prompts]  # nearly surely
  same = answers[0::2] == answers[1::2]
  np.testing.assert_array_equal(np.asarray(batch['weights'])[0::2], ~same)
  of_reference = np.asarray(batch['pair_chosen_is_reference'])[0::2] > 0
  other = np.where(of_reference, answers[1::2], answers[0::2])
  assert np.mean((other == says[0::2])[~same]) > 0.9 and 0.1 < of_reference[~same].mean() < 0.9


def test_circular_preferences_have_a_nash_policy_that_nobody_exploits():
  world = gold.circular_worlds(lead_min=0.1, lead_max=0.4).make(jax.random.key(0))
  wins = np.asarray(jax.nn.sigmoid(world.circles[0]))
  np.testing.assert_allclose(wins + wins.T, 1, atol=1e-6)
  leads = np.array([wins[i, (i + 1) % 3] for i in range(3)]) - 0.5
  assert (leads > 0.09).all() and (leads < 0.41).all()
  nash = np.roll(leads, -1) / leads.sum()
  exploited = lambda p: float(gold.exploitability(world, jnp.log(jnp.asarray(p, jnp.float32))[None]))
  assert exploited(nash) == pytest.approx(0, abs=1e-6)
  assert exploited([0.98, 0.01, 0.01]) > 0.08
