"""Critics that say more of a return than a number, or say it with chance: distributions, and dropout.

A distribution over discrete actions is at once a `GreedyPolicy`: it acts by its means.
"""

from collections.abc import Callable
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.models import mlp, networks
from rlx.models.networks import GreedyPolicy, Network
from rlx.types import Key


def dropout_critics(
    env: Environment, *, num: int, hidden: tuple[int, ...], activation: str, rate: float
) -> Network:
  """An ensemble: `apply(params, observations [B, O], actions [B, A], key) -> [num, B]`.

      h = activation(layer_norm(dropout(W x + b)))  in each hidden layer of each critic

  Args:
    env: with observations of one axis.
    num: critics.
    hidden: units of each hidden layer.
    activation: between layers.
    rate: share of the units that are dropped (the paper: 0.01).
  Raises:
    ValueError: `rate` is not in [0, 1).
  Source: Hiraoka et al., 2021, https://arxiv.org/abs/2110.02034, section 3.
  """
  if not 0 <= rate < 1:
    raise ValueError(f'rate={rate}: the share of the units that are dropped is in [0, 1)')
  sizes = (math.prod(env.observation_shape) + env.actions.size, *hidden, 1)
  between = mlp.activation(activation)
  init = lambda key: mlp.init_ensemble(
      key, num, sizes, scale=math.sqrt(2), final_scale=1.0, layer_norm=True
  )

  def one(params, x: jax.Array, key: Key) -> jax.Array:
    layers = params['layers']
    for layer, k in zip(layers[:-1], jax.random.split(key, len(layers) - 1), strict=True):
      x = jax.nn.standardize(dropped(k, x @ layer['kernel'] + layer['bias'][None]), epsilon=1e-6)
      x = between(x * layer['norm_scale'][None] + layer['norm_bias'][None])
    return (x @ layers[-1]['kernel'])[..., 0] + layers[-1]['bias']

  def dropped(key: Key, x: jax.Array) -> jax.Array:
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

  def apply(params, observations, actions, key):
    x = jnp.concatenate([observations, actions], axis=-1)
    return jax.vmap(one, (0, None, 0))(params, x, jax.random.split(key, num))

  return Network(init=init, apply=apply)


def gaussian_critics(env: Environment, *, num: int, hidden: tuple[int, ...], activation: str) -> Network:
  """An ensemble of distributions: `apply(params, observations, actions) -> (means, stds)`, [num, ...] each.

  A standard deviation is the softplus of an output, as in the code of DSAC-T's authors; it begins near 0.7.
  """
  sizes = (math.prod(env.observation_shape) + env.actions.size, *hidden, 2)
  between = mlp.activation(activation)
  init = lambda key: mlp.init_ensemble(
      key, num, sizes, scale=math.sqrt(2), final_scale=1.0, layer_norm=False
  )

  def apply(params, observations, actions):
    outputs = mlp.apply_ensemble(params, jnp.concatenate([observations, actions], axis=-1), between)
    return outputs[..., 0], jax.nn.softplus(outputs[..., 1])

  return Network(init=init, apply=apply)


def quantile_critics(
    env: Environment, *, num: int, hidden: tuple[int, ...], activation: str, num_quantiles: int
) -> Network:
  """An ensemble of distributions: `apply(params, observations, actions) -> [num, ..., num_quantiles]`.

  Raises:
    ValueError: the actions are not continuous, or there is no quantile or no critic.
  """
  return networks.outputs_of_both(
      env, num=num, hidden=hidden, activation=activation, layer_norm=False, num_outputs=num_quantiles
  )


# --- of discrete actions ------------------------------------------------------------------------------------


def greedy_on_atoms(
    env: Environment, *, hidden: tuple[int, ...], activation: str, layer_norm: bool, num_atoms: int,
    low: float, high: float, epsilon: float,
) -> GreedyPolicy:
  """ε-greedy over the means of distributions; `outputs` are their logits [..., num_actions, num_atoms].

  Raises:
    ValueError: as `greedy_on`, or the atoms do not span an interval.
  """
  z = atoms(num_atoms=num_atoms, low=low, high=high)
  mean = lambda logits: jax.nn.softmax(logits, axis=-1) @ z
  return greedy_on(
      env, mean, hidden=hidden, activation=activation, layer_norm=layer_norm, num_outputs=num_atoms,
      epsilon=epsilon,
  )


def greedy_on_quantiles(
    env: Environment, *, hidden: tuple[int, ...], activation: str, layer_norm: bool, num_quantiles: int,
    epsilon: float,
) -> GreedyPolicy:
  """ε-greedy over the means of quantiles; `outputs` are those [..., num_actions, num_quantiles].

  Raises:
    ValueError: as `greedy_on`.
  """
  mean = lambda quantiles: quantiles.mean(axis=-1)
  return greedy_on(
      env, mean, hidden=hidden, activation=activation, layer_norm=layer_norm, num_outputs=num_quantiles,
      epsilon=epsilon,
  )


