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

from rlx.algorithms.control.dqn import q_learning
from rlx.models.critics import atoms
from rlx.models.networks import GreedyPolicy, picked
from rlx.rollout.control.replay import discounts
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def c51(
    rollout: Rollout, policy: GreedyPolicy, *, num_atoms: int, low: float, high: float, discount: float,
    target_period: int, target_rate: float = 1.0,
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
    target_rate: of what is copied; with a period of 1 and a small rate the target follows smoothly (Polyak).
  Raises:
    ValueError: the atoms do not span an interval.
  """
  z = atoms(num_atoms=num_atoms, low=low, high=high)

  def judge(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, jax.Array, jax.Array]:
    del key
    following = batch['next_observations']
    best = jnp.argmax(policy.values(models['target'], following), axis=-1)
    probabilities = jax.nn.softmax(picked(policy.outputs(models['target'], following), best))
    moved = batch['rewards'][:, None] + discounts(batch, discount)[:, None] * z[None]
    targets = jax.lax.stop_gradient(projected(moved, probabilities, z))
    logits = picked(policy.outputs(models['policy'], batch['observations']), batch['actions'])
    errors = -jnp.sum(targets * jax.nn.log_softmax(logits), axis=-1)
    return errors, errors, policy.values(models['policy'], batch['observations'])

  return q_learning(rollout, judge, target_period=target_period, target_rate=target_rate)


def projected(moved: jax.Array, probabilities: jax.Array, z: jax.Array) -> jax.Array:
  """Π: the mass of atoms that stand at `moved` [B, N], on the atoms z [N]; [B, N].

  An atom of z takes from each moved one the share 1 - distance / spacing, if that is above 0.
  """
  held = jnp.clip(moved, z[0], z[-1])
  distance = jnp.abs(held[:, None, :] - z[None, :, None]) / (z[1] - z[0])
  return jnp.sum(jnp.clip(1 - distance, 0, 1) * probabilities[:, None, :], axis=-1)
