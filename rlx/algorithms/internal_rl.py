"""Internal RL: the actions of reinforcement learning are codes that steer a frozen policy, one a segment.

A policy is cloned from demonstrations (`clone`) and frozen; a controller learns to say in few switches what
demonstrators did (`discover_loss`). Then its encoder, which looks ahead, gives way to a policy over codes
that cannot,

    z̃_t ~ N(m(e_t), s²),    z_t = z̃_t if t = 1 or switch(e_t, z_{t-1}) > 1/2, else z_{t-1}

and m and s alone learn, by the policy gradient on the reward R of a whole row,

    L = -mean_rows A Σ_t [switched at t] log N(z̃_t; m(e_t), s²),    A = (R - mean R) / (std R + ε).

Decoder, switch and U are part of the world. A row is a few draws of codes instead of one draw a token, and a
code can ask for a subgoal behind another that no demonstrator went to from there. On our grid codes do learn
such a succession, and so does token RL from the cloned policy on some draws: the paper's contrast, token RL
at zero, does not show there (see the tests).

Three stages of a config, of which each brings its own rows: `cloning` and `discovery` learn from the
demonstrations of the grid world `rlx/envs/subgoals.py`, `internal_rl` from what `rlx/rollout/internal.py`
makes of its codes. Of the policy they take the functions alone: moves are drawn as they are likely, and are
scored as whole rows, whatever its decoding and scoring say.

Source: Kobayashi et al., 2025, https://arxiv.org/abs/2512.20605. Smaller than there: a policy over codes
without memory, and REINFORCE without a clip.
"""

import jax
import jax.numpy as jnp

from rlx.advantages import groups
from rlx.controllers import schedules
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Speaker
from rlx.envs import subgoals
from rlx.envs.subgoals import Grid
from rlx.losses import policy as policy_losses
from rlx.models import controller as controllers
from rlx.models.controller import Reader
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.rollout import internal as acting
from rlx.types import Algorithm, Batch, Key, Metrics, Models, Rollout, World


def taken(logprobs: jax.Array, tokens: jax.Array, grid: Grid) -> jax.Array:
  """[B, T] of the actions in rows [B, 2 T + 1], out of `logprobs` [B, T, 4]."""
  return jnp.sum(logprobs * jax.nn.one_hot(tokens[:, 2::2] - grid.first_action, logprobs.shape[-1]), axis=-1)


def clone(params: Params, model: LanguageModel, tokens: jax.Array, grid: Grid) -> jax.Array:
  """[B, T] log π(a_t | o_1..t) of rows from `subgoals.demonstrate` or `acting.act`."""
  hidden, _ = model.forward(params, controllers.steps(params, model, tokens[:, :-1]))
  return taken(acting.action_logprobs(params, model, hidden, grid), tokens, grid)


def steered(
    controller: Params, policy: Params, model: LanguageModel, tokens: jax.Array, key: Key, *,
    grid: Grid, num_lower: int,
) -> tuple[jax.Array, controllers.Codes]:
  """log π(a_t | o_1..t, z_1..t) [B, T] with codes of the encoder, and the codes."""
  (below, lower), (above, upper) = model.split(policy, num_lower)
  stream, _ = lower.forward(below, controllers.steps(policy, model, tokens[:, :-1]))
  codes = controllers.discover(controller, controllers.read(stream), key)
  hidden, _ = upper.forward(above, controllers.write(controller, stream, codes.z))
  return taken(acting.action_logprobs(above, upper, hidden, grid), tokens, grid), codes


def discover_loss(
    controller: Params, policy: Params, model: LanguageModel, tokens: jax.Array, key: Key, *,
    grid: Grid, num_lower: int, price: float | jax.Array, switch_nats: float,
) -> tuple[jax.Array, Metrics]:
  """[] the price of codes and what they leave to be guessed, a mean over rows and steps; `policy` is frozen.

  Args:
    controller: from `controller.init`, trained.
    policy: of the cloned decoder.
    model: its functions.
    tokens: [B, 2 T + 1] of demonstrations.
    key: draws codes and gates.
    grid: the world.
    num_lower: blocks below the controller.
    price: of a nat that a code holds; one number, or [B, 1].
    switch_nats: what a switch costs besides, whatever the new code holds.
  """
  policy = jax.lax.stop_gradient(policy)
  logprobs, codes = steered(controller, policy, model, tokens, key, grid=grid, num_lower=num_lower)
  total = jnp.mean(price * codes.gates * (codes.kl + switch_nats) - logprobs)
  return total, {'loss/nll': -jnp.mean(logprobs), 'codes/switches': jnp.mean(jnp.sum(codes.gates, axis=-1))}


