"""Critique-RL: what a critic is paid for judging, and what for the refinement, in its two stages."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.worlds.critique import critique
from rlx.experiments.configs.selfplay import critique_rl

HOW = {'modulus': 5, 'skill': 0.5, 'follows': 0.8, 'sees': 0.4}
STAGES = {'judge': {'direct': 1.0, 'indirect': 0.0}, 'both': {'direct': 0.5, 'indirect': 1.0}}
STAGES['indirect'] = {'direct': 0.0, 'indirect': 1.0}


def payoff(words, **weights):
  """What the critic gets where the answer is 3 and these words are said, and what is told at the end."""
  task = critique(**HOW, **weights)
  state, total = task.start({'answer': jnp.int32(3)}), 0.0
  for word in words:
    reply = task.act(state, jnp.asarray(task.encode(word)), jnp.int32(1), jax.random.key(0))
    state, total = reply.state, total + float(reply.rewards[1])
  assert bool(reply.ended)
  return total, {name: float(x) for name, x in reply.info.items()}


@pytest.mark.parametrize(('words', 'judge', 'both', 'indirect'), [
    ('3y3', 1.0, 1.5, 1.0),  # right, called right
    ('333', 0.0, 1.0, 1.0),  # right, called wrong with the right digit: the indirect reward sees no fault
    ('314', 0.0, 0.0, 0.0),  # right, talked out of it
    ('133', 1.0, 1.5, 1.0),  # wrong, put right
    ('122', 1.0, 0.5, 0.0),  # wrong, called wrong, and not helped
    ('1y1', 0.0, 0.0, 0.0),  # wrong, called right
])
def test_the_direct_reward_is_the_judgement_and_the_indirect_one_the_refinement(words, judge, both, indirect):
  expected = {'judge': judge, 'both': both, 'indirect': indirect}
  for stage, weights in STAGES.items():
    assert payoff(words, **weights)[0] == pytest.approx(expected[stage]), stage


def test_the_indirect_reward_alone_does_not_ask_for_discrimination():
  """A critic that calls everything wrong, and names the right digit, is at chance and yet paid in full."""
  always = [payoff(f'{first}33', **STAGES['indirect']) for first in '13']
  assert [paid for paid, _ in always] == [1.0, 1.0] and np.mean([told['judged'] for _, told in always]) == 0.5
  telling = [payoff(words, **STAGES['both'])[0] for words in ('133', '3y3')]
  assert sum(telling) > sum(payoff(f'{first}33', **STAGES['both'])[0] for first in '13')


def test_the_arms_differ_in_the_rewards_of_the_critics_stages_alone():
  config, (control,) = critique_rl.get_config(), critique_rl.claim().controls
  assert (config.judge.task.direct, config.judge.task.indirect) == (1.0, 0.0)
  assert config.task.direct > 0 and config.task.indirect == 1.0
  assert set(control.overrides) == {'judge.task.direct', 'judge.task.indirect', 'task.direct'}


def test_the_expert_is_as_skilled_and_as_docile_as_is_said():
  task = critique(**HOW, **STAGES['both'])
  keys = jax.random.split(jax.random.key(0), 4000)
  states = [{'answer': 3, 'phase': phase, 'first': first, 'word': word} for phase, first, word in
            ((0, 0, 0), (2, 1, 4), (2, 1, 5))]
  says = jax.jit(jax.vmap(lambda state, key: task.expert(state, key)[0][0] - task.encode('0')[0], (None, 0)))
  first, told, kept = (np.asarray(says(jax.tree.map(jnp.int32, state), keys)) for state in states)
  assert abs((first == 3).mean() - 0.5) < 0.03 and abs((told == 4).mean() - 0.8) < 0.03 and (kept == 1).all()
  others = [(first == digit).mean() for digit in (0, 1, 2, 4)]
  assert all(abs(a - b) < 0.05 for a, b in itertools.pairwise(others))


def test_the_experts_critiques_are_right_as_often_as_is_said():
  task = critique(**HOW, **STAGES['both'])
  keys = jax.random.split(jax.random.key(0), 4000)
  says = jax.jit(jax.vmap(lambda state, key: task.expert(state, key)[0][0] - task.encode('0')[0], (None, 0)))
  critiques = lambda first: np.asarray(says(
      jax.tree.map(jnp.int32, {'answer': 3, 'phase': 1, 'first': first, 'word': 0}), keys
  ))
  shares = lambda said: [(said == word).mean() for word in range(6)]
  anything = 0.6 * np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.5])
  np.testing.assert_allclose(shares(critiques(3)), anything + [0, 0, 0, 0, 0, 0.4], atol=0.03)
  np.testing.assert_allclose(shares(critiques(1)), anything + [0, 0, 0, 0.4, 0, 0], atol=0.03)


def test_the_world_keeps_the_contract():
  check_seat_task(critique(**HOW, **STAGES['both']), num=64, max_turns=6)
