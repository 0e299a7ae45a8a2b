"""SeeUPO: turns are agents that are updated one after the other, the last one first.

    for k = K, ..., 1:   M_k = A Π_{j > k} π(turn j) / π_old(turn j)
                         L_k = -mean_i min(s_k M_k, clip(s_k, 1 - ε_low, 1 + ε_high) M_k)

A is the group's advantage of the outcome and s_k the ratio of turn k, the geometric mean of its tokens'. When
a turn is updated the turns behind it have been: M_k is what the row would be worth under them. So each update
improves the whole, and the last turn's best reply is known to the one before: backward induction, without a
critic. (All at once, an early turn is punished for what later ones do not know yet.)

It is a train step of its own, since its updates differ: `seeupo` returns one where other factories return an
`Algorithm`, and asks for the optimizer.

Source: Hu et al., 2026, https://arxiv.org/abs/2602.06554. That s_k is a mean and M_k holds products, and the
clip of M_k by nothing but the exponent's bound, are our reading.
"""

import jax
import jax.numpy as jnp
import optax

from rlx import reductions
from rlx.advantages import groups
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.ratios import sequence_product, turn_ratio
from rlx.step import Step, of_its_own
from rlx.types import Annotate, Batch, Metrics, Models, Rollout, State


def seeupo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    optimizer: optax.GradientTransformation,
    *,
    num_turns: int,
    updates: int,
    clip_low: float,
    clip_high: float,
) -> Step:
  """Sequence-level sequential update policy optimisation, a train step.

  Args:
    rollout: yields rows of samples with `sampler_logprobs` and `turns`, samples of a prompt in groups.
    reward: adds `rewards` [B].
    policy: scores rows; `models['policy']` is what learns.
    optimizer: applied `updates` times a turn.
    num_turns: K, the most turns of a row.
    updates: optimizer updates of each turn, on the whole batch.
    clip_low: the turn's ratio counts down to 1 - clip_low.
    clip_high: and up to 1 + clip_high.
  """
  def loss(params, held: Models, batch: Batch, turn: jax.Array, values: jax.Array):
    mask = batch['action_mask'] & (batch['turns'] == turn)
    logprobs, _ = policy.score({**held, **params}['policy'], batch)
    ratios = turn_ratio(logprobs, batch['sampler_logprobs'], mask, batch['turns'])
    worth = jnp.broadcast_to(values[:, None], mask.shape)
    surrogate = policy_losses.clipped(ratios, worth, clip_low=clip_low, clip_high=clip_high)
    return reductions.weighted_mean(surrogate, reductions.sequence_mean(mask))

  def learn(state: State, batch: Batch, frozen: Models) -> tuple[State, Metrics]:
    advantages, held = groups.normalised(batch['rewards'], batch['groups']), {**frozen, **state.slow}

    def of_a_turn(carry, turn):
      logprobs, _ = policy.score({**held, **carry[0]}['policy'], batch)
      values = advantages * later_ratio(logprobs, batch, turn)

      def update(carry, _):
        params, opt_state = carry
        value, grads = jax.value_and_grad(loss)(params, held, batch, turn, values)
        steps, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, steps), opt_state), value

      return jax.lax.scan(update, carry, length=updates)

    order = jnp.arange(num_turns)[::-1]
    (params, opt_state), losses = jax.lax.scan(of_a_turn, (state.params, state.opt_state), order)
    return state.replace(params=params, opt_state=opt_state), {'loss/policy': losses[:, 0].mean()}

  return of_its_own(rollout, reward, learn)


def later_ratio(logprobs: jax.Array, batch: Batch, turn: jax.Array) -> jax.Array:
  """[B] Π_{j > turn} π(turn j) / π_old(turn j), a constant; 1 where no turn follows.

  Args:
    logprobs: [B, T] of the actions under the policy as it is now.
    batch: rows with `sampler_logprobs, action_mask, turns`.
    turn: [] int32.
  """
  behind = batch['action_mask'] & (batch['turns'] > turn)
  product = sequence_product(logprobs, batch['sampler_logprobs'], behind)
  return jax.lax.stop_gradient(product[:, 0])
