"""Short programs from tests: `3>5,7>1,` -> `+dd`, a row of operations on a digit that passes them all.

The operations are the six of `envs/worlds/repair.py`, modulo a number. Tests are what goes in and what should
come out; several programs may pass them, and each that does is right. Nothing but the tests grades a program.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.text import Task
from rlx.envs.worlds.repair import DIGITS, OPERATIONS, run_program
from rlx.errors import between
from rlx.types import Batch


def programs(*, operations: int, modulus: int, tests: int, held_out_share: float) -> Task:
  """Prompts of tests; answers are programs, with an end token behind.

  Args:
    operations: L, of a program, in 1..4; `h` keeps a digit as it is.
    modulus: of the digits, in 3..10.
    tests: of a prompt, with as many different inputs, in 1..modulus.
    held_out_share: in (0, 1), the part of all sets of tests that is never trained on.
  Returns:
    The task. Solutions are drawn from all programs that pass. Problems have columns `inputs`
    and `outputs` [N, tests], digits.
  Raises:
    ValueError: an argument out of its range.
  """
  between(1, 4, operations=operations)
  between(3, 10, modulus=modulus)
  between(1, modulus, tests=tests)
  alphabet = '>,' + OPERATIONS + DIGITS[:modulus]
  arrow, comma = text.characters('>,', alphabet)
  kinds, digits = (text.characters(x, alphabet) for x in (OPERATIONS, DIGITS[:modulus]))
  wanted, first, count, passing = (jnp.asarray(x, jnp.int32) for x in _problems(operations, modulus, tests))

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index_key, program_key = jax.random.split(key)
    index = text.draw_indices(
        index_key, num, num_problems=wanted.shape[0], held_out=held_out, held_out_share=held_out_share
    )
    inputs, outputs = wanted[index, 0], wanted[index, 1]
    marks = lambda token: jnp.full_like(inputs, token)
    shown = jnp.stack([digits[inputs], marks(arrow), digits[outputs], marks(comma)], axis=2).reshape(num, -1)
    which = first[index] + jax.random.randint(program_key, (num,), 0, count[index])
    program = kinds[passing[which]]
    return {
        'prompts': shown, 'prompt_lengths': jnp.full(num, 4 * tests),
        'solutions': jnp.concatenate([program, jnp.full((num, 1), text.EOS_ID)], axis=1).astype(jnp.int32),
        'inputs': inputs, 'outputs': outputs,
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    said = jnp.pad(completions, ((0, 0), (0, operations + 1)))[:, : operations + 1]
    program, ended = said[:, :operations], said[:, operations] == text.EOS_ID
    clean = jnp.all(jnp.isin(program, kinds), axis=1) & ended
    rows = jnp.argmax(program[..., None] == kinds[None, None], axis=-1)
    found = jax.vmap(lambda row, inputs: run_program(row, inputs, modulus))(rows, problems['inputs'])
    return (clean & jnp.all(found == problems['outputs'], axis=1)).astype(jnp.float32)

  return Task(
      alphabet=alphabet, prompt_columns=4 * tests, answer_columns=operations + 1, sample=sample,
      verify=verify,
  )


def _problems(operations: int, modulus: int, tests: int) -> tuple[np.ndarray, ...]:
  """All sets of tests that some program passes.

  Returns:
    Inputs and outputs [P, 2, tests]; the first of the programs that pass [P], how many they are [P], and the
    programs [M, operations], those of a problem behind one another.
  """
  rows = np.array(list(itertools.product(range(len(OPERATIONS)), repeat=operations)))
  table = np.stack([run_program(row, np.arange(modulus), modulus) for row in rows])
  wanted, counts, passing = [], [], []
  for inputs in itertools.combinations(range(modulus), tests):
    outputs, which = np.unique(table[:, inputs], axis=0, return_inverse=True)
    wanted.append(np.stack([np.broadcast_to(np.array(inputs), outputs.shape), outputs], axis=1))
    counts.append(np.bincount(which.ravel()))
    passing.append(rows[np.argsort(which.ravel(), kind='stable')])
  count = np.concatenate(counts)
  return np.concatenate(wanted), np.cumsum(count) - count, count, np.concatenate(passing)
