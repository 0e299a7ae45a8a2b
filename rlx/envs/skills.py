"""Chains of operations that are called by letters: `3ca=` -> `23`, the value after each operation.

A letter is a skill: it stands for one permutation of the digits, and nothing says which. Rewards are for
whole chains, so chance falls with each step, and a policy that lacks a skill never passes where there are
more than a few of it. Problems are made by weights of skills and numbers of steps, so a curriculum can ask
for what it wants (`SkillTask.compose`); which of them are held out depends on neither.

A problem has other forms, which are other prompts with the same answer, in the columns `<form>_prompts` and
`<form>_lengths` (`rollout/inject.py`). With three steps at most, `3ca=` is one of these:

| form | prompt | what it adds |
|---|---|---|
| | `3ca?=` | blanks, so that all prompts of a form have one width: very small models need it |
| `hinted` | `2??3ca?=` | the first values, never the last |
| `decomposed` | `3c;a;?;=` | one subproblem after the other |
| `refined` | `25?;3ca?=` | a wrong answer |
| `asking` | `23?!3ca?=` | the right answer; to be answered by a hint, `asking_solutions` |
"""

from collections.abc import Callable
import dataclasses
import math

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Piece, Task
from rlx.types import Batch

LETTERS = 'abcdefgh'
_MARKS = '=;!?'  # in front of digits and letters, so that tokens do not depend on the modulus


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkillTask(Task):
  """A task of skills.

  Attributes:
    num_skills: S.
    max_steps: of a problem.
    compose: `(key, weights [N, S], steps [N], held_out) -> problems`: each operation is drawn in proportion
      to the row's weights, of which one at least is above 0.
    with_hint: `(problems, hints [N, max_steps]) -> prompts, lengths` of the form `hinted`.
    with_attempt: `(problems, completions [N, C]) -> prompts, lengths` of the form `refined`.
    with_answer: `(problems, answers [N, max_steps]) -> prompts, lengths` of the form `asking`.
  """

  num_skills: int
  max_steps: int
  compose: Callable[[jax.Array, jax.Array, jax.Array, bool], Batch]
  with_hint: Callable[[Batch, jax.Array], tuple[jax.Array, jax.Array]]
  with_attempt: Callable[[Batch, jax.Array], tuple[jax.Array, jax.Array]]
  with_answer: Callable[[Batch, jax.Array], tuple[jax.Array, jax.Array]]


def skills(
    *, modulus: int, num_skills: int, used: tuple[int, ...], min_steps: int, max_steps: int,
    held_out_share: float,
) -> SkillTask:
  """Chains of `min_steps` to `max_steps` operations; lengths, operations and first digits are uniform.

  Args:
    modulus: number of digits, in 2..10.
    num_skills: S letters of the alphabet, in 1..8; there must be as many permutations.
    used: skills that `sample` draws from; `compose` knows them all. Tasks that differ in this alone, or in
      their steps, have the same tokens and hold the same problems out.
    min_steps: the fewest operations, at least 1.
    max_steps: the most; the difficulty.
    held_out_share: in (0, 1), the part of the first digits that is never trained on, another one for each
      chain of operations.
  Returns:
    The task. `verify` asks for all values and the end token. Problems have the forms above and a column
    `skills` [N, max_steps], padded with -1.
  Raises:
    ValueError: an argument out of its range.
  """
  _check(
      modulus=modulus, num_skills=num_skills, used=used, min_steps=min_steps, max_steps=max_steps,
      held_out_share=held_out_share,
  )
  alphabet = _MARKS + '0123456789'[:modulus] + LETTERS[:num_skills]
  slope, offset = jnp.array(_permutations(modulus)[:num_skills], jnp.int32).T
  maker = _Maker(
      alphabet=alphabet, modulus=modulus, max_steps=max_steps, num_out=round(modulus * held_out_share),
      digits=text.characters('0123456789'[:modulus], alphabet), slope=slope, offset=offset,
      letters=text.characters(LETTERS[:num_skills], alphabet),
  )

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    steps_key, problem_key = jax.random.split(key)
    weights = jnp.zeros(num_skills).at[jnp.array(used)].set(1)
    steps = jax.random.randint(steps_key, (num,), min_steps, max_steps + 1)
    return maker.compose(problem_key, jnp.broadcast_to(weights, (num, num_skills)), steps, held_out)

  return SkillTask(
      alphabet=alphabet, prompt_columns=maker.prompt_columns, answer_columns=maker.answer_columns,
      sample=sample, verify=lambda problems, completions: text.matches(problems['solutions'], completions),
      num_skills=num_skills, max_steps=max_steps, compose=maker.compose, with_hint=maker.with_hint,
      with_attempt=maker.with_attempt, with_answer=maker.with_answer,
  )


