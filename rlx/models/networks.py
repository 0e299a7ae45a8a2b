"""Networks of control agents: policies, values, critics, and single numbers that are trained.

A network is a record of pure functions over its own parameter tree, so that an algorithm says what it does
with a policy or a critic and not how they are built. A policy is a `Policy`; everything else is a `Network`,
`init` and `apply`. In a config, the section `models` has an entry for each; the entry's name is the name
under which the parameters stand in `models[...]` and under which an algorithm asks for the functions.
"""

from collections.abc import Callable
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Continuous, Discrete, Environment
from rlx.models import mlp
from rlx.types import Key

_MIN_LOG_STD, _MAX_LOG_STD = -5.0, 2.0  # of a squashed Gaussian
_HIDDEN_SCALE = math.sqrt(2)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Network:
  """Parameters, and a function of them.

  Attributes:
    init: `key -> params`.
    apply: `(params, *inputs) -> outputs`; each factory says which.
  """

  init: Callable[[Key], Any]
  apply: Callable[..., jax.Array]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
  """A distribution of actions for observations [..., *observation_shape].

  Attributes:
    init: `key -> params`.
    sample: `(params, observations, key) -> (actions, logprobs [...])`; differentiable in the actions where
      they are continuous.
    mode: `(params, observations) -> actions`, what the policy does without chance.
    score: `(params, observations, actions) -> (logprobs [...], entropy [...])`.
  """

  init: Callable[[Key], Any]
  sample: Callable[[Any, jax.Array, Key], tuple[jax.Array, jax.Array]]
  mode: Callable[[Any, jax.Array], jax.Array]
  score: Callable[[Any, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GaussianPolicy(Policy):
  """A policy whose actions are what became of a draw from a Gaussian with a diagonal covariance.

  Attributes:
    moments: `(params, observations) -> (mean, log_std)`, [..., A] each, of that Gaussian.
    logprobs: `(mean, log_std, actions) -> [...]`, of actions under any such Gaussian.
  """

  moments: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]
  logprobs: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GreedyPolicy(Policy):
  """A policy that is made of what a network thinks actions are worth; its parameters are the network's.

  Attributes:
    outputs: `(params, observations) -> [..., num_actions, ...]`, what the network says of each action: its
      value, or the distribution of its return.
    values: `(params, observations) -> [..., num_actions]`.
  """

  outputs: Callable[[Any, jax.Array], jax.Array]
  values: Callable[[Any, jax.Array], jax.Array]


# --- policies -----------------------------------------------------------------------------------------------


def categorical(env: Environment, *, hidden: tuple[int, ...], activation: str) -> Policy:
  """A softmax over discrete actions.

  Raises:
    ValueError: the actions are not discrete.
  """
  _require(env, Discrete, 'categorical')
  return softmax_policy(*_trunk(env, hidden, activation, env.actions.num))


def softmax_policy(init, logits) -> Policy:
  """The softmax of `logits: (params, observations) -> [..., num_actions]` as a policy."""

  def sample(params, observations, key):
    all_logprobs = jax.nn.log_softmax(logits(params, observations))
    actions = jax.random.categorical(key, all_logprobs)
    return actions, picked(all_logprobs, actions)

  def score(params, observations, actions):
    all_logprobs = jax.nn.log_softmax(logits(params, observations))
    return picked(all_logprobs, actions), -jnp.sum(jnp.exp(all_logprobs) * all_logprobs, axis=-1)

  mode = lambda params, observations: jnp.argmax(logits(params, observations), axis=-1)
  return Policy(init=init, sample=sample, mode=mode, score=score)


def gaussian(
    env: Environment, *, hidden: tuple[int, ...], activation: str, initial_log_std: float
) -> GaussianPolicy:
  """A Gaussian whose standard deviations do not depend on the observation; the environment clips its actions.

  Raises:
    ValueError: the actions are not continuous.
  """
  _require(env, Continuous, 'gaussian')
  size = env.actions.size
  init_mean, mean = _trunk(env, hidden, activation, size)
  init = lambda key: {'mean': init_mean(key), 'log_std': jnp.full(size, initial_log_std, jnp.float32)}

  logprobs = lambda centre, log_std, actions: _normal_logprobs(actions, centre, log_std)

  def moments(params, observations):
    centre = mean(params['mean'], observations)
    return centre, jnp.broadcast_to(params['log_std'], centre.shape)

  def score(params, observations, actions):
    centre, log_std = moments(params, observations)
    entropy = jnp.sum(log_std + 0.5 * math.log(2 * math.pi * math.e), axis=-1)
    return logprobs(centre, log_std, actions), entropy

  def sample(params, observations, key):
    centre, log_std = moments(params, observations)
    actions = centre + jnp.exp(log_std) * jax.random.normal(key, centre.shape)
    return actions, logprobs(centre, log_std, actions)

  mode = lambda params, observations: mean(params['mean'], observations)
  return GaussianPolicy(
      init=init, sample=sample, mode=mode, score=score, moments=moments, logprobs=logprobs
  )


def squashed_gaussian(env: Environment, *, hidden: tuple[int, ...], activation: str) -> GaussianPolicy:
  """tanh of a Gaussian whose mean and standard deviation depend on the observation.

      log π(a) = log N(u; μ, σ) - Σ log(1 - tanh²(u)),  a = tanh(u)

  The last term is computed as 2 (log 2 - u - softplus(-2u)), which is exact where tanh(u) rounds to 1. The
  entropy that `score` returns is the one-sample estimate -log π(a); there is no closed form.

  Raises:
    ValueError: the actions are not continuous.
  Source: Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905, appendix C.
  """
  _require(env, Continuous, 'squashed_gaussian')
  init, trunk = _trunk(env, hidden, activation, 2 * env.actions.size)

  def parts(params, observations):
    mean, log_std = jnp.split(trunk(params, observations), 2, axis=-1)
    middle, half = (_MAX_LOG_STD + _MIN_LOG_STD) / 2, (_MAX_LOG_STD - _MIN_LOG_STD) / 2
    return mean, middle + half * jnp.tanh(log_std)

  def squashed_logprobs(unsquashed, mean, log_std):
    volume = jnp.sum(2 * (math.log(2) - unsquashed - jax.nn.softplus(-2 * unsquashed)), axis=-1)
    return _normal_logprobs(unsquashed, mean, log_std) - volume

  def sample(params, observations, key):
    mean, log_std = parts(params, observations)
    unsquashed = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
    return jnp.tanh(unsquashed), squashed_logprobs(unsquashed, mean, log_std)

  def logprobs(mean, log_std, actions):
    unsquashed = jnp.arctanh(jnp.clip(actions, -1 + 1e-6, 1 - 1e-6))  # what float32 can tell from ±1
    return squashed_logprobs(unsquashed, mean, log_std)

  def score(params, observations, actions):
    scores = logprobs(*parts(params, observations), actions)
    return scores, -scores

  mode = lambda params, observations: jnp.tanh(parts(params, observations)[0])
  return GaussianPolicy(init=init, sample=sample, mode=mode, score=score, moments=parts, logprobs=logprobs)


def deterministic(
    env: Environment, *, hidden: tuple[int, ...], activation: str, exploration_noise: float
) -> Policy:
  """tanh of a network; `sample` adds Gaussian noise and clips, and has no log-probability (0).

  `score` is minus half the squared distance to the mode, the log-likelihood of a unit Gaussian up to a
  constant: what behaviour cloning maximises. Its entropy is 0.

  Args:
    env: what is controlled.
    hidden: units of each hidden layer.
    activation: between layers.
    exploration_noise: standard deviation, in units of the actions.
  Raises:
    ValueError: the actions are not continuous.
  """
  _require(env, Continuous, 'deterministic')
  init, trunk = _trunk(env, hidden, activation, env.actions.size)
  mode = lambda params, observations: jnp.tanh(trunk(params, observations))
  return deterministic_policy(init, mode, exploration_noise=exploration_noise)


def deterministic_policy(init, mode, *, exploration_noise: float) -> Policy:
  """What `deterministic` is, for any `mode: (params, observations) -> actions`."""

  def sample(params, observations, key):
    actions = mode(params, observations)
    noise = exploration_noise * jax.random.normal(key, actions.shape)
    return jnp.clip(actions + noise, -1, 1), jnp.zeros(actions.shape[:-1])

  def score(params, observations, actions):
    distance = jnp.sum(jnp.square(actions - mode(params, observations)), axis=-1)
    return -distance / 2, jnp.zeros_like(distance)

  return Policy(init=init, sample=sample, mode=mode, score=score)


def epsilon_greedy(
    env: Environment, *, network: Callable[[Environment], Network], epsilon: float
) -> GreedyPolicy:
  """The best action of Q(s, ·), or with probability ε any.

  Args:
    env: what is controlled.
    network: `env -> Network` of Q(s, ·), such as `action_values` or `dueling` with their numbers.
    epsilon: in [0, 1].
  Raises:
    ValueError: the actions are not discrete, or `epsilon` is not a probability.
  """
  _require(env, Discrete, 'epsilon_greedy')
  q = network(env)
  return greedy_policy(q.init, q.apply, q.apply, epsilon=epsilon)


def greedy_policy(init, outputs, values, *, epsilon: float) -> GreedyPolicy:
  """A `GreedyPolicy` that takes any action with probability `epsilon`; arguments are its attributes.

  Raises:
    ValueError: `epsilon` is not a probability.
  """
  if not 0 <= epsilon <= 1:
    raise ValueError(f'epsilon={epsilon}: it is a probability, in [0, 1]')

  def all_logprobs(params, observations):
    q = values(params, observations)
    best = jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1])
    return jnp.log((1 - epsilon) * best + epsilon / q.shape[-1])

  def sample(params, observations, key):
    logprobs = all_logprobs(params, observations)
    actions = jax.random.categorical(key, logprobs)
    return actions, picked(logprobs, actions)

  def score(params, observations, actions):
    logprobs = all_logprobs(params, observations)
    entropy = -jnp.sum(jnp.where(jnp.isfinite(logprobs), jnp.exp(logprobs) * logprobs, 0), axis=-1)
    return picked(logprobs, actions), entropy

  mode = lambda params, observations: jnp.argmax(values(params, observations), axis=-1)
  return GreedyPolicy(init=init, sample=sample, mode=mode, score=score, outputs=outputs, values=values)


