"""A form on a page: a planner says what is to be pressed, and a grounder finds its number on this page.

    planner `AxCz:` -> A | grounder `b` A -> 3 | -> x | x -> 1 | ... | -> r | r -> 5

The planner has the task, pairs of a field and the value that it is to have. It names an element: a field, a
value for the field that was pressed last, or `r`, which hands in and ends the episode. The grounder sees
which page it is, reads the name and says the number that the element has on this page, which is pressed; the
planner reads what was. What lies between them is a name, so somebody who knows another `site`, whose pages
have other numbers, can sit down beside the same planner. `end_to_end` is the same form without that
interface: one seat has the page and the task, and says numbers.

A task has a code, a weighted sum of its fields and values modulo the number of values. Tasks of code 0 are
held out; every combination of fields is in both parts.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.seats import SUCCESS, SeatReply, VariedTask
from rlx.envs.turns import index_in, said
from rlx.errors import at_least, between
from rlx.types import Batch

_MARKS, _FIELDS, _VALUES, _HANDS, _NUMBERS, _PAGES = ':?', 'ABCD', 'wxyz', 'r', '123456789', 'abcdef'


def form(*, fields: int, values: int, pages: int, lengths: tuple[float, ...], site: int) -> VariedTask:
  """Episodes of two seats; handing in with all goals met is worth 1 to both.

  Args:
    fields: of the form, in 1..4.
    values: that a field can have, in 2..4; one of so many tasks is held out.
    pages: of a site, in 1..6.
    lengths: weights of tasks of 1, 2, .. goals, of no more than there are fields.
    site: number of the site, by which elements are numbered on each of its pages.
  Returns:
    The world. Besides `success`, episodes tell `goals`, and `found`, the share of presses so far that were
    what the planner had named.
  """
  page = _Page(fields, values, pages, site)

  def asked(task: Batch, key: jax.Array) -> Batch:
    goals, (place, shown) = page.goals(task), page.drawn(key, task['goals'].shape[0])
    both = [text.join(piece, columns=goals.tokens.shape[1]) for piece in (goals, shown)]
    return {
        **task, 'place': place, 'prompts': jnp.stack([piece.tokens for piece in both], axis=1),
        'prompt_lengths': jnp.stack([piece.lengths for piece in both], axis=1),
    }

  def start(problem: Batch):
    counts = {'presses': jnp.float32(0), 'right': jnp.float32(0)}
    return {**page.blank(problem), **counts, 'named': jnp.bool_(False), 'element': jnp.int32(-1)}

  def named(state, token: jax.Array) -> SeatReply:
    element, known = index_in(page.names, token)
    told = {SUCCESS: jnp.float32(0), 'goals': _number(state['goals']), 'found': _share(state)}
    return SeatReply(
        state={**state, 'named': jnp.bool_(True), 'element': jnp.where(known, element, -1)},
        observations=jnp.broadcast_to(token, (2, 1)),
        lengths=jnp.array([0, 1], jnp.int32) * (token > text.EOS_ID), rewards=jnp.zeros(2),
        ended=jnp.bool_(False), understood=known, info=told,
    )

  def pressed(state, token: jax.Array) -> SeatReply:
    reply = page.press(state, token)
    right = reply.understood & (page.names[state['element']] == reply.observations[0, 0])
    right &= state['element'] >= 0
    after = {
        **reply.state, 'presses': state['presses'] + 1, 'right': state['right'] + right,
        'named': jnp.bool_(False), 'element': jnp.int32(-1),
    }
    return reply._replace(
        state=after, observations=jnp.repeat(reply.observations, 2, axis=0),
        lengths=jnp.array([1, 0], jnp.int32), rewards=jnp.repeat(reply.rewards, 2),
        info={**reply.info, 'found': _share(after)},
    )

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    del key
    token = _one(action, length)
    both = named(state, token), pressed(state, token)
    return jax.tree.map(lambda x, y: jnp.where(state['named'], y, x), *both)

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    del key
    number = page.numbers[state['place'][jnp.maximum(state['element'], 0)]]
    return jnp.where(state['named'], number, page.names[page.next_element(state)])[None], jnp.int32(1)

  return page.task(
      lengths, asked, seats=('planner', 'grounder'), order=(0, 1), start=start, act=act, expert=expert,
      prompt_columns=2 * len(lengths) + 1,
  )


def end_to_end(*, fields: int, values: int, pages: int, lengths: tuple[float, ...], site: int) -> VariedTask:
  """The same without a grounder: the planner has the page in front of its task, and says numbers itself.

  Args:
    fields: as for `form`, like all that follow.
    values: of a field.
    pages: of a site.
    lengths: of tasks.
    site: its number.
  Returns:
    The world, which tells `success` and `goals`.
  """
  page = _Page(fields, values, pages, site)
  columns = 2 * len(lengths) + 2

  def asked(task: Batch, key: jax.Array) -> Batch:
    goals, (place, shown) = page.goals(task), page.drawn(key, task['goals'].shape[0])
    prompt = text.join(shown, goals, columns=columns)
    return {
        **task, 'place': place, 'prompts': prompt.tokens[:, None], 'prompt_lengths': prompt.lengths[:, None],
    }

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    del key
    return page.press(state, _one(action, length))

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    del key
    return page.numbers[state['place'][page.next_element(state)]][None], jnp.int32(1)

  return page.task(
      lengths, asked, seats=('planner',), order=(0,), start=page.blank, act=act, expert=expert,
      prompt_columns=columns,
  )


@dataclasses.dataclass(frozen=True)
class _Page:
  """The elements of a form, and what pressing one does."""

  fields: int
  values: int
  pages: int
  site: int

  def __post_init__(self):
    between(1, len(_FIELDS), fields=self.fields)
    between(2, len(_VALUES), values=self.values)
    between(1, len(_PAGES), pages=self.pages)
    at_least(0, site=self.site)

  @property
  def letters(self) -> str:
    return _FIELDS[:self.fields] + _VALUES[:self.values] + _HANDS

  @property
  def alphabet(self) -> str:
    return _MARKS + self.letters + _NUMBERS[:len(self.letters)] + _PAGES[:self.pages]

  @property
  def names(self) -> jax.Array:
    """[elements] tokens: fields, values, and what hands in."""
    return text.characters(self.letters, self.alphabet)

  @property
  def numbers(self) -> jax.Array:
    return text.characters(_NUMBERS[:len(self.letters)], self.alphabet)

  def numbering(self) -> np.ndarray:
    """[pages, elements] places among the numbers, of each element."""
    size = len(self.letters)
    return np.stack([np.random.default_rng([self.site, i]).permutation(size) for i in range(self.pages)])

  def drawn(self, key: jax.Array, num: int) -> tuple[jax.Array, text.Piece]:
    """Places of the elements [num, elements], and the pages on which they have them, a letter each."""
    page = jax.random.randint(key, (num,), 0, self.pages)
    letter = text.symbol(page, _PAGES[:self.pages], self.alphabet)
    return jnp.asarray(self.numbering(), jnp.int32)[page], letter

  def goals(self, task: Batch) -> text.Piece:
    """The task in words: pairs of a field and a value, and `:` behind them."""
    num, most = task['fields'].shape
    pairs = jnp.stack([self.names[task['fields']], self.names[self.fields + task['wanted']]], axis=2)
    colon = text.symbol(jnp.zeros(num, jnp.int32), _MARKS, self.alphabet)
    return text.join(text.Piece(pairs.reshape(num, -1), 2 * task['goals']), colon, columns=2 * most + 1)

  def blank(self, problem: Batch):
    """A form before the first press."""
    kept = {name: problem[name] for name in ('place', 'fields', 'wanted', 'goals')}
    return {**kept, 'content': jnp.full(self.fields, -1, jnp.int32), 'open': jnp.int32(-1)}

  def press(self, state, token: jax.Array) -> SeatReply:
    """What becomes of a form of which a number is pressed, to one seat, which reads what it was."""
    number, found = index_in(self.numbers, token)
    element = jnp.argmax(state['place'] == number).astype(jnp.int32)
    is_field, hands = found & (element < self.fields), found & (element == len(self.letters) - 1)
    sets = found & ~is_field & ~hands & (jnp.arange(self.fields) == state['open'])
    after = {
        **state, 'content': jnp.where(sets, element - self.fields, state['content']),
        'open': jnp.where(is_field, element, state['open']),
    }
    solved = _number(hands & jnp.all(_met(state)))
    heard = jnp.where(found, self.names[element], text.characters(_MARKS, self.alphabet)[1])
    return SeatReply(
        state=after, observations=heard.reshape(1, 1).astype(jnp.int32), lengths=jnp.ones(1, jnp.int32),
        rewards=solved[None], ended=hands, understood=found,
        info={SUCCESS: solved, 'goals': _number(state['goals'])},
    )

  def next_element(self, state) -> jax.Array:
    """[] int32: what is to be pressed, for the first goal that is not met."""
    met = _met(state)
    goal = jnp.argmin(met)
    field, value = state['fields'][goal], self.fields + state['wanted'][goal]
    missing = jnp.where(state['open'] == field, value, field)
    return jnp.where(jnp.all(met), len(self.letters) - 1, missing)

  def task(self, lengths: tuple[float, ...], asked, **parts) -> VariedTask:
    """The world whose problems `asked` makes of tasks: `fields, wanted` [N, goals], `goals` [N]."""
    between(1, self.fields, lengths=len(lengths))
    weights = jnp.log(jnp.asarray(lengths, jnp.float32))

    def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
      goals_key, fields_key, values_key, page_key = jax.random.split(key, 4)
      order = jax.vmap(lambda one: jax.random.permutation(one, self.fields))
      task = {
          'fields': order(jax.random.split(fields_key, num))[:, :len(lengths)],
          'goals': jax.random.categorical(goals_key, weights, shape=(num,)).astype(jnp.int32) + 1,
      }
      return asked({**task, 'wanted': self.valued(task, values_key, held_out)}, page_key)

    def vary(problems: Batch, key: jax.Array) -> Batch:
      values_key, page_key = jax.random.split(key)
      task = {name: problems[name] for name in ('fields', 'goals')}
      return asked({**task, 'wanted': self.valued(task, values_key, False)}, page_key)

    return VariedTask(
        alphabet=self.alphabet, answer_columns=1, observation_columns=1, sample=sample, vary=vary, **parts
    )

  def valued(self, task: Batch, key: jax.Array, held_out: bool) -> jax.Array:
    """[N, goals] values for fields, of one part: the first one is such that the code is."""
    rest_key, code_key = jax.random.split(key)
    fields, counts = task['fields'], jnp.arange(task['fields'].shape[1])[None] < task['goals'][:, None]
    values = jax.random.randint(rest_key, fields.shape, 0, self.values)
    code = jnp.zeros(len(fields), jnp.int32) if held_out else (
        jax.random.randint(code_key, fields.shape[:1], 1, self.values))
    first = (code - code_of(fields, values.at[:, 0].set(0), counts)) % self.values
    return values.at[:, 0].set(first)


def code_of(fields: jax.Array, values: jax.Array, counts: jax.Array) -> jax.Array:
  """[...] int32, whose rest by the number of values says whether a task is held out; of [..., G] goals."""
  weight = jnp.broadcast_to(jnp.arange(fields.shape[-1]) + 1, fields.shape)
  return jnp.sum(jnp.where(counts, weight * values + (weight + 1) * fields, 0), axis=-1)


def _met(state) -> jax.Array:
  """[G] bool: the goals whose fields have their values, and those that are none."""
  none = jnp.arange(state['fields'].shape[0]) >= state['goals']
  return none | (state['content'][state['fields']] == state['wanted'])


def _one(action: jax.Array, length: jax.Array) -> jax.Array:
  """The only token of an action; padding where there is none or several."""
  word = said(action, length, 2)
  return jnp.where(word[1] == text.PAD_ID, word[0], text.PAD_ID)


def _share(state) -> jax.Array:
  return state['right'] / jnp.maximum(state['presses'], 1)


def _number(x: jax.Array) -> jax.Array:
  return x.astype(jnp.float32)