def uneven(
    *, modulus: int, num_skills: int, weights: tuple[float, ...], min_steps: int, max_steps: int,
    held_out_share: float,
) -> SkillTask:
  """`skills` of which some are asked for seldom: operations are drawn in proportion to `weights`.

  Args:
    modulus: as for `skills`.
    num_skills: S.
    weights: S numbers above 0.
    min_steps: as for `skills`.
    max_steps: likewise.
    held_out_share: likewise; tasks that differ in their weights alone hold the same problems out.
  Raises:
    ValueError: as `skills`, or weights that are no S numbers above 0.
  """
  if len(weights) != num_skills or min(weights) <= 0:
    raise ValueError(f'weights={weights}: need {num_skills}, one a skill, each above 0')
  task = skills(
      modulus=modulus, num_skills=num_skills, used=tuple(range(num_skills)), min_steps=min_steps,
      max_steps=max_steps, held_out_share=held_out_share,
  )

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    steps_key, problem_key = jax.random.split(key)
    steps = jax.random.randint(steps_key, (num,), min_steps, max_steps + 1)
    each = jnp.broadcast_to(jnp.array(weights, jnp.float32), (num, num_skills))
    return task.compose(problem_key, each, steps, held_out)

  return dataclasses.replace(task, sample=sample)


def rumoured(
    *, modulus: int, num_skills: int, used: tuple[int, ...], unknown: tuple[int, ...], share: float,
    min_steps: int, max_steps: int, held_out_share: float,
) -> SkillTask:
  """`skills`, and between them problems of other skills, whose values are chance: what those do, nobody says.

  For lessons: they teach some skills, the names of others, and that hints are to be trusted, for of problems
  whose values are chance a hint alone tells anything. Who asks for a hint shows the values of chance too; the
  form `refined` shows the true ones, but for one.

  Args:
    modulus: as for `skills`.
    num_skills: S.
    used: skills that are taught.
    unknown: skills that are not.
    share: of the problems that are of those, in (0, 1).
    min_steps: as for `skills`.
    max_steps: likewise.
    held_out_share: likewise.
  Returns:
    The task. Its `verify` asks for what the solution says: judge policies by `skills`.
  Raises:
    ValueError: as `skills`, or a share out of its range.
  """
  if not 0 < share < 1:
    raise ValueError(f'share={share}: need 0 < share < 1; with 0 it is `skills`')
  sizes = dict(
      modulus=modulus, num_skills=num_skills, min_steps=min_steps, max_steps=max_steps,
      held_out_share=held_out_share,
  )
  task, other = skills(**sizes, used=used), skills(**sizes, used=unknown)
  digits = text.characters('0123456789'[:modulus], task.alphabet)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    known_key, other_key, value_key, which_key = jax.random.split(key, 4)
    problems = other.sample(other_key, num, held_out)
    said = problems['solutions'][:, :max_steps]
    chance = jax.random.choice(value_key, digits, said.shape)
    values = jnp.where(jnp.isin(said, digits), chance, said)
    told = jnp.isin(problems['hinted_prompts'][:, :max_steps], digits)
    ends = problems['solutions'][:, max_steps:]
    hint = problems['asking_solutions']
    hint = hint.at[:, :max_steps].set(jnp.where(told, values, hint[:, :max_steps]))
    solutions = jnp.concatenate([values, ends], axis=1)
    rumours = {**problems, 'solutions': solutions, 'asking_solutions': hint}
    shown = {
        'hinted': task.with_hint(problems, jnp.where(told, values, text.PAD_ID)),
        'asking': task.with_answer(problems, values),
    }
    for name, (prompts, lengths) in shown.items():
      rumours |= {f'{name}_prompts': prompts, f'{name}_lengths': lengths}
    is_rumour = jax.random.bernoulli(which_key, share, (num,))
    pick = lambda x, y: jnp.where(is_rumour.reshape(-1, *[1] * (x.ndim - 1)), x, y)
    return jax.tree.map(pick, rumours, task.sample(known_key, num, held_out))

  return dataclasses.replace(task, sample=sample)


