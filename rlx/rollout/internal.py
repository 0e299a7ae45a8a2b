"""Rows of a frozen policy that codes steer, one code a segment: who acts in Internal RL.

A step reads what was done and what is seen, the switch says whether a new code is wanted, and the upper part
of the decoder draws a move from the stream that the code has changed (`models/controller.py`). `steered_rows`
draws codes from a policy over them; `act` takes them from anyone.

Source: Kobayashi et al., 2025, https://arxiv.org/abs/2512.20605.
"""

from collections.abc import Callable
import functools

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.envs import subgoals
from rlx.envs.subgoals import Grid
from rlx.models import controller as controllers
from rlx.models.controller import Reader
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.types import Batch, Key, Models

Propose = Callable[[jax.Array, Key], jax.Array]  # (`read` streams [B, D], key) -> codes [B, Z]


def action_logprobs(params: Params, model: LanguageModel, hidden: jax.Array, grid: Grid) -> jax.Array:
  """[..., 4] log-probabilities of the moves, for hidden states [..., D] of steps."""
  moves = model.logits(params, hidden)[..., grid.first_action : grid.begin]
  return jax.nn.log_softmax(moves)


def steered_rows(
    task: Grid, policy: LanguageModel, controller: Reader, actor: Reader, *,
    num: int, num_steps: int, num_lower: int, order: tuple[int, ...],
) -> Callable[[Models, Key], Batch]:
  """`(models, key) -> rows` of `act` with the codes of `models['actor']`.

  Args:
    task: the world.
    policy: functions of `models['policy']`.
    controller: sizes of `models['controller']`.
    actor: sizes of `models['actor']`.
    num: B, rows.
    num_steps: T, moves.
    num_lower: blocks below the controller.
    order: colours to visit.
  Raises:
    ValueError: the models do not fit each other or the rows, or the world has no such colours.
  """
  controllers.check_fits(policy, controller, actor)
  num_colours = task.cells.shape[0]
  if not order or not set(order) <= set(range(num_colours)):
    raise ValueError(f'order={order}: need colours from 0 to {num_colours - 1}, at least one')
  if not 0 < num_steps <= policy.context_length:
    raise ValueError(f'num_steps={num_steps}: from 1 to the {policy.context_length} columns of the context')

  def rows(models: Models, key: Key) -> Batch:
    return act(
        functools.partial(controllers.draw, models['actor']), models['controller'], models['policy'], policy,
        key, grid=task, num_lower=num_lower, order=order, num=num, steps=num_steps,
    )

  return rows


def act(
    propose: Propose, controller: Params, policy: Params, model: LanguageModel, key: Key, *,
    grid: Grid, num_lower: int, order: tuple[int, ...], num: int, steps: int,
) -> Batch:
  """Rows of the frozen policy, steered by codes that are proposed where the switch asks for them.

  Args:
    propose: draws codes.
    controller: its switch and what it writes.
    policy: of the decoder.
    model: its functions.
    key: consumed.
    grid: the world.
    num_lower: blocks below the controller.
    order: colours to visit; the reward is 1 if it is done in time, with no other colour on the way.
    num: B, rows.
    steps: T, moves.
  Returns:
    `tokens` [B, 2 T + 1], `streams` [B, T, D] as read, `codes` [B, T, Z] proposed, `switched` [B, T] bool,
    `open` [B, T] bool, True until the order is done or failed, `rewards` [B].
  """
  policy = sharding.gather(policy, model.axes)
  (below, lower), (above, upper) = model.split(policy, num_lower)
  wanted = jnp.array(order, jnp.int32)
  start_key, *keys = jax.random.split(key, steps + 1)
  caches = tuple(part.empty_cache(num, steps) for part in (lower, upper))

  def step(carry, inputs):
    cells, before, progress, z, (low, high) = carry
    t, step_key = inputs
    code_key, action_key = jax.random.split(step_key)
    at = jnp.broadcast_to(t, (num,))
    seen = controllers.steps(policy, model, jnp.stack([before, cells], axis=1))
    stream, low = lower.decode_rows(below, seen, at, low)
    e = controllers.read(stream)[:, 0]
    proposed = propose(e, code_key)
    switched = (controllers.switch(controller, e, z) > 0) | (t == 0)
    z = controllers.integrate(switched.astype(z.dtype), proposed, z)
    changed = controllers.write(controller, stream, z[:, None])
    hidden, high = upper.decode_rows(above, changed, at, high)
    actions = jax.random.categorical(action_key, action_logprobs(above, upper, hidden[:, 0], grid))
    actions = actions.astype(jnp.int32)
    landed, entered = subgoals.move(grid, cells, actions)
    is_open = (progress >= 0) & (progress < len(order))
    done = actions + grid.first_action
    carry = landed, done, subgoals.advance(progress, entered, wanted), z, (low, high)
    return carry, (cells, done, e, proposed, switched, is_open)

  zero = jnp.zeros(num, jnp.int32)
  code_size = controller['mix'].shape[0]
  first = subgoals.start(grid, start_key, num), zero + grid.begin, zero, jnp.zeros((num, code_size)), caches
  (_, _, progress, _, _), columns = jax.lax.scan(step, first, (jnp.arange(steps), jnp.stack(keys)))
  seen, done, streams, codes, switched, is_open = (jnp.moveaxis(x, 0, 1) for x in columns)
  tokens = jnp.stack([seen, done], axis=-1).reshape(num, 2 * steps)
  return {
      'tokens': jnp.pad(tokens, ((0, 0), (1, 0)), constant_values=grid.begin), 'streams': streams,
      'codes': codes, 'switched': switched, 'open': is_open,
      'rewards': (progress == len(order)).astype(jnp.float32),
  }
