"""From the sections of a stage to its train step: one learner, or several (`learners.<name>`)."""

import collections
from collections.abc import Mapping
from typing import Any

import optax

from rlx import learners, lens, step
from rlx.errors import ConfigError
from rlx.optimizers import finite
from rlx.rewards.host import OnHost
from rlx.run.parts import PACKAGES, Parts, build_section, require_keys, require_type
from rlx.types import keep_batch

LEARNER_KEYS = ('algorithm', 'updates', 'optimizer', 'trained', 'every')
OWN = ('rollout', 'data', 'reward')  # what a learner may have of its own


def single(section, where: str, parts: Parts, view) -> tuple[step.Step, Any, Any]:
  """The train step of one learner, its optimizer, and the reward."""
  train_step, optimizer = _learner_step(section, where, parts, view)
  return train_step, optimizer, parts['reward']() if 'reward' in parts.asked else None


def _learner_step(section, where: str, parts: Parts, view) -> tuple[step.Step, Any]:
  """A train step, and the optimizer of what it trains."""
  _check_discounts(section, where)
  made = parts['algorithm']()
  trains = bool(section.trained)
  optimizer = parts['optimizer']() if trains else optax.identity()
  if isinstance(made, step.Step):  # the paper's own
    if view is not None:
      raise ConfigError(
          f'config.{where}.algorithm is a train step of its own, which sees parameters as they are; none of '
          'its models can stand on another'
      )
    if 'updates' in section:
      raise ConfigError(f'config.{where}.updates: the algorithm makes its own updates; take the section away')
    return made, optimizer
  algorithm = made if view is None else lens.through(view, made)
  wanted = {'epochs', 'minibatches', 'microbatches'}
  if trains and 'updates' not in section:
    raise ConfigError(f"config.{where} lacks ['updates'], which a stage that trains something needs")
  updates = section.updates.to_dict() if trains else dict.fromkeys(wanted, 1)
  require_keys(updates.keys(), wanted, 'updates', 'make_train_step()')
  for name, value in updates.items():
    require_type(value, int, f'updates.{name}')
  if min(updates.values()) < 1:
    raise ConfigError(f'config.updates: {updates} must be at least 1 each')
  return step.make_train_step(algorithm, optimizer, **updates), optimizer


def _check_discounts(section, where: str) -> None:
  """Rows of several steps are discounted in the store, with what the algorithm goes on with."""
  if 'rollout' not in section or 'algorithm' not in section:
    return
  stored, own = section.rollout, section.algorithm
  if {'n', 'discount'} <= {*stored} and 'discount' in own and stored.discount != own.discount:
    raise ConfigError(
        f'config.{where}: rollout.discount={stored.discount} and algorithm.discount={own.discount}: rows of '
        'several steps take the discount of the algorithm'
    )


def several(section, where: str, parts: Parts, view) -> tuple[step.Step, Any, Any]:
  """The train step of several learners, their optimizers as one, and the reward of all."""
  made, sections = {}, sections_of(section.learners)
  _check_learners(where, section.learners, sections)
  for name, own in sections.items():
    own_parts = _learner_parts(own, parts)
    train_step, optimizer = _learner_step(own, f'{where}.learners.{name}', own_parts, view)
    if 'reward' in own and isinstance(own_parts['reward'](), OnHost):
      raise ConfigError(f'config.learners.{name}.reward is Python; only that of all can leave the device')
    if unasked := sorted(set(own.keys()) - own_parts.asked - {*LEARNER_KEYS}):
      raise ConfigError(f'config.{where}.learners.{name} has {unasked}, which nobody asks for')
    made[name] = learners.Learner(
        step=train_step, optimizer=optimizer, trained=tuple(own.trained), every=own.every
    )
  reward = parts['reward']() if 'reward' in section else keep_batch
  rollout, scored = parts['rollout'](), reward
  if view is not None:
    rollout, scored = lens.rollout(view, rollout), lens.annotate(view, reward)
  train_step = learners.make_learners_step(rollout, scored, made)
  return train_step, learners.optimizer_of(made), reward


