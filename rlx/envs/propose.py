"""Propose and verify in one pass: `31=` -> `2~4$`, a digit, a doubt, another digit, and the end.

The digit is a proposal: the sum of the prompt's digits, modulo a number. What follows it is the verdict of
the same model on it: `~` says that it is wrong, and to try again; the end token says that it is right, and
there the row ends. So two roles alternate in one ordinary completion, told by the tokens themselves, and
generation stops where verification passes.
"""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.columns import window
from rlx.engine.sample import Decoding
from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Annotate, Batch, Key, Models

AGAIN = '~'
PROPOSER, VERIFIER = 0, 1  # roles


def propose(
    *, modulus: int, length: int, proposals: int, wrong_share: float, held_out_share: float
) -> Task:
  """Sums of `length` digits modulo a number, by trial and verdict.

  Solutions are synthetic pairs: a right proposal with the verdict that it is right, or a wrong one, the
  verdict that it is wrong, and then the right one.

  Args:
    modulus: sums are taken modulo this, and digits are below it; in 3..10.
    length: digits of a prompt, in 1..8; the difficulty.
    proposals: the most that a completion has room for, at least 2.
    wrong_share: in [0, 1], of solutions that begin with a wrong proposal.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Returns:
    The task. `verify` asks for proposals with doubts between them, of which the last is right, and the end
    token. Problems have a column `answers` [N, 1], tokens.
  Raises:
    ValueError: an argument out of its range.
  Source: the form is that of SPOC, https://arxiv.org/abs/2506.06923.
  """
  if not 3 <= modulus <= 10 or not 1 <= length <= 8 or proposals < 2 or not 0 <= wrong_share <= 1:
    raise ValueError(
        f'modulus={modulus}, length={length}, proposals={proposals}, wrong_share={wrong_share}: need '
        '3 <= modulus <= 10, 1 <= length <= 8, proposals >= 2 and 0 <= wrong_share <= 1'
    )
  alphabet = AGAIN + '=' + '0123456789'[:modulus]
  digits, again = text.characters('0123456789'[:modulus], alphabet), alphabet.index(AGAIN) + 2
  columns = 2 * proposals

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index_key, errs_key, shift_key = jax.random.split(key, 3)
    index = text.draw_indices(
        index_key, num, num_problems=modulus**length, held_out=held_out, held_out_share=held_out_share
    )
    powers = jnp.array([modulus**i for i in reversed(range(length))], jnp.int32)
    terms = index[:, None] // powers[None] % modulus
    total = terms.sum(axis=1) % modulus
    errs = jax.random.bernoulli(errs_key, wrong_share, (num,))
    wrong = (total + jax.random.randint(shift_key, (num,), 1, modulus)) % modulus
    full = lambda x: jnp.full(num, x, jnp.int32)
    prompt = text.join(
        text.Piece(digits[terms], full(length)), text.symbol(full(0), '=', alphabet), columns=length + 1
    )
    digit = lambda x: text.Piece(digits[x][:, None], full(1))
    solution = text.join(
        text.when(errs, digit(wrong)), text.when(errs, text.symbol(full(0), AGAIN, alphabet)), digit(total),
        text.end(num), columns=columns,
    )
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'answers': digits[total][:, None],
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    completions = jnp.pad(completions, ((0, 0), (0, 1)))
    places = jnp.arange(completions.shape[1])[None]
    is_end = completions == text.EOS_ID
    end = jnp.where(is_end.any(axis=1), jnp.argmax(is_end, axis=1), 0)[:, None]
    in_turn = jnp.where(places % 2 == 0, jnp.isin(completions, digits), completions == again)
    last = jnp.take_along_axis(completions, jnp.maximum(end - 1, 0), axis=1) == problems['answers']
    fits = jnp.all(in_turn | (places >= end), axis=1) & (end[:, 0] % 2 == 1)
    return (fits & last[:, 0]).astype(jnp.float32)

  return Task(
      alphabet=alphabet, prompt_columns=length + 1, answer_columns=columns, sample=sample, verify=verify
  )


def by_role(task: Task, decoding: Decoding) -> Annotate:
  """Adds a reward for each turn by its role, the roles and the turns, and the outcome of the row.

  A proposal earns 1 where it is right, a verdict where it is true: the end token behind a right proposal, the
  doubt behind a wrong one. A token out of its turn earns nothing. `turns` [B, T] counts proposals and
  verdicts from 0, and `roles` [B, T] says which they are, -1 outside; `rewards` [B] are those of `verify`.

  Columns `spoc/..` are shares: of first proposals that are right, of true verdicts among all, of rows that
  are wrong first and right in the end, and of rows with one turn of each, among those right at first.

  Args:
    task: of `propose`.
    decoding: says how long completions can be.
  """
  again = int(task.encode(AGAIN)[0])

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    mask = batch['action_mask']
    completions = engine.completions_of(batch, decoding)
    places, said = jnp.arange(completions.shape[1])[None], completions != decoding.pad_id
    right = completions == batch['answers']
    right_before = jnp.pad(right, ((0, 0), (1, 0)))[:, :-1]
    is_verdict = places % 2 == 1
    true = jnp.where(right_before, completions == text.EOS_ID, completions == again)
    earned = jnp.where(is_verdict, true, right) & said
    back = lambda x: window(x, -batch['prompt_lengths'], mask.shape[1])
    outcome = task.verify(batch, completions)
    verdicts, trues = (jnp.sum(is_verdict & x, axis=1) for x in (said, earned))
    share = lambda x, among: jnp.where(among, x.astype(jnp.float32), jnp.nan)
    return {
        **batch, 'rewards': outcome,
        'token_rewards': jnp.where(mask, back(earned.astype(jnp.float32)), 0),
        'turns': jnp.where(mask, back(jnp.broadcast_to(places, said.shape)), -1),
        'roles': jnp.where(mask, back(jnp.broadcast_to(places % 2, said.shape)), -1),
        'spoc/first_right': right[:, 0].astype(jnp.float32),
        'spoc/true_verdicts': share(trues / jnp.maximum(verdicts, 1), verdicts > 0),
        'spoc/corrected': (~right[:, 0] & (outcome > 0)).astype(jnp.float32),
        'spoc/stopped_when_right': share(completions[:, 1] == text.EOS_ID, right[:, 0]),
    }

  return reward
