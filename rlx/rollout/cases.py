"""Episodes with a case in the prompt that is taken out of a bank, and that are written into it.

The policy is frozen: what is learnt is what there is in the bank, and which case to take (`memento`).
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.controllers import cases
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.envs.worlds.casebook import CaseTask
from rlx.errors import ConfigError, between
from rlx.models.networks import Network
from rlx.rollout.turns import Horizon, episodes
from rlx.types import Batch, Key, Models, StatefulRollout, World
from rlx.unscored import scored_rows

MEMORY = 'cases'  # its name in the world of a stage


def episodes_with_cases(
    task: Task, policy: Speaker, case_value: Network, *, batch_size: int, num_slots: int, turn_tokens: int,
    max_turns: Horizon, num_cases: int, retrieval: Callable, temperature: float, alone: float,
) -> StatefulRollout:
  """`turns.episodes` with a case in each prompt; what came of them are further cases.

  Args:
    task: a world with room for a case, such as `casebook`.
    policy: speaks.
    case_value: Q(state, case).
    batch_size: rows B of the batch, each of a problem of its own.
    num_slots: episodes in the loop at a time; 0 for all.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode, by the train step.
    num_cases: N, that the bank holds, at least B: the oldest go.
    retrieval: `(features [B, N, P + 1], odds [B, N]) -> [B, N]`, of which the greatest is taken:
      `by_value` or `by_similarity` of `controllers/cases.py`.
    temperature: of the choice, a sample of the softmax of these numbers divided by it.
    alone: the share of episodes without a case, in which something new can be found.
  Returns:
    A `rollout` function; its batches have `case_features` [B, P + 1], `case_used` [B] bool, and for the
    metrics `cases/paid`, of the case that was taken, and `cases/known`.
  Raises:
    ConfigError: the world has no room for a case, or the bank none for a batch.
  """
  check_cases(task)
  between(0, 1, alone=alone)
  if num_cases < batch_size:
    raise ConfigError(f'num_cases={num_cases} are fewer than the {batch_size} episodes of a batch')
  sizes = dict(
      batch_size=batch_size, group_size=1, num_slots=num_slots, turn_tokens=turn_tokens, max_turns=max_turns
  )
  inner = episodes(task, policy, **sizes)

  def begin(key: Key) -> World:
    bank = cases.init_cases(num_cases=num_cases, num_parts=task.num_parts, plan_turns=task.plan_turns)
    return {**inner.begin(key), MEMORY: bank}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    bank = world[MEMORY]
    choice_key, alone_key = jax.random.split(jax.random.fold_in(key, 1))

    def sample(key, num, held_out):
      problems = task.sample(key, num, held_out)
      noise = temperature * jax.random.gumbel(choice_key, (num, num_cases))
      use = ~jax.random.bernoulli(alone_key, alone, (num,))
      return with_case(
          task, case_value, models['case_value'], bank, problems, retrieval=retrieval, noise=noise, use=use
      )

    shown = dataclasses.replace(task, sample=sample)
    others = {name: x for name, x in world.items() if name != MEMORY}
    batch, after = episodes(shown, policy, **sizes)(models, others, key)
    paid = jnp.where(batch['case_used'], batch['case_features'][:, -1], 0)
    known = jnp.full(paid.shape, cases.known_cases(bank).sum(), jnp.float32)
    return {**batch, 'cases/paid': paid, 'cases/known': known}, {**after, MEMORY: bank}

  def observe(world: World, batch: Batch) -> World:
    plans, scored = task.plans_of(batch), scored_rows(batch)
    bank = cases.write_cases(world[MEMORY], batch['parts'], plans, batch['rewards'], scored)
    return {**world, MEMORY: bank}

  return StatefulRollout(begin=begin, draw=draw, data=None, observe=observe)


def with_case(
    task: CaseTask, case_value: Network, params, bank: World, problems: Batch, *, retrieval: Callable,
    noise: jax.Array, use: jax.Array,
) -> Batch:
  """The problems with a case of the bank in their prompts, and the columns `case_features` and `case_used`.

  Args:
    task: the world.
    case_value: Q.
    params: its parameters.
    bank: of `cases.init_cases`.
    problems: [B].
    retrieval: as above.
    noise: [B, N], is added to what the retrieval says.
    use: [B] bool, which have a case.
  """
  features = cases.case_features(problems['parts'][:, None], bank['parts'][None], bank['paid'][None])
  known = cases.known_cases(bank)
  scores = retrieval(features, case_value.apply(params, features)) + noise
  chosen = jnp.argmax(jnp.where(known[None], scores, -jnp.inf), axis=1)
  use = use & known.any()
  take = lambda x: jnp.where(use[:, None], x[chosen], -1)
  shown = task.with_cases(problems, take(bank['parts']), take(bank['plans']))
  features = jnp.take_along_axis(features, chosen[:, None, None], axis=1)[:, 0]
  return {**shown, 'case_features': features, 'case_used': use}


def check_cases(task: Task) -> None:
  """Raises `ConfigError` where the prompts of a world have no room for a case."""
  if not isinstance(task, CaseTask):
    raise ConfigError(f'{type(task).__name__} has no room for a case in its prompts; casebook has')
