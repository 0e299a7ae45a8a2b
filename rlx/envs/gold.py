"""A world of preferences whose true reward is known: what methods gain, pay in KL, and where they overdo it.

Prompts and answers are numbers. An answer to a prompt has features φ(x, y); its gold reward is linear in
them and has a part that no linear model sees. Policies are log-linear, π(y|x) ∝ ref(y|x) exp(φ(x, y) · θ),
and reward models linear; so expectations and divergences are sums over answers, without chance. Labels are
drawn from the gold reward by Bradley and Terry; a policy or a reward model sees the labels alone.

Rows are those of language models: `tokens` [B, 2], a prompt and an answer. So every algorithm that scores
rows runs here unchanged, with `LogLinear` for its policy and `Linear` for its judge. In a config a family of
worlds (`Worlds`) is the task, and each seed has one of its own, the model `world` (`models/gold.py`).
"""

from collections.abc import Callable, Sequence
import dataclasses
import functools

import chex
import flax.struct
import jax
import jax.numpy as jnp

from rlx.errors import above, at_least, between
from rlx.types import Batch, Key


@flax.struct.dataclass
class World:
  """X prompts with K answers each.

  Attributes:
    features: [X, K, D] φ.
    gold: [X, K] the true reward, of mean 0 and variance 1 over the answers of a prompt.
    base: [X, K] log-probs of the reference.
    circles: [X, K, K] how much the first of two answers is preferred beyond its reward, in log-odds; the
      reverse for the two exchanged. Preferences that go in circles have no reward. None for nothing.
    other: [X, K] another true reward, which is in the first one's way. None for nothing.
    checks: [X, K, C] bool, which of several checks an answer passes. None for nothing.
    phrasings: [X, K] int32, which of several wordings of its meaning an answer is. None for nothing.
    meanings: [X, K] int32, what an answer means, where several mean the same. None for nothing.
    categories: [X] int32, of prompts. None for nothing.
    shown: [X, N] int32, answers that an expert has given. None for nothing.
    opinions: [X, K] what somebody takes the true reward to be. None for nothing.
  """

  features: jax.Array
  gold: jax.Array
  base: jax.Array
  circles: jax.Array | None = None
  other: jax.Array | None = None
  checks: jax.Array | None = None
  phrasings: jax.Array | None = None
  meanings: jax.Array | None = None
  categories: jax.Array | None = None
  shown: jax.Array | None = None
  opinions: jax.Array | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Worlds:
  """A family of worlds, which a run is about.

  Attributes:
    make: `key -> world`.
  """

  make: Callable[[Key], World]
  prompt_columns: int = 1
  action_columns: int = 1


def gold_worlds(
    *, num_prompts: int, num_answers: int, width: int, hump: float, hidden: float, spread: float
) -> Worlds:
  """The worlds of `gold_world`, each with a key of its own; arguments are those."""
  how = {'num_prompts': num_prompts, 'num_answers': num_answers, 'width': width}
  return Worlds(make=functools.partial(gold_world, **how, hump=hump, hidden=hidden, spread=spread))


def two_sided_worlds(*, num_prompts: int, num_answers: int, width: int, conflict: float) -> Worlds:
  """Worlds of two rewards that are linear in the features, of mean 0 and variance 1 over a prompt's answers.

  Args:
    num_prompts: X.
    num_answers: K, at least 2.
    width: D, at least 2.
    conflict: in [0, 1], minus the cosine between the directions of the two.
  """
  between(0, 1, conflict=conflict)
  at_least(2, width=width)
  plain = {'num_prompts': num_prompts, 'num_answers': num_answers, 'width': width}

  def make(key: Key) -> World:
    first_key, second_key, base_key = jax.random.split(key, 3)
    world = gold_world(base_key, **plain, hump=0.0, hidden=0.0, spread=1.0)
    first = _unit(jax.random.normal(first_key, (width,)))
    second = jax.random.normal(second_key, (width,))
    aside = _unit(second - (second @ first) * first)
    directions = (first, jnp.sqrt(1 - conflict**2) * aside - conflict * first)
    gold, other = (standard(world.features @ direction) for direction in directions)
    return world.replace(gold=gold, other=other)

  return Worlds(make=make)


