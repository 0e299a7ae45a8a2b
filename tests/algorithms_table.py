"""One row an algorithm: how it is built, on a toy with a known answer; `test_conformance.py` checks them.

The toy: a prompt is one digit, and the reward is the share of the completion's tokens that repeat it. Chance
is 1/6, the best is 1. Adding an algorithm to rlx adds one row here.
"""

from collections.abc import Callable
import dataclasses
import functools
import types
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx import lens, reductions
from rlx.advantages import groups
from rlx.algorithms.aepo import aepo
from rlx.algorithms.apo_accelerated import apo_accelerated
from rlx.algorithms.archer import archer
from rlx.algorithms.bcoder import bcoder
from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.brpo import brpo
from rlx.algorithms.c_rlft import c_rlft
from rlx.algorithms.calibrl import calibrl
from rlx.algorithms.capo import capo
from rlx.algorithms.clpo import clpo
from rlx.algorithms.cog_rethinker import cog_rethinker
from rlx.algorithms.contrasted import contrasted
from rlx.algorithms.critique_then_score import critique_then_score
from rlx.algorithms.cycle_align import cycle_align
from rlx.algorithms.dapo import dapo
from rlx.algorithms.deadend import deadend
from rlx.algorithms.dpo import dpo
from rlx.algorithms.dynamic_weights import by_volume
from rlx.algorithms.epo_entropy import epo_entropy
from rlx.algorithms.gigpo import gigpo
from rlx.algorithms.gkd import gkd
from rlx.algorithms.grpo import grpo
from rlx.algorithms.gvm import gvm
from rlx.algorithms.hgpo import hgpo
from rlx.algorithms.hrpo import hrpo
from rlx.algorithms.hypo import hypo
from rlx.algorithms.inpo import inpo
from rlx.algorithms.istar import istar
from rlx.algorithms.kto import kto
from rlx.algorithms.mapo import mapo
from rlx.algorithms.meta_step import meta_step
from rlx.algorithms.modpo import modpo
from rlx.algorithms.mssr import mssr
from rlx.algorithms.nlpo import nlpo
from rlx.algorithms.openclaw import openclaw
from rlx.algorithms.pav import pav
from rlx.algorithms.pointwise import pointwise
from rlx.algorithms.policy_gradient import policy_gradient
from rlx.algorithms.ppo import ppo
from rlx.algorithms.prime import prime
from rlx.algorithms.recap import recap
from rlx.algorithms.red import red
from rlx.algorithms.reference_free import reference_free
from rlx.algorithms.reinforce import reinforce
from rlx.algorithms.remax import remax
from rlx.algorithms.remix import remix
from rlx.algorithms.score import score
from rlx.algorithms.sft import sft
from rlx.algorithms.spa import spa
from rlx.algorithms.spae import spae
from rlx.algorithms.spoc import spoc
from rlx.algorithms.stepwise import stepwise
from rlx.algorithms.superhf import superhf
from rlx.algorithms.tlt import tlt
from rlx.algorithms.tpo import tpo
from rlx.algorithms.trees import rose, tempo, treepo
from rlx.algorithms.turn_ppo import turn_ppo
from rlx.algorithms.vapo import vapo
from rlx.algorithms.webrl import webrl
from rlx.controllers import allocation, schedules
from rlx.controllers import prompts as selection
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Critic, ImplicitJudge, Judge, Scoring, Speaker
from rlx.envs.seats import SeatReply, SeatTask, told
from rlx.envs.text import Task, demonstrations
from rlx.envs.worlds.corrected import corrected
from rlx.envs.worlds.playbook import playbook
from rlx.envs.worlds.rooms import rooms
from rlx.losses import comparisons, corrections, policy, preference, ratios, regularizers, weights
from rlx.losses.anchors import kl_in_loss, kl_in_reward, no_kl
from rlx.models import drafter, heads, latent
from rlx.models.heads import PolicyRatio, RowHead, TokenHead
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import curriculum, demonstrated, modes, nucleus, pairs, prompts, seats, tree, turns
from rlx.rollout import latent as latent_rollout
from rlx.rollout.beside import beside
from rlx.types import Algorithm, StatefulRollout

NUM_TOKENS, GROUP_SIZE, BATCH_SIZE = 3, 4, 64


