"""MSSR: what is remembered of a problem is its baseline, and is forgotten as the policy moves."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.grpo import grpo
from rlx.algorithms.mssr import mssr
from rlx.algorithms.sft import sft
from rlx.controllers import allocation, schedules
from rlx.controllers import prompts as wanted
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.fork import fork
from rlx.losses.anchors import no_kl
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts
from rlx.rollout.curriculum import curriculum
from rlx.step import make_train_step, repeat
from rlx.types import State, check, stateful

ROWS, SEEDS, BEFORE = 64, 5, 2
NUMBERS = dict(
    clip_low=0.2, clip_high=0.2, prior_rate=0.25, prior_strength=2.0, keep_low=0.5, keep_high=0.9, drift=0.1,
    kappa=2.0,
)


class Toy:
  """The fork task, and a decoder for it."""

  def __init__(self, choices, length):
    self.task = fork(choices=choices, length=length, before=BEFORE, after=2, letters=4, held_out_share=0.25)
    model = LanguageModel(TransformerConfig(
        vocab_size=self.task.vocab_size, num_layers=1, width=32, num_heads=2, num_kv_heads=2, head_size=16,
        mlp_size=64, context_length=16, rope_theta=100.0,
    ))
    decoding = Decoding(
        max_tokens=self.task.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0,
        sampler='gumbel', eos_ids=self.task.eos_ids, pad_id=0,
    )
    self.policy = Speaker(
        model=model, decoding=decoding, scoring=Scoring(chunk_tokens=512, packing=None)
    )
    self.reward = verifier(self.task, self.policy)
    self.choices = choices

  def samples(self, num_problems, num_prompts):
    return curriculum(
        self.task, self.policy, num_problems=num_problems, batch_size=ROWS, num_prompts=num_prompts,
        num_slots=0, scores=wanted.everywhere, draw=wanted.without_replacement, allocate=allocation.uniform,
        keep=1.0, prior_rate=0.25, prior_strength=2.0,
        length=functools.partial(schedules.constant, value=self.policy.decoding.max_tokens),
    )

  def mssr(self, num_problems, **changed):
    return mssr(
        self.samples(num_problems, ROWS), self.reward, self.policy, self.task, num_problems=num_problems,
        **{**NUMBERS, 'entropy_scale': 0.4, **changed},
    )

  def undecided(self):
    """Some policies that know the format, and not what to decide."""

    def sample(key, num, held_out):
      problems = self.task.sample(key, num, held_out)
      digits = jax.random.randint(key, (num,), 2, 2 + self.choices)
      return {**problems, 'solutions': problems['solutions'].at[:, BEFORE].set(digits)}

    params = jax.vmap(self.policy.model.init)(jax.random.split(jax.random.key(3), SEEDS))
    lessons = prompts.solutions(dataclasses.replace(self.task, sample=sample), self.policy, batch_size=64)
    return run(sft(lessons, self.policy), params, 120, jax.random.key(1))[0]


def run(algorithm, params, steps, key):
  """All seeds side by side: parameters and metrics, [seeds, ...] each."""
  adam, rollout = optax.adam(3e-3), stateful(algorithm.rollout)
  dispatch = repeat(make_train_step(algorithm, adam, epochs=1, minibatches=1, microbatches=1), steps)

  def one(params, seed):
    seed_key = jax.random.fold_in(key, seed)
    state = State(
        step=jnp.int32(0), params={'policy': params}, slow={}, opt_state=adam.init({'policy': params}),
        world=rollout.begin(seed_key), key=seed_key,
    )
    state, metrics = dispatch(state, rollout.data)
    return state.params['policy'], metrics

  return jax.jit(jax.vmap(one))(params, jnp.arange(SEEDS))


SMALL = Toy(choices=4, length=4)


@functools.cache
def two_batches():
  """Two batches of the same 64 problems; the policy moves in between. (policies, batches, what is known)."""
  algorithm = SMALL.mssr(ROWS)

  @jax.jit
  def step(params, world, key):
    models, data = {'policy': params}, algorithm.rollout.data
    batch, world = algorithm.rollout(models, {**world, 'data': data}, key)
    batch = algorithm.advantage(models, algorithm.reward(models, batch, key), key)
    return batch, algorithm.rollout.observe(world, batch)

  params = SMALL.policy.model.init(jax.random.key(0))
  noise = iter(jax.random.split(jax.random.key(5), 99))
  moved = jax.tree.map(lambda x: x + 0.03 * jax.random.normal(next(noise), x.shape), params)
  world = algorithm.rollout.begin(jax.random.key(1))
  # The reward of a random policy is nearly always 0; any other will do.
  algorithm = dataclasses.replace(
      algorithm, reward=lambda models, batch, key: {
          **batch, 'rewards': (batch['rows'] % 3 == 0).astype(jnp.float32)
      }
  )
  first, known = step(params, world, jax.random.key(2))
  second, last = step(moved, known, jax.random.key(3))
  to_host = functools.partial(jax.tree.map, np.asarray)
  return (params, moved), to_host((first, second)), to_host((world['seen'], known['seen'], last['seen']))


@pytest.mark.slow
def test_the_advantage_is_against_what_was_known_before():
  _, batches, known = two_batches()
  for batch, seen in zip(batches, known[:2], strict=True):
    check({name: jnp.asarray(x) for name, x in batch.items()})
    rate = seen.rates.successes / (seen.rates.successes + seen.rates.failures)
    left = batch['rewards'] - rate[batch['rows']]
    expected = (left - left.mean()) / left.std(ddof=1)
    np.testing.assert_allclose(
        batch['advantages'], expected[:, None] * batch['action_mask'], rtol=1e-4, atol=1e-5
    )
  assert np.ptp(known[1].rates.successes) > 0.5, 'the second baseline differs from problem to problem'


@pytest.mark.slow
def test_counts_are_forgotten_as_far_as_the_policy_moved():
  """Against NumPy: the first time nothing is forgotten beyond ρ_max, then by the k3 of the old completion."""
  (_, moved), (first, second), (begun, between, last) = two_batches()
  np.testing.assert_allclose(first['kept'], NUMBERS['keep_high'], atol=1e-6)
  now, _ = SMALL.policy.score(moved, {name: jnp.asarray(x) for name, x in first.items()})
  gap = np.where(first['action_mask'], np.asarray(now) - first['sampler_logprobs'], 0)
  drift = (np.exp(gap) - 1 - gap).sum(axis=1) / first['action_mask'].sum(axis=1)
  kept_of = dict(zip(first['rows'], 0.9 - 0.4 * np.minimum(drift / NUMBERS['drift'], 1), strict=True))
  kept = np.array([kept_of[row] for row in second['rows']])
  np.testing.assert_allclose(second['kept'], kept, atol=1e-4)
  assert 0.5 <= kept.min() < kept.max() - 0.05
  steps = (first, begun, between, np.full(ROWS, 0.9)), (second, between, last, kept)
  for batch, before, after, kept in steps:
    rows, rewards = batch['rows'], batch['rewards']
    alpha = kept * before.rates.successes[rows] + rewards
    beta = kept * before.rates.failures[rows] + 1 - rewards
    np.testing.assert_allclose(after.rates.successes[rows], alpha, rtol=1e-4)
    np.testing.assert_allclose(after.rates.failures[rows], beta, rtol=1e-4)


@pytest.mark.slow
def test_the_loss_is_that_of_the_shaped_advantage():
  """On policy the loss is minus the mean of A + min(c H, |A| / κ); without c it is GRPO's."""
  (params, _), (first, _), _ = two_batches()
  batch = {name: jnp.asarray(x) for name, x in first.items()}
  loss = lambda algorithm: algorithm.loss({'policy': params}, batch, jax.random.key(0))[0]
  entropy = np.asarray(SMALL.policy.score(params, batch)[1])
  plain = first['advantages']
  shaped = plain + np.minimum(0.4 * entropy, np.abs(plain) / 2)
  expected = -(first['weights'] * shaped).sum(axis=1).mean()
  np.testing.assert_allclose(loss(SMALL.mssr(ROWS)), expected, rtol=1e-4)
  parent = grpo(None, None, SMALL.policy, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  np.testing.assert_allclose(loss(SMALL.mssr(ROWS, entropy_scale=0.0)), loss(parent), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('wrong', [dict(keep_low=0.95), dict(keep_high=1.5), dict(drift=0.0)])
def test_bounds_that_are_none(wrong):
  with pytest.raises(ValueError, match='need 0 <= low <= high <= 1, drift > 0'):
    SMALL.mssr(ROWS, **wrong)


@pytest.mark.slow
def test_more_prompts_a_batch_learn_faster_than_groups():
  """Five seeds, 240 steps of 64 rows: 64 prompts once each, or 8 of them eight times; same beginnings.

  Measured, mean reward of all steps: median 64 % (worst 47 %), with groups 36 % (21 %).

  The other claim does not show here. Without the entropy term it is 77 % (63 %), and the entropy, which falls
  as the answer is found, ends at 0.03 nats, with the term at 0.04: up to its bound c H_t is a baseline, which
  moves no expectation, and beyond it a half of |A|, which favours what was right.
  """
  params = SMALL.undecided()
  grouped = grpo(
      SMALL.samples(192, 8), SMALL.reward, SMALL.policy, no_kl(), clip_low=0.2, clip_high=0.2,
      entropy_coef=0.0,
  )
  found = {
      name: np.asarray(run(algorithm, params, 240, jax.random.key(2))[1]['reward/mean']).mean(axis=1)
      for name, algorithm in (('single', SMALL.mssr(192)), ('grouped', grouped))
  }
  assert np.median(found['single']) > np.median(found['grouped']) + 0.1
