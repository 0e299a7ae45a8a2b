"""The examples in docstrings do what they say."""

import doctest
import importlib

import jax
import pytest

from tests.cases import cases

MODULES = (
    'rlx.advantages.groups', 'rlx.advantages.temporal', 'rlx.algorithms.grpo', 'rlx.losses.policy',
    'rlx.models.families', 'rlx.reductions', 'rlx.rollout.prompts', 'rlx.step',
)


@pytest.mark.parametrize('name', cases(MODULES, at_once=set(MODULES) - {'rlx.rollout.prompts'}))
def test_examples_of_a_module(name):
  with jax.numpy_rank_promotion('raise'):
    results = doctest.testmod(importlib.import_module(name))
  assert results.attempted and not results.failed
