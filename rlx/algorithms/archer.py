"""ArCHer: a critic of utterances, learnt by TD from replayed episodes too, says what each turn was worth.

    Q(s_k, a_k) -> r_k + γ V'(s_{k+1}),    V(s_k) -> Q'(s_k, a_k) for a_k ~ π,    V', Q' of a lagging copy
    A_k = Q(s_k, a_k) - V(s_k), at every token of turn k;   L = -min(ρ A, clip(ρ) A)

One critic reads the row: behind what the world said it is V, behind what was said to it Q. Q holds for any
policy's actions, so that old episodes teach it; V is that of the present policy, and learns from fresh ones.
Nothing is summed over the rest of the episode: the noise of later turns is in no advantage. Advantages are
not whitened: where every episode succeeds they are next to nothing, and whitened they would be noise at full
size, which took a policy that always succeeded back to never.

The parent is `turn_ppo`. The paper has two critics, of which the smaller counts, and draws new actions in the
replayed states for V; here there is one, and the fresh rows have such actions.

Source: Zhou et al., 2024, https://arxiv.org/abs/2402.19446, section 3.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx import reductions, tracking
from rlx.advantages import segments
from rlx.advantages import turns as turn_advantages
from rlx.engine.speaker import Critic, Speaker
from rlx.errors import at_least
from rlx.losses import policy as policy_losses
from rlx.metrics import describe_update
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def archer(
    rollout: Rollout, reward: Annotate, policy: Speaker, value: Critic, *, clip_low: float, clip_high: float,
    value_coef: float, discount: float, target_rate: float,
) -> Algorithm:
  """An actor-critic of two levels; trains `models['policy']` and `models['value']`, whose copy is `target`.

  Args:
    rollout: yields rows with `turns` and `token_rewards`, one an episode; those that are `reused`, such as
      the rows of `reuse.reusing`, teach the critic alone.
    reward: adds `rewards` [B], such as `of_world`; what is learnt from are `token_rewards`.
    policy: scores rows.
    value: the critic, read before and behind each action.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    value_coef: weight of the critic's loss, a mean over turns of Q plus one of V.
    discount: γ from turn to turn; behind the last turn there is nothing.
    target_rate: how much of the critic the copy takes over with each update.
  """
  at_least(0, value_coef=value_coef)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask = batch['action_mask']
    steps = segments.steps(batch['turns'], mask)
    first, last = segments.firsts(steps), turn_advantages.ends(steps)
    learnt = segments.segment_sum(last, steps) > 0  # turns whose Q is read
    if 'reused' in batch:
      learnt &= ~batch['reused'][:, None]
    state_values, action_values = turn_values(value.apply, models['value'], batch)
    advantages = jnp.where(learnt, action_values - state_values, 0)
    state_targets, action_targets = td_targets(value.apply, models['target'], batch, discount=discount)
    return {
        **batch,
        'advantages': advantages,
        'state_targets': jnp.where(first & learnt, state_targets, 0),
        'action_targets': jnp.where(last, action_targets, 0),
        'weights': reductions.token_mean(learnt),
        'state_weights': reductions.token_mean(first & learnt),
        'action_weights': reductions.token_mean(last),
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    clip = dict(clip_low=clip_low, clip_high=clip_high)
    surrogate = policy_losses.clipped_surrogate(
        logprobs, batch['sampler_logprobs'], batch['advantages'], **clip
    )
    policy_loss = reductions.weighted_mean(surrogate, batch['weights'])
    before, behind = turn_advantages.around(value.apply, models['value'], batch)
    missed = lambda x, name: reductions.weighted_mean(
        jnp.square(x - batch[f'{name}_targets']), batch[f'{name}_weights']
    ) / 2
    of_states, of_actions = missed(before, 'state'), missed(behind, 'action')
    metrics = {
        'loss/policy': policy_loss, 'loss/state_value': of_states, 'loss/action_value': of_actions,
        **describe_update(batch, logprobs, entropy, **clip),
    }
    return policy_loss + value_coef * (of_states + of_actions), metrics

  return Algorithm(
      rollout=rollout, reward=reward, advantage=advantage, loss=loss,
      track=tracking.polyak({'target': 'value'}, rate=target_rate),
  )


def turn_values(apply: Callable, params, batch: Batch) -> tuple[jax.Array, jax.Array]:
  """[B, T] each: V before and Q behind each turn, at all tokens of its action; 0 elsewhere."""
  steps = segments.steps(batch['turns'], batch['action_mask'])
  before, behind = turn_advantages.around(apply, params, batch)
  at_end = segments.segment_sum(jnp.where(turn_advantages.ends(steps), behind, 0), steps)
  return segments.broadcast(before, steps), at_end


def td_targets(apply: Callable, params, batch: Batch, *, discount: float) -> tuple[jax.Array, jax.Array]:
  """What V and Q of each turn are to become, [B, T] each at all tokens of its action.

  Args:
    apply: as for `around`.
    params: of the lagging copy.
    batch: rows with `turns`, `action_mask` and `token_rewards`.
    discount: γ.
  """
  turns, mask = batch['turns'], batch['action_mask']
  steps = segments.steps(turns, mask)
  state_values, action_values = turn_values(apply, params, batch)
  of_turns = turn_advantages.at_turns(
      state_values, turns, segments.firsts(steps), num_turns=turns.shape[1]
  )
  following = turn_advantages.spread(jnp.pad(of_turns[:, 1:], ((0, 0), (0, 1))), turns, mask)
  return action_values, segments.segment_sum(batch['token_rewards'], steps) + discount * following
