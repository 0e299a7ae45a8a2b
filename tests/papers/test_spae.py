"""SPAE: credit where the answer is found, and none for saying it again."""

import chain_toy
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.advantages import potentials
from rlx.algorithms.grpo import grpo
from rlx.algorithms.spae import shaped, spae
from rlx.losses.anchors import no_kl
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts

TASK = chain_toy.sums(checks=2)
POLICY = chain_toy.policy_for(TASK)
SETTINGS = dict(
    **chain_toy.CLIP, separator=';', probe='#', probe_tokens=1, probe_samples=1, max_steps=5, saturated=0.5,
    alpha=0.5, xi=0.5,
)


def algorithm(rollout=None, reward=None, **changes):
  return spae(rollout, reward, POLICY, TASK, **{**SETTINGS, **changes})


def test_steps_are_told_by_their_separator():
  tokens = jnp.array([[7, 7, 2, 7, 2, 3, 7, 2]])  # 2 separates
  mask = jnp.array([[0, 1, 1, 1, 1, 1, 1, 0]], bool)
  numbers = potentials.step_numbers(tokens, mask, 2)
  assert numbers.tolist() == [[-1, 0, 0, 1, 1, 2, 2, -1]]
  assert potentials.step_counts(tokens, mask, 2).tolist() == [2]
  assert potentials.step_cuts(numbers, 4).tolist() == [[0, 2, 4, 6, 6]]
  assert potentials.at_steps(jnp.array([[5.0, 6]]), numbers).tolist() == [[0, 5, 5, 6, 6, 6, 6, 0]]


def test_the_potential_in_its_corners():
  right, sure = jnp.array([0.0, 0, 1, 1, 0.5]), jnp.array([0.0, 1, 0, 1, 0.5])
  np.testing.assert_allclose(potentials.step_potential(right, sure), [0, -1, 0.5, 1, 0.125])


def test_saturated_steps_take_credit_from_later_ones():
  found = jnp.array([[0.0, 0.9, 0.2, 0.8, 1.0]])
  discounts = potentials.saturation_discount(found, threshold=0.5, alpha=0.5)
  one, two = 1 - (1 - np.exp(-1)) / 2, 1 - (1 - np.exp(-2)) / 2
  np.testing.assert_allclose(discounts, [[1, 1, one, one, two]], rtol=1e-6)


@pytest.mark.parametrize('outcome', [0.0, 0.5])
def test_the_leap_is_largest_and_what_follows_negative(outcome):
  """Five steps of two tokens, the answer known behind the third; then the answer.

  With d = 0, 0, 1, 0, 0 the mean of exp(d) is (e + 4) / 5.
  """
  numbers = jnp.array([[-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, -1]])
  in_step = (numbers >= 0) & (numbers < 5)
  advantages = jnp.where(numbers >= 0, outcome, 0.0)
  found = jnp.array([[0.0, 0, 0, 1, 1, 1]])
  result = np.asarray(shaped(advantages, found, numbers, in_step, saturated=0.5, alpha=0.5, xi=0.5))[0]
  mean = (np.e + 4) / 5
  steps = outcome * np.array([1, 1, 1, 1 - (1 - np.exp(-1)) / 2, 1 - (1 - np.exp(-2)) / 2])
  steps += 0.5 * (np.array([1, 1, np.e, 1, 1]) - mean)
  np.testing.assert_allclose(result, [0, *np.repeat(steps, 2), outcome, outcome, 0], atol=1e-6)
  below = result - result[1:-1].mean()
  assert result[5] == result.max() and (below[7:11] < 0).all() and (outcome or (result[7:11] < 0).all())
  if outcome:
    assert result[9] < result[7] < result[1]


