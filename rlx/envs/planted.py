"""A subsequence to be planted in a trace: `bac=` -> `cabcbac`, where what the prompt shows comes at last.

A trace may take as many tokens as its budget has, and is worth the more the earlier the pattern is in it:
one point for each token of the budget behind it. What experts write first is arbitrary filler, of a length
that is theirs: with `heterogeneity` 0 they all plant at once, with 1 anywhere. Cloning learns to plant as
late as they do; a verifier tells early from late.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

_LETTERS = 'abcdefghij'


def planted(
    *, letters: int, length: int, budget: int, heterogeneity: float, held_out_share: float
) -> Task:
  """Prompts of `length` letters and `=`; answers that hold them in a row.

  Args:
    letters: how many letters there are, in 2..10.
    length: k, letters of the pattern.
    budget: H, the most letters of a trace, at least k; the end token is one more.
    heterogeneity: in [0, 1]; solutions have 0 to heterogeneity (H - k) letters in front of the pattern, all
      numbers of them as often.
    held_out_share: in (0, 1), the part of all patterns that is never trained on.
  Returns:
    The task. `verify` asks for the pattern within the first H letters, and the end token behind nothing but
    letters. Problems have a column `patterns` [N, length], tokens.
  Raises:
    ValueError: an argument out of its range.
  Source: the didactic problem of Setlur et al., 2025, https://arxiv.org/abs/2502.12118; our reading. There
    the pattern is the same in all prompts, and experts differ in how likely they are to go on with it.
  """
  if not 2 <= letters <= len(_LETTERS) or not 1 <= length <= budget or not 0 <= heterogeneity <= 1:
    raise ValueError(
        f'letters={letters}, length={length}, budget={budget}, heterogeneity={heterogeneity}: need '
        '2 <= letters <= 10, 1 <= length <= budget and 0 <= heterogeneity <= 1'
    )
  alphabet = _LETTERS[:letters] + '='
  tokens, longest = text.characters(_LETTERS[:letters], alphabet), round(heterogeneity * (budget - length))

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index_key, filler_key, count_key = jax.random.split(key, 3)
    index = text.draw_indices(
        index_key, num, num_problems=letters**length, held_out=held_out, held_out_share=held_out_share
    )
    powers = jnp.array([letters**i for i in reversed(range(length))], jnp.int32)
    patterns = tokens[index[:, None] // powers[None] % letters]
    full = lambda count: jnp.full(num, count, jnp.int32)
    filler = tokens[jax.random.randint(filler_key, (num, longest), 0, letters)]
    pattern = text.Piece(patterns, full(length))
    prompt = text.join(pattern, text.symbol(full(0), '=', alphabet), columns=length + 1)
    before = text.Piece(filler, jax.random.randint(count_key, (num,), 0, longest + 1))
    solution = text.join(before, pattern, text.end(num), columns=budget + 1)
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'patterns': patterns,
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    places = jnp.arange(completions.shape[1])[None]
    is_end = completions == text.EOS_ID
    end = jnp.where(is_end.any(axis=1), jnp.argmax(is_end, axis=1), -1)[:, None]
    clean = jnp.all(jnp.isin(completions, tokens) | (places >= end), axis=1) & (end[:, 0] >= 0)
    found = planted_at(problems['patterns'], jnp.where(places < end, completions, text.PAD_ID))
    return (clean & (found >= 0) & (found + length <= budget)).astype(jnp.float32)

  return Task(
      alphabet=alphabet, prompt_columns=length + 1, answer_columns=budget + 1, sample=sample, verify=verify,
  )


def planted_at(patterns: jax.Array, completions: jax.Array) -> jax.Array:
  """[N] int32: the first column from which a completion holds its pattern, -1 where it does not.

  Args:
    patterns: [N, k] tokens.
    completions: [N, C] tokens.
  """
  length, columns = patterns.shape[1], completions.shape[1]
  padded = jnp.pad(completions, ((0, 0), (0, length - 1)))
  windows = jnp.stack([padded[:, i : i + columns] for i in range(length)], axis=-1)
  here = jnp.all(windows == patterns[:, None], axis=-1)
  return jnp.where(here.any(axis=1), jnp.argmax(here, axis=1), -1).astype(jnp.int32)
