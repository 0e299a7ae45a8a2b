"""Rows that a rule makes of those of a policy, in worlds whose true reward is known (`envs/gold.py`)."""

import jax
import jax.numpy as jnp

from rlx.envs import gold
from rlx.rewards import diversity
from rlx.types import Annotate, Batch, Key, Models, Rows


def corrupted_copies(world: gold.Worlds, *, bar: float, of: str, to: str) -> Annotate:
  """Another learner's rows: each right answer of the policy beside a wrong one to its prompt.

  A rule that is precise says which are right. The paper has another model write the wrong one; here it is
  drawn from those to the prompt that the rule calls wrong, all as likely.

  Args:
    world: where it is verified; every prompt has an answer below the bar.
    bar: see `gold.right`.
    of: learner whose rows are verified.
    to: learner that gets the comparisons, two rows each; those of wrong rows have no weight.
  Source: Cooper, https://arxiv.org/abs/2508.05613.
  """

  def made(models: Models, rows: Rows, key: Key) -> Rows:
    prompts, answers = rows[of]['tokens'].T
    verdicts = gold.right(models['world'], bar=bar)[prompts]
    wrong = jax.random.categorical(key, jnp.where(verdicts, -jnp.inf, 0.0))
    counts = verdicts[jnp.arange(len(answers)), answers]
    places = jnp.arange(2 * len(answers))
    pairs = gold.rows_of(jnp.repeat(prompts, 2), jnp.stack([answers, wrong], axis=1).reshape(-1))
    return {**rows, to: {
        **pairs, 'groups': places // 2, 'preferred': places % 2 == 0,
        'weights': jnp.repeat(counts, 2).astype(jnp.float32),
    }}

  return made


def criticised(world: gold.Worlds, critic: gold.Critic, *, of: str, to: str) -> Annotate:
  """Scores each answer by one check, which a critic names; the critic earns where it is not passed.

  A validator is asked once for each answer, however many checks there are.

  Args:
    world: which answers pass which checks.
    critic: names the one that is most likely to fail: `models['critic']`.
    of: learner whose rows are scored: `rewards` 1 where the check is passed, else 0.
    to: learner that gets the same answers with the checks behind them, as rows [B, 3], and 1 minus that.
  Source: RLAC, https://arxiv.org/abs/2511.01758; single checks of answers that share a prompt are a group.
  """

  def scored(models: Models, rows: Rows, key: Key) -> Rows:
    batch = rows[of]
    prompts, answers = batch['tokens'].T
    logprobs = critic.logprobs(models['critic'])[prompts, answers]
    named = jax.random.categorical(key, logprobs)
    passed = models['world'].checks[prompts, answers, named].astype(jnp.float32)
    drawn = jnp.take_along_axis(logprobs, named[:, None], axis=1)
    third = jnp.broadcast_to(jnp.array([[False, False, True]]), (len(named), 3))
    return {**rows, of: {**batch, 'rewards': passed}, to: {
        'tokens': jnp.concatenate([batch['tokens'], named[:, None]], axis=1), 'valid': jnp.ones_like(third),
        'action_mask': third, 'prompt_lengths': jnp.full_like(prompts, 2), 'groups': batch['groups'],
        'sampler_logprobs': jnp.pad(drawn, ((0, 0), (2, 0))), 'rewards': 1 - passed,
    }}

  return scored


def both_sides(world: gold.Worlds) -> Annotate:
  """Adds `objectives` [B, 2]: the two true rewards of an answer, for an algorithm that weighs them.

  Args:
    world: with two rewards, such as `bent_worlds`.
  """

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    there, (prompts, answers) = models['world'], batch['tokens'].T
    return {**batch, 'objectives': jnp.stack([there.gold, there.other], axis=-1)[prompts, answers]}

  return scored


def all_checks(world: gold.Worlds) -> Annotate:
  """Adds `rewards` [B]: the share of its checks that an answer passes; a validator is asked of each.

  Args:
    world: which answers pass which checks.
  """

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    prompts, answers = batch['tokens'].T
    return {**batch, 'rewards': models['world'].checks[prompts, answers].mean(axis=1)}

  return scored


def distinct_meanings(world: gold.Worlds, twins: gold.Twins, *, bar: float) -> Annotate:
  """Adds `rewards` [B]: 1 for a right answer, times the share of its group that a classifier tells from it.

  Args:
    world: says what is right.
    twins: the classifier, `models['twins']`; where its chance is above 1/2, two answers mean the same.
    bar: see `gold.right`.
  Source: DARLING, https://arxiv.org/abs/2509.02534.
  """

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    prompts, answers = batch['tokens'].T
    odds = twins.odds(models['twins'], prompts[:, None], answers[:, None], answers[None])
    return _by_diversity(models['world'], batch, diversity.unlike(odds > 0, batch['groups']), bar)

  return scored


def distinct_strings(world: gold.Worlds, *, bar: float) -> Annotate:
  """Adds `rewards` [B]: 1 for a right answer, times the share of its group that is not the same string.

  Args:
    world: says what is right.
    bar: see `gold.right`.
  """

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    differ = diversity.distinct(batch['tokens'][:, 1], batch['groups'])
    return _by_diversity(models['world'], batch, differ, bar)

  return scored


def _by_diversity(there: gold.World, batch: Batch, differ: jax.Array, bar: float) -> Batch:
  prompts, answers = batch['tokens'].T
  right = gold.right(there, bar=bar)[prompts, answers].astype(jnp.float32)
  return {**batch, 'rewards': right * differ, 'reward/right': right, 'reward/diversity': differ}


def as_shown(world: gold.Worlds, judge: gold.Linear) -> Annotate:
  """Adds `rewards` [B] of a reward model, and how far an answer is from what an expert has shown.

  `similarities` is the cosine of its features with the mean of those of the demonstrations for its prompt;
  `gaps` the mean reward of the demonstrations less its own.

  Args:
    world: with demonstrations, such as `tailed_worlds`.
    judge: the reward model.
  """

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    there, (prompts, answers) = models['world'], batch['tokens'].T
    rewards = judge.rewards(models['judge'])
    shown = there.shown[prompts]  # [B, N]
    wanted = there.features[prompts[:, None], shown].mean(axis=1)
    mine, own = there.features[prompts, answers], rewards[prompts, answers]
    norms = jnp.linalg.norm(mine, axis=1) * jnp.linalg.norm(wanted, axis=1)
    return {
        **batch, 'rewards': own, 'similarities': jnp.sum(mine * wanted, axis=1) / jnp.maximum(norms, 1e-6),
        'gaps': rewards[prompts[:, None], shown].mean(axis=1) - own,
    }

  return scored


def rightness(world: gold.Worlds, *, bar: float) -> Annotate:
  """Adds `rewards` [B]: 1 for a right answer, else 0.

  Args:
    world: says what is right.
    bar: see `gold.right`.
  """

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    prompts, answers = batch['tokens'].T
    right = gold.right(models['world'], bar=bar)[prompts, answers]
    return {**batch, 'rewards': right.astype(jnp.float32)}

  return scored


def as_worded(world: gold.Worlds, *, bar: float) -> Annotate:
  """Adds `rewards` [B]: 1 for a right answer in the first of its wordings, which is all that a rule knows.

  Args:
    world: with wordings, such as `paraphrased_worlds`.
    bar: see `gold.right`.
  """

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    there, (prompts, answers) = models['world'], batch['tokens'].T
    known = gold.right(there, bar=bar) & (there.phrasings == 0)
    return {**batch, 'rewards': known[prompts, answers].astype(jnp.float32)}

  return scored
