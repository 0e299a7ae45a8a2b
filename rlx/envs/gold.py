"""A world of preferences whose true reward is known: what methods gain, pay in KL, and where they overdo it.

Prompts and answers are numbers. An answer to a prompt has features φ(x, y); its gold reward is linear in
them and has a part that no linear model sees. Policies are log-linear, π(y|x) ∝ ref(y|x) exp(φ(x, y) · θ),
and reward models linear; so expectations and divergences are sums over answers, without chance. Labels are
drawn from the gold reward by Bradley and Terry; a policy or a reward model sees the labels alone.

Rows are those of language models: `tokens` [B, 2], a prompt and an answer. So every algorithm that scores
rows runs here unchanged, with `LogLinear` for its policy and `Linear` for its judge.
"""

import dataclasses

import flax.struct
import jax
import jax.numpy as jnp

from rlx.errors import at_least
from rlx.types import Batch, Key


@flax.struct.dataclass
class World:
  """X prompts with K answers each.

  Attributes:
    features: [X, K, D] φ.
    gold: [X, K] the true reward, of mean 0 and variance 1 over the answers of a prompt.
    base: [X, K] log-probs of the reference.
  """

  features: jax.Array
  gold: jax.Array
  base: jax.Array


def gold_world(
    key: Key, *, num_prompts: int, num_answers: int, width: int, hump: float, hidden: float,
    spread: float,
) -> World:
  """A world with normal features, the first of which is good to have up to a point, such as length.

  It adds h (x - 3/2 max(0, x - 1/2)²), which rises where the reference mostly is, and falls where it seldom
  goes: there its logits are lower by 2 max(0, x - 1/2). A linear model of its samples sees it rise.

  Args:
    key: of the world.
    num_prompts: X.
    num_answers: K, at least 2.
    width: D.
    hump: h.
    hidden: standard deviation of what is no function of the features, where that of the rest is 1.
    spread: standard deviation of the reference's logits.
  """
  at_least(2, num_answers=num_answers)
  at_least(0, hump=hump, hidden=hidden, spread=spread)
  keys = jax.random.split(key, 4)
  shape = (num_prompts, num_answers)
  features = jax.random.normal(keys[0], (*shape, width))
  direction = jax.random.normal(keys[1], (width,)) * width**-0.5
  over = jax.nn.relu(features[..., 0] - 0.5)
  gold = features @ direction + hump * (features[..., 0] - 1.5 * over**2)
  gold += hidden * jax.random.normal(keys[2], shape)
  gold = (gold - gold.mean(axis=1, keepdims=True)) / gold.std(axis=1, keepdims=True)
  base = jax.nn.log_softmax(spread * jax.random.normal(keys[3], shape) - 2 * over)
  return World(features=features, gold=gold, base=base)


