"""Networks over sets of entities, whose parameters serve any number of them.

An observation is E entities of F numbers each, and behind them a goal of F numbers for each. The first
entity is the agent; the others are interchangeable: exchanging two of them together with their goals changes
no value and no choice, and exchanges what is said of each. Of entity i are read its features, the way from
there to its goal, the way there from the agent, and whether it is the agent itself; sines and cosines of
these numbers help where they are places on a grid. In every layer

    h_i ← f(W h_i + W_0 h_0 + W_m mean_j h_j + b)

each sees itself, the agent and the lot of them. What is said of the whole is Σ_i R h_i: an entity of which
there is nothing to say adds nothing, and one entity more adds its share.

Source: Zaheer et al., 2017, https://arxiv.org/abs/1703.06114, for layers that permute with what they read.
"""

import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Discrete, Environment
from rlx.models import diffusion, mlp
from rlx.models.diffusion import Denoiser
from rlx.models.networks import Network, Policy, picked, softmax_policy
from rlx.types import Key

_STEP_FEATURES = 8


def entity_policy(
    env: Environment, *, features: int, wavelengths: tuple[float, ...], hidden: tuple[int, ...],
    activation: str,
) -> Policy:
  """A softmax over discrete actions.

  Args:
    env: what is controlled.
    features: F.
    wavelengths: of the sines and cosines, in the units of the features; () for none.
    hidden: units of each layer, for each entity.
    activation: f.
  Raises:
    ValueError: the actions are not discrete, or observations are not of entities and goals.
  """
  init, apply = _summed(env, features, wavelengths, hidden, activation, _num_actions(env), final_scale=0.01)
  return softmax_policy(init, apply)


def entity_value(
    env: Environment, *, features: int, wavelengths: tuple[float, ...], hidden: tuple[int, ...],
    activation: str,
) -> Network:
  """V(s, g): `apply(params, observations [..., O]) -> [...]`; arguments are those of `entity_policy`."""
  init, apply = _summed(env, features, wavelengths, hidden, activation, 1, final_scale=1.0)
  return Network(init=init, apply=lambda params, observations: apply(params, observations)[..., 0])


def entity_critics(
    env: Environment, *, num: int, features: int, wavelengths: tuple[float, ...], hidden: tuple[int, ...],
    activation: str,
) -> Network:
  """An ensemble of Q(s, a, g): `apply(params, observations [..., O], actions [...]) -> [num, ...]`.

  Args:
    env: what is controlled, with discrete actions.
    num: members.
    features: F.
    wavelengths: of the sines and cosines, in the units of the features; () for none.
    hidden: units of each layer, for each entity.
    activation: f.
  Raises:
    ValueError: the actions are not discrete, observations are not of entities and goals, or `num` is not
      positive.
  """
  if num < 1:
    raise ValueError(f'num={num} critics: at least 1')
  init, values = _summed(env, features, wavelengths, hidden, activation, _num_actions(env), final_scale=1.0)
  one = lambda member, observations, actions: picked(values(member, observations), actions)
  return Network(
      init=lambda key: jax.vmap(init)(jax.random.split(key, num)), apply=jax.vmap(one, (0, None, None))
  )


def denoiser(
    env: Environment, *, features: int, wavelengths: tuple[float, ...], hidden: tuple[int, ...],
    activation: str, num_levels: int, limit: float,
) -> Denoiser:
  """The noise in a set of entities, given another set and goals; see `diffusion.py`.

  `apply(params, noisy [B, E F], steps [B], observations [B, 2 E F]) -> [B, E F]`. The noisy entity and the
  step are a part of its token.

  Args:
    env: whose observations it is conditioned on.
    features: F.
    wavelengths: of the sines and cosines, in the units of the features; () for none.
    hidden: units of each layer, for each entity.
    activation: f.
    num_levels: of noise, on a cosine schedule.
    limit: no number of an entity is larger.
  Raises:
    ValueError: observations are not of entities and goals, or there is no level.
  """
  _require_entities(env, features)
  between = mlp.activation(activation)
  sizes = (_token_size(5 * features, wavelengths) + _STEP_FEATURES, *hidden, features)

  def apply(params, noisy, steps, observations):
    places = _places(observations, features)
    own = noisy.reshape(*places.shape[:-1], features)
    places = jnp.concatenate([places, own, own - places[..., :features]], axis=-1)
    time = diffusion.step_features(steps, size=_STEP_FEATURES)[..., None, :]
    time = jnp.broadcast_to(time, (*places.shape[:-1], _STEP_FEATURES))
    tokens = jnp.concatenate([_tokens(places, wavelengths), time], axis=-1)
    return _spoken(params['out'], _layers(params, tokens, between)).reshape(noisy.shape)

  return Denoiser(
      init=lambda key: _init(key, sizes, final_scale=1.0), apply=apply,
      schedule=diffusion.cosine(num_levels), limit=limit,
  )


