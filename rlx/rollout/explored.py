"""Exploration of a kitchen by chance, from which rules are learnt (`controllers/rules.py`); no gradient.

Every step some episodes are played, of random things to be made. What came of each action is kept, and the
rules are learnt anew from all that is kept: those that nothing speaks against, pruned to those which correct
what `models['prior']` foretells wrongly.
"""

import jax
import jax.numpy as jnp

from rlx.controllers import rules as learnt
from rlx.envs.worlds.craft import KitchenTask
from rlx.errors import ConfigError, at_least
from rlx.models.networks import Network
from rlx.types import Batch, Key, Models, StatefulRollout, World

RULES = 'rules'  # their name in the world of a stage


def explored(
    task: KitchenTask, prior: Network, *, batch_size: int, max_turns: int, steps_kept: int, least: int,
    max_rules: int,
) -> StatefulRollout:
  """Plays episodes of random actions, keeps their transitions, and learns rules.

  Args:
    task: a kitchen.
    prior: the model that rules correct.
    batch_size: episodes B of a step.
    max_turns: of an episode.
    steps_kept: train steps whose transitions are kept.
    least: transitions that speak for a rule.
    max_rules: that are kept; 0 for the model as it is.
  Returns:
    A `rollout` function for a stage that trains nothing; its batches have `rewards`, of the world, and the
    metrics `rules/kept` and `rules/errors`, the share of all kept transitions that is foretold wrongly with
    the rules.
  """
  check_kitchen(task)
  at_least(1, batch_size=batch_size, max_turns=max_turns, steps_kept=steps_kept, least=least)
  at_least(0, max_rules=max_rules)
  num, size = task.things, batch_size * max_turns

  def begin(key: Key) -> World:
    del key
    rows = steps_kept * size
    store = {
        'features': jnp.zeros((rows, num), bool), 'actions': jnp.zeros(rows, jnp.int32),
        'worked': jnp.zeros(rows, bool), 'valid': jnp.zeros(rows, bool),
    }
    return {'store': store, 'step': jnp.int32(0), RULES: learnt.no_rules(num, num)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    new, rewards = tried(task, key, batch_size, max_turns, held_out=False)
    place = world['step'] % steps_kept * size
    put = lambda old, rows: jax.lax.dynamic_update_slice_in_dim(old, rows, place, axis=0)
    store = jax.tree.map(put, world['store'], new)
    features, actions, worked = store['features'], store['actions'], store['worked']
    foretold = prior.apply(models['prior'], features, actions)
    found = learnt.consistent_rules(**store, num_actions=num, least=least)
    wrong = (foretold != worked) & store['valid']
    rules = learnt.covering(found, features, actions, worked, wrong, max_rules=max_rules)
    errors = (learnt.corrected(rules, features, actions, foretold) != worked) & store['valid']
    each = lambda x: jnp.full(batch_size, x, jnp.float32)
    batch = {
        'groups': jnp.arange(batch_size), 'rewards': rewards,
        'rules/kept': each(rules.fails.sum() + rules.works.sum()),
        'rules/errors': each(errors.sum() / store['valid'].sum()),
    }
    return batch, {'store': store, 'step': world['step'] + 1, RULES: rules}

  return StatefulRollout(begin=begin, draw=draw, data=None)


def tried(task: KitchenTask, key: Key, num: int, max_turns: int, *, held_out: bool):
  """Transitions [num max_turns] of random actions, and the returns [num] of their episodes."""
  problem_key, action_key = jax.random.split(key)
  problems = task.sample(problem_key, num, held_out)
  actions = jax.random.randint(action_key, (max_turns, num), 0, task.things)
  make = jax.vmap(lambda state, thing: task.make(state, thing))

  def turn(carry, thing):
    state, over = carry
    reply = make(state, thing)
    worked = jnp.any(reply.state['there'] != state['there'], axis=1)
    row = {'features': state['there'], 'actions': thing, 'worked': worked, 'valid': ~over}
    return (reply.state, over | reply.ended), (row, jnp.where(over, 0, reply.reward))

  carry = (jax.vmap(task.start)(problems), jnp.zeros(num, bool))
  rows, rewards = jax.lax.scan(turn, carry, actions)[1]
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows), rewards.sum(axis=0)


def check_kitchen(task) -> None:
  """Raises `ConfigError` for a world whose things nobody can name."""
  if not isinstance(task, KitchenTask):
    raise ConfigError(f'rules are learnt of a kitchen (the world `craft`); this is a {type(task).__name__}')