def _unit(x: jax.Array) -> jax.Array:
  return x / jnp.linalg.norm(x)


def standard(rewards: jax.Array) -> jax.Array:
  """Rewards [X, K] with mean 0 and variance 1 over the answers of a prompt; 0 where all are the same."""
  deviation = rewards.std(axis=1, keepdims=True)
  return (rewards - rewards.mean(axis=1, keepdims=True)) / jnp.where(deviation > 0, deviation, 1)


def bent_worlds(*, num_prompts: int, num_answers: int, bend: float, tilt: float) -> Worlds:
  """Worlds of two rewards whose front bends inwards: a compromise has less of both than half of the most.

  Answers have two features, both normal: how much of the first reward is traded for the second, u, and how
  well that is done, q. The rewards are σ(q) σ(2u)^b and σ(q) σ(-2u)^b. A log-linear policy moves along both,
  and cannot say one extreme here and the other there.

  Args:
    num_prompts: X.
    num_answers: K, at least 2.
    bend: b, at least 1.
    tilt: how far, along u, the reference's logits lean to the second reward.
  """
  at_least(2, num_answers=num_answers)
  at_least(1, bend=bend)

  def make(key: Key) -> World:
    features = jax.random.normal(key, (num_prompts, num_answers, 2))
    traded, done = features[..., 0], jax.nn.sigmoid(features[..., 1])
    reward = lambda u: done * jax.nn.sigmoid(2 * u) ** bend
    return World(
        features=features, gold=reward(traded), other=reward(-traded),
        base=jax.nn.log_softmax(-tilt * traded),
    )

  return Worlds(make=make)


def opinionated_worlds(
    *, num_prompts: int, num_answers: int, width: int, base_knows: float, other_knows: float
) -> Worlds:
  """Worlds of which the reference and somebody else each know something, and are wrong in ways of their own.

  The true reward, the reference's logits and the `opinions` are linear in the features, with variance 1 over
  the answers of a prompt; what each of the two is wrong by is a direction of its own.

  Args:
    num_prompts: X.
    num_answers: K, at least 2.
    width: D, at least 3.
    base_knows: in [0, 1], the cosine between the direction of the reference's logits and the true one.
    other_knows: in [0, 1], that of the opinions.
  """
  at_least(3, width=width)
  between(0, 1, base_knows=base_knows, other_knows=other_knows)
  plain = {'num_prompts': num_prompts, 'num_answers': num_answers, 'width': width}

  def make(key: Key) -> World:
    base_key, direction_key = jax.random.split(key)
    world = gold_world(base_key, **plain, hump=0.0, hidden=0.0, spread=1.0)
    true, *errors = jnp.linalg.qr(jax.random.normal(direction_key, (width, 3)))[0].T
    seen = lambda knows, error: standard(world.features @ (knows * true + (1 - knows**2) ** 0.5 * error))
    return world.replace(
        gold=standard(world.features @ true), base=jax.nn.log_softmax(seen(base_knows, errors[0])),
        opinions=seen(other_knows, errors[1]),
    )

  return Worlds(make=make)


def tailed_worlds(
    *, sizes: Sequence[int], num_answers: int, width: int, hidden: float, shown: int, beta: float
) -> Worlds:
  """Worlds of categories with many prompts and with few, each with features and a true reward of its own.

  A prompt has the features of its category alone, so nothing is learnt of one category from another. An
  expert has demonstrated answers to each prompt.

  Args:
    sizes: prompts of each category, C of them.
    num_answers: K, at least 2.
    width: features of a category; D is C times that.
    hidden: as for `gold_world`.
    shown: N, demonstrations of a prompt, at least 1.
    beta: of the expert, `best` at this price of a nat.
  """
  at_least(1, shown=shown, sizes_min=min(sizes))
  above(0, beta=beta)
  plain = {'num_prompts': sum(sizes), 'num_answers': num_answers, 'width': width}

  def make(key: Key) -> World:
    base_key, direction_key, noise_key, expert_key = jax.random.split(key, 4)
    world = gold_world(base_key, **plain, hump=0.0, hidden=0.0, spread=1.0)
    categories = jnp.repeat(jnp.arange(len(sizes)), jnp.array(sizes), total_repeat_length=sum(sizes))
    directions = jax.random.normal(direction_key, (len(sizes), width))[categories] * width**-0.5
    rewards = jnp.einsum('xkd,xd->xk', world.features, directions)
    rewards = standard(rewards + hidden * jax.random.normal(noise_key, rewards.shape))
    own = jax.nn.one_hot(categories, len(sizes))
    features = jnp.einsum('xkd,xc->xkcd', world.features, own).reshape(*rewards.shape, -1)
    world = world.replace(features=features, gold=rewards, categories=categories)
    expert = best(world, rewards, beta=beta)
    answers = jax.random.categorical(expert_key, expert, shape=(shown, sum(sizes))).T
    return world.replace(shown=answers)

  return Worlds(make=make)


