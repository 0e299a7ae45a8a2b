"""Tools that know what the policy does not: `a+c` -> `ta` -> `:7` -> `tc` -> `:4` -> `k74` -> `:1` -> `=1`.

Letters have values in a table, another one for each problem, and the rule that joins two values is a sign
whose meaning is the workshop's (a sum, a difference, a product). `t` looks a letter up, `k` applies the
problem's rule to two digits, `=` answers and ends the episode. All is modulo a number, so that values are
digits.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _RULES, _LETTERS, _DIGITS = ':!tk=', '+-*', 'abcdef', '0123456789'


def workshop(*, num_letters: int, modulus: int, num_rules: int, held_out_share: float) -> TurnTask:
  """Episodes of look-ups, one calculation and an answer; the reward is 1 for the right one.

  Args:
    num_letters: of the table, in 2..6.
    modulus: of values, in 2..10.
    num_rules: in 1..3: sum, difference, product.
    held_out_share: in (0, 1), the part of all problems (table, rule, letters) that is never trained on.
  """
  between(2, 6, num_letters=num_letters)
  between(2, 10, modulus=modulus)
  between(1, 3, num_rules=num_rules)
  alphabet = _MARKS + _RULES[:num_rules] + _LETTERS[:num_letters] + _DIGITS[:modulus]
  fine, wrong, looks, calculates, answers = text.characters(_MARKS, alphabet)
  rules, letters, digits = (
      text.characters(x, alphabet)
      for x in (_RULES[:num_rules], _LETTERS[:num_letters], _DIGITS[:modulus])
  )
  powers = np.array([modulus**i for i in range(num_letters)], np.int32)

  def applied(rule, x, y):
    return jnp.stack([x + y, x - y, x * y])[rule] % modulus

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=num_rules * num_letters**2 * modulus**num_letters, held_out=held_out,
        held_out_share=held_out_share,
    )
    rule, number = number % num_rules, number // num_rules
    first, number = number % num_letters, number // num_letters
    second, number = number % num_letters, number // num_letters
    prompts = jnp.stack([letters[first], rules[rule], letters[second]], axis=1)
    return {
        'rule': rule, 'operands': jnp.stack([first, second], axis=1),
        'table': (number[:, None] // powers[None] % modulus).astype(jnp.int32), 'prompts': prompts,
        'prompt_lengths': jnp.full(num, 3),
    }

  def start(problem: Batch):
    known = {name: problem[name] for name in ('rule', 'operands', 'table')}
    return {**known, 'seen': jnp.zeros(num_letters, bool), 'calculated': jnp.bool_(False)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 4)
    letter, is_letter = index_in(letters, word[1])
    left, is_left = index_in(digits, word[1])
    right, is_right = index_in(digits, word[2])
    two, three = word[2] == text.PAD_ID, (word[2] != text.PAD_ID) & (word[3] == text.PAD_ID)
    reads = (word[0] == looks) & is_letter & two
    adds = (word[0] == calculates) & is_left & is_right & three
    ends = (word[0] == answers) & is_left & two
    x, y = state['table'][state['operands']]
    value = applied(state['rule'], x, y)
    shown = jnp.where(reads, state['table'][letter], applied(state['rule'], left, right))
    solved = (ends & (left == value)).astype(jnp.float32)
    understood = reads | adds | ends
    after = {
        **state, 'seen': state['seen'].at[letter].max(reads),
        'calculated': state['calculated'] | (adds & (left == x) & (right == y)),
    }
    observation = jnp.stack([jnp.where(understood, fine, wrong), digits[shown]]).astype(jnp.int32)
    told = jnp.where(understood, 2, 1)
    return Reply(after, observation, told, solved, ends, understood, {SUCCESS: solved})

  def expert(state):
    missing = ~state['seen'][state['operands']]
    letter = state['operands'][jnp.argmax(missing)]
    x, y = state['table'][state['operands']]
    value = applied(state['rule'], x, y)
    pad = jnp.int32(text.PAD_ID)
    look = jnp.stack([looks, letters[letter], pad])
    calculate = jnp.stack([calculates, digits[x], digits[y]])
    answer = jnp.stack([answers, digits[value], pad])
    looking, calculated = jnp.any(missing), state['calculated']
    words = jnp.where(looking, look, jnp.where(calculated, answer, calculate))
    return with_end(words, jnp.where(looking | calculated, 2, 3), 4)

  return TurnTask(
      alphabet=alphabet, prompt_columns=3, answer_columns=4, sample=sample, observation_columns=2,
      start=start, act=act, expert=expert, expert_return=1.0,
  )