# --- parts --------------------------------------------------------------------------------------------------


def _summed(env, features, wavelengths, hidden, activation, num_out, *, final_scale):
  """`(init, apply)` of a network from observations [..., 2 E F] to [..., num_out]."""
  _require_entities(env, features)
  between = mlp.activation(activation)
  sizes = (_token_size(3 * features, wavelengths), *hidden, num_out)

  def apply(params, observations):
    tokens = _layers(params, _tokens(_places(observations, features), wavelengths), between)
    return _spoken(params['out'], tokens).sum(axis=-2)

  return lambda key: _init(key, sizes, final_scale=final_scale), apply


def _init(key: Key, sizes, *, final_scale: float):
  """Weights of variance 2 / inputs, inputs being those of all three terms; zero biases."""
  *keys, out_key = jax.random.split(key, len(sizes) - 1)
  normal = lambda key, shape, std: std * jax.random.normal(key, shape)
  layers = []
  for key, num_in, num_out in zip(keys, sizes[:-2], sizes[1:-1], strict=True):
    weights = normal(key, (3, num_in, num_out), math.sqrt(2 / (3 * num_in)))
    layers.append({'own': weights[0], 'agent': weights[1], 'mean': weights[2], 'bias': jnp.zeros(num_out)})
  out = normal(out_key, sizes[-2:], final_scale / math.sqrt(sizes[-2]))
  return {'layers': layers, 'out': {'kernel': out, 'bias': jnp.zeros(sizes[-1])}}


def _places(observations: jax.Array, features: int) -> jax.Array:
  """[..., E, 3 F], from observations [..., 2 E F]: entities, ways to their goals, and ways from the agent."""
  halves = jnp.split(observations, 2, axis=-1)
  entities, goals = (x.reshape(*x.shape[:-1], -1, features) for x in halves)
  return jnp.concatenate([entities, goals - entities, entities - entities[..., :1, :]], axis=-1)


def _tokens(places: jax.Array, wavelengths) -> jax.Array:
  """[..., E, D] places [..., E, P], their sines and cosines, and which entity is the agent."""
  is_agent = jnp.zeros((*places.shape[:-1], 1)).at[..., 0, :].set(1)
  angles = [2 * math.pi / wavelength * places for wavelength in wavelengths]
  waves = [wave(angle) for angle in angles for wave in (jnp.sin, jnp.cos)]
  return jnp.concatenate([is_agent, places, *waves], axis=-1)


def _token_size(num_places: int, wavelengths) -> int:
  return num_places * (1 + 2 * len(wavelengths)) + 1


def _layers(params, tokens, between):
  for layer in params['layers']:
    shared = jnp.dot(tokens[..., 0, :], layer['agent']) + jnp.dot(tokens.mean(axis=-2), layer['mean'])
    own = jnp.dot(tokens, layer['own'])
    tokens = between(own + shared[..., None, :] + _row(layer['bias'], own))
  return tokens


def _spoken(out, tokens):
  spoken = jnp.dot(tokens, out['kernel'])
  return spoken + _row(out['bias'], spoken)


def _row(vector: jax.Array, x: jax.Array) -> jax.Array:
  """[D] as [1, ..., D], for x [..., D]."""
  return vector.reshape((1,) * (x.ndim - 1) + vector.shape)


def _num_actions(env) -> int:
  if not isinstance(env.actions, Discrete):
    raise ValueError(f'actions are {env.actions}; networks over entities choose among discrete ones')
  return env.actions.num


def _require_entities(env, features: int) -> None:
  size = math.prod(env.observation_shape)
  if features < 1 or len(env.observation_shape) != 1 or size % (2 * features):
    raise ValueError(
        f'features={features} of observations {env.observation_shape}: entities and goals of so many numbers '
        'each, in one vector'
    )
