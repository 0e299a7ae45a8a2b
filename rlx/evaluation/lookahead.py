"""Model-predictive control in a kitchen: what is planned with a model and its rules, and how they err."""

import jax
import jax.numpy as jnp

from rlx.controllers import rules as learnt
from rlx.envs.turns import SUCCESS
from rlx.envs.worlds.craft import KitchenTask
from rlx.errors import at_least
from rlx.evaluation.episodes import numbers
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.models.networks import Network
from rlx.rollout import explored
from rlx.types import Models, World


def look_ahead(
    task: KitchenTask, prior: Network, *, problems: int, max_turns: int, horizon: int, candidates: int
) -> Evaluation:
  """Episodes of an agent that plans with `models['prior']`, corrected by the rules so far, turn by turn.

  In each turn it imagines some plans, each of random things of which the model says that making them would
  work, and takes the first action of the one that comes to the dish first; where none does, of any. It does
  not try again what has just failed in the same state.

  Args:
    task: a kitchen.
    prior: foretells.
    problems: held-out problems.
    max_turns: of an episode.
    horizon: actions that are imagined; 1 for an agent that knows what would work, and plans nothing.
    candidates: plans a turn.
  Returns:
    The evaluation; its metrics are `success`, `failed`, the share of actions that came to nothing, `errors`
    and `errors_of_prior`, the shares of random transitions that are foretold wrongly with the rules and
    without them, and `rules`, how many there are.
  """
  explored.check_kitchen(task)
  at_least(1, problems=problems, max_turns=max_turns, horizon=horizon, candidates=candidates)

  def ask(models: Models, world: World):
    rules = world[explored.RULES] if explored.RULES in world else learnt.no_rules(task.things, task.things)
    foretell = lambda there, thing: prior.apply(models['prior'], there, thing)
    works = lambda there, thing: learnt.corrected(rules, there, thing, foretell(there, thing))
    rows_key, problem_key, key = jax.random.split(jax.random.key(PROBLEMS_SEED), 3)
    rows, _ = explored.tried(task, rows_key, problems, max_turns, held_out=True)
    seen, done, came = rows['features'], rows['actions'], rows['worked']
    wrong = lambda of: jnp.mean(of(seen, done) != came, where=rows['valid'])
    asked = task.sample(problem_key, problems, True)
    play = lambda problem, key: _played(task, works, problem, key, max_turns, horizon, candidates)
    success, failed = jax.vmap(play)(asked, jax.random.split(key, problems))
    return {
        'success': success.mean(), 'failed': failed.mean(), 'errors': wrong(works),
        'errors_of_prior': wrong(foretell),
        'rules': (rules.fails.sum() + rules.works.sum()).astype(jnp.float32),
    }

  return Evaluation(ask=ask, read=numbers)


def planned(
    works, there: jax.Array, dish: jax.Array, vain: jax.Array, key, *, horizon: int, candidates: int
) -> jax.Array:
  """[] int32, the first action of the plan that comes to the dish in the fewest turns.

  Args:
    works: `(there [..., N], thing [...]) -> [...] bool`, what a model foretells.
    there: [N] bool, what there is.
    dish: [] int32, what is asked for.
    vain: [N] bool, what is not tried in the first turn.
    key: the chance of plans.
    horizon: actions of a plan.
    candidates: plans.
  """
  num = there.shape[0]
  things = jnp.broadcast_to(jnp.arange(num), (candidates, num))

  def turn(carry, inputs):
    there, over, cost = carry
    key, banned = inputs
    makes = works(jnp.broadcast_to(there[:, None], (candidates, num, num)), things) & ~banned[None]
    # Where nothing works, or nothing that is not in vain, anything else is tried.
    noise = jax.random.uniform(key, (candidates, num)) + makes - 2 * banned[None].astype(jnp.float32)
    noise = noise + 2 * (makes & (things == dish))  # who can make the dish makes it
    thing = jnp.argmax(noise, axis=1)
    made = jnp.take_along_axis(makes, thing[:, None], axis=1)
    after = there | (made & (things == thing[:, None]))
    over = over | (made[:, 0] & (thing == dish))
    return (after, over, cost + ~over), thing

  banned = jnp.zeros((horizon, num), bool).at[0].set(vain)
  start = (jnp.broadcast_to(there, (candidates, num)), jnp.zeros(candidates, bool), jnp.zeros(candidates))
  carry, plans = jax.lax.scan(turn, start, (jax.random.split(key, horizon), banned))
  return plans[0, jnp.argmin(carry[2])]


def _played(task: KitchenTask, works, problem, key, max_turns: int, horizon: int, candidates: int):
  """Whether the dish was made, and the share of actions that came to nothing."""

  def turn(carry, key):
    state, vain, over, success, failed, turns = carry
    thing = planned(
        works, state['there'], state['dish'], vain, key, horizon=horizon, candidates=candidates
    )
    reply = task.make(state, thing)
    same = jnp.all(reply.state['there'] == state['there'])
    vain = jnp.where(same, vain.at[thing].set(True), False)
    after = (
        reply.state, vain, over | reply.ended, reply.info[SUCCESS], failed + same, turns + 1
    )
    return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, carry), None

  zero = jnp.float32(0)
  carry = (task.start(problem), jnp.zeros(task.things, bool), jnp.bool_(False), zero, zero, zero)
  _, _, _, success, failed, turns = jax.lax.scan(turn, carry, jax.random.split(key, max_turns))[0]
  return success, failed / turns
