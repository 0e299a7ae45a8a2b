"""To think or not: `342=` -> `?3;7;9;#9`, or `!#9`, digits that are summed with or without running sums.

The first token says which: `?` thinks, step by step, and `!` answers at once. A sum of one digit needs no
thought, and one of many is hard to tell without: so which mode pays depends on the prompt, and its number
of digits says how.

`composed` is the same of skills, `3ca?=` -> `?23=3`, or `!=3`: values that are had one from the other.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.chain import MARKER, chain
from rlx.envs.skills import skills
from rlx.envs.text import Piece, Task
from rlx.types import Batch

DIRECT, THINK = '!', '?'


def hybrid(*, modulus: int, min_steps: int, max_steps: int, held_out_share: float) -> Task:
  """The chain task with the mode said first; solutions are in either mode, as often.

  Args:
    modulus: sums are taken modulo this, and digits are below it.
    min_steps: the fewest digits of a prompt.
    max_steps: the most; the difficulty.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Returns:
    The task. `verify` asks for what `chain` asks for behind the mode's token: behind `!` without a step,
    behind `?` with one or more. Problems have the columns of `chain`.
  Raises:
    ValueError: an argument that `chain` refuses.
  """
  inner = chain(
      modulus=modulus, min_steps=min_steps, max_steps=max_steps, checks=0, held_out_share=held_out_share
  )
  alphabet = inner.alphabet + DIRECT + THINK  # behind the others, whose tokens stay as they are
  direct, think, marker = text.characters(DIRECT + THINK + MARKER, alphabet)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problem_key, mode_key = jax.random.split(key)
    problems = inner.sample(problem_key, num, held_out)
    thinks = jax.random.bernoulli(mode_key, 0.5, (num,))
    steps = problems['solutions']
    first = lambda token: jnp.full((num, 1), token)
    at_once = jnp.concatenate([first(direct), first(marker), problems['answers'], first(text.EOS_ID)], axis=1)
    at_once = jnp.pad(at_once, ((0, 0), (0, steps.shape[1] + 1 - at_once.shape[1])))
    aloud = jnp.concatenate([first(think), steps], axis=1)
    return {**problems, 'solutions': jnp.where(thinks[:, None], aloud, at_once).astype(jnp.int32)}

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    completions = jnp.pad(completions, ((0, 0), (0, 2)))
    steps = completions[:, 1] != marker
    told = jnp.where(steps, completions[:, 0] == think, completions[:, 0] == direct)
    return inner.verify(problems, completions[:, 1:]) * told

  return Task(
      alphabet=alphabet, prompt_columns=inner.prompt_columns, answer_columns=inner.answer_columns + 1,
      sample=sample, verify=verify,
  )


def composed(
    *, modulus: int, num_skills: int, used: tuple[int, ...], min_steps: int, max_steps: int,
    held_out_share: float,
) -> Task:
  """Chains of skills with the mode said first; solutions are in either mode, as often.

  Args:
    modulus: as for `skills`, as are the others.
    num_skills: S.
    used: skills that are drawn.
    min_steps: the fewest operations.
    max_steps: the most; the difficulty.
    held_out_share: in (0, 1).
  Returns:
    The task. `verify` asks for the last value alone, behind `=`, and the end token: behind `?` with one digit
    or more before it, which may be wrong, behind `!` with none. Problems have columns `skills`, and
    `answers` [N, 1], tokens.
  Raises:
    ValueError: an argument that `skills` refuses.
  """
  inner = skills(
      modulus=modulus, num_skills=num_skills, used=used, min_steps=min_steps, max_steps=max_steps,
      held_out_share=held_out_share,
  )
  direct, think, marker = text.characters(DIRECT + THINK + '=', inner.alphabet)
  digits = text.characters('0123456789'[:modulus], inner.alphabet)
  answer_columns = max_steps + 4

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problem_key, mode_key = jax.random.split(key)
    problems = inner.sample(problem_key, num, held_out)
    thinks = jax.random.bernoulli(mode_key, 0.5, (num,))
    steps = (problems['skills'] >= 0).sum(axis=1)
    answers = jnp.take_along_axis(problems['solutions'], steps[:, None] - 1, axis=1)
    solutions = text.join(
        text.symbol(thinks.astype(jnp.int32), DIRECT + THINK, inner.alphabet),
        text.when(thinks, Piece(problems['solutions'], steps)),
        text.symbol(jnp.zeros_like(steps), '=', inner.alphabet), Piece(answers, jnp.ones_like(steps)),
        text.end(num), columns=answer_columns,
    )
    kept = {name: problems[name] for name in ('prompts', 'prompt_lengths', 'skills')}
    return {**kept, 'solutions': solutions.tokens, 'answers': answers}

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    completions = jnp.pad(completions, ((0, 0), (0, 3)))
    place = jnp.argmax(completions == marker, axis=1)[:, None]  # 0 where there is none
    columns = jnp.arange(completions.shape[1])[None]
    ending = jnp.concatenate([problems['answers'], jnp.full_like(place, text.EOS_ID)], axis=1)
    behind = jnp.take_along_axis(completions, jnp.minimum(place + jnp.array([[1, 2]]), columns.size - 1), 1)
    steps = jnp.all(jnp.isin(completions, digits) | (columns == 0) | (columns >= place), axis=1)
    mode = jnp.where(place[:, 0] > 1, completions[:, 0] == think, completions[:, 0] == direct)
    return (mode & steps & (place[:, 0] > 0) & jnp.all(behind == ending, axis=1)).astype(jnp.float32)

  return Task(
      alphabet=inner.alphabet, prompt_columns=inner.prompt_columns, answer_columns=answer_columns,
      sample=sample, verify=verify,
  )
