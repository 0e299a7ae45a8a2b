"""The decision transformer: an episode is a sequence to go on with, given the return that is wanted.

    R_1, s_1, a_1, R_2, s_2, a_2, ...,   R_t = Σ_{t' >= t} r_t'
    L = mean over the steps of a row of  ‖a_t - π(R_1, s_1, a_1, ..., R_t, s_t)‖²,  or -log π(a_t | ...)

It is `rcsl` that sees the last K steps and not one: a causal transformer whose output at s_t is a_t. Rows are
stretches of episodes; at the time to act, what is asked for goes down by what was earned. Nothing is
bootstrapped or stitched, but what an observation does not show can be remembered.

Source: Chen et al., 2021, https://arxiv.org/abs/2106.01345, section 3 and algorithm 1. As there, the three
tokens of a step share a learnt embedding of its time; here they have rotary positions besides, which tell
them apart, and stretches begin anywhere, are as long as the episode goes, and are not padded in front.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import optax

from rlx.data import transitions as datasets
from rlx.envs.control.environment import Discrete, Environment
from rlx.evaluation.text import Evaluation
from rlx.models import mlp, transformer
from rlx.models.networks import Network
from rlx.rollout.control.hindsight import steps_left
from rlx.types import Algorithm, Batch, Key, Models, Rollout, StatefulRollout, World

_EPISODES_SEED = 0
_INPUTS = ('wanted', 'observations', 'actions', 'steps')  # of a History, in this order


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class History(Network):
  """Actions, given all of a stretch before them.

  `apply(params, wanted [B, T], observations [B, T, O], actions [B, T, ...], steps [B, T]) -> [B, T, A]`:
  actions in [-1, 1], or logits of discrete ones. The output at t looks at `actions` before t alone, and at
  the others up to t.

  Attributes:
    length: K, the longest stretch.
  """

  length: int


def decision_transformer(rollout: Rollout, env: Environment, policy: History) -> Algorithm:
  """Trains `policy`.

  Args:
    rollout: yields the rows of `stretches`.
    env: says whether actions are discrete.
    policy: `causal`.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    found = policy.apply(models['policy'], *(batch[name] for name in _INPUTS))
    if isinstance(env.actions, Discrete):
      errors = optax.softmax_cross_entropy_with_integer_labels(found, batch['actions'])
    else:
      errors = jnp.square(found - batch['actions']).mean(axis=-1)
    counts = batch['valid'].sum(axis=1)
    policy_loss = jnp.mean(jnp.where(batch['valid'], errors, 0).sum(axis=1) / counts)
    return policy_loss, {'loss/policy': policy_loss, 'row/steps': counts.mean()}

  return Algorithm(rollout=rollout, loss=loss)


def stretches(dataset: Batch, *, length: int, batch_size: int) -> StatefulRollout:
  """Stretches of episodes from anywhere on, as many steps as there are and at most `length`.

  Args:
    dataset: with `returns_to_go` [N], undiscounted, the steps of an episode one behind the other.
    length: K.
    batch_size: B.
  Returns:
    A `rollout` of batches with `observations, actions`, `wanted` (the returns to go), `steps` (of the episode
    before each) and `valid`, all [B, K, ...]; what is not valid is at the end of a row.
  Raises:
    ValueError: a number is not positive.
  """
  num = dataset['rewards'].shape[0]
  if min(length, batch_size, num) < 1:
    raise ValueError(f'length={length}, batch_size={batch_size} of {num} rows: at least 1 each')
  places = jnp.arange(num)
  starts = jax.lax.cummax(jnp.where(datasets.episode_starts(dataset), places, 0))
  columns = {
      'observations': dataset['observations'], 'actions': dataset['actions'],
      'wanted': dataset['returns_to_go'], 'steps': places - starts,
  }
  data = {'columns': columns, 'left': steps_left(datasets.episode_ends(dataset))}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    data, ahead = world['data'], jnp.arange(length)[None]
    first = jax.random.randint(key, (batch_size,), 0, num)
    along = jnp.minimum(first[:, None] + ahead, num - 1)
    batch = jax.tree.map(lambda x: x[along], data['columns'])
    batch['valid'] = ahead < data['left'][first][:, None]
    return batch, {name: x for name, x in world.items() if name != 'data'}

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=data)


