"""Rewards of single tasks, which look at more of a completion than whether its answer is right.

`criticised` is of `envs/chain.py`, `tokens_left` of `envs/planted.py`, `by_role` of `envs/propose.py`.
"""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.envs import chain, planted, propose
from rlx.envs.text import EOS_ID, Task
from rlx.rewards.verifier import verifier
from rlx.types import Annotate, Batch, Key, Models


def criticised(
    task: Task, policy: Speaker, *, modulus: int, votes: int, error_rate: float
) -> Annotate:
  """The verifier's reward, and critiques of the steps by someone who knows, and errs now and then.

  Wrong steps are flagged (`chain.wrong_steps`), and answers that leave steps out (`chain.leaps`).

  Args:
    task: of `chain`.
    policy: says how long completions can be.
    modulus: of the task.
    votes: critiques of each row.
    error_rate: the chance that a critique is mistaken about a token's step, in either direction.
  Returns:
    A `reward` function that adds `rewards` [B] and `critiques` [B, votes, T], True where a step is flagged.
  """
  outcome = verifier(task, policy)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    batch = outcome(models, batch, key)
    mask = batch['action_mask']
    completions = engine.completions_of(batch, policy.decoding)
    about = dict(operands=batch['operands'], completions=completions, modulus=modulus)
    wrong = chain.wrong_steps(**about) | chain.leaps(**about)
    # A step is a digit and its separator: a critique errs about both.
    errs = jax.random.bernoulli(key, error_rate, (wrong.shape[0], votes, -(-wrong.shape[1] // 2)))
    flags = wrong[:, None] ^ jnp.repeat(errs, 2, axis=-1)[..., : wrong.shape[1]]
    flags = window(jnp.moveaxis(flags, 1, -1), -batch['prompt_lengths'], mask.shape[1])
    flags = jnp.moveaxis(flags, -1, 1)
    return {**batch, 'critiques': flags & mask[:, None]}

  return reward


def tokens_left(task: Task, policy: Speaker) -> Annotate:
  """Adds `rewards` [B]: the tokens of the budget that are left behind the pattern, and 0 without it.

  That is the sum of a reward after each token of the budget, 0 up to the pattern and 1 from there on. Its
  unit is the token; the best is H - k.

  Args:
    task: of `planted`.
    policy: says how long completions can be.
  Source: the two levels of reward of Setlur et al., 2025, https://arxiv.org/abs/2502.12118; our reading.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    completions = engine.completions_of(batch, policy.decoding)
    behind = planted.planted_at(batch['patterns'], completions) + batch['patterns'].shape[1]
    budget = task.answer_columns - 1
    return {**batch, 'rewards': task.verify(batch, completions) * (budget - behind)}

  return reward


def by_role(task: Task, policy: Speaker) -> Annotate:
  """Adds a reward for each turn by its role, the roles and the turns, and the outcome of the row.

  A proposal earns 1 where it is right, a verdict where it is true: the end token behind a right proposal, the
  doubt behind a wrong one. A token out of its turn earns nothing. `turns` [B, T] counts proposals and
  verdicts from 0, and `roles` [B, T] says which they are, -1 outside; `rewards` [B] are those of `verify`.

  Columns `spoc/..` are shares: of first proposals that are right, of true verdicts among all, of rows that
  are wrong first and right in the end, and of rows with one turn of each, among those right at first.

  Args:
    task: of `propose`.
    policy: says how long completions can be.
  """
  again = int(task.encode(propose.AGAIN)[0])

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    mask = batch['action_mask']
    completions = engine.completions_of(batch, policy.decoding)
    places, said = jnp.arange(completions.shape[1])[None], completions != policy.decoding.pad_id
    right = completions == batch['answers']
    right_before = jnp.pad(right, ((0, 0), (1, 0)))[:, :-1]
    is_verdict = places % 2 == 1
    true = jnp.where(right_before, completions == EOS_ID, completions == again)
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
        'spoc/stopped_when_right': share(completions[:, 1] == EOS_ID, right[:, 0]),
    }

  return reward
