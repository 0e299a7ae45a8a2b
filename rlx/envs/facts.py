"""A world of facts that a model knows more or less surely: what it states of a subject, and what is true.

Subjects and claims are numbers. Of each claim the base model has a belief, in log-odds, which is calibrated:
that share of what it believes so much is true. What it *states* unasked hangs on its beliefs loosely. A
report is a row of zeros and ones behind its subject, one for each claim, so that it can leave out what it is
not sure of. As in `envs/gold.py`, `Worlds` is the task, each seed has a world of its own, and expectations
are sums. What learns may ask for beliefs, which are the base model's own; never for the truth.
"""

import dataclasses

import flax.struct
import jax
import jax.numpy as jnp

from rlx.envs.gold import Worlds
from rlx.errors import at_least, between
from rlx.types import Batch, Key


@flax.struct.dataclass
class Facts:
  """X subjects with C claims each.

  Attributes:
    features: [X, C, D] φ, the last of which is 1.
    truth: [X, C] bool.
    belief: [X, C] log-odds that the base model gives to a claim when it is asked.
    stated: [X, C] log-odds that it states the claim unasked.
  """

  features: jax.Array
  truth: jax.Array
  belief: jax.Array
  stated: jax.Array


def fact_worlds(
    *, num_prompts: int, num_claims: int, width: int, sure: float, hidden: float, loose: float
) -> Worlds:
  """Worlds of facts with normal features.

  Args:
    num_prompts: X.
    num_claims: C.
    width: D, at least 2.
    sure: standard deviation of beliefs, in log-odds.
    hidden: share of their variance that is no function of the features, in [0, 1].
    loose: share of the variance of what is stated, of 1, that has nothing to do with beliefs, in [0, 1].
  """
  at_least(2, width=width)
  at_least(0, sure=sure)
  between(0, 1, hidden=hidden, loose=loose)

  def make(key: Key) -> Facts:
    feature_key, direction_key, hidden_key, truth_key, stated_key = jax.random.split(key, 5)
    shape = (num_prompts, num_claims)
    features = jax.random.normal(feature_key, (*shape, width)).at[..., -1].set(1)
    direction = jax.random.normal(direction_key, (width - 1,))
    seen = features[..., :-1] @ (direction / jnp.linalg.norm(direction))
    mixed = lambda x, share, key: (1 - share) ** 0.5 * x + share**0.5 * jax.random.normal(key, shape)
    known = mixed(seen, hidden, hidden_key)
    belief = sure * known
    truth = jax.random.bernoulli(truth_key, jax.nn.sigmoid(belief))
    return Facts(features=features, truth=truth, belief=belief, stated=mixed(known, loose, stated_key))

  return Worlds(make=make, action_columns=num_claims)


@dataclasses.dataclass(frozen=True)
class Stating:
  """States each claim with chance σ(stated + φ · θ); its parameters are `theta` [D] and the world."""

  def odds(self, params: dict) -> jax.Array:
    """[X, C] log-odds that a claim is stated."""
    world = jax.lax.stop_gradient(params['world'])
    return world.stated + world.features @ params['theta']

  def score(self, params: dict, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """[B, 1 + C] log-probs of reports and entropies; 0 of the subject."""
    odds = self.odds(params)[batch['tokens'][:, 0]]
    behind = lambda x: jnp.pad(x, ((0, 0), (1, 0)))
    chance = jax.nn.sigmoid(odds)
    entropy = jax.nn.softplus(odds) - chance * odds
    return behind(_chances(odds, batch['tokens'][:, 1:])), behind(entropy)

  def sample(
      self, params: dict, prompts: jax.Array, prompt_lengths: jax.Array, key: Key, *, group_size: int
  ) -> Batch:
    """`group_size` reports of each of the subjects [P, 1], as `Speaker.sample`; all are as long."""
    del prompt_lengths
    asked = jnp.repeat(prompts[:, 0], group_size)
    odds = self.odds(params)[asked]
    said = jax.random.bernoulli(key, jax.nn.sigmoid(odds)).astype(jnp.int32)
    rows = jnp.concatenate([asked[:, None], said], axis=1).astype(jnp.int32)
    return {
        'tokens': rows, 'valid': jnp.ones(rows.shape, bool),
        'action_mask': jnp.broadcast_to(jnp.arange(rows.shape[1]) > 0, rows.shape),
        'prompt_lengths': jnp.ones(len(rows), jnp.int32), 'groups': jnp.arange(len(rows)) // group_size,
        'sampler_logprobs': jnp.pad(_chances(odds, said), ((0, 0), (1, 0))),
    }


def _chances(odds: jax.Array, said: jax.Array) -> jax.Array:
  return -jax.nn.softplus(jnp.where(said > 0, -odds, odds))


def checklist(world: Facts, *, known: float) -> jax.Array:
  """[X, C] bool, the claims that the base model, asked, affirms with a chance of `known` or more."""
  return jax.nn.sigmoid(world.belief) >= known