def causal(
    env: Environment, *, length: int, width: int, num_layers: int, num_heads: int, max_steps: int,
    return_scale: float,
) -> History:
  """A transformer over three tokens a step: return, observation, action.

  Args:
    env: what is controlled; observations [O].
    length: K, steps that it sees.
    width: of the residual stream.
    num_layers: blocks.
    num_heads: divides `width`.
    max_steps: of an episode; later steps are read as the last of these.
    return_scale: returns are divided by it, so that they are of the order of 1.
  Raises:
    ValueError: a number is out of its range, or observations are no vectors.
  """
  if len(env.observation_shape) != 1 or min(length, max_steps) < 1 or width % num_heads or return_scale <= 0:
    raise ValueError(
        f'length={length}, max_steps={max_steps}, return_scale={return_scale}, width={width}, num_heads='
        f'{num_heads} for observations {env.observation_shape}: positive numbers, whole heads, and vectors'
    )
  discrete = isinstance(env.actions, Discrete)
  num_actions = env.actions.num if discrete else env.actions.size
  blocks = transformer.TransformerConfig(
      vocab_size=1, num_layers=num_layers, width=width, num_heads=num_heads, num_kv_heads=num_heads,
      head_size=width // num_heads, mlp_size=4 * width, context_length=3 * length, norm='layernorm',
      activation='gelu', gated=False,
  )
  linear = lambda key, num_in, num_out: mlp.init(
      key, (num_in, num_out), scale=1.0, final_scale=1.0, layer_norm=False
  )
  apply_linear = lambda params, x: mlp.apply(params, x, jnp.tanh)  # of one layer: nothing is between

  def init(key: Key):
    keys = jax.random.split(key, 6)
    stack = transformer.init(keys[0], blocks)
    del stack['embedding']  # tokens are no words
    return {
        'blocks': stack,
        'times': jax.random.normal(keys[1], (max_steps, width)) / math.sqrt(width),
        'wanted': linear(keys[2], 1, width),
        'observed': linear(keys[3], math.prod(env.observation_shape), width),
        'acted': linear(keys[4], num_actions, width),
        'head': linear(keys[5], width, num_actions),
    }

  def apply(params, wanted, observations, actions, steps):
    acted = jax.nn.one_hot(actions, num_actions) if discrete else actions
    times = params['times'][jnp.minimum(steps, max_steps - 1)]
    tokens = [
        apply_linear(params['wanted'], wanted[..., None] / return_scale),
        apply_linear(params['observed'], observations), apply_linear(params['acted'], acted),
    ]
    tokens = jnp.stack([token + times for token in tokens], axis=2)
    num_rows, num_steps = steps.shape
    hidden, _ = transformer.forward(params['blocks'], blocks, tokens.reshape(num_rows, 3 * num_steps, width))
    outputs = apply_linear(params['head'], hidden[:, 1::3])  # at the observations
    return outputs if discrete else jnp.tanh(outputs)

  return History(init=init, apply=apply, length=length)


# --- acting -------------------------------------------------------------------------------------------------


def episodes(
    env: Environment, policy: History, *, target: float, episodes: int, max_steps: int
) -> Evaluation:
  """Episodes in which a return is asked for, and the likeliest actions are taken.

  Args:
    env: one environment.
    policy: what is examined.
    target: the return that is asked for, undiscounted.
    episodes: how many, side by side.
    max_steps: after which an episode that has not ended is left.
  Raises:
    ValueError: a number is not positive.
  """
  if min(episodes, max_steps) < 1:
    raise ValueError(f'episodes={episodes}, max_steps={max_steps}: at least 1 each')

  def ask(params):
    key = jax.random.key(_EPISODES_SEED)
    returns = play(env, policy, params, key, target=target, num=episodes, max_steps=max_steps)
    return {
        'eval/return': returns.mean(), 'eval/return_worst': returns.min(),
        'eval/score': env.score(returns.mean()),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def play(
    env: Environment, policy: History, params, key: Key, *, target: float | jax.Array, num: int,
    max_steps: int,
) -> jax.Array:
  """[num] undiscounted returns of one episode each, with the last K steps in sight."""
  reset_key, steps_key = jax.random.split(key)
  states, observations = jax.vmap(env.reset)(jax.random.split(reset_key, num))
  act = _picked if isinstance(env.actions, Discrete) else lambda outputs: outputs

  def step(carry, inputs):
    states, observations, window, alive, total = carry
    count, key = inputs
    column = jnp.minimum(count, policy.length - 1)
    # A full window moves up by a step, and the newest stands at its end.
    window = jax.tree.map(lambda x: jnp.where(count < policy.length, x, jnp.roll(x, -1, axis=1)), window)
    put = lambda name, x: window[name].at[:, column].set(x)
    seen = {'wanted': target - total, 'observations': observations, 'steps': count}
    window |= {name: put(name, x) for name, x in seen.items()}
    actions = act(policy.apply(params, *(window[name] for name in _INPUTS))[:, column])
    window |= {'actions': put('actions', actions)}
    new = jax.vmap(env.step)(states, actions, jax.random.split(key, num))
    total = total + jnp.where(alive, new.reward, 0)
    return (new.state, new.observation, window, alive & ~new.ended, total), None

  room = lambda shape, dtype=jnp.float32: jnp.zeros((num, policy.length, *shape), dtype)
  integers = jnp.int32 if isinstance(env.actions, Discrete) else jnp.float32
  window = {
      'wanted': room(()), 'observations': room(env.observation_shape),
      'actions': room(env.actions.shape, integers), 'steps': room((), jnp.int32),
  }
  carry = (states, observations, window, jnp.ones(num, bool), jnp.zeros(num))
  inputs = (jnp.arange(max_steps), jax.random.split(steps_key, max_steps))
  (*_, total), _ = jax.lax.scan(step, carry, inputs)
  return total


def _picked(logits: jax.Array) -> jax.Array:
  return jnp.argmax(logits, axis=-1).astype(jnp.int32)
