"""SRL: one observation, several actions: a policy that decides seldom and is judged at every step.

    π(a_t, ..., a_{t+J-1} | s_t) = Π_j π_j(a_{t+j} | s_t)
    ŝ_t = s_t,   ŝ_{t+j+1} = m(ŝ_{t+j}, a_{t+j})
    L_π = Σ_j mean (α log π_j(a_{t+j} | s_t) - min_i Q_i(ŝ_{t+j}, a_{t+j}))

The critic is SAC's, of single steps, so the first action (j = 0) is SAC's own. A model m of the world, learnt
from the same transitions, says in which states the later actions will be taken, and the critic judges each
of them there (temporal recall). Neither is needed to act. The gradient of an action is that of its own Q:
what it does to later states is in Q already, so the states are held. Actions behind the predicted end of an
episode are judged like others, for they are never carried out. With J = 1 it is SAC beside a model.

Source: Patel and Siegelmann, 2024, https://arxiv.org/abs/2410.08979, read in its abstract and summaries: the
equations, a temperature that follows the first action alone, and a model fitted by its likelihood are our
reading.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.losses.value import lowest
from rlx.models import dynamics as models_of_the_world
from rlx.models.dynamics import Dynamics
from rlx.models.networks import Network
from rlx.models.sequence import Sequence
from rlx.types import Algorithm, Batch, Key, Models


def sequence_rl(
    parent: Algorithm, policy: Sequence, critic: Network, temperature: Network, dynamics: Dynamics, *,
    length: int,
) -> Algorithm:
  """Sequence reinforcement learning; trains what its parent trains, and `dynamics`.

  Args:
    parent: `sac`, on transitions of single steps, such as those of `sequences`.
    policy: of the parent, as are the next two, a `sequence`: what is trained are its planner and its head.
    critic: an ensemble of Q(s, a).
    temperature: α; it follows the entropy of the first action.
    dynamics: a forward model; the mean of its members is what is predicted.
    length: J, how far ahead the policy learns to decide.
  Raises:
    ValueError: `length` is not positive.
  """
  if length < 1:
    raise ValueError(f'length={length}: a sequence has at least 1 action')
  held = jax.lax.stop_gradient

  def loss(models: Models, batch: Batch, key: Key):
    first_key, later_key = jax.random.split(key)
    first_loss, metrics = parent.loss(models, batch, first_key)
    model_loss = models_of_the_world.forward_loss(dynamics, models['dynamics'], batch).mean()

    carries = policy.carries(models['policy'], batch['observations'], length)
    actions, logprobs = policy.head.sample(models['policy']['head'], carries, later_key)
    states = held(recall(dynamics, models['dynamics'], batch['observations'], actions))
    judged = lowest(critic.apply(held(models['critic']), states, actions), axis=0)
    each = held(temperature.apply(models['temperature'])) * logprobs - judged
    later_loss = each[:, 1:].sum(axis=1).mean()
    metrics = {**metrics, 'loss/later_actions': later_loss, 'loss/dynamics': model_loss}
    return first_loss + later_loss + model_loss, metrics

  return dataclasses.replace(parent, loss=loss)


def recall(dynamics: Dynamics, params, observations: jax.Array, actions: jax.Array) -> jax.Array:
  """[B, J, O] the state that each action is taken in, as the model predicts it.

  Args:
    dynamics: the model.
    params: its parameters.
    observations: [B, O] that the first actions are taken in.
    actions: [B, J, A] one after the other.
  """

  def step(states, actions):
    mean, _, _ = dynamics.apply(params, states, actions)
    return states + mean.mean(axis=0)[:, :-1], states

  _, states = jax.lax.scan(step, observations, jnp.swapaxes(actions, 0, 1))
  return jnp.swapaxes(states, 0, 1)
