"""A model in the place of an interpreter: `-d0>21>4` -> `Bh` | -> `-h40?` | -> `A+` | ...

The agent edits a program with a fault (`repair.py`), and what a run prints is what the other seat says: the
program as it is now, a digit for each test, and the verdict, `:` where all pass and `?` where not. Both have
the prompt, the surrogate also reads the edits, and nothing else: no program is run for them. What the
surrogate calls passing ends the episode and is all that the agent is paid for. The interpreter runs along and
is told to nobody: it says how often the surrogate was right, and whether the program does pass. An agent
reads here what it would read in `repair.printing`, so that it can be examined there.

The expert at the seat of the surrogate is the interpreter: its episodes are the real transitions from which a
surrogate learns. At the seat of the agent it is as skilled as is said, so that there are failures among them.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask
from rlx.envs.turns import compact, said, with_end
from rlx.envs.worlds import repair
from rlx.errors import between
from rlx.types import Batch

AGENT, SURROGATE = 0, 1
_EDIT = 3  # tokens: a place, an operation and the end


def surrogate(
    *, operations: int, modulus: int, tests: int, skill: float, chance: float, pass_rate: float,
    held_out_share: float,
) -> SeatTask:
  """Episodes of edits and of what a surrogate says of them.

  Args:
    operations: as for `repair.printing`, like the next two.
    modulus: of the digits.
    tests: inputs.
    skill: share of the expert's edits that repair the program; the others are any.
    chance: share of the expert's verdicts that are drawn, whatever the program does: of a control.
    pass_rate: how many of those are that all tests pass.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Returns:
    The world. Besides `success`, that the program passes when the episode ends, episodes tell `passed`, what
    the surrogate says of that, and the shares of runs so far that it has foreseen: `outputs`, what is
    printed before the verdict, `verdicts`, and `foreseen`, all of it.
  """
  between(0, 1, skill=skill, chance=chance, pass_rate=pass_rate)
  world = repair.printing(
      operations=operations, modulus=modulus, tests=tests, held_out_share=held_out_share
  )
  digits, kinds, places = (text.characters(x, world.alphabet) for x in (
      repair.DIGITS[:modulus], repair.OPERATIONS, repair.PLACES[:operations]))
  fine, lost = text.characters(repair.MARKS[:2], world.alphabet)
  columns, prints = world.observation_columns, operations + tests  # an edit is shorter
  number = lambda x: jnp.asarray(x, jnp.float32)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problems = world.sample(key, num, held_out)
    twice = {name: jnp.stack([problems[name]] * 2, axis=1) for name in ('prompts', 'prompt_lengths')}
    return {**problems, **twice}

  def start(problem: Batch):
    none = {name: jnp.float32(0) for name in ('asked', 'outputs', 'verdicts', 'foreseen')}
    return {
        'real': world.start(problem), 'edited': jnp.bool_(False), 'passes': jnp.bool_(False),
        'printed': jnp.zeros(columns, jnp.int32), **none,
    }

  def edited(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    """The surrogate reads the edit; what the interpreter makes of it is kept."""
    reply = world.act(state['real'], action, length, key)
    return _told(
        {**state, 'real': reply.state, 'edited': jnp.bool_(True), 'passes': reply.ended,
         'printed': reply.observation},
        said(action, length, columns), SURROGATE, passed=jnp.bool_(False), understood=reply.understood,
    )

  def simulated(state, action: jax.Array, length: jax.Array) -> SeatReply:
    """The agent reads what the surrogate says that the run prints."""
    word, printed = said(action, length, columns + 1), state['printed']
    program, outputs, verdict = word[:operations], word[operations:prints], word[prints]
    is_run = jnp.all(jnp.isin(program, kinds)) & jnp.all(jnp.isin(outputs, digits))
    is_run = is_run & jnp.isin(verdict, jnp.stack([fine, lost])) & (word[columns] == text.PAD_ID)
    same = jnp.all(word[:prints] == printed[:prints]), is_run & (verdict == printed[prints])
    seen = {'outputs': same[0], 'verdicts': same[1], 'foreseen': same[0] & same[1]}
    counts = {name: state[name] + x for name, x in seen.items()}
    return _told(
        {**state, **counts, 'asked': state['asked'] + 1, 'edited': jnp.bool_(False)},
        word[:columns], AGENT, passed=is_run & (verdict == fine), understood=is_run,
    )

  def _told(state, word: jax.Array, seat: int, *, passed: jax.Array, understood: jax.Array) -> SeatReply:
    hears = jnp.arange(2) == seat
    heard, length = compact(word, word > text.EOS_ID)  # one that is too long is cut
    asked = jnp.maximum(state['asked'], 1)
    return SeatReply(
        state=state, observations=jnp.broadcast_to(heard[None], (2, columns)),
        lengths=jnp.where(hears, length, 0),
        rewards=number(passed & (jnp.arange(2) == AGENT)), ended=passed, understood=understood,
        info={
            SUCCESS: number(state['passes']), 'passed': number(passed),
            **{name: state[name] / asked for name in ('outputs', 'verdicts', 'foreseen')},
        },
    )

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    both = edited(state, action, length, key), simulated(state, action, length)
    return jax.tree.map(lambda agent, other: jnp.where(state['edited'], other, agent), *both)

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    skill_key, place_key, kind_key, chance_key, verdict_key = jax.random.split(key, 5)
    right, length = world.expert(state['real'])
    place = jax.random.randint(place_key, (), 0, operations)
    kind = jax.random.randint(kind_key, (), 0, len(repair.OPERATIONS))
    other, _ = with_end(jnp.stack([places[place], kinds[kind]]), jnp.int32(2), _EDIT)
    edit = jnp.where(jax.random.uniform(skill_key) < skill, right, other)
    drawn = jnp.where(jax.random.uniform(verdict_key) < pass_rate, fine, lost)
    by_chance = (jax.random.uniform(chance_key) < chance) & (jnp.arange(columns) == prints)
    run = jnp.where(by_chance, drawn, state['printed'])
    whole = jnp.pad(edit, (0, columns - _EDIT))
    return jnp.where(state['edited'], run, whole), jnp.where(state['edited'], columns, length)

  return SeatTask(
      alphabet=world.alphabet, prompt_columns=world.prompt_columns, answer_columns=columns, sample=sample,
      seats=('agent', 'surrogate'), order=(AGENT, SURROGATE), observation_columns=columns, start=start,
      act=act, expert=expert,
  )
