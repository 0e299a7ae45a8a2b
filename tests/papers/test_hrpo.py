"""HRPO: inputs that mix a token with what it was drawn from; the gate begins closed, and RL opens it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.grpo import grpo
from rlx.algorithms.hrpo import hrpo
from rlx.algorithms.sft import sft
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.arithmetic import arithmetic
from rlx.envs.text import Task
from rlx.losses.anchors import kl_in_loss
from rlx.models import latent
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import latent as rollouts
from rlx.rollout import prompts
from rlx.step import make_train_step, repeat
from rlx.types import State, check

TASK = arithmetic(min_operand=0, max_operand=9, operators='+', held_out_share=0.2)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=16, rope_theta=100.0,
))
DECODING = Decoding(
    max_tokens=TASK.answer_columns, min_tokens=0, temperature=0.7, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=TASK.eos_ids, pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=512, packing=None))
OPEN, CLOSED = dict(r_min=0.2, r_max=0.6), dict(r_min=1 - 2e-9, r_max=1 - 1e-9)


def hybrid_score(params, batch):
  return rollouts.score(params, MODEL, batch, decoding=DECODING, chunk_size=512)


def policy(gate):
  params_key, gate_key = jax.random.split(jax.random.key(0))
  return latent.init(gate_key, MODEL.init(params_key), **gate)


@functools.cache
def sampled(answer_id=-1):
  problems = TASK.sample(jax.random.key(1), 16, False)
  params = policy(OPEN)
  function = functools.partial(
      rollouts.sample, model=MODEL, group_size=2, decoding=DECODING, answer_id=answer_id, greedy=False
  )
  return params, jax.jit(function)(
      params, prompts=problems['prompts'], prompt_lengths=problems['prompt_lengths'], key=jax.random.key(2)
  )


def test_the_latent_of_two_tokens_by_hand():
  """Probabilities 3/4 and 1/4: (3 E_0 + E_1) / 4 over sqrt(10) / 4."""
  params = policy(OPEN)
  logits = jnp.full(MODEL.vocab_size, -jnp.inf).at[:2].set(jnp.log(jnp.array([0.75, 0.25])))
  first, second = np.asarray(params['embedding'][:2])
  np.testing.assert_allclose(
      latent.latents(params, MODEL, logits), (3 * first + second) / 10**0.5, rtol=1e-5, atol=1e-7
  )
  sure = latent.latents(params, MODEL, 100.0 * jax.nn.one_hot(1, MODEL.vocab_size))
  np.testing.assert_allclose(sure, second, rtol=1e-5, atol=1e-7)


def test_the_mixture_against_the_papers_formula():
  params = policy(OPEN)
  gate = jax.tree.map(lambda x: np.asarray(x, np.float64), params['hybrid'])
  e, h = np.random.default_rng(0).normal(size=(2, 5, MODEL.width))
  sigmoid = lambda x: 1 / (1 + np.exp(-x))
  r = sigmoid(e @ gate['recurrence'] + gate['recurrence_bias'])
  a = np.exp(-8 * np.log1p(np.exp(-gate['decay'])) * r)
  i = sigmoid(e @ gate['input'] + gate['input_bias'])
  mixed = latent.mix(params, *(jnp.asarray(x, jnp.float32) for x in (e, h)))
  np.testing.assert_allclose(mixed, a * e + np.sqrt(1 - a**2) * i * h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('gate', [OPEN, dict(r_min=0.99, r_max=0.999)])
def test_the_gate_begins_between_its_bounds(gate):
  decay = policy(gate)['hybrid']['decay']
  share = np.exp(-8 * jax.nn.softplus(-decay))  # where r = 1
  assert gate['r_min'] - 1e-6 <= share.min() < share.max() <= gate['r_max'] + 1e-6


@pytest.mark.slow
def test_a_gate_that_begins_closed_leaves_the_policy_as_it_was():
  """With 1 - r of 1e-9. The paper's 0.99 to 0.999 moves the log-probs of this random policy by 0.05 in the
  mean, and by up to 0.4: h may be many embeddings long where it is of many tokens."""
  _, batch = sampled()
  apart = lambda gate: np.abs(hybrid_score(policy(gate), batch)[0] - POLICY.score(policy(gate), batch)[0])
  papers = apart(dict(r_min=0.99, r_max=0.999))[np.asarray(batch['action_mask'])]
  assert 0 < apart(CLOSED).max() < 1e-3 < papers.mean() < 0.1
  assert apart(OPEN).max() > 0.05


@pytest.mark.parametrize('answer_id', [-1, 5])
@pytest.mark.slow
def test_training_computes_the_log_probs_of_the_sampler(answer_id):
  params, batch = sampled(answer_id)
  check(batch)
  logprobs, _ = hybrid_score(params, batch)
  np.testing.assert_allclose(logprobs, batch['sampler_logprobs'], atol=2e-5)
  assert np.abs(POLICY.score(params, batch)[0] - batch['sampler_logprobs']).max() > 0.05


@pytest.mark.slow
def test_the_answer_is_read_as_tokens():
  _, batch = sampled(answer_id=5)
  tokens, mask, hybrid = (np.asarray(batch[k]) for k in ('tokens', 'action_mask', 'hybrid'))
  for row in range(len(tokens)):
    actions = np.flatnonzero(mask[row])[:-1]  # the last one is not read
    starts = [t for t in actions if tokens[row, t] == 5]
    before = [t for t in actions if not starts or t < starts[0]]
    assert np.flatnonzero(hybrid[row]).tolist() == before
  assert (hybrid.sum(axis=1) < mask.sum(axis=1) - 1).any()
  assert not np.asarray(batch['latents'])[~hybrid].any()


@pytest.mark.slow
def test_the_gate_has_a_gradient_and_the_latents_have_none():
  params, batch = sampled()
  total = lambda params, h: hybrid_score(params, {**batch, 'latents': h})[0].sum()
  gradient, of_latents = jax.jit(jax.grad(total, argnums=(0, 1)))(params, batch['latents'])
  assert not np.any(of_latents)
  assert all(np.abs(x).max() > 1e-4 for x in gradient['hybrid'].values())


@pytest.mark.slow
def test_what_is_not_read_does_not_count():
  params, batch = sampled(answer_id=5)
  other = {**batch, 'latents': jnp.where(batch['hybrid'][..., None], batch['latents'], 7.0)}
  np.testing.assert_array_equal(hybrid_score(params, other)[0], hybrid_score(params, batch)[0])


def test_an_answer_starts_with_one_token():
  with pytest.raises(ValueError, match="answer_start='12' is 2 tokens"):
    rollouts.completions(TASK, POLICY, batch_size=8, group_size=2, answer_start='12')
  with pytest.raises(ValueError, match='need 0 < r_min <= r_max < 1'):
    policy(dict(r_min=0.9, r_max=1.0))


SEEDS = 5


def run(algorithm, optimizer, params, steps, key):
  """All seeds side by side: parameters and metrics, [seeds, ...] each."""
  dispatch = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1), steps)

  def one(params, seed):
    state = State(
        step=jnp.int32(0), params={'policy': params}, slow={'reference': params},
        opt_state=optimizer.init({'policy': params}), world={}, key=jax.random.fold_in(key, seed),
    )
    state, metrics = dispatch(state)
    return state.params['policy'], metrics

  return jax.jit(jax.vmap(one))(params, jnp.arange(SEEDS))


def with_rates(rate, gate_rate, decay_rate):
  """Adam with rates of their own for the gate's matrices and for Λ, as the authors have."""
  rates = {'rest': rate, 'gate': gate_rate, 'decay': decay_rate}

  def label(path, _):
    names = [entry.key for entry in path]
    return 'decay' if 'decay' in names else 'gate' if 'hybrid' in names else 'rest'

  return optax.partition(
      {name: optax.adam(rate) for name, rate in rates.items()},
      functools.partial(jax.tree_util.tree_map_with_path, label),
  )


