"""ROSE: it branches where the decision is, credits the tree, and answers become short."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import seeds

from rlx.algorithms.trees import rose
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.fork import fork, undecided
from rlx.losses.anchors import kl_in_reward, no_kl
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts, tree
from rlx.step import collect
from rlx.types import State

BEFORE = 2
TASK = fork(choices=3, length=2, before=BEFORE, after=4, letters=4, held_out_share=0.3)
STRICT = fork(choices=3, length=2, before=BEFORE, after=0, letters=4, held_out_share=0.3)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=16, rope_theta=100.0,
))
RATE = 2e-3
FILLER = ('abcd',)


def policy_for(task):
  decoding = Decoding(
      max_tokens=task.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=task.eos_ids, pad_id=0,
  )
  return Speaker(model=MODEL, decoding=decoding, scoring=Scoring(chunk_tokens=512, packing=None))


def algorithm(task, *, epsilon, length_power):
  policy = policy_for(task)
  looking = tree.explore(
      task, policy, batch_size=64, group_size=8, first_rows=2, rows_per_round=3,
      epsilon=epsilon, synonyms=FILLER,
  )
  return rose(
      looking, verifier(task, policy), policy, no_kl(), clip_low=0.2, clip_high=0.2,
      length_power=length_power, length=4,
  )


def taught(task, num_seeds):
  policy = policy_for(task)
  lessons = prompts.solutions(task, policy, batch_size=64)
  return seeds.taught(lessons, policy, seeds=num_seeds, steps=150, learning_rate=RATE)


@functools.cache
def undecided_policy():
  """It knows the format, and not what to decide: the digits that it is shown are random."""
  lessons = undecided(
      choices=3, length=2, before=BEFORE, after=0, letters=4, held_out_share=0.3, right_share=0.0
  )
  return jax.tree.map(lambda x: x[0], taught(lessons, 1))


def test_a_penalty_does_not_say_what_is_right():
  policy, clip = policy_for(TASK), dict(clip_low=0.2, clip_high=0.2)
  with pytest.raises(ValueError, match='kl_in_loss, not kl_in_reward'):
    rose(None, None, policy, kl_in_reward(policy, coef=0.1), **clip, length_power=0.0, length=4)


@pytest.mark.slow
def test_the_picker_finds_the_decision():
  """The policy is sure neither of the filler nor of the digit; only of the digit does it matter."""
  params, policy = undecided_policy(), policy_for(STRICT)
  problems = STRICT.sample(jax.random.key(5), 40, False)
  batch = jax.jit(functools.partial(policy.sample, group_size=4))(
      params, problems['prompts'], problems['prompt_lengths'], jax.random.key(6)
  )
  counts = batch['action_mask'].sum(axis=1)

  entropies = jax.jit(functools.partial(tree.entropies, policy=policy))

  def found_by(meanings):
    entropy = entropies(params, batch=batch, meanings=meanings)
    pick = functools.partial(tree.entropy_positions, entropy, counts, num_prompts=40, num=1, epsilon=0.0)
    return np.mean(pick(jax.random.key(0))[1] == BEFORE)

  semantic = found_by(tree._meaning_classes(STRICT, FILLER))
  plain = found_by(jnp.eye(STRICT.vocab_size))
  assert semantic > 0.9 and plain < 0.8


@pytest.mark.slow
def test_the_credit_is_at_the_decision():
  """The advantages of tokens, against the values of the prefixes that rows spell out."""
  state = State(
      step=jnp.int32(0), params={'policy': undecided_policy()}, slow={}, opt_state=(), world={},
      key=jax.random.key(8),
  )
  exploring = algorithm(STRICT, epsilon=0.0, length_power=0.0)
  batch = jax.tree.map(np.asarray, jax.jit(functools.partial(collect, exploring))(state))
  start = STRICT.prompt_columns
  said = zip(batch['groups'], batch['tokens'], batch['action_mask'], strict=True)
  rows = [(int(group), *tokens[mask].tolist()) for group, tokens, mask in said]
  through = lambda prefix: [i for i, row in enumerate(rows) if row[: len(prefix)] == prefix]
  value = lambda prefix: batch['rewards'][through(prefix)].mean()
  credit = np.zeros(max(map(len, rows)) - 1)
  for row, advantages in zip(rows, batch['advantages'][:, start:], strict=True):
    change = 0.0
    for t in range(len(row) - 1):
      if t == 0 or len(through(row[: t + 2])) < len(through(row[: t + 1])):  # else the segment goes on
        change = value(row[: t + 2]) - value(row[: t + 1])
        credit[t] += abs(change)
      np.testing.assert_allclose(advantages[t], change, atol=1e-5)
  assert 0 < batch['rewards'].mean() < 1
  assert credit[BEFORE] > 2 * np.delete(credit, BEFORE).max()


@pytest.mark.slow
def test_answers_become_short_at_equal_accuracy():
  """Five seeds, 150 steps of SFT on answers of all lengths, then 80 of 64 rows, with and without the factor.

  Measured, tokens in the last 20 steps: median 4.2 (worst 4.5), without the factor 4.7 (5.6); 6.2 before;
  4 is the shortest. Accuracy: median 96.3 % (worst 95.5 %), without the factor 97.2 % (94.8 %).
  """
  params = taught(TASK, 5)
  found = {
      power: seeds.run(
          algorithm(TASK, epsilon=0.3, length_power=power), optax.adam(RATE), params, 80, jax.random.key(2)
      )[1]
      for power in (0.0, 1.0)
  }
  mean = lambda power, name, steps: np.asarray(found[power][name])[:, steps].mean(axis=1)
  lengths = {power: mean(power, 'tokens/response_mean', slice(None)) for power in found}
  accuracy = {power: mean(power, 'reward/mean', slice(-20, None)) for power in found}
  assert np.median(accuracy[1.0]) > np.median(accuracy[0.0]) - 0.03
  assert np.median(lengths[1.0] - lengths[0.0]) < -0.2 and (lengths[1.0] < lengths[0.0]).sum() >= 4
