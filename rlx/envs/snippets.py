"""Code that copies from its repository: `q37;` is defined somewhere, and is called as `C`: `g52;C=` -> `37`.

A problem is a file up to the cursor, with one definition of its own and a call, and snippets of the
repository, a definition each. What is called is defined in the file itself, and then the snippets define
others; or it is defined in one of them. Which name belongs to which call is the same everywhere, and nothing
in their letters says it: words in common do not find a definition. Among the snippets stands an empty one, to
be chosen by who wants none.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.retrieval import RetrievalTask
from rlx.errors import between
from rlx.types import Batch

_NAMES, _CALLS, _DIGITS, _MARKS = 'abcdefgh', 'ABCDEFGH', '01234567', ';='
_BODY = 2  # digits of a definition
_DEFINITION = _BODY + 2  # its columns: a name, a body, and `;`
_SEED = 0  # of which name belongs to which call


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnippetTask(RetrievalTask):
  """Files up to the cursor and the snippets of their repositories; its `solutions` are what comes next.

  The candidates are snippets, an empty one included; `gold` is the one that defines what is called, -1 where
  the file does. `prompts` are files with one of the snippets or none in front: what a generator reads that
  learns the language.

  Attributes:
    with_snippets: `(queries [N, Q], snippets [N, C], solutions [N, A]) -> rows`, whose prompts are these,
      and whose actions are the solutions; an empty snippet takes no room.
  """

  with_snippets: Callable[[jax.Array, jax.Array, jax.Array], Batch]


def snippets(*, functions: int, candidates: int, empty: int, held_out_share: float) -> SnippetTask:
  """Half of the files define themselves what they call; the others need the one snippet that does.

  Args:
    functions: that can be defined, in candidates + 2..8.
    candidates: snippets of a repository, in 2..6.
    empty: how many empty ones stand behind them: 1, or 0 where something has to be chosen.
    held_out_share: in (0, 1), the part of all (what is called, what the file defines, where the definition
      is) that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(2, 6, candidates=candidates)
  between(candidates + 2, len(_NAMES), functions=functions)
  between(0, 1, empty=empty)
  alphabet = _NAMES[:functions] + _CALLS[:functions] + _DIGITS + _MARKS
  spelt, called = (text.characters(x[:functions], alphabet) for x in (_NAMES, _CALLS))
  digits = text.characters(_DIGITS, alphabet)
  semicolon, equals = text.characters(_MARKS, alphabet)
  meant_by = jax.random.permutation(jax.random.key(_SEED), functions)  # call -> name
  query_columns = _DEFINITION + 2

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number_key, other_key, body_key, shown_key = jax.random.split(key, 4)
    number = text.draw_indices(
        number_key, num, num_problems=2 * functions * (functions - 1) * candidates, held_out=held_out,
        held_out_share=held_out_share,
    )
    needed, number = number % 2 == 1, number // 2
    place, number = number % candidates, number // candidates
    call, another = number % functions, number // functions
    name = meant_by[call]
    own = jnp.where(needed, (name + 1 + another) % functions, name)
    # The others in any order, without what is called and what the file defines: these come last.
    order = jax.random.uniform(other_key, (num, functions))
    last = (jnp.arange(functions)[None] == name[:, None]) | (jnp.arange(functions)[None] == own[:, None])
    others = jnp.argsort(jnp.where(last, 2.0, order), axis=1)[:, :candidates]
    here = needed[:, None] & (jnp.arange(candidates)[None] == place[:, None])
    there = jnp.where(here, name[:, None], others)
    bodies = jax.random.randint(body_key, (num, functions, _BODY), 0, len(_DIGITS))  # of a repository
    define = lambda which: _definition(spelt, digits, semicolon, bodies, which)
    body = jnp.take_along_axis(bodies, name[:, None, None], axis=1)[:, 0]
    ending = jnp.stack([called[call], jnp.broadcast_to(equals, (num,))], axis=1)
    queries = jnp.concatenate([define(own[:, None])[:, 0], ending], axis=1)
    blank = jnp.full((num, empty, _DEFINITION), text.PAD_ID)
    repository = jnp.concatenate([define(there), blank], axis=1)
    solutions = jnp.concatenate([digits[body], jnp.full((num, 1), text.EOS_ID)], axis=1)
    front = _in_front(shown_key, define(there), place)
    prompts = _behind(front, queries)
    return {
        'queries': queries, 'candidates': repository, 'gold': jnp.where(needed, place, -1),
        'prompts': prompts.tokens, 'prompt_lengths': prompts.lengths, 'solutions': solutions,
    }

  def with_snippets(queries: jax.Array, chosen: jax.Array, solutions: jax.Array) -> Batch:
    prompts = _behind(chosen, queries)
    return text.demonstrations({
        'prompts': prompts.tokens, 'prompt_lengths': prompts.lengths, 'solutions': solutions
    })

  return SnippetTask(
      alphabet=alphabet, prompt_columns=_DEFINITION + query_columns, answer_columns=_BODY + 1, sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
      query_columns=query_columns, candidate_shape=(candidates + empty, _DEFINITION),
      with_snippets=with_snippets,
  )


def _definition(spelt, digits, semicolon, bodies: jax.Array, which: jax.Array) -> jax.Array:
  """[N, K, C] tokens of the definitions of names [N, K], whose bodies stand in [N, F, 2]."""
  body = jnp.take_along_axis(bodies, which[..., None], axis=1)
  end = jnp.broadcast_to(semicolon, (*which.shape, 1))
  return jnp.concatenate([spelt[which][..., None], digits[body], end], axis=-1)


def _in_front(key: jax.Array, there: jax.Array, place: jax.Array) -> jax.Array:
  """[N, C]: what stands in front of a file to be read: what is at `place` for half, then any, or nothing."""
  num, count, columns = there.shape
  which_key, any_key = jax.random.split(key)
  which = jax.random.uniform(which_key, (num,))
  at = jnp.where(which < 0.5, place, jax.random.randint(any_key, (num,), 0, count))
  shown = jnp.take_along_axis(there, at[:, None, None], axis=1)[:, 0]
  return jnp.where(which[:, None] < 0.75, shown, jnp.full((num, columns), text.PAD_ID))


def _behind(front: jax.Array, queries: jax.Array) -> text.Piece:
  """Snippets [N, C], of which empty ones take no room, and the files [N, Q] behind them."""
  full = lambda x: jnp.full(x.shape[:1], x.shape[1])
  there = front[:, 0] != text.PAD_ID
  return text.join(
      text.Piece(front, jnp.where(there, full(front), 0)), text.Piece(queries, full(queries)),
      columns=front.shape[1] + queries.shape[1],
  )