NUM_DIGITS, MARK = 6, 8  # tokens 2 to 7, then `=` and `-`


def two_facts() -> Task:
  """`xy=` -> `x-y` or `y-x`, of a decoder that sees three tokens: at the last one neither x nor y is left.

  Which of the two comes first is up to chance, and the distribution that it is drawn from holds both. Drawn,
  it holds one: of tokens alone the other one can be told for as many of the 15 pairs as there are digits.
  """

  def sample(key, num, held_out):
    del held_out
    first_key, second_key, order_key = jax.random.split(key, 3)
    x = jax.random.randint(first_key, (num,), 0, NUM_DIGITS)
    y = (x + jax.random.randint(second_key, (num,), 1, NUM_DIGITS)) % NUM_DIGITS
    pair = 2 + jnp.stack([x, y], axis=1)
    order = jax.random.bernoulli(order_key, shape=(num, 1))
    shown = jnp.where(order, pair, pair[:, ::-1])
    mark = lambda token: jnp.full((num, 1), token)
    return {
        'prompts': jnp.concatenate([pair, mark(MARK)], axis=1),
        'prompt_lengths': jnp.full(num, 3),
        'solutions': jnp.concatenate([shown[:, :1], mark(MARK + 1), shown[:, 1:]], axis=1),
        'pair': jnp.sort(pair, axis=1),
    }

  def verify(problems, completions):
    said = jnp.sort(completions[:, ::2], axis=1)
    return (jnp.all(said == problems['pair'], axis=1) & (completions[:, 1] == MARK + 1)).astype(jnp.float32)

  return Task(alphabet='012345=-', prompt_columns=3, answer_columns=3, sample=sample, verify=verify)