# --- values -------------------------------------------------------------------------------------------------


def state_value(env: Environment, *, hidden: tuple[int, ...], activation: str) -> Network:
  """V(s): `apply(params, observations [..., O]) -> [...]`."""
  init, trunk = _trunk(env, hidden, activation, 1, final_scale=1.0)
  return Network(init=init, apply=lambda params, observations: trunk(params, observations)[..., 0])


def critics(
    env: Environment, *, num: int, hidden: tuple[int, ...], activation: str, layer_norm: bool
) -> Network:
  """An ensemble of Q(s, a): `apply(params, observations [..., O], actions [..., A]) -> [num, ...]`.

  Raises:
    ValueError: the actions are not continuous, or `num` is not positive.
  """
  several = outputs_of_both(
      env, num=num, hidden=hidden, activation=activation, layer_norm=layer_norm, num_outputs=1
  )
  return Network(init=several.init, apply=lambda *arguments: several.apply(*arguments)[..., 0])


def outputs_of_both(
    env: Environment, *, num: int, hidden: tuple[int, ...], activation: str, layer_norm: bool,
    num_outputs: int,
) -> Network:
  """An ensemble that says numbers of observations [..., O] and actions [..., A]: [num, ..., num_outputs].

  Raises:
    ValueError: the actions are not continuous, or a number is not positive.
  """
  _require(env, Continuous, 'critics')
  if min(num, num_outputs) < 1:
    raise ValueError(f'num={num} critics of {num_outputs} numbers: at least 1 of each')
  sizes = (_flat_size(env) + env.actions.size, *hidden, num_outputs)
  between = mlp.activation(activation)
  init = lambda key: mlp.init_ensemble(
      key, num, sizes, scale=_HIDDEN_SCALE, final_scale=1.0, layer_norm=layer_norm
  )

  def apply(params, observations, actions):
    inputs = jnp.concatenate([_flat(env, observations), actions], axis=-1)
    return mlp.apply_ensemble(params, inputs, between)

  return Network(init=init, apply=apply)