def repeat_digit() -> Task:
  """`3` -> `333`; the reward counts the share of threes."""

  def sample(key, num, held_out):
    del held_out
    digits = jax.random.randint(key, (num, 1), 2, 6)
    return {
        'prompts': digits,
        'prompt_lengths': jnp.ones(num, jnp.int32),
        'solutions': jnp.repeat(digits, NUM_TOKENS, axis=1),
    }

  def verify(problems, completions):
    right = completions[:, :NUM_TOKENS] == problems['solutions']
    return jnp.mean(right, axis=1, dtype=jnp.float32)

  return Task(alphabet='0123', prompt_columns=1, answer_columns=NUM_TOKENS, sample=sample, verify=verify)


TASK = repeat_digit()
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=16, num_heads=4, num_kv_heads=2, head_size=8, mlp_size=32,
    context_length=16,
))
DECODING = Decoding(
    max_tokens=NUM_TOKENS, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
    pad_id=0,
)
SCORING = Scoring(chunk_tokens=64, packing=None)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=SCORING)  # as are those that begin as its copies
DRAFTER = Speaker(
    model=LanguageModel(drafter.config_of(MODEL.shape, num_layers=1)), decoding=DECODING, scoring=SCORING
)
CRITIC = Critic(head=TokenHead(MODEL), scoring=SCORING)
IMPLICIT = ImplicitJudge(head=PolicyRatio(MODEL, 0.05), decoding=DECODING, scoring=SCORING)
JUDGE = Judge(head=RowHead(MODEL), scoring=SCORING)
LENGTH = types.SimpleNamespace(apply=lambda params, batch: 0.1 * batch['action_mask'].sum(axis=1))  # a judge

# Two rooms: a step into the other one, and `t`, is worth 1; actions are single tokens.
WORLD = rooms(height=1, width=2, num_mazes=1, loops=0, num_keys=0, held_out_share=0.5)
WALKER = LanguageModel(dataclasses.replace(MODEL.shape, vocab_size=WORLD.vocab_size, context_length=32))
WORLD_POLICY = Speaker(
    model=WALKER, decoding=dataclasses.replace(DECODING, max_tokens=20), scoring=SCORING
)
WORLD_CRITIC = Critic(head=TokenHead(WALKER), scoring=SCORING)


# Two situations in a row, each with a reply that the user wants, and says where another was given.
USER = corrected(task=lambda: playbook(
    situations=2, replies=2, turns=2, one_rule=True, told=0.0, each=1.0, held_out_share=0.3), says=1.0)
SERVANT = LanguageModel(dataclasses.replace(MODEL.shape, vocab_size=USER.vocab_size, context_length=32))
USER_POLICY = Speaker(
    model=SERVANT, decoding=dataclasses.replace(DECODING, max_tokens=12), scoring=SCORING
)


def repeat_at_seats():
  """Two seats, each with a digit to repeat; the second hears what the first has said."""

  def sample(key, num, held_out):
    digits = jax.random.randint(key, (num, 2, 1), 2, TASK.vocab_size)
    return {'digits': digits[..., 0], 'prompts': digits, 'prompt_lengths': jnp.ones((num, 2), jnp.int32)}

  def act(state, action, length, key):
    seat = state['spoken']
    right = (action[0] == state['digits'][seat]) & (length == 1)
    heard, lengths = told(jnp.maximum(action[:1], 1), jnp.array([False, True]))
    return SeatReply(
        state={**state, 'spoken': seat + 1}, observations=heard, lengths=lengths,
        rewards=right * (jnp.arange(2) == seat) * 1.0, ended=seat == 1, understood=right,
        info={'right': right},
    )

  return SeatTask(
      alphabet=TASK.alphabet, prompt_columns=1, answer_columns=1, sample=sample, seats=('one', 'two'),
      order=(0, 1), observation_columns=1, act=act,
      start=lambda problem: {'digits': problem['digits'], 'spoken': jnp.int32(0)},
  )


def samples(batch_size=BATCH_SIZE):
  return prompts.completions(
      TASK, POLICY, batch_size=batch_size, group_size=GROUP_SIZE, num_slots=0
  )


def drafted_samples():
  return prompts.drafted_completions(
      TASK, POLICY, DRAFTER, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, num_slots=16,
      draft_tokens=2, max_live=16,
  )


def growing():
  return tree.segments(
      TASK, POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, segment_tokens=1, first_branches=2,
      branching=2, uncertainty=0.0, repeated_tokens=0, least_logprob=-100.0,
  )


