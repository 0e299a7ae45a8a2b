"""Nemotron-Cascade, https://arxiv.org/abs/2512.13607: a stage a domain, each with lengths of its own.

What is checked is the run that the config describes: which domain is trained on when, that its answers fit,
and how much is decoded. That earlier domains lose less than two points is not checked here; nor is accuracy.
"""

import jax
import numpy as np
import pytest

from rlx.experiments.configs.curriculum import cascade_arithmetic
from rlx.run.parts import PACKAGES, build_section

DOMAINS = {'sums': (0, 9, '+'), 'differences': (0, 9, '-'), 'main': (10, 99, '+')}


def stages():
  config = cascade_arithmetic.get_config()
  return config, {name: config if name == 'main' else config[name] for name in config.stages}


def problems_of(section, num=400):
  """The task of a stage, and problems of it as text."""
  task = build_section(section.task, 'task', {}, PACKAGES['task'])
  problems = task.sample(jax.random.key(0), num, False)
  rows = zip(problems['prompts'], problems['prompt_lengths'], strict=True)
  prompts = [task.decode(row[:n]) for row, n in rows]
  return task, problems, prompts


@pytest.mark.slow
def test_each_stage_is_a_domain_and_the_first_one_all_of_them():
  config, sections = stages()
  assert tuple(config.stages) == ('sft', *DOMAINS)
  kinds = {}
  for name, section in sections.items():
    _, _, prompts = problems_of(section)
    operands = lambda x: x.rstrip('=').replace('-', '+').split('+')
    kinds[name] = {('-' if '-' in x else '+', len(operands(x)[0])) for x in prompts}
  assert kinds['sums'] == {('+', 1)} and kinds['differences'] == {('-', 1)} and kinds['main'] == {('+', 2)}
  assert kinds['sft'] == kinds['sums'] | kinds['differences'] | kinds['main']


@pytest.mark.slow
def test_answers_fit_and_less_is_decoded_than_of_a_blend():
  """A blend of as many steps has to decode for its longest domain: 4 tokens a row, here 3, 3 and 4:
  a tenth less, for the last stage is the longest. A row that ends early is counted in full in both."""
  _, sections = stages()
  decoded, blended = 0, 0
  longest = max(section.decoding.max_tokens for section in sections.values())
  for name in DOMAINS:
    section = sections[name]
    task, problems, _ = problems_of(section)
    lengths = np.argmax(np.asarray(problems['solutions']) == task.eos_ids[0], axis=1) + 1
    assert lengths.max() == section.decoding.max_tokens
    rows = section.steps * section.rollout.batch_size
    decoded += rows * section.decoding.max_tokens
    blended += rows * longest
  assert 10 * decoded <= 9 * blended