def action_values(env: Environment, *, hidden: tuple[int, ...], activation: str, layer_norm: bool) -> Network:
  """Q(s, ·) of discrete actions: `apply(params, observations [..., O]) -> [..., num_actions]`.

  Raises:
    ValueError: the actions are not discrete.
  """
  _require(env, Discrete, 'action_values')
  return outputs_of(env, num=env.actions.num, hidden=hidden, activation=activation, layer_norm=layer_norm)


def outputs_of(
    env: Environment, *, num: int, hidden: tuple[int, ...], activation: str, layer_norm: bool
) -> Network:
  """Numbers about an observation: `apply(params, observations [..., O]) -> [..., num]`."""
  init, apply = _trunk(env, hidden, activation, num, final_scale=1.0, layer_norm=layer_norm)
  return Network(init=init, apply=apply)


def dueling(env: Environment, *, hidden: tuple[int, ...], activation: str, layer_norm: bool) -> Network:
  """Q(s, ·) = V(s) + A(s, ·) - mean A(s, ·): `apply(params, observations [..., O]) -> [..., num_actions]`.

  The two share all hidden layers, so that they are one more output of the last layer; in the paper each has
  a hidden layer of its own.

  Raises:
    ValueError: the actions are not discrete.
  Source: Wang et al., 2015, https://arxiv.org/abs/1511.06581, eq. 9.
  """
  _require(env, Discrete, 'dueling')
  init, trunk = _trunk(
      env, hidden, activation, 1 + env.actions.num, final_scale=1.0, layer_norm=layer_norm
  )

  def apply(params, observations):
    outputs = trunk(params, observations)
    value, advantages = outputs[..., :1], outputs[..., 1:]
    return value + advantages - advantages.mean(axis=-1, keepdims=True)

  return Network(init=init, apply=apply)


