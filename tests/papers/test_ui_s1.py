"""UI-S1: stored episodes are walked along with one's own history, and wrong actions are patched.

https://arxiv.org/abs/2509.11543
"""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.gigpo import step_advantages
from rlx.envs.turns import SUCCESS
from rlx.envs.worlds.desk import desk
from rlx.envs.worlds.logged import semi_online, step_by_step
from rlx.experiments.configs.agents import desk_ui_s1
from rlx.run import train


def small():
  return desk(pages=2, values=2, goals=2, calls=0, cost=0.0, held_out_share=0.3)


def walked(wrong, *, patches):
  """Replies along the episode of `A=x B=y`, in which the steps `wrong` are answered by `r` too soon."""
  world, inner = semi_online(task=small, most_turns=5, patches=patches), small()
  target = {'target': jnp.array([0, 1]), 'has_call': jnp.zeros(2, bool)}
  state, replies, act = jax.jit(world.start)(target), [], jax.jit(world.act)
  for step, right in enumerate(['tx', 'cB', 'ty', 'r']):
    word = 'r' if step in wrong else right
    action = jnp.asarray(inner.encode(word.ljust(2, 'r')))
    replies.append(act(state, action, jnp.int32(len(word)), jax.random.key(0)))
    state = replies[-1].state
    if bool(replies[-1].ended):
      break
  return replies


def test_a_wrong_action_is_patched_and_the_log_goes_on():
  replies = walked([1], patches=1)
  assert [float(x.reward) for x in replies] == [0.25, 0, 0.25, 0.25]
  seen = [small().decode(np.asarray(x.observation)) for x in replies[:3]]
  assert seen == [':Ax', ':B.', ':By']  # as if the page had been opened
  assert float(replies[-1].info[SUCCESS]) == 0 and float(replies[-1].info['patched']) == 1


def test_an_episode_ends_where_there_are_no_more_patches():
  assert len(walked([1], patches=0)) == 2 and len(walked([0, 2], patches=1)) == 3
  whole = walked([], patches=0)
  assert len(whole) == 4 and float(whole[-1].info[SUCCESS]) == 1


def test_a_step_is_compared_with_the_same_step_of_other_episodes_and_what_follows_it():
  world = semi_online(task=small, most_turns=5, patches=1)
  assert [int(world.state_id(x.state)) for x in walked([1], patches=1)] == [1, 2, 3, 4]
  rewards, turns = jnp.array([[1.0, 1, 0], [1, 0, 1]]), jnp.arange(3)[None].repeat(2, axis=0)
  compared = jax.jit(functools.partial(step_advantages, discount=0.5, scaled=False))
  advantages = compared(rewards, turns, turns, jnp.zeros(2, jnp.int32), jnp.ones((2, 3), bool))
  # Returns [1.5, 1, 0] and [1.25, 0.5, 1]: the first step was as right, and better followed.
  np.testing.assert_allclose(advantages[0], [0.125, 0.25, -0.5], atol=1e-6)


def test_a_single_step_stands_behind_what_the_expert_did():
  world, fine = step_by_step(task=small, most_turns=5, turn_tokens=3), small().encode(':')[0]
  problems = jax.device_get(jax.jit(world.sample, static_argnums=(1, 2))(jax.random.key(0), 32, False))
  act = jax.jit(world.act)
  for i in range(32):
    length, step = int(problems['prompt_lengths'][i]), int(problems['step'][i])
    assert np.sum(problems['prompts'][i][:length] == fine) == step  # each was understood
    shown = {name: x[i] for name, x in problems.items()}
    action, number = world.expert(world.start(shown))
    assert float(act(world.start(shown), action, number, jax.random.key(0)).reward) == 1
    assert float(act(world.start(shown), action[::-1], number, jax.random.key(0)).reward) == 0


@pytest.mark.slow
def test_progress_along_logs_follows_online_success_better_than_the_accuracy_of_steps(tmp_path):
  """Correlations over 14 checkpoints of two policies of one seed: 0.82 and 0.59 in a population's first."""
  points = []
  for logs in ('whole', 'steps'):
    workdir = tmp_path / logs
    train.train(desk_ui_s1.get_config(f'logs={logs}'), workdir, quiet=True, command='')
    rows = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
    names = ('held_out/accuracy', 'semi/reward', 'stepwise/accuracy')
    points += [[row[f'eval/{x}'] for x in names] for row in rows if 'eval/held_out/accuracy' in row]
  _, along, stepwise = np.corrcoef(np.array(points).T)[0]
  assert along > stepwise + 0.05
