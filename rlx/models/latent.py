"""Hybrid inputs: a decoder that reads, beside the token that was drawn, what it was drawn from.

The latent of a token is the mean embedding under the distribution that it was drawn from, at the scale of one
embedding. A gate mixes the two,

    h = Σ_v p_v E_v / ‖p‖,   r = σ(W_r e + b_r),   i = σ(W_i e + b_i),   a = exp(-8 softplus(-Λ) r)
    input = a e + sqrt(1 - a²) (i h)

and begins almost closed (a near 1), so that the decoder begins as it was. The gate is one more entry of the
decoder's parameters, 'hybrid'; `transformer.forward` and all that is built on it do not look there and see
the plain decoder.

Source: HRPO, https://arxiv.org/abs/2505.18454, eq. 2 to 4; the scale of h as in the authors' code.
"""

import jax
import jax.numpy as jnp

from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.transformer import Params

_SHARPNESS = 8.0  # c in the paper


def init(key: jax.Array, policy: Params, *, r_min: float, r_max: float) -> Params:
  """A decoder with a gate.

  Args:
    key: consumed.
    policy: parameters of `transformer.init`.
    r_min: the least share a of the token where r = 1; the paper tries 0.95 to 0.995.
    r_max: the largest (0.999 in the paper); the share of each entry is drawn between the two.
  Raises:
    ValueError: not 0 < r_min <= r_max < 1.
  """
  if not 0 < r_min <= r_max < 1:
    raise ValueError(f'r_min={r_min}, r_max={r_max}: need 0 < r_min <= r_max < 1')
  recurrence_key, input_key, decay_key = jax.random.split(key, 3)
  width = policy['embedding'].shape[-1]
  matrix = lambda k: width**-0.5 * jax.random.normal(k, (width, width))
  # 1 - a is drawn, not a: float32 cannot tell a share very near 1 from 1.
  rest = jax.random.uniform(decay_key, (width,), minval=1 - r_max, maxval=1 - r_min)
  hybrid = {
      'recurrence': matrix(recurrence_key),
      'recurrence_bias': jnp.zeros(width),
      'input': matrix(input_key),
      'input_bias': jnp.zeros(width),
      'decay': -jnp.log(jnp.expm1(-jnp.log1p(-rest) / _SHARPNESS)),
  }
  return {**policy, 'hybrid': hybrid}


def hybrid(decoder: LanguageModel, *, r_min: float, r_max: float) -> Model:
  """A fresh decoder with a gate for latents.

  Args:
    decoder: in a config, a section with its shape.
    r_min: as for `init`.
    r_max: as for `init`.
  """

  def begin(key, models):
    del models
    decoder_key, gate_key = jax.random.split(key)
    return init(gate_key, decoder.init(decoder_key), r_min=r_min, r_max=r_max)

  return Model(functions=decoder, init=begin, axes=decoder.axes)


def latents(params: Params, model: LanguageModel, logits: jax.Array) -> jax.Array:
  """The mean embeddings h [..., D] under the distributions of logits [..., V], at the scale of one embedding.

  A mean of n embeddings that have nothing in common is shorter than one of them by √n; the norm of the
  probabilities is what it is shorter by.
  """
  probabilities = jax.nn.softmax(logits)
  table = model.embed(params, jnp.arange(model.vocab_size))
  mean = jnp.einsum('...v,vd->...d', probabilities, table.astype(jnp.float32))
  return mean / jnp.linalg.norm(probabilities, axis=-1, keepdims=True)


def token_share(params: Params, embeddings: jax.Array) -> jax.Array:
  """a [..., D] for the embeddings e [..., D] of tokens: 1 where the latent does not count."""
  return jnp.exp(-_openness(params, embeddings))


def mix(params: Params, embeddings: jax.Array, h: jax.Array) -> jax.Array:
  """a e + sqrt(1 - a²) (i h) for embeddings e and latents h, [..., D] each."""
  openness = _openness(params, embeddings)
  rest = jnp.sqrt(-jnp.expm1(-2 * openness))  # sqrt(1 - a²), also where a rounds to 1
  return jnp.exp(-openness) * embeddings + rest * _gate(params, 'input', embeddings) * h


def _openness(params, embeddings):
  """-log a, above 0."""
  decay = jnp.broadcast_to(jax.nn.softplus(-params['hybrid']['decay']), embeddings.shape)
  return _SHARPNESS * decay * _gate(params, 'recurrence', embeddings)


def _gate(params, name, embeddings):
  product = jnp.einsum('...d,de->...e', embeddings.astype(jnp.float32), params['hybrid'][name])
  return jax.nn.sigmoid(product + jnp.broadcast_to(params['hybrid'][f'{name}_bias'], product.shape))
