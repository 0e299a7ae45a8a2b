"""Controllers of a frozen decoder: what is added to its residual stream, and when that changes.

A decoder is split into two (`transformer.split`). Its lower part reads tokens and leaves a residual stream
e_t for each step, an action and the observation behind it. The upper part reads

    e_t + U(z_t) e_t,      z_t = β_t z̃_t + (1 - β_t) z_{t-1},      z_0 = 0, β_1 = 1

with a code z_t of few entries and a map of low rank, U(z) e = B ((A e + a) ∘ M z). To discover codes, an
encoder reads the whole row, its future too,

    z̃_t ~ N(μ_t, σ_t²),    (μ_t, σ_t) = encoder(e_t, GRU over e_T, ..., e_t)
    β_t = switch(e_t, z_{t-1})

and is trained, with the decoder frozen, by what the codes cost and what they leave to be guessed,

    L = Σ_t -log π(a_t | o_1..t, z_1..t) + price β_t (KL(N(μ_t, σ_t²) ‖ N(0, 1)) + switch_nats).

Only a switch pays, so a code is kept for as long as it says what is done. The switch sees no future: later,
who acts draws codes from a policy of its own (`init_actor`, `draw`) and keeps switch and U.

`codes` and `coder` are the two as models of a config; `rlx/algorithms/internal_rl.py` trains them.

Source: Kobayashi et al., 2025, https://arxiv.org/abs/2512.20605. Smaller than there: no recurrent state but
the code itself, and one layer of each. Our reading: β_t pays for the divergence, and is drawn as 0 or 1 in
training (gradients pass as if it were the chance of 1). Our addition: `switch_nats`. With 0, codes for single
moves cost no more nats than codes for subgoals, and on a small grid they are what is found.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.transformer import Params
from rlx.types import Key


class Codes(NamedTuple):
  """What the controller does at each step."""

  z: jax.Array  # [B, T, Z]
  gates: jax.Array  # [B, T], β
  kl: jax.Array  # [B, T], of z̃_t to a standard normal, in nats


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reader:
  """What reads the stream of a decoder, a controller or a policy over codes, by the sizes that have to fit.

  Attributes:
    width: D of the decoder.
    code_size: Z.
  """

  width: int
  code_size: int


def check_fits(policy: LanguageModel, *readers: Reader) -> None:
  """Raises `ValueError` where readers are not of this decoder, or their codes not of one size."""
  if widths := [reader.width for reader in readers if reader.width != policy.width]:
    raise ValueError(f'controller and actor read streams of {widths} numbers, the policy has {policy.width}')
  if len(sizes := {reader.code_size for reader in readers}) > 1:
    raise ValueError(f'code_size={sorted(sizes)} of controller and actor: give both the same')


def codes(policy: LanguageModel, *, code_size: int, hidden_size: int, rank: int) -> Model:
  """A controller of a decoder, as `init` begins it.

  Args:
    policy: whose stream it reads and changes; another model by `names: {'policy': ...}`.
    code_size: Z, numbers in a code.
    hidden_size: of the encoder's and the switch's hidden layers and of the GRU.
    rank: of U.
  """
  sizes = dict(width=policy.width, code_size=code_size, hidden_size=hidden_size, rank=rank)
  return Model(
      functions=Reader(width=policy.width, code_size=code_size), init=lambda key, models: init(key, **sizes)
  )


def coder(policy: LanguageModel, *, code_size: int, hidden_size: int) -> Model:
  """A policy over the codes of a controller, as `init_actor` begins it.

  Args:
    policy: whose stream it reads; another model by `names: {'policy': ...}`.
    code_size: Z, that of the controller.
    hidden_size: of its hidden layer.
  """
  sizes = dict(width=policy.width, code_size=code_size, hidden_size=hidden_size)
  return Model(
      functions=Reader(width=policy.width, code_size=code_size),
      init=lambda key, models: init_actor(key, **sizes),
  )


def init(key: jax.Array, *, width: int, code_size: int, hidden_size: int, rank: int) -> Params:
  """Random parameters; U begins small, so the decoder begins almost as it was, and switches begin rare.

  Args:
    key: consumed.
    width: D of the decoder.
    code_size: Z.
    hidden_size: of the encoder's and the switch's hidden layers and of the GRU.
    rank: of U.
  """
  keys = iter(jax.random.split(key, 8))
  matrix = lambda *shape: shape[0] ** -0.5 * jax.random.normal(next(keys), shape)
  perceptron = lambda num_in, num_out, bias: {
      'in': matrix(num_in, hidden_size), 'bias': jnp.zeros(hidden_size),
      'out': matrix(hidden_size, num_out), 'out_bias': jnp.full(num_out, bias),
  }
  return {
      'gru': {'matrix': matrix(width + hidden_size, 3 * hidden_size), 'bias': jnp.zeros(3 * hidden_size)},
      'encoder': perceptron(width + hidden_size, 2 * code_size, 0.0),
      'switch': perceptron(width + code_size, 1, -2.0),
      'down': matrix(width, rank), 'down_bias': jnp.zeros(rank), 'mix': matrix(code_size, rank),
      'up': 0.1 * matrix(rank, width),
  }


def init_actor(key: Key, *, width: int, code_size: int, hidden_size: int) -> Params:
  """A policy over codes that begins as the encoder's prior, a standard normal.

  Args:
    key: consumed.
    width: D of the decoder.
    code_size: Z.
    hidden_size: of its hidden layer.
  """
  matrix = jax.random.normal(key, (width, hidden_size)) * width**-0.5
  weights = {
      'in': matrix, 'bias': jnp.zeros(hidden_size), 'out': jnp.zeros((hidden_size, code_size)),
      'out_bias': jnp.zeros(code_size),
  }
  return {'mean': weights, 'log_std': jnp.zeros(code_size)}


def steps(params: Params, model: LanguageModel, tokens: jax.Array) -> jax.Array:
  """[B, T, D] what a decoder reads at each step, from tokens [B, 2 T] of actions and observations in turn.

  A step is one column: the embeddings of the action before it and of what is seen then, added up.
  """
  pairs = tokens.reshape(tokens.shape[0], -1, 2)
  return jnp.sum(model.embed(params, pairs), axis=2)


def mlp(weights: Params, x: jax.Array) -> jax.Array:
  """[..., out] of one hidden layer, for x [..., in]."""
  add = lambda x, bias: x + jnp.broadcast_to(bias, x.shape)
  hidden = jnp.tanh(add(x @ weights['in'], weights['bias']))
  return add(hidden @ weights['out'], weights['out_bias'])


def read(stream: jax.Array) -> jax.Array:
  """[..., D] the stream as controllers and policies over codes see it: at unit scale, and a constant."""
  stream = jax.lax.stop_gradient(stream)
  return stream * jax.lax.rsqrt(jnp.mean(jnp.square(stream), axis=-1, keepdims=True) + 1e-6)


def encode(params: Params, e: jax.Array) -> tuple[jax.Array, jax.Array]:
  """μ and log σ [B, T, Z] from `read` streams e [B, T, D]; step t sees the steps from t on."""
  size = params['gru']['matrix'].shape[1] // 3

  def back(state, e):
    def gates(state, columns):
      matrix, bias = params['gru']['matrix'][:, columns], params['gru']['bias'][columns]
      y = jnp.concatenate([e, state], axis=-1) @ matrix
      return y + jnp.broadcast_to(bias, y.shape)

    update, reset = jnp.split(jax.nn.sigmoid(gates(state, slice(2 * size))), 2, axis=-1)
    proposed = jnp.tanh(gates(reset * state, slice(2 * size, None)))
    state = update * state + (1 - update) * proposed
    return state, state

  _, future = jax.lax.scan(back, jnp.zeros((e.shape[0], size)), jnp.moveaxis(e, 1, 0), reverse=True)
  both = mlp(params['encoder'], jnp.concatenate([e, jnp.moveaxis(future, 0, 1)], axis=-1))
  return tuple(jnp.split(both, 2, axis=-1))


def switch(params: Params, e: jax.Array, previous: jax.Array) -> jax.Array:
  """[B] logits of β for `read` streams e [B, D] and codes z_{t-1} [B, Z]."""
  return mlp(params['switch'], jnp.concatenate([e, previous], axis=-1))[..., 0]


def integrate(gate: jax.Array, proposed: jax.Array, previous: jax.Array) -> jax.Array:
  """z_t = β_t z̃_t + (1 - β_t) z_{t-1}, [B, Z], of gates [B]."""
  return gate[:, None] * proposed + (1 - gate[:, None]) * previous


def write(params: Params, stream: jax.Array, z: jax.Array) -> jax.Array:
  """e + U(z) e for streams e [B, T, D], whose scale U does not see, and codes z [B, T, Z]; e where z is 0."""
  inner = read(stream) @ params['down']
  inner = (inner + jnp.broadcast_to(params['down_bias'], inner.shape)) * (z @ params['mix'])
  return stream + (inner @ params['up']).astype(stream.dtype)


def discover(params: Params, e: jax.Array, key: jax.Array) -> Codes:
  """Codes of whole rows, as the encoder and the switch draw them.

  Args:
    params: from `init`.
    e: [B, T, D] `read` streams.
    key: draws z̃ and β.
  """
  num_rows, num_steps = e.shape[:2]
  code_key, gate_key = jax.random.split(key)
  mean, log_std = encode(params, e)
  proposed = mean + jnp.exp(log_std) * jax.random.normal(code_key, mean.shape)
  kl = 0.5 * jnp.sum(jnp.square(mean) + jnp.exp(2 * log_std) - 1 - 2 * log_std, axis=-1)
  noise = jax.random.logistic(gate_key, (num_rows, num_steps))

  def step(previous, inputs):
    e, proposed, noise, is_first = inputs
    soft = jax.nn.sigmoid(switch(params, e, previous) + noise)  # above 1/2 with the chance β
    gate = soft + jax.lax.stop_gradient((soft > 0.5) - soft)
    gate = jnp.where(is_first, 1.0, gate)
    z = integrate(gate, proposed, previous)
    return z, (z, gate)

  columns = (jnp.moveaxis(x, 1, 0) for x in (e, proposed, noise))
  inputs = (*columns, jnp.arange(num_steps) == 0)
  _, (z, gates) = jax.lax.scan(step, jnp.zeros_like(mean[:, 0]), inputs)
  return Codes(jnp.moveaxis(z, 0, 1), gates.T, kl)


def draw(actor: Params, e: jax.Array, key: Key) -> jax.Array:
  """[B, Z] codes drawn at `read` streams e [B, D], from the policy over codes."""
  mean = mlp(actor['mean'], e)
  return mean + jnp.broadcast_to(jnp.exp(actor['log_std']), mean.shape) * jax.random.normal(key, mean.shape)
