"""Models of the world: what an action leads to, what it pays, and which action led from here to there.

A forward model is an ensemble of networks. Each predicts a Gaussian over the change of the observation and
the reward, and how likely it is that the episode ends. Where the members do not agree, there were no data:
`step` draws from one of them for each row, `disagreement` is how far apart they are. An inverse model
predicts the action between two observations. `dynamics_gap` tells two worlds apart. All are `Network`s, so
that they are trained, kept and saved as any other; the losses of models are here.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import optax

from rlx.envs.control.environment import Continuous, Discrete, Environment
from rlx.models import mlp
from rlx.models.networks import Network
from rlx.types import Batch, Key

MIN_LOG_STD, MAX_LOG_STD = -5.0, 0.5  # of a change of the observation, and of a reward
_SCALE, _FINAL_SCALE = math.sqrt(2), 0.1


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Dynamics(Network):
  """A forward model.

  `apply(params, observations [B, O], actions [B, ...]) -> (means, log_stds, end_logits)`: [N, B, O + 1] each
  of the change of the observation and behind it the reward, and [N, B].

  Attributes:
    num: N, members.
  """

  num: int


def ensemble(env: Environment, *, num: int, hidden: tuple[int, ...], activation: str) -> Dynamics:
  """A forward model with `num` members.

  Args:
    env: what is modelled; observations [O], actions discrete or continuous.
    num: members.
    hidden: units of each hidden layer.
    activation: between layers.
  Raises:
    ValueError: `num` is not positive, or observations are no vectors.
  """
  if num < 1 or len(env.observation_shape) != 1:
    raise ValueError(f'num={num} models of observations {env.observation_shape}: at least 1, of vectors')
  (size,) = env.observation_shape
  sizes = (size + _action_size(env), *hidden, 2 * (size + 1) + 1)
  between = mlp.activation(activation)
  shape = dict(scale=_SCALE, final_scale=_FINAL_SCALE, layer_norm=False)

  def apply(params, observations, actions):
    inputs = jnp.concatenate([observations, _as_vector(env, actions)], axis=-1)
    outputs = mlp.apply_ensemble(params, inputs, between)
    mean, raw, end = jnp.split(outputs, (size + 1, 2 * (size + 1)), axis=-1)
    middle, half = (MAX_LOG_STD + MIN_LOG_STD) / 2, (MAX_LOG_STD - MIN_LOG_STD) / 2
    return mean, middle + half * jnp.tanh(raw), end[..., 0]

  return Dynamics(init=lambda key: mlp.init_ensemble(key, num, sizes, **shape), apply=apply, num=num)


def inverse(env: Environment, *, hidden: tuple[int, ...], activation: str) -> Network:
  """The action between two observations: `apply(params, observations, next_observations) -> [..., A]`.

  For continuous actions these are the actions, in [-1, 1]; for discrete ones logits.
  """
  (size,) = env.observation_shape
  between = mlp.activation(activation)
  sizes = (2 * size, *hidden, _action_size(env))
  squash = jnp.tanh if isinstance(env.actions, Continuous) else lambda x: x
  shape = dict(scale=_SCALE, final_scale=_FINAL_SCALE, layer_norm=False)

  def apply(params, observations, next_observations):
    inputs = jnp.concatenate([observations, next_observations - observations], axis=-1)
    return squash(mlp.apply(params, inputs, between))

  return Network(init=lambda key: mlp.init(key, sizes, **shape), apply=apply)


def dynamics_gap(env: Environment, *, hidden: tuple[int, ...], activation: str) -> Network:
  """Two classifiers of transitions: `apply(params, s, a, s') -> (d_sa [...], f [...])`, for vectors s.

  d_sa is the logit by what was seen and done; with f, what the next state adds, it is that by all three.
  """
  size, act = env.observation_shape[0], mlp.activation(activation)
  shape = dict(scale=1.0, final_scale=1.0, layer_norm=False)

  def init(key: Key):
    pair_key, added_key = jax.random.split(key)
    return {
        'pair': mlp.init(pair_key, (size + env.actions.size, *hidden, 1), **shape),
        'added': mlp.init(added_key, (2 * size + env.actions.size, *hidden, 1), **shape),
    }

  def apply(params, observations, actions, next_observations):
    pair = jnp.concatenate([observations, actions], axis=-1)
    moved = jnp.concatenate([pair, next_observations - observations], axis=-1)
    out = mlp.apply(params['pair'], pair, act), mlp.apply(params['added'], moved, act)
    return out[0][..., 0], out[1][..., 0]

  return Network(init=init, apply=apply)


def forward_loss(dynamics: Dynamics, params, batch: Batch) -> jax.Array:
  """[B] -log N of the change and the reward - log p of ending or not, averaged over the members.

  Every member sees the same rows; what makes them differ is where they began.

  Args:
    dynamics: the model.
    params: its parameters.
    batch: `observations, actions, next_observations, rewards, terminated`.
  Source: Chua et al., 2018, https://arxiv.org/abs/1805.12114, eq. 1, where each member has a bootstrap sample
    of its own.
  """
  mean, log_std, end = dynamics.apply(params, batch['observations'], batch['actions'])
  change = batch['next_observations'] - batch['observations']
  wanted = jnp.concatenate([change, batch['rewards'][:, None]], axis=-1)
  unit = (wanted[None] - mean) * jnp.exp(-log_std)
  gaussian = jnp.sum(0.5 * jnp.square(unit) + log_std + 0.5 * math.log(2 * math.pi), axis=-1)
  ended = jnp.broadcast_to(batch['terminated'][None].astype(jnp.float32), end.shape)
  return (gaussian + optax.sigmoid_binary_cross_entropy(end, ended)).mean(axis=0)


def reward_error(dynamics: Dynamics, params, batch: Batch) -> jax.Array:
  """[B] squared error of the means of the reward, averaged over the members.

  Beside `forward_loss` where rewards are rare: there a Gaussian that may choose its width explains them as
  noise, and its mean, which pulls the less the wider it is, stays at what is paid elsewhere.

  Args:
    dynamics: the model.
    params: its parameters.
    batch: `observations, actions, rewards`.
  Source: Seitzer et al., 2022, https://arxiv.org/abs/2203.09168, for what goes wrong.
  """
  mean, _, _ = dynamics.apply(params, batch['observations'], batch['actions'])
  return jnp.square(mean[..., -1] - batch['rewards'][None]).mean(axis=0)


def inverse_loss(env: Environment, model: Network, params, batch: Batch) -> jax.Array:
  """[B] squared error of the actions, or -log p of discrete ones."""
  found = model.apply(params, batch['observations'], batch['next_observations'])
  if isinstance(env.actions, Discrete):
    return optax.softmax_cross_entropy_with_integer_labels(found, batch['actions'])
  return jnp.square(found - batch['actions']).sum(axis=-1)


def inferred_actions(env: Environment, model: Network, params, batch: Batch) -> jax.Array:
  """[B, ...] the likeliest actions between the observations of a batch."""
  found = model.apply(params, batch['observations'], batch['next_observations'])
  return jnp.argmax(found, axis=-1) if isinstance(env.actions, Discrete) else found


def step(
    dynamics: Dynamics, params, observations: jax.Array, actions: jax.Array, key: Key
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Draws what happens next: for each row one member, and from it the change.

  Returns:
    `(next_observations [B, O], rewards [B], terminated [B])`. The reward is the mean of that member: noise
    would only blur returns, and the best of many dreams would be the luckiest. An episode ends where the
    members on average hold that for likelier than not.
  """
  member_key, noise_key = jax.random.split(key)
  mean, log_std, end = dynamics.apply(params, observations, actions)
  rows = jnp.arange(observations.shape[0])
  members = jax.random.randint(member_key, rows.shape, 0, dynamics.num)
  mean, log_std = mean[members, rows], log_std[members, rows, :-1]
  drawn = mean[:, :-1] + jnp.exp(log_std) * jax.random.normal(noise_key, log_std.shape)
  return observations + drawn, mean[:, -1], jax.nn.sigmoid(end).mean(axis=0) > 0.5


def disagreement(dynamics: Dynamics, params, observations: jax.Array, actions: jax.Array) -> jax.Array:
  """[B] the largest distance of a member's mean from the mean of them all: how little is known here."""
  mean, _, _ = dynamics.apply(params, observations, actions)
  return jnp.linalg.norm(mean - mean.mean(axis=0, keepdims=True), axis=-1).max(axis=0)


def largest_deviation(dynamics: Dynamics, params, observations: jax.Array, actions: jax.Array) -> jax.Array:
  """[B] max_i ‖Σ_i(s, a)‖, how unsure the least sure member is; Σ is diagonal, of standard deviations.

  Source: Yu et al., 2020 (MOPO), https://arxiv.org/abs/2005.13239, section 4.3.
  """
  _, log_std, _ = dynamics.apply(params, observations, actions)
  return jnp.linalg.norm(jnp.exp(log_std), axis=-1).max(axis=0)


def _action_size(env: Environment) -> int:
  return env.actions.num if isinstance(env.actions, Discrete) else env.actions.size


def _as_vector(env: Environment, actions: jax.Array) -> jax.Array:
  return jax.nn.one_hot(actions, env.actions.num) if isinstance(env.actions, Discrete) else actions