def paraphrased_worlds(
    *, num_prompts: int, num_meanings: int, num_phrasings: int, width: int, apart: float, hidden: float,
    favoured: float = 0.0,
) -> Worlds:
  """Worlds whose answers are meanings in several wordings, with the same true reward and similar features.

  Args:
    num_prompts: X.
    num_meanings: M, at least 2; an answer is one of M P.
    num_phrasings: P, at least 2.
    width: D.
    apart: standard deviation of what wordings of a meaning differ by, where that of meanings is 1.
    hidden: as for `gold_world`, of meanings.
    favoured: standard deviation of the reference's logits over meanings, where that over answers is 1.
  """
  at_least(2, num_phrasings=num_phrasings)
  at_least(0, apart=apart, favoured=favoured)
  plain = {'num_prompts': num_prompts, 'num_answers': num_meanings, 'width': width}

  def make(key: Key) -> World:
    meaning_key, word_key, base_key = jax.random.split(key, 3)
    meant = gold_world(meaning_key, **plain, hump=0.0, hidden=hidden, spread=1.0)
    each = lambda x: jnp.repeat(x, num_phrasings, axis=1)
    features = each(meant.features)
    features += apart * jax.random.normal(word_key, features.shape)
    gold = each(meant.gold)
    wordings = jnp.broadcast_to(jnp.arange(gold.shape[1]) % num_phrasings, gold.shape)
    liked = each(jax.random.normal(jax.random.fold_in(base_key, 1), meant.gold.shape))
    base = jax.nn.log_softmax(jax.random.normal(base_key, gold.shape) + favoured * liked)
    meanings = jnp.broadcast_to(jnp.arange(gold.shape[1]) // num_phrasings, gold.shape)
    return World(features=features, gold=gold, base=base, phrasings=wordings, meanings=meanings)

  return Worlds(make=make)


def missed_worlds(*, num_answers: int, missed: float, spread: float) -> Worlds:
  """Bandits of one prompt whose best answer the reference all but misses; a feature for each answer.

  The reference says all answers as often but the best one, which has a logit of `missed`. Rewards of the
  others are normal; the best one is ahead of the next one by 1, before they are made `standard`.

  Args:
    num_answers: K, at least 3.
    missed: a logit below 0.
    spread: deviation of the others' rewards.
  """
  at_least(3, num_answers=num_answers)
  at_least(0, spread=spread)
  at_least(0, against=-missed)

  def make(key: Key) -> World:
    gold = jnp.sort(spread * jax.random.normal(key, (1, num_answers)), axis=1)
    gold = gold.at[0, -1].set(gold[0, -2] + 1)
    gold = standard(gold)
    base = jax.nn.log_softmax(jnp.zeros((1, num_answers)).at[0, -1].set(missed))
    return World(features=jnp.eye(num_answers)[None], gold=gold, base=base)

  return Worlds(make=make)


def circular_worlds(*, lead_min: float, lead_max: float) -> Worlds:
  """Bandits of three answers, each of which beats the next one round a circle; all have the same reward.

  The Nash policy says each answer in proportion to the lead in the pair of the other two.

  Args:
    lead_min: the least that the chance of an answer to beat the next one is above 1/2.
    lead_max: the most.
  """
  between(0, 0.5, lead_min=lead_min, lead_max=lead_max)

  def make(key: Key) -> World:
    leads = jax.random.uniform(key, (3,), minval=lead_min, maxval=lead_max)
    around = jnp.roll(jnp.diag(jnp.log(0.5 + leads) - jnp.log(0.5 - leads)), 1, axis=1)
    even = jnp.zeros((1, 3))
    return World(
        features=jnp.eye(3)[None], gold=even, base=jax.nn.log_softmax(even),
        circles=(around - around.T)[None],
    )

  return Worlds(make=make)


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
  gold = standard(gold)
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

  def sample(
      self, params: dict, prompts: jax.Array, prompt_lengths: jax.Array, key: Key, *, group_size: int
  ) -> Batch:
    """`group_size` rows for each of the prompts [P, 1], as `Speaker.sample`; every length is 1."""
    chex.assert_shape(prompts, (len(prompt_lengths), 1))
    asked = jnp.repeat(prompts[:, 0], group_size)
    logprobs = self.logprobs(params)[asked]
    answers = jax.random.categorical(key, logprobs)
    drawn = jnp.take_along_axis(logprobs, answers[:, None], axis=1)
    return {
        **rows_of(asked, answers), 'groups': jnp.arange(len(asked)) // group_size,
        'sampler_logprobs': jnp.pad(drawn, ((0, 0), (1, 0))),
    }


@dataclasses.dataclass(frozen=True)
class Critic:
  """What names a check to an answer, log-linear in its features: `directions` [D, C] and the world."""

  def logprobs(self, params: dict) -> jax.Array:
    """[X, K, C] of the checks that it may name."""
    return jax.nn.log_softmax(jax.lax.stop_gradient(params['world'].features) @ params['directions'])

  def score(self, params: dict, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """[B, 3] log-probs of the checks, which stand in the third column, and entropies; 0 elsewhere."""
    prompts, answers, checks = batch['tokens'].T
    logprobs = self.logprobs(params)[prompts, answers]
    named = jnp.take_along_axis(logprobs, checks[:, None], axis=1)[:, 0]
    third = lambda x: jnp.zeros(batch['tokens'].shape).at[:, 2].set(x)
    return third(named), third(-jnp.sum(jnp.exp(logprobs) * logprobs, axis=1))


@dataclasses.dataclass(frozen=True)
class Twins:
  """Whether answers mean the same: b - mean_d exp(s_d) (φ_d - φ'_d)², of `scales` [D], `bias`, the world."""

  def odds(self, params: dict, prompts: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """Log-odds that answers [...] to prompts [...] mean the same."""
    features = jax.lax.stop_gradient(params['world'].features)
    apart = jnp.square(features[prompts, first] - features[prompts, second])
    return params['bias'] - apart @ jnp.exp(params['scales']) / apart.shape[-1]

  def apply(self, params: dict, batch: Batch) -> jax.Array:
    """[B] of rows of a prompt and two answers [B, 3]."""
    return self.odds(params, *batch['tokens'].T)


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


@dataclasses.dataclass(frozen=True)
class Hidden:
  """A reward model with a layer between, tanh(φ W) · v, of `inner` [D, H], `outer` [H] and the world."""

  def embeddings(self, params: dict) -> jax.Array:
    """[X, K, H] what is read of all answers."""
    return jnp.tanh(jax.lax.stop_gradient(params['world'].features) @ params['inner'])

  def embed(self, params: dict, batch: Batch) -> jax.Array:
    """[B, H] of rows."""
    return self.embeddings(params)[batch['tokens'][:, 0], batch['tokens'][:, 1]]

  def rewards(self, params: dict) -> jax.Array:
    """[X, K] of all answers."""
    return self.embeddings(params) @ params['outer']

  def apply(self, params: dict, batch: Batch) -> jax.Array:
    """[B] of rows."""
    return self.embed(params, batch) @ params['outer']


@dataclasses.dataclass(frozen=True)
class Voters:
  """Reward models side by side; every leaf of their parameters but the world has a leading [M].

  Attributes:
    num: M.
    member: one of them.
    axes: which parameters they have each for themselves, as `vmap`'s `in_axes`.
  """

  num: int
  member: Linear
  axes: dict

  def apply(self, params: dict, batch: Batch) -> jax.Array:
    """[M, B] what each says of rows."""
    return jax.vmap(self.member.apply, (self.axes, None))(params, batch)

  def strength(self, params: dict, batch: Batch) -> jax.Array:
    """[N] by how much the first answers of pairs are ahead of the second, on average over members."""
    rewards = self.apply(params, batch)
    return jnp.mean(rewards[:, 0::2] - rewards[:, 1::2], axis=0)


@functools.partial(jax.jit, inline=True)
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


def compared(
    world: World, prompts: jax.Array, pairs: jax.Array, key: Key, *, sharpness: float, flips: float = 0.0
) -> Batch:
  """Rows of comparisons, two behind one another, the preferred one first.

  Args:
    world: whose preferences they are.
    prompts: [N].
    pairs: [N, 2] answers to each.
    key: of the labels: the first is preferred with chance σ(s (r_1 - r_2 + c_12)).
    sharpness: s; infinitely large ones are never wrong.
    flips: share of labels that are the wrong way round whatever the rewards are, in [0, 1/2].
  """
  between(0, 0.5, flips=flips)
  sure = jax.nn.sigmoid(sharpness * _lead(world, prompts, pairs))
  first = jax.random.bernoulli(key, flips + (1 - 2 * flips) * sure)
  ordered = jnp.where(first[:, None], pairs, pairs[:, ::-1])
  rows = rows_of(jnp.repeat(prompts, 2), ordered.reshape(-1))
  places = jnp.arange(2 * len(prompts))
  return {**rows, 'groups': places // 2, 'preferred': places % 2 == 0}


def _lead(world: World, prompts: jax.Array, pairs: jax.Array) -> jax.Array:
  """[N] log-odds that the first of each pair is preferred, of labels with a sharpness of 1."""
  rewards = world.gold[prompts[:, None], pairs]
  beyond = 0 if world.circles is None else world.circles[prompts, pairs[:, 0], pairs[:, 1]]
  return rewards[:, 0] - rewards[:, 1] + beyond


def exploitability(world: World, logprobs: jax.Array) -> jax.Array:
  """[] how much above 1/2 the best answer wins against a policy [X, K], on average over prompts."""
  rewards = world.gold[:, :, None] - world.gold[:, None, :]
  odds = rewards if world.circles is None else rewards + world.circles
  wins = jnp.sum(jax.nn.sigmoid(odds) * jnp.exp(logprobs)[:, None], axis=2)
  return jnp.mean(wins.max(axis=1)) - 0.5


def labelled(world: World, key: Key, *, num: int, sharpness: float, flips: float = 0.0) -> Batch:
  """Comparisons of answers of the reference, as `compared`: 2 num rows."""
  return preferred(world, world.base, key, num=num, sharpness=sharpness, flips=flips)


def preferred(
    world: World, logprobs: jax.Array, key: Key, *, num: int, sharpness: float, flips: float = 0.0
) -> Batch:
  """Comparisons of two different answers of a policy [X, K], as `compared`: 2 num rows."""
  prompt_key, answer_key, label_key = jax.random.split(key, 3)
  prompts = jax.random.randint(prompt_key, (num,), 0, world.gold.shape[0])
  noise = jax.random.gumbel(answer_key, (num, world.gold.shape[1]))
  pairs = jax.lax.top_k(logprobs[prompts] + noise, 2)[1]
  return compared(world, prompts, pairs, label_key, sharpness=sharpness, flips=flips)


def right(world: World, *, bar: float) -> jax.Array:
  """[X, K] bool, what a rule says of all answers: whether the true reward is above a bar."""
  return world.gold > bar


def gain(world: World, logprobs: jax.Array) -> jax.Array:
  """[] how much more gold reward a policy [X, K] has than the reference, on average over prompts."""
  return jnp.mean(jnp.sum((jnp.exp(logprobs) - jnp.exp(world.base)) * world.gold, axis=1))


def divergence(world: World, logprobs: jax.Array) -> jax.Array:
  """[] KL(π || ref) in nats, on average over prompts."""
  return jnp.mean(jnp.sum(jnp.exp(logprobs) * (logprobs - world.base), axis=1))


def best(world: World, rewards: jax.Array, *, beta: float) -> jax.Array:
  """[X, K] log-probs of the best policy for rewards [X, K] at a price of β a nat: ref exp(r / β) / Z."""
  return jax.nn.log_softmax(world.base + rewards / beta)
