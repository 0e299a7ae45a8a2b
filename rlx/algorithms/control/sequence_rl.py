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

from collections.abc import Callable
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from rlx.algorithms.control.resfit import chunked
from rlx.algorithms.control.sac import sac
from rlx.envs.control.environment import Environment
from rlx.evaluation import episodes as evaluate_control
from rlx.evaluation.text import Evaluation
from rlx.losses.value import lowest
from rlx.models import dynamics as models_of_the_world
from rlx.models import mlp, networks
from rlx.models.dynamics import Dynamics
from rlx.models.networks import Network, Policy
from rlx.rollout.control.replay import replay
from rlx.types import Algorithm, Batch, Key, Models, Rollout, StatefulRollout, World


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sequence(Policy):
  """A `Policy` of single actions that can also decide ahead; its parameters hold those of `head` as 'head'.

  Attributes:
    carries: `(params, observations [..., O], length) -> [..., length, D]`, what each action is made of.
    head: a policy with carries for observations. Given them, the actions of a sequence are independent.
  """

  carries: Callable[[Any, jax.Array, int], jax.Array]
  head: Policy


def sequence_rl(
    rollout: Rollout,
    env: Environment,
    policy: Sequence,
    critic: Network,
    temperature: Network,
    dynamics: Dynamics,
    *,
    length: int,
    discount: float,
    target_rate: float,
    target_entropy: float,
) -> Algorithm:
  """Sequence reinforcement learning; trains what `sac` trains, and `dynamics`.

  Args:
    rollout: yields transitions of single steps, such as `sequences`.
    env: as for `sac`.
    policy: `gru_sequence`.
    critic: as for `sac`.
    temperature: as for `sac`; it follows the entropy of the first action.
    dynamics: a forward model; the mean of its members is what is predicted.
    length: J, how far ahead the policy learns to decide.
    discount: γ per step.
    target_rate: as for `sac`.
    target_entropy: as for `sac`.
  Raises:
    ValueError: `length` is not positive.
  """
  if length < 1:
    raise ValueError(f'length={length}: a sequence has at least 1 action')
  held = jax.lax.stop_gradient
  base = sac(
      rollout, env, policy, critic, temperature, discount=discount, target_rate=target_rate,
      target_entropy=target_entropy,
  )

  def loss(models: Models, batch: Batch, key: Key):
    first_key, later_key = jax.random.split(key)
    first_loss, metrics = base.loss(models, batch, first_key)
    model_loss = models_of_the_world.forward_loss(dynamics, models['dynamics'], batch).mean()

    carries = policy.carries(models['policy'], batch['observations'], length)
    actions, logprobs = policy.head.sample(models['policy']['head'], carries, later_key)
    states = held(recall(dynamics, models['dynamics'], batch['observations'], actions))
    judged = lowest(critic.apply(held(models['critic']), states, actions), axis=0)
    each = held(temperature.apply(models['temperature'])) * logprobs - judged
    later_loss = each[:, 1:].sum(axis=1).mean()
    metrics = {**metrics, 'loss/later_actions': later_loss, 'loss/dynamics': model_loss}
    return first_loss + later_loss + model_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=base.track)


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


def gru_sequence(env: Environment, *, size: int, hidden: tuple[int, ...], activation: str) -> Sequence:
  """A gated recurrent unit that reads the same observation again at each place of the sequence.

      r = σ(f_r(s) + U_r h),   z = σ(f_z(s) + U_z h),   h ← (1 - z) tanh(f_n(s) + r U_n h) + z h

  Sequences may be of any length, whatever length the policy was trained with.

  Args:
    env: what is controlled; observations [O].
    size: D of the carry.
    hidden: units of each hidden layer of f.
    activation: between the layers of f.
  Raises:
    ValueError: the actions are not continuous, or observations are no vectors.
  """
  if len(env.observation_shape) != 1:
    raise ValueError(f'gru_sequence: observations {env.observation_shape}; it needs vectors')
  act = mlp.activation(activation)
  head = networks.squashed_gaussian(
      dataclasses.replace(env, observation_shape=(size,)), hidden=(), activation=activation
  )
  shape = dict(scale=math.sqrt(2), final_scale=1.0, layer_norm=False)

  def init(key: Key):
    input_key, recurrent_key, head_key = jax.random.split(key, 3)
    return {
        'input': mlp.init(input_key, (*env.observation_shape, *hidden, 3 * size), **shape),
        'recurrent': mlp.init(recurrent_key, (size, 3 * size), **shape),
        'head': head.init(head_key),
    }

  def carries(params, observations, length):
    of_input = jnp.split(mlp.apply(params['input'], observations, act), 3, axis=-1)

    def step(carry, _):
      of_carry = jnp.split(mlp.apply(params['recurrent'], carry, act), 3, axis=-1)
      reset, keep = (jax.nn.sigmoid(a + b) for a, b in zip(of_input[:2], of_carry[:2], strict=True))
      new = jnp.tanh(of_input[2] + reset * of_carry[2])
      carry = (1 - keep) * new + keep * carry
      return carry, carry

    _, each = jax.lax.scan(step, jnp.zeros_like(of_input[0]), length=length)
    return jnp.moveaxis(each, 0, -2)

  now = lambda params, observations: carries(params, observations, 1)[..., 0, :]
  return Sequence(init=init, carries=carries, head=head, **_acts(head, now))


