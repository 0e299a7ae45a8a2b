"""Whole games of a policy that answers single states: it sees the newest one, and remembers none."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.records import RecordTask, agrees
from rlx.envs.turns import SUCCESS
from rlx.errors import ConfigError, at_least
from rlx.evaluation.episodes import numbers
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.types import Models, World


def state_by_state(task: RecordTask, policy: Speaker, *, games: int, max_turns: int) -> Evaluation:
  """Games of held-out problems, played by what the policy names for each state, without chance.

  Args:
    task: records; the world is that which was recorded.
    policy: answers a prompt, which is what is seen in the game at that turn.
    games: how many, side by side.
    max_turns: of a game; one that has not ended then is not won.
  Returns:
    The evaluation; its metrics are `wins`, the share of games that were solved, `matches`, the share of a
    game's turns in which the expert would have done the same, `understood`, and `turns`.
  Raises:
    ConfigError: the task has no records.
  """
  if not isinstance(task, RecordTask):
    raise ConfigError(f'state_by_state plays what a task has records of; {type(task).__name__} has none')
  at_least(1, games=games, max_turns=max_turns)
  world, columns = task.game, task.prompt_columns

  def act(state, completion, key):
    action, length = task.named(completion)
    reply = world.act(state, action, length, key)
    match = agrees((action, length), world.expert(state), columns=world.answer_columns)
    there = jnp.arange(world.observation_columns) < reply.length
    seen = jnp.pad(jnp.where(there, reply.observation, 0), (0, columns - world.observation_columns))
    return reply, match, seen

  def ask(models: Models, memory: World):
    del memory
    problem_key, key = jax.random.split(jax.random.key(PROBLEMS_SEED))
    problems = world.sample(problem_key, games, True)

    def turn(carry, key):
      state, seen, lengths, over, told = carry
      rows = policy.mode(models['policy'], seen, lengths)
      completions = engine.completions_of(rows, policy.decoding)
      reply, match, now = jax.vmap(act)(state, completions, jax.random.split(key, games))
      going = ~over
      told = {
          'wins': jnp.where(going, reply.info[SUCCESS], told['wins']),
          'matches': told['matches'] + (going & match),
          'understood': told['understood'] + (going & reply.understood),
          'turns': told['turns'] + going,
      }
      keep = lambda new, old: jnp.where(going.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
      state, seen, lengths = jax.tree.map(keep, (reply.state, now, reply.length), (state, seen, lengths))
      return (state, seen, lengths, over | reply.ended, told), None

    prompts = jnp.pad(problems['prompts'], ((0, 0), (0, columns - world.prompt_columns)))
    none = {name: jnp.zeros(games) for name in ('wins', 'matches', 'understood', 'turns')}
    states, lengths = jax.vmap(world.start)(problems), problems['prompt_lengths']
    carry = (states, prompts, lengths, jnp.zeros(games, bool), none)
    told = jax.lax.scan(turn, carry, jax.random.split(key, max_turns))[0][4]
    share = lambda name: jnp.mean(told[name] / told['turns'])
    return {
        'wins': told['wins'].mean(), 'matches': share('matches'), 'understood': share('understood'),
        'turns': told['turns'].mean(),
    }

  return Evaluation(ask=ask, read=numbers)
