"""Reward functions in Python that misbehave, to be named in a config. Workers import this module: no jax.

Each does so on about every `every`th completion, chosen by its text, so that a run does the same again.
"""

import os
import time
import zlib


def raises(completions: list, *, every: int) -> list[float]:
  """Raises where a completion is chosen, and so fails for all rows of its call."""
  return [1 / len(text) if not chosen(text, every) else 1 / 0 for text in completions]


def hangs(completions: list, *, every: int) -> list[float]:
  """Sleeps for an hour."""
  if any(chosen(text, every) for text in completions):
    time.sleep(3600)
  return [float(len(text) % 7) for text in completions]


def dies(completions: list, *, every: int) -> list[float]:
  """Ends its process."""
  if any(chosen(text, every) for text in completions):
    os._exit(3)
  return [float(len(text) % 7) for text in completions]


def not_numbers(completions: list, *, every: int) -> list[float]:
  """NaN for the chosen ones."""
  return [float('nan') if chosen(text, every) else float(len(text) % 7) for text in completions]


def wrong_lengths(completions: list, *, every: int) -> list[float]:
  """One reward too many."""
  more = [0.0] * any(chosen(text, every) for text in completions)
  return [float(len(text) % 7) for text in completions] + more


def wrong_types(completions: list, *, every: int) -> list:
  """A list of lists, of text and of numbers."""
  return [[[text]] if chosen(text, every) else float(len(text) % 7) for text in completions]


def chosen(text: str, every: int) -> bool:
  """Whether a text is one of about one in `every`."""
  return zlib.crc32(text.encode('utf-8', 'replace')) % every == 0
