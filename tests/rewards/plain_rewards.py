"""Reward functions as people write them, for the tests of the pool. Workers import this module."""

import asyncio
import functools
import os
import random
import sys
import time

import numpy as np


def length(completions, **kwargs):
  """In TRL's style: takes everything, uses little."""
  assert kwargs.keys() >= {'prompts', 'completion_ids', 'log_extra', 'log_metric'}
  return [float(len(text)) for text in completions]


def equals(completions, answer):
  return [float(text == right) for text, right in zip(completions, answer, strict=True)]


async def slow_length(prompts, completion_ids):
  await asyncio.gather(*[asyncio.sleep(0.01) for _ in prompts])
  return [len(ids) for ids in completion_ids]


def only_digits(completions):
  """Applies to numbers alone."""
  return [float(text) if text.isdigit() else None for text in completions]


def scaled(completions, *, factor, offset=0.0):
  return [factor * float(text) + offset for text in completions]


doubled = functools.partial(scaled, factor=2.0)


class Power:
  """A function with a state."""

  def __init__(self, exponent):
    self.exponent = exponent

  def __call__(self, completions):
    return [float(text) ** self.exponent for text in completions]


def as_array(completions):
  return np.array([float(text) for text in completions], np.float64)


def as_scalars(completions):
  return tuple(np.float32(text) for text in completions)


def num_distinct(completions):
  """Looks at all rows of its call."""
  return [float(len(set(completions)))] * len(completions)


def content(completions):
  return [float(message['content']) for (message,) in completions]


def logs(completions, log_extra, log_metric):
  log_extra('upper', [text.upper() for text in completions])
  log_extra('odd', [{'n': np.int64(len(text)), 'of': {1}} for text in completions])
  log_metric('length', len(completions[0]))
  log_metric('length', np.float32(0.0))
  if completions[0].startswith('b'):
    log_extra('only_b', [1] * len(completions))
  return [1.0] * len(completions)


def logs_badly(completions, log_extra, log_metric):
  if completions[0] == 'short':
    log_extra('upper', [])
  else:
    log_metric('length', 'long')
  return [1.0]


def logs_over_the_prompt(completions, log_extra):
  log_extra('prompt', ['other'] * len(completions))
  return [1.0] * len(completions)


def dawdles(completions):
  """Takes a while that no two runs share."""
  time.sleep(random.SystemRandom().uniform(0, 0.01))
  return [float(text) for text in completions]


def about_the_process(completions, log_extra):
  log_extra('modules', [sorted(sys.modules)])
  log_extra('set', [list({'a', 'b', 'c', 'd', 'e', 'f'})])
  log_extra('group', [[os.getpid(), os.getpgid(0), os.getsid(0)]])
  return [0.0]


def needs_more(completions, trainer_state, answer, solution):
  del completions, trainer_state, answer, solution