@pytest.mark.slow
def test_probes_are_the_policy_s_own_answers():
  """Potentials against the distribution behind each prefix, one forward pass each."""
  params = chain_toy.MODEL.init(jax.random.key(0))
  problems = TASK.sample(jax.random.key(1), 4, False)
  batch, _ = TASK.demonstrate({}, jax.random.key(1), 4)
  batch = {
      **batch, 'groups': jnp.array([0, 0, 1, 1]), 'rewards': jnp.array([1.0, 0, 1, 1]),
      'answers': problems['answers'],
  }
  made = jax.jit(algorithm().advantage)({'policy': params}, batch, jax.random.key(2))
  separator, mark = TASK.encode(';')[0], TASK.encode('#')[0]
  written, answers, found = np.asarray(batch['tokens']), np.asarray(batch['answers'])[:, 0], np.zeros((4, 6))
  numbers = potentials.step_numbers(batch['tokens'], batch['action_mask'], separator)
  counts = np.asarray(potentials.step_counts(batch['tokens'], batch['action_mask'], separator))
  for row in range(4):
    start = int(batch['prompt_lengths'][row])
    for k in range(6):
      kept = start + 2 * min(k, counts[row])
      tokens = np.zeros(batch['tokens'].shape[1] + 1, np.int32)
      tokens[: kept + 1] = [*written[row, :kept], mark]
      logprobs = np.asarray(chain_toy.logprobs_behind(params, tokens))
      right, sure = np.exp(logprobs[answers[row]]), np.exp(np.sum(np.exp(logprobs) * logprobs))
      found[row, k] = 1.5 * right * sure + 0.5 * right - sure
  outcome = jnp.array([0.5, -0.5, 0, 0])[:, None] * batch['action_mask']
  in_step = batch['action_mask'] & (numbers < counts[:, None])
  how = dict(saturated=0.5, alpha=0.5, xi=0.5)
  wanted = shaped(outcome, jnp.asarray(found, jnp.float32), numbers, in_step, **how)
  inside = np.asarray(wanted)[np.asarray(batch['action_mask'])]
  wanted = (wanted - inside.mean()) / inside.std(ddof=1) * batch['action_mask']
  np.testing.assert_allclose(made['advantages'], wanted, atol=1e-4)
  last = found[np.arange(4), counts]
  np.testing.assert_allclose(made['probe/potential'], last, atol=1e-5)


def test_a_separator_is_one_token():
  with pytest.raises(ValueError, match='2 tokens'):
    algorithm(separator=';#')


@pytest.mark.slow
def test_answers_become_short_at_equal_accuracy():
  """Five seeds whose teacher says the last step up to twice more; 60 steps of 64 rows.

  Tokens of the batches of steps 20 and 40, in the median: 9.1 and 9.0, GRPO 11.0 and 9.7; 11.0 before, 9 is
  what the steps need, and each of the seeds is shorter at both. Accuracy in the batch of step 50: 0.73, 0.92,
  0.97, 0.88, 0.98, GRPO 0.70, 0.94, 0.97, 0.86, 0.98. On the way there SPAE is a little behind: mean reward
  of all steps 0.41, 0.74, 0.81, 0.38, 0.86, GRPO 0.42, 0.79, 0.85, 0.36, 0.88.
  """
  params = chain_toy.taught(2)
  parts = (
      prompts.completions(TASK, POLICY, **chain_toy.SIZES, num_slots=0),
      verifier(TASK, POLICY),
  )
  algorithms = {
      'grpo': grpo(*parts, POLICY, no_kl(), **chain_toy.CLIP, entropy_coef=0.0),
      'spae': algorithm(*parts),
  }
  found = {
      name: chain_toy.run(how, optax.adam(1e-3), params, 60, jax.random.key(2))[1]
      for name, how in algorithms.items()
  }
  mean = lambda name, metric, steps: np.asarray(found[name][metric])[:, steps].mean(axis=1)
  gap = lambda metric, steps: mean('spae', metric, steps) - mean('grpo', metric, steps)
  shorter, accuracy = gap('tokens/response_mean', slice(20, 41)), gap('reward/mean', slice(-15, None))
  assert np.median(shorter) < -0.6 and (shorter < 0).all()
  assert np.median(accuracy) > -0.04
  assert mean('spae', 'reward/mean', slice(0, 3)).max() < 0.6, 'there is nothing to learn'