def code_logprobs(actor: Params, batch: Batch) -> jax.Array:
  """[B] Σ_t log N(z̃_t; m(e_t), s²) over the switches of a row until its end."""
  mean = controllers.mlp(actor['mean'], batch['streams'])
  log_std = jnp.broadcast_to(actor['log_std'], mean.shape)
  noise = (batch['codes'] - mean) * jnp.exp(-log_std)
  density = -0.5 * jnp.square(noise) - log_std - 0.5 * jnp.log(2 * jnp.pi)
  counts = batch['switched'] & batch['open']
  return jnp.sum(jnp.sum(density, axis=-1) * counts, axis=-1)


def _demonstrations(task: Grid, batch_size: int, num_steps: int) -> Rollout:
  """Fresh rows of the demonstrator."""
  return lambda models, world, key: (subgoals.demonstrate(task, key, batch_size, num_steps), world)


def cloning(task: Grid, policy: Speaker, *, batch_size: int, num_steps: int) -> Algorithm:
  """The first stage: `models['policy']` learns -log π(a|o) of demonstrations.

  Args:
    task: the world.
    policy: a decoder over its tokens.
    batch_size: B, rows.
    num_steps: T, moves of a row; a column of the decoder each.
  """

  def loss(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    del key
    nll = -jnp.mean(clone(models['policy'], policy.model, batch['tokens'], task))
    return nll, {'loss/nll': nll}

  return Algorithm(rollout=_demonstrations(task, batch_size, num_steps), loss=loss)


def discovery(
    task: Grid, policy: Speaker, controller: Reader, *, batch_size: int, num_steps: int, num_lower: int,
    price: float, price_steps: int, switch_nats: float,
) -> Algorithm:
  """The second stage: `models['controller']` learns codes for what demonstrators did (`discover_loss`).

  The price rises at first: at its full height from the start, nothing is bought and nothing learned.

  Args:
    task: the world.
    policy: the cloned decoder, which stays as it is.
    controller: of this decoder.
    batch_size: B, rows.
    num_steps: T, moves of a row.
    num_lower: blocks below the controller.
    price: of a nat that a code holds, in the end.
    price_steps: train steps over which it rises from 0, on a line.
    switch_nats: what a switch costs besides, whatever the new code holds.
  Raises:
    ValueError: the controller is of another decoder, or `price_steps` is not positive.
  """
  controllers.check_fits(policy.model, controller)
  if price_steps < 1:
    raise ValueError(f'price_steps={price_steps}: at least 1; the price rises from 0')

  def annotate(step: jax.Array, batch: Batch) -> Batch:
    now = schedules.linear(step, first=0.0, last=price, num_steps=price_steps)
    return {**batch, 'codes/price': jnp.broadcast_to(now, batch['tokens'].shape[:1])}

  def loss(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    return discover_loss(
        models['controller'], models['policy'], policy.model, batch['tokens'], key,
        grid=task, num_lower=num_lower, price=batch['codes/price'][:, None], switch_nats=switch_nats,
    )

  rollout = with_memory(
      _demonstrations(task, batch_size, num_steps), 'stage_step', begin=lambda key: jnp.int32(0),
      annotate=annotate, observe=lambda step, batch: step + 1,
  )
  return Algorithm(rollout=rollout, loss=loss)


def internal_rl(
    task: Grid, policy: Speaker, controller: Reader, actor: Reader, *, batch_size: int, num_steps: int,
    num_lower: int, order: tuple[int, ...],
) -> Algorithm:
  """The third stage: `models['actor']` learns which codes to ask for, by reward alone.

  Args:
    task: the world.
    policy: the cloned decoder, which stays as it is.
    controller: what it has discovered, likewise.
    actor: a policy over codes.
    batch_size: B, rows; all of them are one group.
    num_steps: T, moves of a row.
    num_lower: blocks below the controller, as it was discovered.
    order: colours to visit; the reward is 1 if that is done in time, with no other colour on the way.
  Raises:
    ValueError: the models do not fit each other or the rows, or the world has no such colours.
  """
  rows = acting.steered_rows(
      task, policy.model, controller, actor, num=batch_size, num_steps=num_steps, num_lower=num_lower,
      order=order,
  )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    return rows(models, key), world

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    together = jnp.zeros(batch['rewards'].shape, jnp.int32)
    return {
        **batch, 'groups': together, 'advantages': groups.normalised(batch['rewards'], together),
        'codes/switches': jnp.sum(batch['switched'] & batch['open'], axis=-1),
    }

  def loss(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    del key
    logprobs = code_logprobs(models['actor'], batch)
    total = jnp.mean(policy_losses.reinforce(logprobs, batch['advantages']))
    return total, {'loss/policy': total}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
