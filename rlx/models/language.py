"""A language model as a record of pure functions over its parameters, its shape inside.

What decodes and scores (`rlx/engine`) asks a model for these functions and for the few numbers below, and
knows neither how the model is built nor what it is made of. `transformer.py` is the decoder behind them;
another kind of decoder is another record with the same functions.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

import jax

from rlx import sharding
from rlx.kernels import switch
from rlx.models import transformer
from rlx.models.transformer import KV, Params, Places, TransformerConfig
from rlx.types import Key


@dataclasses.dataclass(frozen=True)
class LanguageModel:
  """A decoder of `transformer.py`.

  Attributes:
    shape: of its parameters.
    directory: where its weights and its tokenizer came from; '' for one that was made here.
  """

  shape: TransformerConfig
  directory: str = ''

  @property
  def vocab_size(self) -> int:
    """V, how many tokens it knows."""
    return self.shape.vocab_size

  @property
  def context_length(self) -> int:
    """The longest row, in tokens."""
    return self.shape.context_length

  @property
  def width(self) -> int:
    """D, size of a hidden state."""
    return self.shape.width

  @property
  def dtype(self) -> str:
    """Of hidden states."""
    return self.shape.dtype

  @property
  def axes(self) -> Mapping[str, tuple]:
    """What the axes of its parameters mean; see `sharding.py`."""
    return transformer.AXES

  def replace(self, **fields) -> 'LanguageModel':
    """The same model with other fields of its shape; it is no longer what its directory holds."""
    return LanguageModel(dataclasses.replace(self.shape, **fields))

  def init(self, key: Key) -> Params:
    """Random parameters."""
    return transformer.init(key, self.shape)

  def forward(self, params: Params, tokens: jax.Array, places: Places | None = None) -> tuple[jax.Array, KV]:
    """The hidden states of whole rows, and their keys and values; as `transformer.forward`."""
    def read(params, rows):
      return transformer.forward(params, self.shape, *rows)

    return sharding.over_rows(
        read, params, (tokens, places), axes=self.axes, dtype=self.dtype, out_axes=(0, KV(1, 1))
    )

  def empty_cache(self, num_rows: int, length: int) -> KV:
    """Room for `length` tokens of `num_rows` rows."""
    return transformer.empty_cache(self.shape, num_rows, length)

  def decode(self, params: Params, *arguments) -> tuple[jax.Array, KV]:
    """One step of rows that are equally far, in groups that share a prompt; as `transformer.decode`."""
    return transformer.decode(params, self.shape, *arguments)

  def decode_rows(
      self, params: Params, tokens: jax.Array, positions: jax.Array, cache: KV
  ) -> tuple[jax.Array, KV]:
    """One step of rows that are at different places; as `transformer.decode_rows`."""
    return transformer.decode_rows(params, self.shape, tokens, positions, cache)

  def to_decode(self, params: Params, *pasts: KV) -> tuple:
    """Weights, and keys and values, as `decode` and `decode_rows` read them over and over in a loop.

    In the dtype of computation; on GPUs a layer at a time, where the compiler would copy each layer's weights
    out of their stack for every token.
    """
    unstacked = switch.device().platform == 'gpu'
    weights = transformer.for_decoding(params, self.shape, unstacked=unstacked)
    return weights, *(transformer.unstack(kv) if unstacked else kv for kv in pasts)

  def embed(self, params: Params, tokens: jax.Array) -> jax.Array:
    """[..., D] embeddings of tokens [...]."""
    return transformer.embed(params, self.shape, tokens)

  def logits(self, params: Params, hidden: jax.Array) -> jax.Array:
    """[..., V] float32 logits of hidden states [..., D]."""
    return transformer.logits(params, self.shape, hidden)

  def unembedding(self, params: Params) -> jax.Array:
    """[V, D] the output matrix: `softcap` of a product with it is `logits`."""
    return transformer.unembedding(params)

  def softcap(self, products: jax.Array) -> jax.Array:
    """Logits of the products of hidden states with the output matrix."""
    return transformer.softcap(products, self.shape.logit_softcap)

  def split(self, params: Params, num_lower: int) -> tuple[tuple[Params, Any], tuple[Params, Any]]:
    """The model as two, `(parameters, model)` of the lower blocks and of the upper; as there."""
    parts = transformer.split(params, self.shape, num_lower)
    return tuple((part, LanguageModel(shape)) for part, shape in parts)
