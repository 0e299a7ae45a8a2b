"""WALL-E 2.0: rules that nothing speaks against, pruned to those that correct a model, and plans with them.

https://arxiv.org/abs/2504.15785
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import rules as learnt
from rlx.envs.worlds.craft import craft
from rlx.errors import ConfigError
from rlx.evaluation.lookahead import planned
from rlx.models.recipes import recipes
from rlx.rollout.explored import check_kitchen, tried

# Two features. Action 0 works where feature 0 is so; action 1 always does.
FEATURES = jnp.array([[1, 0], [0, 0], [1, 1], [0, 1], [0, 0], [1, 1], [0, 0]], bool)
ACTIONS = jnp.array([0, 0, 0, 0, 1, 1, 0])
WORKED = jnp.array([1, 0, 1, 0, 1, 1, 1], bool)
VALID = jnp.array([1, 1, 1, 1, 1, 1, 0], bool)  # the last one would speak against it


@functools.partial(jax.jit, static_argnames=('num_actions', 'least'))
def consistent(*transitions, num_actions=2, least=1):
  return learnt.consistent_rules(*transitions, num_actions=num_actions, least=least)


def rules(least=1):
  return consistent(FEATURES, ACTIONS, WORKED, VALID, least=least)


covering = jax.jit(learnt.covering, static_argnames='max_rules')


def test_rules_are_what_all_transitions_speak_for():
  found = rules()
  # Literals: 0 so, 1 so, 0 not so, 1 not so. Without feature 0 action 0 failed twice, and never worked.
  np.testing.assert_array_equal(found.fails, [[0, 0, 1, 0], [0, 0, 0, 0]])
  np.testing.assert_array_equal(found.asks[0], [1, 0, 0, 0])  # what held both times that it worked
  np.testing.assert_array_equal(found.works, [True, True])
  few = rules(least=3)
  assert not few.fails.any() and not few.works.any()


def test_rules_overrule_what_a_model_foretells_where_they_say_something():
  foretold = jnp.array([0, 1, 0, 1, 0, 0], bool)  # wrong everywhere
  right = learnt.corrected(rules(), FEATURES[:6], ACTIONS[:6], foretold)
  np.testing.assert_array_equal(right, WORKED[:6])
  without = learnt.corrected(learnt.no_rules(2, 2), FEATURES[:6], ACTIONS[:6], foretold)
  np.testing.assert_array_equal(without, foretold)  # the mechanism off


def test_the_cover_keeps_those_rules_alone_that_correct_something():
  foretold = jnp.array([1, 1, 1, 1, 1, 1, 0], bool)  # wrong of failures only
  kept = covering(rules(), FEATURES, ACTIONS, WORKED, (foretold != WORKED) & VALID, max_rules=8)
  np.testing.assert_array_equal(kept.fails, [[0, 0, 1, 0], [0, 0, 0, 0]])
  assert not kept.works.any()  # they correct nothing
  none = covering(rules(), FEATURES, ACTIONS, WORKED, jnp.zeros(7, bool), max_rules=8)
  assert not none.fails.any()


def test_the_cover_takes_the_rule_that_corrects_most_first():
  features = jnp.array([[0, 0], [0, 1], [0, 1], [1, 0]], bool)
  worked, wrong = jnp.zeros(4, bool), jnp.ones(4, bool)
  found = consistent(features, jnp.zeros(4, jnp.int32), worked, wrong, num_actions=1)
  assert found.fails.all()  # it never worked
  one, two = (
      covering(found, features, jnp.zeros(4, jnp.int32), worked, wrong, max_rules=n) for n in (1, 8)
  )
  np.testing.assert_array_equal(one.fails, [[0, 0, 1, 0]])  # without feature 0: three of four
  np.testing.assert_array_equal(two.fails, [[1, 0, 1, 0]])  # and with it the fourth; no third rule is needed


PARTS = jnp.zeros((4, 4), bool).at[3, 0].set(True).at[3, 1].set(True)  # thing 3 needs 0 and 1


def works(there, thing):
  new = ~jnp.take_along_axis(there, thing[..., None], axis=-1)[..., 0]
  return jnp.all(there | ~PARTS[thing], axis=-1) & new


@functools.partial(jax.jit, static_argnames='horizon')
def firsts(there, vain, horizon):
  plan = lambda key: planned(works, there, jnp.int32(3), vain, key, horizon=horizon, candidates=16)
  return jax.vmap(plan)(jax.random.split(jax.random.key(0), 16))


def plan(horizon, there=(1, 0, 0, 0), vain=(0, 0, 0, 0)):
  """The first actions to make thing 3, over some seeds."""
  return set(np.asarray(firsts(jnp.array(there, bool), jnp.array(vain, bool), horizon)).tolist())


def test_looking_ahead_takes_the_shortest_way_and_acting_at_once_takes_any():
  assert plan(3) == {1}
  assert plan(1) == {1, 2}  # nothing is foreseen of either
  assert plan(3, vain=(0, 1, 0, 0)) == {2}  # what was in vain is not tried again
  assert plan(1, there=(1, 1, 0, 0)) == {3}  # who can make the dish makes it


def test_exploration_writes_down_what_came_of_each_action():
  task = craft(basics=2, dishes=1, event_reward=0.0, held_out_share=0.3)
  rows, rewards = jax.jit(lambda key: tried(task, key, 4, 6, held_out=False))(jax.random.key(0))
  rows = jax.tree.map(lambda x: np.asarray(x)[np.asarray(rows['valid'])], rows)
  seen, done = rows['features'], rows['actions']
  there = seen[np.arange(len(done)), done]
  np.testing.assert_array_equal(rows['worked'], ~there & ((done < 2) | seen[:, :2].all(axis=1)))
  assert rewards.sum() == (rows['worked'] & (done == 2)).sum()


def test_what_is_believed_is_of_earlier_things_alone():
  prior = recipes(things=3, believed=1.0)
  params = prior.init(jax.random.key(0))
  there = jnp.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], bool)
  np.testing.assert_array_equal(prior.apply(params, there, jnp.array([2, 2, 2])), [False, True, False])


def test_only_kitchens_have_such_rules():
  with pytest.raises(ConfigError, match='craft'):
    check_kitchen(object())
