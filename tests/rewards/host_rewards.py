"""Reward functions for the tests of `rlx.rewards.host`; workers import this module."""

import time


def length(completions):
  return [float(len(text)) for text in completions]


def only_even(completions, number):
  """None where the column is odd."""
  return [1.0 if n % 2 == 0 else None for n in number]


def chosen_fault(completions, number, *, bad):
  """Raises where the column is one of `bad`."""
  if set(number) & set(bad):
    raise RuntimeError(f'number {number}')
  return [float(n) for n in number]


def logging(completions, completion_ids, log_extra, log_metric):
  log_metric('tokens_seen', float(sum(map(len, completion_ids))))
  log_extra('last_token', [str(ids[-1]) if ids else '' for ids in completion_ids])
  return [0.0] * len(completions)


def slow(completions, *, seconds):
  time.sleep(seconds)
  return [1.0 for _ in completions]