def _permutations(modulus: int) -> list[tuple[int, int]]:
  """What letters stand for: a and b of x -> a x + b, without the identity."""
  slopes = [a for a in range(1, modulus) if math.gcd(a, modulus) == 1]
  return [(a, b) for b in range(1, modulus) for a in slopes]


def _check(*, modulus, num_skills, used, min_steps, max_steps, held_out_share) -> None:
  num_maps = len(_permutations(modulus))
  if not 2 <= modulus <= 10 or not 1 <= num_skills <= min(len(LETTERS), num_maps):
    raise ValueError(
        f'modulus={modulus}, num_skills={num_skills}: need 2 <= modulus <= 10 and 1 <= num_skills <= 8, '
        f'at most the {num_maps} permutations'
    )
  if not 1 <= min_steps <= max_steps <= 8 or not used or not set(used) <= set(range(num_skills)):
    raise ValueError(
        f'min_steps={min_steps}, max_steps={max_steps}, used={used}: need 1 <= min_steps <= max_steps <= 8 '
        f'and skills among 0..{num_skills - 1}'
    )
  if not 0 < round(modulus * held_out_share) < modulus:
    raise ValueError(
        f'held_out_share={held_out_share} of {modulus} digits leaves one part empty; move it towards 1/2'
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Maker:
  """How the problems of a task are made and written, in all their forms."""

  alphabet: str
  modulus: int
  max_steps: int
  num_out: int  # first digits of each chain that are held out
  digits: jax.Array  # [modulus] tokens
  letters: jax.Array  # [S] tokens
  slope: jax.Array  # [S] a of x -> a x + b
  offset: jax.Array  # [S] b

  @property
  def prompt_columns(self) -> int:
    return self.max_steps + 2

  @property
  def answer_columns(self) -> int:
    return self.max_steps + 1

  def token(self, character: str) -> int:
    return self.alphabet.index(character) + 2

  def compose(self, key: jax.Array, weights: jax.Array, steps: jax.Array, held_out: bool) -> Batch:
    """As `SkillTask.compose`."""
    skill_key, digit_key, hint_key, error_key = jax.random.split(key, 4)
    logits = jnp.where(weights > 0, jnp.log(jnp.maximum(weights, 1e-30)), -jnp.inf)
    drawn = jax.random.categorical(skill_key, logits, shape=(self.max_steps, steps.shape[0])).T
    drawn = jnp.where(jnp.arange(self.max_steps)[None] < steps[:, None], drawn, -1)
    first = self.first_digits(digit_key, drawn, held_out)
    values = self.values(drawn, first)
    problems = self.plain(drawn, steps, first, values)
    hints = self.hints(hint_key, steps, values)
    forms = {
        'hinted': self.with_hint(problems, hints),
        'refined': self.with_attempt(problems, self.mistaken(error_key, steps, values)),
        'asking': self.with_answer(problems, problems['solutions']),
    }
    for name, (prompts, lengths) in forms.items():
      problems |= {f'{name}_prompts': prompts, f'{name}_lengths': lengths}
    ending = jnp.full((steps.shape[0], 1), text.EOS_ID, jnp.int32)
    return {**problems, 'asking_solutions': jnp.concatenate([hints, ending], axis=1)}

  def first_digits(self, key, drawn, held_out):
    """[N]: each chain holds out its own: those that follow a number made of its operations."""
    places = jnp.arange(1, self.max_steps + 1)[None]
    mixed = jnp.sum((drawn + 1) * (drawn + 2 + places) * places, axis=1)
    low, high = (0, self.num_out) if held_out else (self.num_out, self.modulus)
    return (mixed + jax.random.randint(key, mixed.shape, low, high)) % self.modulus

  def values(self, drawn, first):
    """[N, max_steps] digits after each operation; the last one stays where there is none."""
    value, values = first, []
    for skill in drawn.T:
      value = jnp.where(skill < 0, value, (self.slope[skill] * value + self.offset[skill]) % self.modulus)
      values.append(value)
    return jnp.stack(values, axis=1)

  def plain(self, drawn, steps, first, values) -> Batch:
    """The problems themselves, and their form `decomposed`."""
    full = jnp.full_like(steps, self.max_steps)
    end = text.symbol(jnp.zeros_like(steps), '=', self.alphabet)
    start = Piece(self.digits[first][:, None], jnp.ones_like(steps))
    called = jnp.where(drawn < 0, self.token('?'), self.letters[drawn])
    prompt = text.join(start, Piece(called, full), end, columns=self.prompt_columns)
    solution = text.join(
        Piece(self.digits[values], steps), text.end(steps.shape[0]), columns=self.answer_columns
    )
    apart = jnp.stack([called, jnp.full(drawn.shape, self.token(';'))], axis=-1)
    decomposed = text.join(
        start, Piece(apart.reshape(steps.shape[0], -1), 2 * full), end, columns=2 * self.max_steps + 2
    )
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'skills': drawn.astype(jnp.int32), 'decomposed_prompts': decomposed.tokens,
        'decomposed_lengths': decomposed.lengths,
    }

  def hints(self, key, steps, values):
    """[N, max_steps] tokens: the first values, never the last, and blanks."""
    told = jax.random.randint(key, steps.shape, 1, jnp.maximum(steps, 2))[:, None]
    told = jnp.minimum(told, steps[:, None] - 1)
    return jnp.where(jnp.arange(self.max_steps)[None] < told, self.digits[values], self.token('?'))

  def mistaken(self, key, steps, values):
    """[N, max_steps] tokens: the values but for one, and the end."""
    place_key, shift_key = jax.random.split(key)
    columns = jnp.arange(self.max_steps)[None]
    place = jax.random.randint(place_key, steps.shape, 0, steps)[:, None]
    shift = jax.random.randint(shift_key, steps.shape, 1, self.modulus)[:, None]
    wrong = self.digits[jnp.where(columns == place, values + shift, values) % self.modulus]
    return jnp.where(columns < steps[:, None], wrong, text.EOS_ID)

  def visible(self, tokens):
    """[N, max_steps]: the digits, and a blank for everything else."""
    tokens = jnp.pad(tokens, ((0, 0), (0, self.max_steps)))[:, : self.max_steps]
    ended = jnp.cumsum(tokens < 2, axis=1) > 0
    return jnp.where(jnp.isin(tokens, self.digits) & ~ended, tokens, self.token('?'))

  def in_front(self, problems, tokens, marker):
    """Prompts and lengths: tokens [N, max_steps] and a marker before the problem."""
    num = tokens.shape[0]
    added = Piece(tokens, jnp.full(num, self.max_steps))
    marks = [text.symbol(jnp.zeros(num, jnp.int32), x, self.alphabet) for x in marker]
    prompt = Piece(problems['prompts'], problems['prompt_lengths'])
    columns = self.max_steps + len(marker) + self.prompt_columns
    whole = text.join(added, *marks, prompt, columns=columns)
    return whole.tokens, whole.lengths

  def with_hint(self, problems: Batch, hints: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `SkillTask.with_hint`."""
    return self.in_front(problems, self.visible(hints), '')

  def with_attempt(self, problems: Batch, completions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `SkillTask.with_attempt`."""
    return self.in_front(problems, self.visible(completions), ';')

  def with_answer(self, problems: Batch, answers: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `SkillTask.with_answer`."""
    return self.in_front(problems, self.visible(answers), '!')
