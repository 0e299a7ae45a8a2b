"""Networks that see observations with mean 0 and deviation 1, by moments that are a model of their own.

The moments of a run are an entry of its `models`, held in `slow`; policies, values and critics that are
`normalised` stand on them. So whoever has a policy has its moments: rollouts, losses, evaluations, data sets
and later stages see the same numbers, and batches and stores keep observations as they were. Where they come
from is one of two:

- `moments`, that the rollout `with_moments` keeps up: of all rows that were learnt from. They change behind
  the last update of a step, so that the policy that is updated is the one that has acted.
- `moments_of` a data set, which never change: the custom of offline learning (D4RL).

Evaluations see the moments as they are, and do not change them.
"""

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.models.model import Model
from rlx.models.networks import Network, Policy, behind
from rlx.types import Batch

MOMENTS = 'moments'  # the model that networks stand on
_EPS = 1e-8


def moments(env: Environment) -> Network:
  """Of nothing yet: mean 0 and variance 1. `apply(params, observations) -> observations`, normalised."""
  shape = env.observation_shape
  begun = {'mean': jnp.zeros(shape), 'variance': jnp.ones(shape), 'count': jnp.zeros(())}
  return Network(init=lambda key: jax.tree.map(jnp.copy, begun), apply=normalise)


def moments_of(data: Batch) -> Network:
  """Of the observations of the run's data set; those of the authors of IQL and TD3+BC, who add 1e-3 to σ.

  Args:
    data: transitions, of the last stage's section `data`.
  """
  known = updated(jax.tree.map(jnp.zeros_like, _of(data['observations'])), data['observations'])
  return Network(init=lambda key: jax.tree.map(jnp.copy, known), apply=normalise)


def normalised(network: Network | Policy, moments: Network, *, clip: float) -> Model:
  """A network that sees normalised observations, and is else what it was; its parameters are the same.

  Args:
    network: a policy, or a network whose first input are observations.
    moments: the model of this name.
    clip: of what is seen, in standard deviations (10 is the custom).
  Raises:
    ValueError: `clip` is not positive, or the network is of another kind.
  """
  if clip <= 0 or not isinstance(network, Policy | Network):
    raise ValueError(f'clip={clip} of {type(network).__name__}: above 0, and of a Policy or a Network')

  def see(params, observations: jax.Array):
    return params['network'], jnp.clip(moments.apply(params[MOMENTS], observations), -clip, clip)

  return Model(
      functions=behind(network, see), init=lambda key, models: network.init(key),
      stands_on=(MOMENTS,), view=lambda own, models: {'network': own, MOMENTS: models[MOMENTS]},
  )


def normalise(params, observations: jax.Array) -> jax.Array:
  """(x - mean) / σ of observations [..., *observation_shape]."""
  fit = lambda x: x.reshape((1,) * (observations.ndim - x.ndim) + x.shape)
  return (observations - fit(params['mean'])) * jax.lax.rsqrt(fit(params['variance']) + _EPS)


def updated(params, observations: jax.Array):
  """Moments that have also seen observations [..., *observation_shape]; each counts alike, whenever it came.

  Source: Chan et al., 1979, the merging of variances.
  """
  new, count = _of(observations.reshape(-1, *params['mean'].shape)), params['count']
  total = count + new['count']
  difference = new['mean'] - params['mean']
  share = new['count'] / total
  variance = (1 - share) * params['variance'] + share * new['variance']
  return {
      'mean': params['mean'] + share * difference,
      'variance': variance + share * (1 - share) * jnp.square(difference), 'count': total,
  }


def _of(rows: jax.Array):
  """The moments of rows [N, ...]."""
  return {'mean': rows.mean(axis=0), 'variance': rows.var(axis=0), 'count': jnp.float32(rows.shape[0])}