def exploring():
  return tree.explore(
      TASK, POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, first_rows=2, rows_per_round=2,
      epsilon=0.5, synonyms=(),
  )


def services():
  return turns.episodes(
      USER, USER_POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, num_slots=16, turn_tokens=1,
      max_turns=functools.partial(schedules.constant, value=4),
  )


def walks():
  return turns.episodes(
      WORLD, WORLD_POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, num_slots=16, turn_tokens=1,
      max_turns=functools.partial(schedules.constant, value=5),
  )


def at_seats(names, *, episodes, learnt):
  speakers = dict.fromkeys(names, POLICY)
  play = seats.episodes(
      repeat_at_seats(), speakers, episodes=episodes, group_size=GROUP_SIZE, turn_tokens=1,
      max_turns=functools.partial(schedules.constant, value=2), learnt=learnt,
  )
  return lens.bind(play, names)


def both_seats():
  shared = dict.fromkeys(('one', 'two'), 'policy')
  return at_seats(shared, episodes=BATCH_SIZE // 2, learnt=('one', 'two'))


def own_seat():
  return at_seats({'one': 'rival', 'two': 'policy'}, episodes=BATCH_SIZE, learnt=('two',))


def chosen(num_prompts):
  """Numbered problems, of which there is a memory: so many of them, with the same number of rows each."""
  return curriculum.curriculum(
      TASK, POLICY, num_problems=BATCH_SIZE, batch_size=BATCH_SIZE, num_prompts=num_prompts,
      num_slots=0, scores=selection.everywhere, draw=selection.highest, allocate=allocation.uniform,
      length=functools.partial(schedules.constant, value=NUM_TOKENS), keep=0.9, prior_rate=0.3,
      prior_strength=2.0,
  )


def with_columns(rollout, **columns):
  """Other columns, each made of the batch."""

  def sample(models, world, key):
    batch, world = rollout(models, world, key)
    return {**batch, **{name: make(batch) for name, make in columns.items()}}, world

  return sample


def transferring():
  """Rows with the columns of rows that were answered under another prompt; here none was."""
  none = dict(transferred=lambda batch: jnp.zeros(BATCH_SIZE, bool))
  direct = {'tokens': 'tokens', 'valid': 'valid', 'mask': 'action_mask', 'lengths': 'prompt_lengths'}
  copy = lambda name: lambda batch: batch[name]
  copies = {f'direct_{to}': copy(name) for to, name in direct.items()}
  return with_columns(samples(), **none, **copies)


def beside_experts(rollout):
  return rollout(TASK, POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, num_slots=0, shown_share=0.5)


def compared(batch_size=BATCH_SIZE):
  """Pairs: the digit repeated, and another one in its place."""

  def draw(models, world, key):
    right_key, wrong_key = jax.random.split(key)
    problems = TASK.sample(right_key, batch_size // 2, False)
    digits = problems['prompts'][:, 0]
    others = (digits - 1 + jax.random.randint(wrong_key, digits.shape, 0, 3)) % 4 + 2
    wrong = {**problems, 'solutions': jnp.repeat(others[:, None], NUM_TOKENS, axis=1)}
    rows = [demonstrations(x) for x in (problems, wrong)]
    rows = jax.tree.map(lambda a, b: jnp.stack([a, b], axis=1).reshape(-1, *a.shape[1:]), *rows)
    return {**rows, 'preferred': jnp.arange(batch_size) % 2 == 0}, world

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None)


def labelled_samples():
  """Each token is a step, which is right where it repeats the digit."""
  def ends(batch):
    return batch['action_mask']

  def labels(batch):
    right = batch['tokens'] == batch['tokens'][:, :1]
    return (batch['action_mask'] & right).astype(jnp.float32)

  return with_columns(samples(), step_ends=ends, step_labels=labels)


def beside_reference(models):
  """An implicit reward and what it is compared with, as a run shows them."""
  return {**models, 'process': {'policy': models['process'], 'reference': models['reference']}}


def with_head(policy):
  """A judge on the decoder, whose head is no 0: a head at 0 has no slope for what is below it."""
  return {'judge': {'trunk': policy, 'reward_head': jax.random.normal(jax.random.key(3), (MODEL.width,))}}


def triples():
  """Pairs with the better answer for the gold one."""
  names = ('tokens', 'valid', 'action_mask', 'prompt_lengths', 'groups')
  better = lambda name: lambda batch: jnp.repeat(batch[name][0::2], 2, axis=0)
  return with_columns(compared(), **{f'gold_{name}': better(name) for name in names})


def in_modes():
  return modes.forced(
      TASK, POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, num_slots=0, modes=('0', '1')
  )


def in_latents():
  return latent_rollout.completions(
      TASK, POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, answer_start=''
  )


def by_turn(models, batch, key):
  """Each token is a turn; the first in one role, the others in another; it earns where it is right."""
  batch, mask = reward(models, batch, key), batch['action_mask']
  places, right = jnp.cumsum(mask, axis=1) - 1, batch['tokens'] == batch['tokens'][:, :1]
  return {
      **batch, 'token_rewards': (mask & right).astype(jnp.float32), 'turns': jnp.where(mask, places, -1),
      'roles': jnp.where(mask, places > 0, -1).astype(jnp.int32),
  }


def by_critics(models, batch, key):
  """Two of three critics flag the tokens that do not repeat the digit; the third flags nothing."""
  wrong = batch['action_mask'] & (batch['tokens'] != batch['tokens'][:, :1])
  return {**reward(models, batch, key), 'critiques': jnp.stack([wrong, wrong, wrong & False], axis=1)}


class Row(NamedTuple):
  name: str
  make: Callable[[], Algorithm]
  slow: tuple[str, ...] = ()  # lagging copies of the policy that it asks for
  critic: bool = False
  target: bool = False  # a lagging copy of the critic
  drafter: bool = False
  trained: Callable = lambda policy: {'policy': policy}  # what is trained, beside critic and drafter
  metric: str = 'reward/mean'  # rises as it learns
  reached: float = 0.9  # by then
  rise: float = 0.3  # at least so much below it begins
  rate: float = 1.0  # of SGD where two ways to one step are compared; less where steps of that size run away
  model: LanguageModel = MODEL  # of the policy, and of what begins as its copy


_verdicts = verifier(TASK, POLICY)


def reward(models, batch, key):
  """The verdict of the toy; episodes have the rewards of their world."""
  return batch if 'trajectories' in batch else _verdicts(models, batch, key)


def two_rewards(models, batch, key):
  """The verdict twice, as two objectives."""
  batch = reward(models, batch, key)
  return {**batch, 'objectives': jnp.stack([batch['rewards'], batch['rewards']], axis=1)}


clip = dict(clip_low=0.2, clip_high=0.2)


def held():
  return kl_in_loss(POLICY, coef=0.001)


def anywhere():
  """The KL in the loss and in the reward at once."""
  return dataclasses.replace(held(), reward_coef=0.001)



ROWS = (
    Row('sft', lambda: sft(prompts.solutions(TASK, POLICY, batch_size=BATCH_SIZE), POLICY),
        metric='-loss/nll', reached=-0.1),
    Row('dpo', lambda: dpo(
        compared(), POLICY, POLICY, loss=functools.partial(preference.sigmoid, beta=1.0)),
        slow=('reference',), metric='-loss/preference', reached=-0.1),
    Row('hypo', lambda: hypo(
        compared(), POLICY, POLICY, TASK, loss=functools.partial(preference.sigmoid, beta=1.0), kl_coef=0.01),
        slow=('reference',), metric='-loss/preference', reached=-0.1),
    Row('apo_accelerated', lambda: apo_accelerated(
        dpo(compared(), POLICY, POLICY, loss=functools.partial(preference.sigmoid, beta=1.0)),
        momentum=0.5, period=150),
        slow=('reference', 'last'), metric='-loss/preference', reached=-0.1),
    Row('inpo', lambda: inpo(compared(), POLICY, POLICY, POLICY, eta=0.5, tau=0.2),
        slow=('reference', 'last'), metric='-loss/preference', reached=-0.1, rate=0.01),
    Row('modpo', lambda: modpo(compared(), POLICY, POLICY, LENGTH, beta=0.5, weight=0.8),
        slow=('reference', 'judge'), metric='-loss/preference', reached=-0.1),
    Row('tpo', lambda: tpo(triples(), POLICY, beta=0.5, nll_coef=0.5), metric='-loss/nll', reached=-0.5),
    Row('c_rlft', lambda: c_rlft(
        with_columns(
            prompts.solutions(TASK, POLICY, batch_size=BATCH_SIZE),
            classes=lambda batch: jnp.arange(BATCH_SIZE) % 2),
        POLICY, class_weights=(1.0, 0.1)), metric='-loss/nll', reached=-0.1, rise=0.2),
    Row('superhf', lambda: superhf(samples(), reward, POLICY, POLICY, kl_coef=0.001), slow=('reference',)),
    Row('cycle_align', lambda: cycle_align(compared(), POLICY, group_size=2, nll_coef=1.0),
        metric='-loss/nll', reached=-0.1),
    Row('pointwise', lambda: pointwise(compared(), JUDGE), trained=with_head, metric='-loss/verdicts',
        reached=-0.1),
    Row('bradley_terry', lambda: bradley_terry(compared(), JUDGE), trained=with_head, metric='-loss/pairs',
        reached=-0.1),
    Row('contrasted', lambda: contrasted(
        bradley_terry(compared(), JUDGE), JUDGE, weight=0.1, temperature=0.5, dropout=0.2, among=2),
        trained=with_head, metric='-loss/pairs', reached=-0.1),
    Row('meta_step', lambda: meta_step(
        bradley_terry(pairs.with_samples(compared(), samples()), JUDGE), JUDGE, rate=0.01, among=2),
        slow=('policy',), trained=with_head, metric='-loss/pairs', reached=-0.1),
    Row('critique_then_score', lambda: critique_then_score(compared(), POLICY, JUDGE, critique_coef=0.1),
        trained=lambda policy: {'critic': policy, **with_head(policy)}, metric='-loss/pairs', reached=-0.1),
    Row('kto', lambda: kto(
        compared(), POLICY, POLICY, TASK, beta=1.0, desirable=1.0, undesirable=1.0),
        slow=('reference',), metric='-loss/preference', reached=-0.2, rise=0.2),
    Row('gkd', lambda: gkd(samples(), POLICY, POLICY, share=0.5), slow=('teacher',),
        trained=lambda policy: {'policy': MODEL.init(jax.random.key(9))},  # another one than its teacher
        metric='-loss/distillation', reached=-0.01, rise=0.02),
    Row('reference_free', lambda: reference_free(
        compared(), POLICY, level=comparisons.averaged, loss=functools.partial(
            preference.plus, first=preference.nll, second=preference.odds_ratio, weight=0.5)),
        metric='-loss/preference', reached=-0.5),
    Row('reinforce', lambda: reinforce(samples(), reward, POLICY, no_kl(), entropy_coef=0.0)),
    Row('grpo', lambda: grpo(samples(), reward, POLICY, held(), **clip, entropy_coef=0.0),
        slow=('reference',)),
    Row('dapo', lambda: dapo(
        samples(2 * BATCH_SIZE), reward, POLICY, clip_low=0.2, clip_high=0.28, train_rows=BATCH_SIZE,
        max_tokens=2 * NUM_TOKENS, overlong_buffer=NUM_TOKENS), metric='reward/before_selection'),
    Row('ppo', lambda: ppo(
        samples(), reward, POLICY, CRITIC, kl_in_reward(POLICY, coef=0.001), **clip, entropy_coef=0.0,
        value_coef=0.5, value_clip=0.2, discount=1.0, lambda_=0.95),
        slow=('reference',), critic=True),
    Row('vapo', lambda: vapo(
        samples(), reward, POLICY, CRITIC, clip_low=0.2, clip_high=0.28, entropy_coef=0.0, value_coef=0.5,
        value_clip=0.2, alpha=1.0), critic=True),
    Row('bcoder', lambda: bcoder(
        samples(), reward, POLICY, POLICY, CRITIC, scale=0.05, support=0.1, discount=1.0),
        slow=('behaviour',), critic=True),
    Row('tlt', lambda: tlt(
        drafted_samples(), reward, POLICY, DRAFTER, no_kl(), **clip, entropy_coef=0.0, draft_coef=1.0),
        drafter=True),
    Row('tempo', lambda: tempo(samples(), reward, POLICY, held(), **clip), slow=('reference',)),
    Row('treepo', lambda: treepo(growing(), reward, POLICY, clip_low=0.2, clip_high=0.28)),
    Row('rose', lambda: rose(
        exploring(), reward, POLICY, held(), **clip, length_power=0.5, length=NUM_TOKENS),
        slow=('reference',)),
    Row('policy_gradient', lambda: policy_gradient(
        samples(), reward, POLICY, anywhere(), baseline=groups.normalised, weight=weights.informative,
        level=ratios.sequence_token_ratio, surrogate=functools.partial(policy.clipped, **clip),
        reduction=reductions.sequence_mean, kl_estimator=regularizers.kl_k3_corrected, entropy_coef=0.0,
        correction=functools.partial(corrections.truncated, ratio_max=2.0), correction_level=ratios.ratio),
        slow=('reference',)),
    Row('remax', lambda: remax(samples(), reward, POLICY, no_kl(), group_size=GROUP_SIZE)),
    Row('gvm', lambda: gvm(chosen(BATCH_SIZE // 4), reward, POLICY)),
    Row('aepo', lambda: aepo(
        with_columns(samples(), tasks=lambda batch: batch['groups'] % 2), reward, POLICY, **clip,
        entropy_low=0.1, entropy_high=5.0)),
    Row('mssr', lambda: mssr(
        chosen(BATCH_SIZE), reward, POLICY, TASK, num_problems=BATCH_SIZE, **clip, prior_rate=0.3,
        prior_strength=2.0, keep_low=0.5, keep_high=0.95, drift=0.1, entropy_scale=0.4, kappa=2.0)),
    Row('nlpo', lambda: nlpo(
        nucleus.completions(
            TASK, POLICY, POLICY, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, top_p=0.95,
            min_kept=1),
        reward, POLICY, POLICY, CRITIC, kl_in_reward(POLICY, coef=0.001), top_p=0.95, min_kept=1, refresh=2,
        **clip, kl_target=1.0, kl_rate=0.1, entropy_coef=0.0, value_coef=0.5, value_clip=0.2, discount=1.0,
        lambda_=0.95),
        slow=('past', 'reference'), critic=True),
    Row('hgpo', lambda: hgpo(
        in_modes(), reward, POLICY, held(), **clip, inter_coef=1.0, margins=(0.0, 0.0)),
        slow=('reference',), reached=0.6),
    Row('spoc', lambda: spoc(samples(), by_turn, POLICY, no_kl(), **clip)),
    Row('brpo', lambda: brpo(
        samples(), POLICY, TASK, **clip, budgets=(1, 2), budget_weights=(0.5, 0.5), decay=0.5, marker='0',
        summary_tokens=1, summary_samples=2), reached=0.65),
    Row('spae', lambda: spae(
        with_columns(samples(), answers=lambda batch: batch['tokens'][:, :1]), reward, POLICY, TASK, **clip,
        separator='0', probe='1', probe_tokens=1, probe_samples=2, max_steps=2, saturated=0.9, alpha=0.5,
        xi=0.5), reached=0.7),
    Row('capo', lambda: capo(
        samples(), by_critics, POLICY, no_kl(), **clip, outcome_weight=2.0, process_weight=1.0,
        min_votes=2)),
    Row('cog_rethinker', lambda: cog_rethinker(
        transferring(), reward, POLICY, no_kl(), **clip, sft_coef=1.0)),
    Row('clpo', lambda: clpo(
        with_columns(samples(), hard=lambda batch: batch['groups'] % 2 == 0), reward, POLICY, held(), **clip,
        hard_scale=0.5, entropy_coef=0.01), slow=('reference',)),
    Row('pav', lambda: pav(
        samples(), reward, POLICY, POLICY, no_kl(), TASK, **clip, separator='0', max_steps=2,
        prover_samples=2, best_of=1, alpha=1.0), slow=('prover',)),
    Row('hrpo', lambda: hrpo(in_latents(), reward, POLICY, POLICY, **clip, kl_coef=0.0), slow=('reference',),
        trained=lambda policy: {'policy': latent.init(jax.random.key(2), policy, r_min=0.9, r_max=0.95)}),
    Row('deadend', lambda: deadend(samples(), reward, POLICY, DRAFTER), slow=('policy',),
        trained=lambda policy: {'rectifier': drafter.init(policy, num_layers=1)},
        metric='-loss/value', reached=-0.5, rise=0.1),
    Row('remix', lambda: remix(
        samples(), reward, POLICY, held(), clip=0.2,
        base_share=functools.partial(schedules.linear, first=1.0, last=0.5, num_steps=200)),
        slow=('reference',)),
    Row('epo_entropy', lambda: epo_entropy(
        samples(), reward, POLICY, **clip, entropy_coef=0.001, smooth_coef=3.0, ratio_low=0.5, ratio_high=2.0,
        window=50, phase=functools.partial(
            schedules.two_phases, kept=0.8, slow_rate=2.0, fast_rate=3.0, num_steps=200))),
    Row('calibrl', lambda: calibrl(
        beside_experts(demonstrated.measured), reward, POLICY, no_kl(), **clip, guided_coef=0.1, slope=0.5)),
    Row('red', lambda: red(
        beside_experts(demonstrated.demonstrated), reward, POLICY, no_kl(), **clip, weight_min=1.0,
        weight_max=7.0, keep=0.9, accuracy_min=0.5, gamma=0.1)),
    Row('recap', lambda: recap(
        beside(samples(), prompts.solutions(TASK, POLICY, batch_size=8)), reward, POLICY, no_kl(), **clip,
        num_objectives=2, window=4, temperature=1.0), metric='reward/online'),
    Row('dynamic_weights', lambda: by_volume(
        samples(), two_rewards, POLICY, no_kl(), **clip, preferences=(1.0, 0.5), worthless=(0.0, 0.0),
        strength=1.0, rate=0.5), metric='reward/objective_0'),
    Row('grpo_rooms', lambda: grpo(walks(), reward, WORLD_POLICY, no_kl(), **clip, entropy_coef=0.0),
        model=WALKER),
    Row('grpo_seats', lambda: grpo(
        both_seats(), reward, POLICY, no_kl(), **clip, entropy_coef=0.0)),
    Row('grpo_own_seat', lambda: grpo(  # each seat has parameters of its own
        own_seat(), reward, POLICY, no_kl(), **clip, entropy_coef=0.0), slow=('rival',)),
    Row('gigpo', lambda: gigpo(
        walks(), reward, WORLD_POLICY, no_kl(), **clip, discount=0.9, step_weight=1.0, scaled=True),
        model=WALKER),
    Row('mapo', lambda: mapo(
        walks(), reward, WORLD_POLICY, no_kl(), **clip, discount=0.9, batch_weight=0.5), model=WALKER),
    Row('openclaw', lambda: openclaw(
        services(), reward, USER_POLICY, USER, **clip, reward_weight=1.0, hint_weight=0.5, gap_max=1.0),
        model=SERVANT),
    Row('istar', lambda: istar(
        walks(), reward, WORLD_POLICY, WORLD_POLICY, no_kl(), **clip, beta=0.1, step_weight=0.1),
        slow=('process',), model=WALKER, rate=0.01),
    Row('stepwise', lambda: stepwise(labelled_samples(), CRITIC), slow=('policy',),
        trained=lambda policy: {'process': heads.init_value(policy)}, metric='-loss/steps', reached=-0.1),
    Row('prime', lambda: lens.through(beside_reference, prime(
        samples(), reward, POLICY, IMPLICIT, no_kl(), **clip, discount=1.0, process_weight=0.2)),
        slow=('process', 'reference')),
    Row('spa', lambda: spa(walks(), reward, WORLD_CRITIC), slow=('policy',), model=WALKER,
        trained=lambda policy: {'progress': heads.init_value(policy)}, metric='-loss/progress', reached=-0.03,
        rise=0.03),
    Row('score', lambda: score(
        walks(), reward, WORLD_POLICY, kl_in_loss(WORLD_POLICY, coef=0.001), **clip, discount=0.9),
        slow=('reference',), model=WALKER),
    Row('archer', lambda: archer(
        walks(), reward, WORLD_POLICY, WORLD_CRITIC, **clip, value_coef=0.5, discount=0.95, target_rate=0.2),
        model=WALKER, critic=True, target=True),
    Row('turn_ppo', lambda: turn_ppo(
        walks(), reward, WORLD_POLICY, WORLD_CRITIC, no_kl(), **clip, entropy_coef=0.0, value_coef=0.5,
        value_clip=0.2, discount=1.0, lambda_=0.95), model=WALKER, critic=True),
    Row('webrl', lambda: webrl(
        walks(), reward, WORLD_POLICY, WORLD_CRITIC, WORLD_POLICY, beta=0.1, lambda_=0.5, value_coef=0.5,
        perplexity_min=1.0, perplexity_max=10.0), slow=('reference',), model=WALKER, critic=True),
)