@pytest.mark.slow
def test_the_gate_opens_where_drawing_a_token_loses_something():
  """Five seeds, 200 steps of SFT, then 400 of 128 rows with β = 0.1, inputs of tokens alone and hybrid.

  Tokens alone can reach 40 %. Measured in the last 20 steps: tokens alone median 35 %, best 36 %; hybrid
  median 83 %, worst 29 %, above tokens alone for four of five. The token's share a goes from 0.96 to 0.52 in
  the median; on the worst seed it stays (0.94). Without the KL to the reference all policies soon say the
  same one of the two first, its distribution then holds no more than the token does, and the gate stays
  shut. Gates and Λ have rates of their own, 5 and 25 times that of the rest (authors' code: 20 and 200).
  """
  task = two_facts()
  model = LanguageModel(TransformerConfig(
      vocab_size=task.vocab_size, num_layers=1, width=32, num_heads=2, num_kv_heads=2, head_size=16,
      mlp_size=64, context_length=8, rope_theta=100.0, window=3, sliding_layers=(0,),
  ))
  plain = dataclasses.replace(POLICY, model=model).saying(max_tokens=3, temperature=1.0)
  params = jax.vmap(model.init)(jax.random.split(jax.random.key(3), SEEDS))
  lessons = prompts.solutions(task, plain, batch_size=128)
  taught, _ = run(sft(lessons, plain), optax.adam(5e-3), params, 200, jax.random.key(1))
  gate = functools.partial(latent.init, r_min=0.9, r_max=0.95)
  gated = jax.vmap(gate)(jax.random.split(jax.random.key(4), SEEDS), taught)
  sizes, clip = dict(batch_size=128, group_size=8), dict(clip_low=0.2, clip_high=0.2)
  judged, kl_coef = verifier(task, plain), 0.1
  samples = prompts.completions(task, plain, **sizes, num_slots=0)
  tokens = grpo(samples, judged, plain, kl_in_loss(plain, coef=kl_coef), **clip, entropy_coef=0.0)
  with_latents = rollouts.completions(task, plain, **sizes, answer_start='')
  mixed = hrpo(with_latents, judged, plain, plain, kl_coef=kl_coef, **clip)
  curves = {
      'tokens': run(tokens, optax.adam(2e-3), taught, 400, jax.random.key(2))[1],
      'hybrid': run(mixed, with_rates(2e-3, 1e-2, 5e-2), gated, 400, jax.random.key(2))[1],
  }
  found = {name: np.asarray(x['reward/mean'])[:, -20:].mean(axis=1) for name, x in curves.items()}
  share = np.asarray(curves['hybrid']['latent/token_share'])
  assert found['tokens'].max() < 0.43
  assert np.median(found['hybrid']) > 0.6 and (found['hybrid'] > found['tokens']).sum() >= 4
  assert np.median(share[:, -1] - share[:, 0]) < -0.2