@dataclasses.dataclass(frozen=True)
class LogLinear:
  """A policy of a world; its parameters are `theta` [D] and the world, which gets no gradient."""

  def init(self, world: World) -> dict:
    """The reference: θ = 0."""
    return {'theta': jnp.zeros(world.features.shape[-1]), 'world': world}

  def logprobs(self, params: dict) -> jax.Array:
    """[X, K] log π(y|x)."""
    world = jax.lax.stop_gradient(params['world'])
    return jax.nn.log_softmax(world.base + world.features @ params['theta'])

  def score(self, params: dict, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """[B, T] log-probs of the answers, which stand in the second column, and entropies; 0 elsewhere."""
    logprobs = self.logprobs(params)
    prompts, answers = batch['tokens'][:, 0], batch['tokens'][:, 1]
    entropy = -jnp.sum(jnp.exp(logprobs) * logprobs, axis=1)
    second = lambda x: jnp.zeros(batch['tokens'].shape).at[:, 1].set(x)
    return second(logprobs[prompts, answers]), second(entropy[prompts])

  def sample(self, params: dict, prompts: jax.Array, key: Key) -> Batch:
    """A row for each of the prompts [B]."""
    logprobs = self.logprobs(params)[prompts]
    answers = jax.random.categorical(key, logprobs)
    drawn = jnp.take_along_axis(logprobs, answers[:, None], axis=1)
    return {**rows_of(prompts, answers), 'sampler_logprobs': jnp.pad(drawn, ((0, 0), (1, 0)))}


@dataclasses.dataclass(frozen=True)
class Linear:
  """A reward model of a world, φ · v; its parameters are `direction` [D] and the world."""

  def init(self, world: World) -> dict:
    """One that says 0."""
    return {'direction': jnp.zeros(world.features.shape[-1]), 'world': world}

  def rewards(self, params: dict) -> jax.Array:
    """[X, K] of all answers."""
    return jax.lax.stop_gradient(params['world'].features) @ params['direction']

  def apply(self, params: dict, batch: Batch) -> jax.Array:
    """[B] of rows."""
    return self.rewards(params)[batch['tokens'][:, 0], batch['tokens'][:, 1]]


def rows_of(prompts: jax.Array, answers: jax.Array) -> Batch:
  """Rows [B, 2] of prompts and answers [B]."""
  num_rows = len(prompts)
  mask = jnp.broadcast_to(jnp.array([[False, True]]), (num_rows, 2))
  return {
      'tokens': jnp.stack([prompts, answers], axis=1).astype(jnp.int32),
      'valid': jnp.ones((num_rows, 2), bool),
      'action_mask': mask, 'prompt_lengths': jnp.ones(num_rows, jnp.int32),
      'groups': jnp.arange(num_rows, dtype=jnp.int32),
  }


def compared(gold: jax.Array, prompts: jax.Array, pairs: jax.Array, key: Key, *, sharpness: float) -> Batch:
  """Rows of comparisons, two behind one another, the preferred one first.

  Args:
    gold: [X, K] true rewards.
    prompts: [N].
    pairs: [N, 2] answers to each.
    key: of the labels: the first is preferred with chance σ(s (r_1 - r_2)).
    sharpness: s; infinitely large ones are never wrong.
  """
  rewards = gold[prompts[:, None], pairs]
  first = jax.random.bernoulli(key, jax.nn.sigmoid(sharpness * (rewards[:, 0] - rewards[:, 1])))
  ordered = jnp.where(first[:, None], pairs, pairs[:, ::-1])
  rows = rows_of(jnp.repeat(prompts, 2), ordered.reshape(-1))
  places = jnp.arange(2 * len(prompts))
  return {**rows, 'groups': places // 2, 'preferred': places % 2 == 0}


def labelled(world: World, key: Key, *, num: int, sharpness: float) -> Batch:
  """Comparisons of answers of the reference, as `compared`: 2 num rows."""
  prompt_key, answer_key, label_key = jax.random.split(key, 3)
  prompts = jax.random.randint(prompt_key, (num,), 0, world.gold.shape[0])
  noise = jax.random.gumbel(answer_key, (num, world.gold.shape[1]))
  pairs = jax.lax.top_k(world.base[prompts] + noise, 2)[1]  # two different ones
  return compared(world.gold, prompts, pairs, label_key, sharpness=sharpness)


def gain(world: World, logprobs: jax.Array) -> jax.Array:
  """[] how much more gold reward a policy [X, K] has than the reference, on average over prompts."""
  return jnp.mean(jnp.sum((jnp.exp(logprobs) - jnp.exp(world.base)) * world.gold, axis=1))


def divergence(world: World, logprobs: jax.Array) -> jax.Array:
  """[] KL(π || ref) in nats, on average over prompts."""
  return jnp.mean(jnp.sum(jnp.exp(logprobs) * (logprobs - world.base), axis=1))


def best(world: World, rewards: jax.Array, *, beta: float) -> jax.Array:
  """[X, K] log-probs of the best policy for rewards [X, K] at a price of β a nat: ref exp(r / β) / Z."""
  return jax.nn.log_softmax(world.base + rewards / beta)
