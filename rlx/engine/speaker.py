"""A language model in a stage of a run: which one, how it speaks, and how its rows are scored.

A control policy is asked with three verbs, `sample, mode, score`; a `Speaker` is a language model with the
same ones. Algorithms, rollouts, rewards and evaluations ask for it by the name of the model, and for the same
one with other decoding by `saying`. A `Critic` is a head on a decoder, read in the same way.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.advantages import groups
from rlx.engine import packing as packings
from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.engine.packing import Packing
from rlx.models.heads import PolicyRatio, RowHead, TokenHead
from rlx.models.language import LanguageModel
from rlx.models.score_table import StoredScores
from rlx.models.transformer import Params
from rlx.types import Batch, Key

_NO_CHANCE_SEED = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring:
  """How rows are scored.

  Attributes:
    chunk_tokens: tokens whose logits exist at one time.
    packing: how rows are put together, so that no padding is computed; as they are if None.
  """

  chunk_tokens: int
  packing: Packing | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speaker:
  """A language model that speaks and scores.

  Attributes:
    model: its functions.
    decoding: how it draws.
    scoring: how rows are scored.
  """

  model: LanguageModel
  decoding: Decoding
  scoring: Scoring

  def saying(self, **changes) -> 'Speaker':
    """The same model with other decoding, e.g. `saying(max_tokens=1)`."""
    return dataclasses.replace(self, decoding=dataclasses.replace(self.decoding, **changes))

  def sample(
      self, params: Params, prompts: jax.Array, prompt_lengths: jax.Array, key: Key, *, group_size: int,
      **how,
  ) -> Batch:
    """Completions of prompts [P, Tp], `group_size` of each; as `engine.sample.sample`, where `how` stands."""
    return engine.sample(
        params, self.model, prompts, prompt_lengths, key, group_size=group_size, decoding=self.decoding, **how
    )

  def mode(self, params: Params, prompts: jax.Array, prompt_lengths: jax.Array) -> Batch:
    """The completion of each prompt [P, Tp] without chance."""
    return engine.sample(
        params, self.model, prompts, prompt_lengths, jax.random.key(_NO_CHANCE_SEED), group_size=1,
        decoding=self.decoding.greedy,
    )

  def score(self, params: Params, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """[B, T] log-probs of actions and entropies of what they were drawn from; as `engine.sample.score`."""
    return engine.score(
        params, self.model, batch, decoding=self.decoding, chunk_size=self.scoring.chunk_tokens,
        packing=self.scoring.packing,
    )

  def next_logits(
      self, params: Params, tokens: jax.Array, lengths: jax.Array, *, prompt_columns: int
  ) -> jax.Array:
    """[R, V] logits of the token behind each row, of the distribution that it is drawn from.

    Args:
      params: of the model.
      tokens: [R, C] int32, read from column 0.
      lengths: [R] int32, at least 1, how many of them count.
      prompt_columns: of them the first so many are the prompt.
    """
    hidden, _ = self.model.forward(params, tokens)
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    return engine.adjusted_logits(params, self.model, self.decoding, last, lengths - prompt_columns)

  def collisions(self, params: Params, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """[B, T] log-probs of actions, and Σ_v π(v)² of what they were drawn from; 0 elsewhere."""
    return engine.token_statistics(
        params, self.model, batch, ('logprobs', 'collision'), decoding=self.decoding,
        chunk_size=self.scoring.chunk_tokens, packing=self.scoring.packing,
    )

  def score_energies(self, params: Params, batch: Batch) -> jax.Array:
    """[B, T] squared norm of the gradient of each action's log-prob by the logits; 0 elsewhere."""
    logprobs, collision = self.collisions(params, batch)
    return jnp.where(batch['action_mask'], groups.score_energies(logprobs, collision), 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Critic:
  """A head on a decoder that says a number of every place in a row.

  Attributes:
    head: its functions.
    scoring: how rows are read.
  """

  head: TokenHead
  scoring: Scoring

  def apply(self, params: Params, batch: Batch) -> jax.Array:
    """What is expected before each token is chosen.

    Args:
      params: of the head and its trunk.
      batch: rows with `tokens` [B, T].
    Returns:
      [B, T] float32; column t sees the tokens before t, column 0 is 0. Packed, only those of actions, and 0
      elsewhere.
    """
    return self._over_rows(functools.partial(self._read, is_behind=False), params, batch)

  def behind(self, params: Params, batch: Batch) -> jax.Array:
    """What is said behind each token, once it is chosen: as `apply`, but column t sees the tokens up to t."""
    return self._over_rows(functools.partial(self._read, is_behind=True), params, batch)

  def _over_rows(self, read, params, batch) -> jax.Array:
    columns = ('tokens',) if self.scoring.packing is None else packings.COLUMNS
    rows = {name: batch[name] for name in columns}
    return sharding.over_rows(read, params, rows, **_layout_of(self.head.trunk))

  def _read(self, params, batch, *, is_behind: bool) -> jax.Array:
    """`apply` or `behind` of rows that are together on a device."""
    packing = self.scoring.packing
    if packing is not None:
      layout = packings.lay_out(batch, packing)
      packed = functools.partial(self._packed, is_behind=is_behind)
      return packings.back(packings.over_cells(packed, params, layout, packing)['values'], layout)
    after = self.head.read(params, batch['tokens'])
    return after if is_behind else jnp.pad(after[:, :-1], ((0, 0), (1, 0)))

  def _packed(self, params, layout, *, is_behind: bool) -> dict[str, jax.Array]:
    """Values [rows, C] of the actions in packed rows."""
    values = self.head.read(params, layout.tokens, layout.places)
    if not is_behind:
      values = jnp.take_along_axis(values, layout.sources, axis=1)
    return {'values': jnp.where(layout.action_index >= 0, values, 0)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judge:
  """A head on a decoder that says a number of a whole row, such as a reward model.

  Attributes:
    head: its functions.
    scoring: how rows are read.
  """

  head: RowHead
  scoring: Scoring

  def apply(self, params: Params, batch: Batch) -> jax.Array:
    """[B] float32 for rows with `tokens, valid` [B, T], read up to the last valid token.

    Packed, the rows also have `action_mask, prompt_lengths, groups`.
    """
    if self.scoring.packing is None:
      return self._over_rows(self.head.read, params, batch)
    rows = {name: batch[name] for name in packings.COLUMNS}
    return sharding.over_rows(self._read_packed, params, rows, **_layout_of(self.head.trunk))

  def embed(self, params: Params, batch: Batch) -> jax.Array:
    """[B, D] float32, what the head reads of such rows."""
    return self._over_rows(self.head.embed, params, batch)

  def _over_rows(self, function, params, batch):
    read = lambda params, rows: function(params, *rows)
    rows = (batch['tokens'], batch['valid'].sum(axis=1))
    return sharding.over_rows(read, params, rows, **_layout_of(self.head.trunk))

  def _read_packed(self, params, batch):
    packing = self.scoring.packing
    layout = packings.lay_out(batch, packing)
    read = lambda params, part: {'values': self.head.read_each(params, part.tokens, part.places)}
    values = packings.back(packings.over_cells(read, params, layout, packing)['values'], layout)
    last = batch['valid'].sum(axis=1, keepdims=True) - 1
    return jnp.take_along_axis(values, last, axis=1)[:, 0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImplicitJudge(Judge):
  """A judge that is a policy: its number of a row is the sum of its rewards of the row's tokens.

  Attributes:
    head: its functions, of what it is and what it is compared with.
    scoring: how rows are scored.
    decoding: of the policy that it judges: temperature and filters apply in both log-probs.
  """

  head: PolicyRatio
  decoding: Decoding

  def apply(self, params: Params, batch: Batch) -> jax.Array:
    """[B] float32 β log(π_φ(y) / π_ref(y)) of the actions of each row."""
    return self.of_tokens(params, batch).sum(axis=1)

  def of_tokens(self, params: Params, batch: Batch) -> jax.Array:
    """[B, T] float32 β log(π_φ / π_ref) of each action, 0 elsewhere; π_ref has no gradient.

    Args:
      params: `policy`, φ, and `reference`.
      batch: rows as for `Speaker.score`.
    """
    speaker = Speaker(model=self.head.trunk, decoding=self.decoding, scoring=self.scoring)
    logprobs, _ = speaker.score(params['policy'], batch)
    reference, _ = speaker.score(jax.lax.stop_gradient(params['reference']), batch)
    return self.head.beta * (logprobs - reference)


def _layout_of(model: LanguageModel) -> dict:
  """What `sharding.over_rows` asks of a model."""
  return {'axes': model.axes, 'dtype': model.dtype}


def in_stage(functions: Any, decoding: Callable[[], Decoding], scoring: Callable[[], Scoring]) -> Any:
  """What a stage is given for a model: language models speak and heads are read as the stage says.

  Other records (networks and policies of control) are what they are.

  Args:
    functions: of the model.
    decoding: made when a language model asks for it.
    scoring: likewise, or a head.
  """
  if isinstance(functions, LanguageModel):
    return Speaker(model=functions, decoding=decoding(), scoring=scoring())
  if isinstance(functions, TokenHead):
    return Critic(head=functions, scoring=scoring())
  if isinstance(functions, RowHead):
    return Judge(head=functions, scoring=scoring())
  if isinstance(functions, StoredScores):
    decoding().require_plain('stored log-probs are those of the model itself')
  if isinstance(functions, PolicyRatio):
    return ImplicitJudge(head=functions, decoding=decoding(), scoring=scoring())
  return functions