def sections_of(section) -> dict[str, Any]:
  """The sections of learners in the order of their steps."""
  if 'order' not in section or 'shared' not in section:
    raise ConfigError(
        "config.learners lacks ['order', 'shared']: the learners in the order of their steps, and the models "
        'that several of them train'
    )
  names = {*section.keys()} - {'order', 'shared'}
  if sorted(section.order) != sorted(names):
    raise ConfigError(f'config.learners.order={tuple(section.order)!r}, but the sections are {sorted(names)}')
  return {name: section[name] for name in section.order}


def _check_learners(where: str, section, sections: Mapping[str, Any]) -> None:
  """They are several, and say so where they train the same model."""
  if len(sections) < 2:
    raise ConfigError(f'config.{where}.learners has {[*sections]}; one learner needs no such section')
  if learners.PLAY in sections:
    raise ConfigError(f'config.{where}.learners: {learners.PLAY!r} is taken; call the learner something else')
  for name, own in sections.items():
    given, wanted = set(own.keys()) - {*OWN, 'updates'}, {*LEARNER_KEYS} - {'updates'}
    require_keys(given, wanted, f'learners.{name}', 'a learner')
    if own.every < 1:
      raise ConfigError(f'config.learners.{name}.every={own.every} steps; at least 1')
    if not own.trained:
      raise ConfigError(f'config.learners.{name}.trained is empty; a learner trains something')
  counts = collections.Counter(model for own in sections.values() for model in own.trained)
  twice = {model for model, count in counts.items() if count > 1}
  if twice != set(section.shared):
    raise ConfigError(
        f'config.{where}.learners: several train {sorted(twice)}, and shared={tuple(section.shared)!r}; name '
        'there the models that learners train in turn, each with moments of its own'
    )


def _learner_parts(section, parts: Parts) -> Parts:
  """What the functions of a learner may ask for: its own sections, the rows it is handed, and the stage's."""
  sections = {name: value for name, value in section.items() if name in (*OWN, 'algorithm')}
  given = {'rollout': lambda: learners.handed, 'reward': lambda: keep_batch}
  given = {name: make for name, make in given.items() if name not in sections}
  return Parts(sections, {**given, 'optimizer': lambda: optimizer_of(section, parts)}, parts)


def optimizer_of(section, parts: Parts) -> optax.GradientTransformation:
  """The optimizer of a stage or a learner, with the guard against updates that are not finite around it."""
  made = build_section(section.optimizer, 'optimizer', parts, PACKAGES['optimizer'])
  return parts['watched']()(finite(made))


def rates_that_end_early(config) -> list[str]:
  """A sentence for each stage or learner whose learning rate has fallen with a quarter of its updates left.

  Schedules count updates, of which a train step makes `epochs * minibatches`.
  """
  found = []
  for where, steps, section in _scheduled(config):
    ends = section.optimizer.warmup_steps + section.optimizer.decay_steps
    each = section.updates.epochs * section.updates.minibatches
    if section.optimizer.decay_steps and ends < 0.75 * steps * each:
      found.append(
          f'{where}: the learning rate has fallen after {ends} of {steps * each} updates ({each} for each of '
          f'{steps} steps); optimizer.decay_steps counts updates'
      )
  return found


def _scheduled(config):
  """`(where, steps, section)` of each stage, or each of its learners, that has a schedule."""
  schedule = {'warmup_steps', 'decay_steps'}  # of `adamw`; an optimizer of one's own may have others
  for name in dict.fromkeys(config.stages):
    stage = config if name == 'main' else config[name]
    places = [(name, stage.steps, stage)]
    if 'learners' in stage:
      each = [(x, stage.learners[x]) for x in stage.learners.order]
      places = [(f'{name}.learners.{x}', stage.steps // own.every, own) for x, own in each]
    for where, steps, section in places:
      if {'updates', 'optimizer'} <= set(section) and schedule <= set(section.optimizer):
        yield where, steps, section