def discrete_critics(env: Environment, *, num: int, hidden: tuple[int, ...], activation: str) -> Network:
  """`critics` of discrete actions: `apply(params, observations [..., O], actions [...]) -> [num, ...]`.

  Raises:
    ValueError: the actions are not discrete, or `num` is not positive.
  """
  _require(env, Discrete, 'discrete_critics')
  if num < 1:
    raise ValueError(f'num={num} critics: at least 1')
  init, values = _trunk(env, hidden, activation, env.actions.num, final_scale=1.0)
  one = lambda member, observations, actions: picked(values(member, observations), actions)
  return Network(
      init=lambda key: jax.vmap(init)(jax.random.split(key, num)), apply=jax.vmap(one, (0, None, None))
  )


def positive(*, initial: float) -> Network:
  """A trained positive number, kept as its logarithm: `apply(params) -> []`, such as a temperature.

  Raises:
    ValueError: `initial` is not positive.
  """
  if initial <= 0:
    raise ValueError(f'initial={initial}: the number is kept as its logarithm, so it is above 0')
  return Network(init=lambda key: {'log': jnp.float32(math.log(initial))}, apply=lambda p: jnp.exp(p['log']))


def behind(
    network: Network | Policy, see: Callable[[Any, jax.Array], tuple[Any, jax.Array]]
) -> Network | Policy:
  """A network that sees its observations through a function; it begins as it did.

  Args:
    network: whose functions take parameters and observations first.
    see: `(params, observations) -> (the network's own parameters, what it sees)`.
  """
  def through(function):
    return lambda params, observations, *rest: function(*see(params, observations), *rest)

  names = [field.name for field in dataclasses.fields(network) if field.name != 'init']
  functions = {name: getattr(network, name) for name in names}
  return dataclasses.replace(network, **{name: through(f) for name, f in functions.items() if callable(f)})


# --- parts --------------------------------------------------------------------------------------------------


def picked(of_actions: jax.Array, actions: jax.Array) -> jax.Array:
  """What [..., num_actions, *N] says of discrete actions [...]: [..., *N]."""
  places = actions.reshape(actions.shape + (1,) * (of_actions.ndim - actions.ndim))
  return jnp.take_along_axis(of_actions, places, axis=actions.ndim).squeeze(actions.ndim)


def _trunk(env, hidden, activation, num_out, final_scale=0.01, layer_norm=False):
  """`(init, apply)` of a network from observations [..., *observation_shape] to [..., num_out]."""
  sizes = (_flat_size(env), *hidden, num_out)
  between = mlp.activation(activation)
  init = lambda key: mlp.init(
      key, sizes, scale=_HIDDEN_SCALE, final_scale=final_scale, layer_norm=layer_norm
  )
  return init, lambda params, observations: mlp.apply(params, _flat(env, observations), between)


def _flat_size(env) -> int:
  return math.prod(env.observation_shape)


def _flat(env, observations):
  """[..., *observation_shape] as [..., O]."""
  batch = observations.shape[: observations.ndim - len(env.observation_shape)]
  return observations.reshape(*batch, _flat_size(env))


def _normal_logprobs(x, mean, log_std):
  unit = (x - mean) * jnp.exp(-log_std)
  return jnp.sum(-0.5 * jnp.square(unit) - log_std - 0.5 * math.log(2 * math.pi), axis=-1)


def _require(env, kind, who: str) -> None:
  if not isinstance(env.actions, kind):
    raise ValueError(f'{who}: actions are {env.actions}; it needs {kind.__name__.lower()} ones')