def midpoints(num: int) -> jax.Array:
  """[N] τ_i = (2 i - 1) / (2 N), the levels of N quantiles that are equally likely."""
  return (2 * jnp.arange(num) + 1) / (2 * num)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ImplicitPolicy(GreedyPolicy):
  """A `GreedyPolicy` over quantiles of any level.

  Attributes:
    at: `(params, observations [..., O], levels [..., N]) -> [..., num_actions, N]`, the quantiles at levels
      in (0, 1).
  """

  at: Callable[[Any, jax.Array, jax.Array], jax.Array]


def greedy_on_implicit_quantiles(
    env: Environment, *, hidden: tuple[int, ...], activation: str, layer_norm: bool, num_cosines: int,
    num_quantiles: int, epsilon: float,
) -> ImplicitPolicy:
  """ε-greedy over the mean of a quantile function, read at the midpoints of equal steps.

      Z_τ(s, ·) = W (ψ(s) ⊙ φ(τ)) + b,   φ(τ) = relu(V (cos π i τ)_{i < num_cosines} + c)

  ψ is the network without its last layer. The authors draw the levels that actions are chosen by.

  Args:
    env: with discrete actions.
    hidden: units of each layer of ψ.
    activation: of ψ.
    layer_norm: whether layers of ψ are normalised before their activation.
    num_cosines: that a level is embedded in (the paper: 64).
    num_quantiles: that the mean is taken of (the paper: 32), and that `outputs` gives.
    epsilon: in [0, 1].
  Raises:
    ValueError: the actions are not discrete, a number is not positive, or `epsilon` is not a probability.
  Source: Dabney et al., 2018, https://arxiv.org/abs/1806.06923, eq. 4 and section 3.
  """
  num = getattr(env.actions, 'num', 0)
  if not num or not hidden or min(num_cosines, num_quantiles) < 1:
    raise ValueError(
        f'actions are {env.actions}, hidden={hidden}, num_cosines={num_cosines}, '
        f'num_quantiles={num_quantiles}: it needs discrete actions, a layer, a cosine and a quantile'
    )
  between, width = mlp.activation(activation), hidden[-1]
  shape = {'scale': math.sqrt(2), 'final_scale': 1.0}

  def init(key: Key):
    keys = jax.random.split(key, 3)
    sizes = math.prod(env.observation_shape), *hidden
    seen = mlp.init(keys[0], sizes, **shape, layer_norm=layer_norm)
    if layer_norm:
      seen['layers'][-1] |= mlp.init_norm(width)  # which is a hidden one of the whole
    return {
        'seen': seen,
        'level': mlp.init(keys[1], (num_cosines, width), **shape, layer_norm=False),
        'of_both': mlp.init(keys[2], (width, num), **shape, layer_norm=False),
    }

  def at(params, observations, levels):
    batch = observations.shape[: observations.ndim - len(env.observation_shape)]
    seen = mlp.apply_hidden(params['seen']['layers'], observations.reshape(*batch, -1), between)
    order = jnp.arange(num_cosines).reshape((1,) * levels.ndim + (-1,))
    waves = jnp.cos(jnp.pi * levels[..., None] * order)
    level = jax.nn.relu(mlp.apply(params['level'], waves, between))
    quantiles = mlp.apply(params['of_both'], seen[..., None, :] * level, between)
    return jnp.swapaxes(quantiles, -1, -2)

  def outputs(params, observations):
    batch = observations.shape[: observations.ndim - len(env.observation_shape)]
    levels = midpoints(num_quantiles).reshape((1,) * len(batch) + (-1,))  # the same for all observations
    return at(params, observations, levels)

  values = lambda params, observations: outputs(params, observations).mean(axis=-1)
  greedy = networks.greedy_policy(init, outputs, values, epsilon=epsilon)
  return ImplicitPolicy(**vars(greedy), at=at)


def greedy_on(
    env: Environment, mean: Callable[[jax.Array], jax.Array], *, hidden: tuple[int, ...], activation: str,
    layer_norm: bool, num_outputs: int, epsilon: float,
) -> GreedyPolicy:
  """ε-greedy where a network says `num_outputs` numbers of each action, and `mean` [..., N] -> [...] of them.

  Raises:
    ValueError: the actions are not discrete, or `epsilon` is not a probability.
  """
  num = getattr(env.actions, 'num', 0)
  if not num:
    raise ValueError(f'actions are {env.actions}; this policy needs discrete ones')
  flat = networks.outputs_of(
      env, num=num * num_outputs, hidden=hidden, activation=activation, layer_norm=layer_norm
  )

  def outputs(params, observations):
    x = flat.apply(params, observations)
    return x.reshape(*x.shape[:-1], num, num_outputs)

  values = lambda params, observations: mean(outputs(params, observations))
  return networks.greedy_policy(flat.init, outputs, values, epsilon=epsilon)


def atoms(*, num_atoms: int, low: float, high: float) -> jax.Array:
  """[N] z, evenly spaced from `low` to `high`.

  Raises:
    ValueError: there are less than two, or they do not rise.
  """
  if num_atoms < 2 or low >= high:
    raise ValueError(f'num_atoms={num_atoms} from low={low} to high={high}: at least 2, and low below high')
  return jnp.linspace(low, high, num_atoms)
