"""Internal RL: the actions of reinforcement learning are codes that steer a frozen policy, one a segment.

A policy is cloned from demonstrations (`clone`) and frozen; a controller learns to say in few switches what
demonstrators did (`discover_loss`). Then its encoder, which looks ahead, gives way to a policy over codes
that cannot,

    z̃_t ~ N(m(e_t), s²),    z_t = z̃_t if t = 1 or switch(e_t, z_{t-1}) > 1/2, else z_{t-1}

and m and s alone learn, by the policy gradient on the reward R of a whole row,

    L = -mean_rows A Σ_t [switched at t] log N(z̃_t; m(e_t), s²),    A = (R - mean R) / (std R + ε).

Decoder, switch and U are part of the world. A row is a few draws of codes instead of one draw a token, and a
code can ask for a subgoal behind another that no demonstrator went to from there. On our grid codes do learn
such a succession, but token RL from the cloned policy learns it faster: the paper's contrast, token RL at
zero, does not show there (see the tests).

No config runs this: there are three stages, and the environment answers each token. `make_internal_rl_step`
is the train step of the third, in the grid world `rlx/envs/subgoals.py`; the first two are gradient descent
on the losses here over rows of `subgoals.demonstrate` (tests/papers/test_internal_rl.py runs all three).

Source: Kobayashi et al., 2025, https://arxiv.org/abs/2512.20605. Smaller than there: a policy over codes
without memory, and REINFORCE without a clip.
"""

from collections.abc import Callable
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rlx.advantages import groups
from rlx.envs import subgoals
from rlx.envs.subgoals import Grid
from rlx.models import controller as controllers
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.step import TrainStep
from rlx.types import Batch, Key, Metrics, State

Propose = Callable[[jax.Array, Key], jax.Array]  # (`read` streams [B, D], key) -> codes [B, Z]


def action_logprobs(params: Params, model: LanguageModel, hidden: jax.Array, grid: Grid) -> jax.Array:
  """[..., 4] log-probabilities of the moves, for hidden states [..., D] of steps."""
  moves = model.logits(params, hidden)[..., grid.first_action : grid.begin]
  return jax.nn.log_softmax(moves)


def taken(logprobs: jax.Array, tokens: jax.Array, grid: Grid) -> jax.Array:
  """[B, T] of the actions in rows [B, 2 T + 1], out of `logprobs` [B, T, 4]."""
  return jnp.sum(logprobs * jax.nn.one_hot(tokens[:, 2::2] - grid.first_action, logprobs.shape[-1]), axis=-1)


def clone(params: Params, model: LanguageModel, tokens: jax.Array, grid: Grid) -> jax.Array:
  """[B, T] log π(a_t | o_1..t) of rows from `subgoals.demonstrate` or `act`."""
  hidden, _ = model.forward(params, controllers.steps(params, model, tokens[:, :-1]))
  return taken(action_logprobs(params, model, hidden, grid), tokens, grid)


def steered(
    controller: Params, policy: Params, model: LanguageModel, tokens: jax.Array, key: Key, *,
    grid: Grid, num_lower: int,
) -> tuple[jax.Array, controllers.Codes]:
  """log π(a_t | o_1..t, z_1..t) [B, T] with codes of the encoder, and the codes."""
  (below, lower), (above, upper) = model.split(policy, num_lower)
  stream, _ = lower.forward(below, controllers.steps(policy, model, tokens[:, :-1]))
  codes = controllers.discover(controller, controllers.read(stream), key)
  hidden, _ = upper.forward(above, controllers.write(controller, stream, codes.z))
  return taken(action_logprobs(above, upper, hidden, grid), tokens, grid), codes


