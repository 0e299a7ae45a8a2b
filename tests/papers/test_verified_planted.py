"""Verifier against cloning: the gap widens with the token budget, and only where experts differ."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.grpo import grpo
from rlx.algorithms.sft import sft
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.planted import planted
from rlx.losses.anchors import no_kl
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.toys import tokens_left
from rlx.rollout import prompts
from rlx.step import make_train_step, repeat
from rlx.types import State

SEEDS, LENGTH, GROUP_SIZE = 5, 2, 8


def run(algorithm, optimizer, steps):
  """All seeds side by side: (params, key) -> parameters, [seeds, ...] each."""
  dispatch = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1), steps)

  def one(params, seed, key):
    state = State(
        step=jnp.int32(0), params={'policy': params}, slow={}, opt_state=optimizer.init({'policy': params}),
        world={}, key=jax.random.fold_in(key, seed),
    )
    return dispatch(state)[0].params['policy']

  mapped = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
  return lambda params, key: mapped(params, jnp.arange(SEEDS), key)


def compare(budget, heterogeneity):
  """Tokens left [seeds] of cloning, of as many steps of which half are GRPO, and of the best of 8 clones."""
  task = planted(
      letters=4, length=LENGTH, budget=budget, heterogeneity=heterogeneity, held_out_share=0.25
  )
  model = LanguageModel(TransformerConfig(
      vocab_size=task.vocab_size, num_layers=2, width=32, num_heads=2, num_kv_heads=2, head_size=16,
      mlp_size=64, context_length=16, rope_theta=100.0,
  ))
  decoding = Decoding(
      max_tokens=task.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=task.eos_ids, pad_id=0,
  )
  policy = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=1024, packing=None))
  samples = prompts.completions(task, policy, batch_size=64, group_size=GROUP_SIZE, num_slots=0)
  reward = tokens_left(task, policy)
  cloning = run(sft(prompts.solutions(task, policy, batch_size=64), policy), optax.adam(3e-3), 100)
  verifying = run(
      grpo(samples, reward, policy, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0),
      optax.adam(1e-3), 100,
  )
  many = prompts.completions(task, policy, batch_size=512, group_size=GROUP_SIZE, num_slots=0)

  @jax.jit
  @jax.vmap
  def judged(params):
    batch, _ = many({'policy': params}, {}, jax.random.key(5))
    return reward({}, batch, None)['rewards'].reshape(-1, GROUP_SIZE)

  base = cloning(jax.vmap(model.init)(jax.random.split(jax.random.key(3), SEEDS)), jax.random.key(1))
  clone, verified = cloning(base, jax.random.key(2)), verifying(base, jax.random.key(2))
  of_clone, of_verified = np.asarray(judged(clone)), np.asarray(judged(verified))
  return of_clone.mean(axis=(1, 2)), of_verified.mean(axis=(1, 2)), of_clone.max(axis=2).mean(axis=1)


@pytest.mark.slow
def test_the_gap_widens_with_the_budget_where_experts_differ():
  """Five seeds; 200 steps of cloning, or 100 and then 100 of GRPO, 64 rows each; the unit is the token.

  Measured, tokens left of 2 and of 8 that there can be, medians, with the worst seed of GRPO:

      budget, heterogeneity    cloning    GRPO            best of 8 clones
      4, 1                     1.05       1.95 (1.94)     1.97
      10, 1                    4.05       7.71 (7.64)     7.50
      10, 0                    7.95       7.86 (6.16)     8.00

  Where experts agree there is nothing to gain, and GRPO on few rows can lose.
  """
  found = {(budget, h): compare(budget, h) for budget, h in ((4, 1.0), (10, 1.0), (10, 0.0))}
  gaps = {name: verified - clone for name, (clone, verified, _) in found.items()}
  assert np.median(gaps[4, 1.0]) > 0.5 and np.median(gaps[10, 1.0]) > 2.5 * np.median(gaps[4, 1.0])
  assert gaps[10, 1.0].min() > gaps[4, 1.0].max()
  assert np.median(gaps[10, 0.0]) < 0.3
  best = {name: best - clone for name, (clone, _, best) in found.items()}
  assert best[10, 1.0].min() > best[4, 1.0].max() and best[10, 0.0].max() < 0.3