def paced(policy: Sequence, env: Environment) -> Policy:
  """The policy in `chunked` environments of any chunk: it decides at the first step and then does not look.

  Args:
    policy: decides ahead.
    env: that is chunked, before it was.
  """
  (size,) = env.observation_shape

  def now(params, observations):
    start, place = observations[..., size : 2 * size], observations[..., 2 * size :]
    return jnp.sum(policy.carries(params, start, place.shape[-1]) * place[..., None], axis=-2)

  return Policy(init=policy.init, **_acts(policy.head, now))


def sequences(
    env: Environment, policy: Sequence, *, length: int, num_envs: int, num_steps: int, capacity: int,
    warmup_steps: int, batch_size: int,
) -> StatefulRollout:
  """`replay` of single steps, of a policy that looks at every `length`th observation alone.

  Args:
    env: one environment.
    policy: decides ahead.
    length: steps between two decisions.
    num_envs: as in `replay`, and so are those that follow.
    num_steps: of each environment a train step, whether they are decisions or not.
    capacity: as in `replay`.
    warmup_steps: as in `replay`.
    batch_size: as in `replay`.
  """
  (size,) = env.observation_shape
  inner = replay(
      chunked(inner=lambda: env, chunk=length), paced(policy, env), num_envs=num_envs, num_steps=num_steps,
      capacity=capacity, warmup_steps=warmup_steps, batch_size=batch_size,
  )

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner.draw(models, world, key)
    seen = {name: batch[name][:, :size] for name in ('observations', 'next_observations')}
    return {**batch, **seen}, world

  return dataclasses.replace(inner, draw=draw)


def decision_periods(
    env: Environment, policy: Sequence, *, periods: tuple[int, ...], episodes: int, max_steps: int
) -> Evaluation:
  """`evaluate_control.episodes` at several frequencies: a decision every step, every second one, ...

  All numbers are means over the periods, so `eval/score` is the frequency-averaged score; that of each
  period is `eval/score_every_x`.

  Args:
    env: one environment.
    policy: decides ahead.
    periods: steps between two decisions.
    episodes: for each period.
    max_steps: after which an episode is left.
  Source: as the module; the paper's score is the area under the curve of performance over frequency, of which
    a mean over chosen periods is our reading.
  """
  acting = paced(policy, env)
  each = {
      period: evaluate_control.episodes(
          chunked(inner=lambda: env, chunk=period), acting, episodes=episodes, max_steps=max_steps
      )
      for period in periods
  }

  def ask(params):
    answers = {period: evaluation.ask(params) for period, evaluation in each.items()}
    means = jax.tree.map(lambda *x: jnp.stack(x).mean(), *answers.values())
    return means | {f'eval/score_every_{period}': x['eval/score'] for period, x in answers.items()}

  def read(answer):
    return {name: float(x) for name, x in answer.items()}, []

  return Evaluation(ask=ask, read=read)


def _acts(head: Policy, now) -> dict[str, Callable]:
  """`sample`, `mode` and `score` of the action that is made of the carry `now(params, observations)`."""
  return {
      'sample': lambda params, seen, key: head.sample(params['head'], now(params, seen), key),
      'mode': lambda params, seen: head.mode(params['head'], now(params, seen)),
      'score': lambda params, seen, actions: head.score(params['head'], now(params, seen), actions),
  }
