"""What a decoder is read as beside tokens: a value of each place, a number of a row, a ratio of policies."""

from collections.abc import Callable
import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp

from rlx.errors import above
from rlx.models import hf
from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.transformer import Params, Places, TransformerConfig
from rlx.types import Models


@dataclasses.dataclass(frozen=True)
class TokenHead:
  """A number for every place in a row, linear in the hidden state there.

  Attributes:
    trunk: the decoder that is read.
  """

  trunk: LanguageModel

  def read(self, params: Params, tokens: jax.Array, places: Places | None = None) -> jax.Array:
    """[B, T] float32 behind each of the tokens [B, T]; `places` as for `transformer.forward`."""
    hidden, _ = self.trunk.forward(params['trunk'], tokens, places)
    return jnp.einsum('btd,d->bt', hidden.astype(jnp.float32), params['value_head'])


@dataclasses.dataclass(frozen=True)
class RowHead:
  """A number for a whole row, linear in the hidden state of its last token.

  Attributes:
    trunk: the decoder that is read.
  """

  trunk: LanguageModel

  def read(self, params: Params, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """[B] float32 of rows [B, T] of which the first `lengths` [B] tokens count."""
    return jnp.dot(self.embed(params, tokens, lengths), params['reward_head'])

  def read_each(self, params: Params, tokens: jax.Array, places: Places) -> jax.Array:
    """[B, T] float32: what `read` says of a row that ends there; `places` as for `transformer.forward`."""
    hidden, _ = self.trunk.forward(params['trunk'], tokens, places)
    return jnp.einsum('btd,d->bt', hidden.astype(jnp.float32), params['reward_head'])

  def embed(self, params: Params, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """[B, D] float32, what the head reads of such rows."""
    hidden, _ = self.trunk.forward(params['trunk'], tokens)
    return jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0].astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class PolicyRatio:
  """A number for every action that has no head: how much likelier a policy makes it than a reference does.

  Attributes:
    trunk: the decoder of both; parameters are `{'policy': .., 'reference': ..}`.
    beta: β, what a nat is worth.
  """

  trunk: LanguageModel
  beta: float


Head = TokenHead | RowHead | PolicyRatio


def init_value(trunk: Params) -> Params:
  """A critic on a copy of a decoder; its head starts at zero, so its values do."""
  return {'trunk': jax.tree.map(jnp.copy, trunk), **_zeros(trunk)}


def value_head(policy: LanguageModel) -> Model:
  """A critic: it begins as a copy of a decoder, with a head that says 0, and goes its own way.

  Args:
    policy: what is copied, by default the model `policy`; another by `names: {'policy': ...}`.
  """
  return Model(
      functions=TokenHead(policy), init=lambda key, models: init_value(models['policy']), axes=policy.axes
  )


def shared_value_head(policy: LanguageModel) -> Model:
  """A critic that stands on another model's decoder: its own parameters are the head alone.

  Where the decoder is trained, the critic's loss has a gradient there.

  Args:
    policy: whose hidden states are read; another model by `names: {'policy': ...}`.
  """
  return Model(
      functions=TokenHead(policy), init=lambda key, models: _zeros(models['policy']), stands_on=('policy',),
      view=lambda own, models: {'trunk': models['policy'], **own},
  )


def reward_head(policy: LanguageModel) -> Model:
  """A reward model: it begins as a copy of a decoder, with a random head of variance 1/D.

  Args:
    policy: what is copied, by default the model `policy`; another by `names: {'policy': ...}`.
  """

  def begin(key, models):
    width = policy.width
    head = jax.random.normal(key, (width,), jnp.float32) * width**-0.5
    return {'trunk': jax.tree.map(jnp.copy, models['policy']), 'reward_head': head}

  save = saver(policy.directory, policy.shape) if policy.directory else None
  return Model(functions=RowHead(policy), init=begin, save=save, axes=policy.axes)


def shared_reward_head(policy: LanguageModel) -> Model:
  """A reward model that stands on another model's decoder: its own parameters are the head alone.

  Where the decoder is trained, as one that writes critiques, the reward model's loss has a gradient there.

  Args:
    policy: whose hidden states are read; another model by `names: {'policy': ...}`.
  """

  def begin(key, models):
    del models
    return {'reward_head': jax.random.normal(key, (policy.width,), jnp.float32) * policy.width**-0.5}

  return Model(
      functions=RowHead(policy), init=begin, stands_on=('policy',),
      view=lambda own, models: {'trunk': models['policy'], **own},
  )


def implicit_reward(policy: LanguageModel, reference: LanguageModel, *, beta: float) -> Model:
  """A reward model that is a policy: r_φ = β log(π_φ / π_ref), of every token and, in sum, of a row.

  It begins as a copy of a decoder. Trained on verdicts of whole rows (`pointwise`) or on comparisons
  (`bradley_terry`, which is then DPO), its rewards of tokens add up to what it has learnt of the row, so that
  each says what its token has added: nobody labels a step. A copy of a decoder from a directory is exported
  as one, which beside the reference and with the same β has the same rewards.

  Args:
    policy: what is copied, by default the model `policy`; another by `names: {'policy': ...}`.
    reference: π_ref, a model of the same shape that stays as it is: the stage holds it in `slow`. Where it is
      what was copied, all rewards are 0 at first.
    beta: β, above 0.
  Source: Yuan et al., 2024, https://arxiv.org/abs/2412.01981, and PRIME, https://arxiv.org/abs/2502.01456,
    eq. 3.
  """
  above(0, beta=beta)
  if policy.shape != reference.shape:
    raise ValueError('the policy that is copied and the reference have to be of one shape; name others')
  save = hf.saver(policy.directory, policy.shape) if policy.directory else None
  return Model(
      functions=PolicyRatio(policy, beta),
      init=lambda key, models: jax.tree.map(jnp.copy, models['policy']), stands_on=('reference',), save=save,
      view=lambda own, models: {'policy': own, 'reference': models['reference']}, axes=policy.axes,
  )


def saver(directory: str, shape: TransformerConfig) -> Callable[..., tuple[Path, ...]]:
  """What writes a reward model as one for sequence classification, beside the tokenizer of its directory.

  Args:
    directory: that its decoder came from.
    shape: of that decoder.
  """

  def save(folder: Path, own: Params, models: Models) -> tuple[Path, ...]:
    del models
    hf.export(directory, folder / 'model', own['trunk'], shape, score=own['reward_head'])
    return (folder / 'model',)

  return save


def _zeros(trunk: Params) -> Params:
  return {'value_head': jnp.zeros(trunk['embedding'].shape[-1], jnp.float32)}
