"""A solver answers, a critic says what it should have been, and a judge scores that: `Sa3.` -> 5 | 4 | `-`.

A letter stands for a permutation of digits, as in `envs/ciphers.py`; the sign at the end holds problems out
as there. The world knows the answer and pays nobody for it: the judge's score is all that the solver and the
critic get, and what the one gets the other loses (`interaction`). A judge is paid for form alone.

The expert, which there is to be cloned from, answers as well as `skill` says in both roles, and its judge is
right: `+` for a right answer, `-` where the critic's is, and `?` where neither is.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.ciphers import permutations
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask, told
from rlx.envs.turns import index_in, said
from rlx.errors import between
from rlx.types import Batch

_MARKS, _DIGITS, _LETTERS, _SIGNS, _SCORES = 'SCJ', '0123456', 'abcdef', '.,:;', '-?+'
_JUDGE = 2  # its seat, and the phase in which it speaks


def discussion(
    *, modulus: int, letters: int, domains: tuple[str, ...], skill: float, heeded: float
) -> SeatTask:
  """Problems of a letter and a digit, each with one sign that is held out.

  Args:
    modulus: number of digits, 3, 5 or 7.
    letters: of the alphabet, in 1..6.
    domains: letters, as many in each; a problem is of one of them, twice as often of one that is named twice.
      Worlds that differ in this alone have the same tokens and hold the same problems out.
    skill: share of the expert's answers, and of its critiques, that are right.
    heeded: share of the judge's scores that count; in the place of each other one is drawn.
  Returns:
    The world. Besides `success`, that the solver was right, episodes tell `corrected`, that the critic was;
    `judged`, that the best score was given to a right answer or another to a wrong one; and `score`, what the
    judge said it was worth. An answer or a critique that is none ends the episode, and is worth nothing.
  """
  between(1, len(_LETTERS), letters=letters)
  between(0, 1, skill=skill, heeded=heeded)
  known = _LETTERS[:letters]
  if modulus not in (3, 5, 7) or not domains or not set(''.join(domains)) <= set(known):
    raise ValueError(f'modulus={modulus}, domains={domains}: need 3, 5 or 7, and letters of {known!r}')
  alphabet = _MARKS + known + _DIGITS[:modulus] + _SIGNS + _SCORES
  marks, spoken, digits, signs, scores = (
      text.characters(x, alphabet) for x in (_MARKS, known, _DIGITS[:modulus], _SIGNS, _SCORES)
  )
  table = jnp.asarray(permutations(modulus, letters))
  indices = jnp.array([[known.index(letter) for letter in domain] for domain in domains])

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    domain_key, letter_key, digit_key, sign_key = jax.random.split(key, 4)
    domain = jax.random.randint(domain_key, (num,), 0, indices.shape[0])
    letter = indices[domain, jax.random.randint(letter_key, (num,), 0, indices.shape[1])]
    digit = jax.random.randint(digit_key, (num,), 0, modulus)
    low, high = (0, 1) if held_out else (1, len(_SIGNS))
    sign = (letter + digit + jax.random.randint(sign_key, (num,), low, high)) % len(_SIGNS)
    asked = jnp.stack([spoken[letter], digits[digit], signs[sign]], axis=1)
    seats = len(_MARKS)
    prompts = [jnp.broadcast_to(marks[None, :, None], (num, seats, 1)), jnp.stack([asked] * seats, axis=1)]
    return {
        'answer': table[letter, digit], 'prompts': jnp.concatenate(prompts, axis=2),
        'prompt_lengths': jnp.full((num, seats), 4, jnp.int32),
    }

  def start(problem: Batch):
    return {
        'answer': problem['answer'], 'phase': jnp.int32(0), 'solution': jnp.int32(0), 'critique': jnp.int32(0)
    }

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    phase, word = state['phase'], said(action, length, 2)
    digit, is_digit = index_in(digits, word[0])
    score, is_score = index_in(scores, word[0])
    judging = phase == _JUDGE
    understood = jnp.where(judging, is_score, is_digit) & (word[1] == text.PAD_ID)
    meant = jnp.where(understood, digit, modulus)
    solution = jnp.where(phase == 0, meant, state['solution'])
    critique = jnp.where(phase == 1, meant, state['critique'])
    right, corrected = solution == state['answer'], (phase > 0) & (critique == state['answer'])
    heeds_key, drawn_key = jax.random.split(key)
    other = jax.random.randint(drawn_key, (), 0, len(_SCORES))
    counts = jnp.where(jax.random.uniform(heeds_key) < heeded, score, other)
    paid = jnp.where(judging, interaction(counts, understood), 0.0)
    heard, lengths = told(word[:1], jnp.stack([jnp.bool_(False), phase == 0, phase < _JUDGE]))
    judged = judging & understood & ((score == len(_SCORES) - 1) == right)
    number = lambda x: x.astype(jnp.float32)
    return SeatReply(
        state={**state, 'phase': phase + 1, 'solution': solution, 'critique': critique}, observations=heard,
        lengths=jnp.where(understood, lengths, 0), rewards=paid, ended=judging | ~understood,
        understood=understood,
        info={
            SUCCESS: number(right), 'corrected': number(corrected), 'judged': number(judged),
            'score': jnp.where(judging & understood, score / (len(_SCORES) - 1), 0.0),
        },
    )

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    sure_key, other_key = jax.random.split(key)
    answer = state['answer']
    other = (answer + jax.random.randint(other_key, (), 1, modulus)) % modulus
    says = digits[jnp.where(jax.random.uniform(sure_key) < skill, answer, other)]
    score = jnp.where(state['solution'] == answer, 2, jnp.where(state['critique'] == answer, 0, 1))
    return jnp.where(state['phase'] == _JUDGE, scores[score], says)[None], jnp.int32(1)

  return SeatTask(
      alphabet=alphabet, prompt_columns=4, answer_columns=1, sample=sample,
      seats=('solver', 'critic', 'judge'), order=(0, 1, 2), observation_columns=1, start=start, act=act,
      expert=expert,
  )


def interaction(score: jax.Array, in_form: jax.Array) -> jax.Array:
  """[3] float32: what the solver, the critic and the judge get for a score τ.

      r_solver = (τ - τ_min) / (τ_max - τ_min),   r_critic = 1 - r_solver,   r_judge = 0

  Where what the judge said is no score, it gets -1 and the others nothing.

  Args:
    score: [] int32, 0 for the worst answer and 2 for the best.
    in_form: [] bool, the judge has given a score.
  Source: CoMAS, https://arxiv.org/abs/2510.08529, read in summaries of the paper.
  """
  solver = score / (len(_SCORES) - 1)
  return jnp.where(in_form, jnp.stack([solver, 1 - solver, 0 * solver]), jnp.array([0.0, 0.0, -1.0]))
