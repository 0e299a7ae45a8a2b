"""C51: the distribution of the return of each action, as probabilities of fixed atoms.

    Q(s, a) = Σ_i z_i p_i(s, a),   a* = argmax_a Σ_i z_i p̄_i(s', a)
    m = Π [r + γ (1 - terminated) z, p̄(s', a*)],   L = mean w (-Σ_i m_i log p_i(s, a))

Π gives the mass of an atom that was moved to the two nearest ones, in proportion to how near they are; what
leaves [low, high] stays at the end. Rows of prioritised and n-step replay as in `dqn.py`; the priority is L,
as in Rainbow.

Source: Bellemare et al., 2017, https://arxiv.org/abs/1707.06887, algorithm 1.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.algorithms.control.dqn import picked
from rlx.envs.control.environment import Environment
from rlx.models import networks
from rlx.models.networks import GreedyPolicy
from rlx.rollout.control.replay import discounts, weights
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def greedy_on_atoms(
    env: Environment, *, hidden: tuple[int, ...], activation: str, num_atoms: int, low: float, high: float,
    epsilon: float,
) -> GreedyPolicy:
  """ε-greedy over the means of distributions; `outputs` are their logits [..., num_actions, num_atoms].

  Raises:
    ValueError: as `greedy_on`, or the atoms do not span an interval.
  """
  z = atoms(num_atoms=num_atoms, low=low, high=high)
  mean = lambda logits: jax.nn.softmax(logits, axis=-1) @ z
  return greedy_on(
      env, mean, hidden=hidden, activation=activation, num_outputs=num_atoms, epsilon=epsilon
  )


def greedy_on(
    env: Environment, mean, *, hidden: tuple[int, ...], activation: str, num_outputs: int, epsilon: float
) -> GreedyPolicy:
  """ε-greedy where a network says `num_outputs` numbers of each action, and `mean` [..., N] -> [...] of them.

  Raises:
    ValueError: the actions are not discrete, or `epsilon` is not a probability.
  """
  num = getattr(env.actions, 'num', 0)
  if not num:
    raise ValueError(f'actions are {env.actions}; this policy needs discrete ones')
  flat = networks.outputs_of(env, num=num * num_outputs, hidden=hidden, activation=activation)

  def outputs(params, observations):
    x = flat.apply(params, observations)
    return x.reshape(*x.shape[:-1], num, num_outputs)

  values = lambda params, observations: mean(outputs(params, observations))
  return networks.greedy_policy(flat.init, outputs, values, epsilon=epsilon)


def c51(
    rollout: Rollout, policy: GreedyPolicy, *, num_atoms: int, low: float, high: float, discount: float,
    target_period: int,
) -> Algorithm:
  """Categorical deep Q-learning; trains `policy`, and `slow['target']` copies it now and then.

  Args:
    rollout: yields transitions.
    policy: `greedy_on_atoms`, of the same atoms.
    num_atoms: N (the paper: 51).
    low: the first atom, in the units of returns.
    high: the last atom.
    discount: γ per step.
    target_period: updates between two copies.
  Raises:
    ValueError: the atoms do not span an interval.
  """
  z = atoms(num_atoms=num_atoms, low=low, high=high)

  def cross_entropy(models: Models, batch: Batch) -> jax.Array:
    following = batch['next_observations']
    best = jnp.argmax(policy.values(models['target'], following), axis=-1)
    probabilities = jax.nn.softmax(picked(policy.outputs(models['target'], following), best))
    moved = batch['rewards'][:, None] + discounts(batch, discount)[:, None] * z[None]
    targets = jax.lax.stop_gradient(projected(moved, probabilities, z))
    logits = picked(policy.outputs(models['policy'], batch['observations']), batch['actions'])
    return -jnp.sum(targets * jax.nn.log_softmax(logits), axis=-1)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    return {**batch, 'priorities': cross_entropy(models, batch)}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    critic_loss = jnp.mean(weights(batch) * cross_entropy(models, batch))
    values = policy.values(models['policy'], batch['observations'])
    return critic_loss, {'loss/critic': critic_loss, 'critic/mean': values.mean()}

  track = tracking.periodic({'target': 'policy'}, period=target_period)
  return Algorithm(rollout=rollout, advantage=advantage, loss=loss, track=track)


def atoms(*, num_atoms: int, low: float, high: float) -> jax.Array:
  """[N] z, evenly spaced from `low` to `high`.

  Raises:
    ValueError: there are less than two, or they do not rise.
  """
  if num_atoms < 2 or low >= high:
    raise ValueError(f'num_atoms={num_atoms} from low={low} to high={high}: at least 2, and low below high')
  return jnp.linspace(low, high, num_atoms)


def projected(moved: jax.Array, probabilities: jax.Array, z: jax.Array) -> jax.Array:
  """Π: the mass of atoms that stand at `moved` [B, N], on the atoms z [N]; [B, N].

  An atom of z takes from each moved one the share 1 - distance / spacing, if that is above 0.
  """
  held = jnp.clip(moved, z[0], z[-1])
  distance = jnp.abs(held[:, None, :] - z[None, :, None]) / (z[1] - z[0])
  return jnp.sum(jnp.clip(1 - distance, 0, 1) * probabilities[:, None, :], axis=-1)
