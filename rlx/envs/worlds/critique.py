"""An actor answers, a critic judges that, and the actor answers again: `A12` -> 4 | `C12` 4 -> 3 | -> 3.

A critique is one token: `y`, the answer is right, or a digit, the answer is wrong and should be this one. The
actor keeps what is called right; told another digit, it takes it as often as `follows` says, and else it is
confused and says any other. So a critic that always names the right digit helps, and one that also leaves
right answers alone helps more: that takes telling them apart.

The expert's first answers are right as often as `skill` says, and its refinements are as above; of its
critiques the share `sees` is right, with the right digit, and the others are anything. It is there for an
actor to be cloned from, and a critic to begin with. Critics are paid for judging (`direct`), for what
the actor makes of it (`indirect`), or for both.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask, told
from rlx.envs.turns import index_in, said
from rlx.errors import between
from rlx.types import Batch

_MARKS, _DIGITS, _RIGHT = 'AC', '0123456789', 'y'
_ACTOR, _CRITIC = 0, 1


def critique(
    *, modulus: int, skill: float, follows: float, sees: float, direct: float, indirect: float
) -> SeatTask:
  """Sums of two digits; all pairs are trained on, nothing is held out.

  Args:
    modulus: of the sums, in 3..10.
    skill: share of the expert's first answers that are right; of the others each is as frequent.
    follows: share of the critic's digits that the expert takes over.
    sees: share of the expert's critiques that are right; of the others half say `y`.
    direct: what a critic gets for telling right from wrong.
    indirect: what a critic gets where the second answer is right.
  Returns:
    The world. Besides `success`, of the second answer, episodes tell `first` (it was right), `judged` (the
    critic told right from wrong), `gain` (second less first) and `approved` (`y` was said). A critique that
    is none ends the episode, and is worth nothing.
  """
  between(3, 10, modulus=modulus)
  between(0, 1, skill=skill, follows=follows, sees=sees)
  alphabet = _MARKS + _DIGITS[:modulus] + _RIGHT
  marks, digits = text.characters(_MARKS, alphabet), text.characters(_DIGITS[:modulus], alphabet)
  critiques = jnp.concatenate([digits, text.characters(_RIGHT, alphabet)])

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    del held_out  # there are few problems
    pair = jax.random.randint(key, (num, 2), 0, modulus)
    asked = jnp.broadcast_to(digits[pair][:, None], (num, 2, 2))
    prompts = jnp.concatenate([jnp.broadcast_to(marks[None, :, None], (num, 2, 1)), asked], axis=2)
    return {
        'answer': pair.sum(axis=1) % modulus, 'prompts': prompts,
        'prompt_lengths': jnp.full((num, 2), 3, jnp.int32),
    }

  def start(problem: Batch):
    return {'answer': problem['answer'], 'phase': jnp.int32(0), 'first': jnp.int32(0), 'word': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    del key
    phase, word = state['phase'], said(action, length, 2)
    alone = word[1] == text.PAD_ID
    digit, is_digit = index_in(digits, word[0])
    spoken, is_critique = index_in(critiques, word[0])
    is_digit, is_critique = is_digit & alone, is_critique & alone
    judging, refining = phase == 1, phase == 2
    first = jnp.where(phase == 0, jnp.where(is_digit, digit, modulus), state['first'])
    critic_said = jnp.where(judging, jnp.where(is_critique, spoken, -1), state['word'])
    was_right, approved = first == state['answer'], critic_said == modulus
    judged = (critic_said >= 0) & (approved == was_right)
    right = refining & is_digit & (digit == state['answer'])
    paid = direct * (judging & judged) + indirect * right
    understood = jnp.where(judging, is_critique, is_digit)
    heard, lengths = told(word[:1], jnp.stack([judging, phase == 0]))
    number = lambda x: x.astype(jnp.float32)
    return SeatReply(
        state={**state, 'phase': phase + 1, 'first': first, 'word': critic_said}, observations=heard,
        lengths=jnp.where(understood, lengths, 0), rewards=jnp.stack([number(right), paid]),
        ended=refining | ~understood, understood=understood,
        info={
            SUCCESS: number(right), 'first': number(was_right), 'judged': number(judged & (phase > 0)),
            'gain': number(right) - number(was_right), 'approved': number(approved & (phase > 0)),
        },
    )

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    sure_key, other_key = jax.random.split(key)
    other = jax.random.randint(other_key, (), 1, modulus)
    but = lambda x: (x + other) % modulus  # any other one
    drawn = jax.random.uniform(sure_key)
    answer = jnp.where(drawn < skill, state['answer'], but(state['answer']))
    anything = jnp.minimum(jax.random.randint(other_key, (), 0, 2 * modulus), modulus)
    seen = jnp.where(state['first'] == state['answer'], modulus, state['answer'])
    taken = jnp.where(drawn < follows, state['word'], but(state['word']))
    refined = jnp.where(state['word'] == modulus, state['first'], taken)
    word = jnp.stack([answer, jnp.where(drawn < sees, seen, anything), refined])[state['phase']]
    return critiques[word][None], jnp.int32(1)

  return SeatTask(
      alphabet=alphabet, prompt_columns=3, answer_columns=1, sample=sample, seats=('actor', 'critic'),
      order=(_ACTOR, _CRITIC, _ACTOR), observation_columns=1, start=start, act=act, expert=expert,
  )
