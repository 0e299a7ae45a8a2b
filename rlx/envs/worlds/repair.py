"""A short program has a fault, and tests say so: `+d2>53>1` -> `2h` -> `x01` -> ...

A program is a row of operations on a digit, of six (`+` one more, `-` one less, `d` doubled, `n` negated, `s`
squared, `h` as it is), modulo a number. The prompt is the program, and for each test what goes in and what
should come out. An action names a place and the operation that is to stand there; the observation is a sign
and the tests that still fail. When all pass, the episode is over.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, compact, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

MARKS, OPERATIONS, PLACES, DIGITS = ':?>', '+-dnsh', 'ABCDEF', '0123456789'


def repair(*, operations: int, modulus: int, tests: int, held_out_share: float) -> TurnTask:
  """Episodes on a program with one operation exchanged; the reward is 1 when all tests pass.

  Args:
    operations: of a program, in 1..6.
    modulus: of the digits, in 3..10.
    tests: inputs 0, 1, .., in 1..modulus; a program that passes them all is right, whatever it is.
    held_out_share: in (0, 1), the part of all problems (program, place, other operation) that is never
      trained on. Faults that no test sees are none.
  """
  between(1, 6, operations=operations)
  between(3, 10, modulus=modulus)
  between(1, modulus, tests=tests)
  alphabet = MARKS + OPERATIONS + PLACES[:operations] + DIGITS[:modulus]
  fine, lost, arrow = text.characters(MARKS, alphabet)
  kinds, places, digits = (
      text.characters(x, alphabet) for x in (OPERATIONS, PLACES[:operations], DIGITS[:modulus])
  )
  inputs = jnp.arange(tests)
  programs, number_of = _faulty(operations, modulus, tests)
  known = jnp.asarray(programs, jnp.int32)

  def outputs(program):
    return run_program(program, inputs, modulus)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=number_of, held_out=held_out, held_out_share=held_out_share
    )
    right, place, other = known[number, :operations], known[number, operations], known[number, operations + 1]
    wrong = right.at[jnp.arange(num), place].set(other)
    wanted = jax.vmap(outputs)(right)
    pair = jnp.stack([
        jnp.broadcast_to(digits[inputs], wanted.shape), jnp.full_like(wanted, arrow), digits[wanted]
    ], axis=2)
    prompts = jnp.concatenate([kinds[wrong], pair.reshape(num, -1)], axis=1).astype(jnp.int32)
    return {
        'program': wrong, 'right': right, 'prompts': prompts,
        'prompt_lengths': jnp.full(num, prompts.shape[1]),
    }

  def start(problem: Batch):
    return {'program': problem['program'], 'right': problem['right']}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 3)
    place, is_place = index_in(places, word[0])
    kind, is_kind = index_in(kinds, word[1])
    understood = is_place & is_kind & (word[2] == text.PAD_ID)
    program = jnp.where(understood & (jnp.arange(operations) == place), kind, state['program'])
    fails = outputs(program) != outputs(state['right'])
    solved = understood & ~jnp.any(fails)
    sign = jnp.where(understood, fine, lost)
    observation, told = compact(
        jnp.concatenate([sign[None], digits[inputs]]), jnp.concatenate([jnp.ones(1, bool), fails])
    )
    reward = solved.astype(jnp.float32)
    info = {SUCCESS: reward, 'passing': 1 - fails.mean()}
    return Reply({**state, 'program': program}, observation, told, reward, solved, understood, info)

  def expert(state):
    place = jnp.argmax(state['program'] != state['right'])
    return with_end(jnp.stack([places[place], kinds[state['right'][place]]]), jnp.int32(2), 3)

  return TurnTask(
      alphabet=alphabet, prompt_columns=operations + 3 * tests, answer_columns=3, sample=sample,
      observation_columns=1 + tests, start=start, act=act, expert=expert, expert_return=1.0,
  )


def printing(*, operations: int, modulus: int, tests: int, held_out_share: float) -> TurnTask:
  """`repair` whose observations are what a run prints: the program, a digit for each test, and `:` or `?`.

  Args:
    operations: as for `repair`, like all that follow.
    modulus: of the digits.
    tests: inputs.
    held_out_share: of the problems.
  Returns:
    The world. Behind `:` all tests pass. Observations are all of one length; an edit that means nothing
    changes nothing, and fails.
  """
  inner = repair(operations=operations, modulus=modulus, tests=tests, held_out_share=held_out_share)
  kinds, digits, marks = (
      text.characters(x, inner.alphabet) for x in (OPERATIONS, DIGITS[:modulus], MARKS)
  )

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    reply = inner.act(state, action, length, key)
    program = reply.state['program']
    printed = digits[run_program(program, jnp.arange(tests), modulus)]
    verdict = jnp.where(reply.ended, marks[0], marks[1])
    return reply._replace(
        observation=jnp.concatenate([kinds[program], printed, verdict[None]]).astype(jnp.int32),
        length=jnp.int32(operations + tests + 1),
    )

  return dataclasses.replace(inner, act=act, observation_columns=operations + tests + 1)


def run_program(program, inputs, modulus: int):
  """What a program [L] makes of inputs [N]; of NumPy's arrays as of JAX's."""
  array = jnp if isinstance(program, jax.Array) else np
  value = inputs
  for place in range(program.shape[0]):
    choices = (value + 1, value - 1, 2 * value, -value, value * value, value)
    value = array.stack([choice % modulus for choice in choices])[program[place]]
  return value


def _faulty(operations: int, modulus: int, tests: int) -> tuple[np.ndarray, int]:
  """Problems [N, operations + 2] that some test sees: a program, the place of the fault, what is there."""
  num, inputs = len(OPERATIONS), np.arange(tests)
  random = np.random.default_rng(0)
  found = []
  many = num**operations
  numbers = range(many) if many <= 1296 else random.choice(many, 1296, replace=False)
  for number in numbers:
    program = np.array([number // num**i % num for i in range(operations)])
    wanted = run_program(program, inputs, modulus)
    for place in range(operations):
      for other in range(num):
        changed = program.copy()
        changed[place] = other
        if np.any(run_program(changed, inputs, modulus) != wanted):
          found.append((*program, place, other))
  return np.array(found), len(found)