def discover_loss(
    controller: Params, policy: Params, model: LanguageModel, tokens: jax.Array, key: Key, *,
    grid: Grid, num_lower: int, price: float, switch_nats: float,
) -> jax.Array:
  """[] the price of codes and what they leave to be guessed, a mean over rows and steps; `policy` is frozen.

  Args:
    controller: from `controller.init`, trained.
    policy: of the cloned decoder.
    model: its functions.
    tokens: [B, 2 T + 1] of demonstrations.
    key: draws codes and gates.
    grid: the world.
    num_lower: blocks below the controller.
    price: of a nat that a code holds.
    switch_nats: what a switch costs besides, whatever the new code holds.
  """
  policy = jax.lax.stop_gradient(policy)
  logprobs, codes = steered(controller, policy, model, tokens, key, grid=grid, num_lower=num_lower)
  return jnp.mean(price * codes.gates * (codes.kl + switch_nats) - logprobs)


def init_actor(key: Key, *, width: int, code_size: int, hidden_size: int) -> Params:
  """A policy over codes that begins as the encoder's prior, a standard normal."""
  matrix = jax.random.normal(key, (width, hidden_size)) * width**-0.5
  weights = {
      'in': matrix, 'bias': jnp.zeros(hidden_size), 'out': jnp.zeros((hidden_size, code_size)),
      'out_bias': jnp.zeros(code_size),
  }
  return {'mean': weights, 'log_std': jnp.zeros(code_size)}


def draw(actor: Params, e: jax.Array, key: Key) -> jax.Array:
  """[B, Z] codes drawn at `read` streams e [B, D]."""
  mean = controllers.mlp(actor['mean'], e)
  return mean + jnp.broadcast_to(jnp.exp(actor['log_std']), mean.shape) * jax.random.normal(key, mean.shape)


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


def code_logprobs(actor: Params, batch: Batch) -> jax.Array:
  """[B] Σ_t log N(z̃_t; m(e_t), s²) over the switches of a row until its end."""
  mean = controllers.mlp(actor['mean'], batch['streams'])
  log_std = jnp.broadcast_to(actor['log_std'], mean.shape)
  noise = (batch['codes'] - mean) * jnp.exp(-log_std)
  density = -0.5 * jnp.square(noise) - log_std - 0.5 * jnp.log(2 * jnp.pi)
  counts = batch['switched'] & batch['open']
  return jnp.sum(jnp.sum(density, axis=-1) * counts, axis=-1)


def token_logprobs(params: Params, model: LanguageModel, batch: Batch, grid: Grid) -> jax.Array:
  """[B] Σ_t log π(a_t | o_1..t) of a row until its end."""
  return jnp.sum(clone(params, model, batch['tokens'], grid) * batch['open'], axis=-1)


def reinforce(logprobs: jax.Array, rewards: jax.Array) -> jax.Array:
  """[] -mean A log p for rows [B] that are one group."""
  advantages = groups.normalised(rewards, jnp.zeros(rewards.shape, jnp.int32))
  return -jnp.mean(jax.lax.stop_gradient(advantages) * logprobs)


def make_internal_rl_step(
    model: LanguageModel, optimizer: optax.GradientTransformation, *, grid: Grid, num_lower: int,
    order: tuple[int, ...], num: int, steps: int,
) -> TrainStep:
  """Internal RL as `train_step(state) -> (state, metrics)`.

  Trained is `actor` (`init_actor`); `policy` and `controller` are in `state.slow`. Arguments as in `act`.
  """

  def train_step(state: State, data: Any = None) -> tuple[State, Metrics]:
    key = jax.random.fold_in(state.key, state.step)
    actor, controller, policy = state.params['actor'], state.slow['controller'], state.slow['policy']
    batch = act(
        functools.partial(draw, actor), controller, policy, model, key,
        grid=grid, num_lower=num_lower, order=order, num=num, steps=steps,
    )
    loss = lambda params: reinforce(code_logprobs(params['actor'], batch), batch['rewards'])
    value, grads = jax.value_and_grad(loss)(state.params)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    metrics = {
        'loss/policy': value, 'reward/mean': jnp.mean(batch['rewards']),
        'codes/switches': jnp.mean(jnp.sum(batch['switched'] & batch['open'], axis=-1)),
    }
    return state.replace(step=state.step + 1, params=params, opt_state=opt_state), metrics

  return train_step
