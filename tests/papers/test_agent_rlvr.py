"""Agent-RLVR: what was said with guidance is learnt from under the prompt without it.

https://arxiv.org/abs/2506.11425
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.advantages import groups as group_advantages
from rlx.envs.worlds.playbook import playbook
from rlx.rollout import guided, inject
from tests.once import once

WORLD = playbook(
    situations=3, replies=3, turns=2, one_rule=True, told=0.0, each=0.0, held_out_share=0.2
)
GROUP = 4
PROBLEMS = once(lambda: WORLD.sample(jax.random.key(0), 2, False))


def rows_of(problems, rewards):
  """Rows of two actions behind the prompts, all alike but for what they are paid."""
  prompts = jnp.repeat(problems['prompts'], GROUP, axis=0)
  said = jnp.broadcast_to(jnp.asarray(WORLD.encode('uav')), (prompts.shape[0], 3))
  tokens = jnp.concatenate([prompts, said], axis=1)
  mask = jnp.broadcast_to(jnp.arange(tokens.shape[1]) >= prompts.shape[1], tokens.shape)
  return {
      'tokens': tokens, 'action_mask': mask, 'prompt_lengths': jnp.full(prompts.shape[0], prompts.shape[1]),
      'rewards': jnp.asarray(rewards, jnp.float32), 'groups': jnp.repeat(jnp.arange(2), GROUP),
  }


def test_guidance_is_in_the_prompt_and_not_in_what_is_learnt_from():
  told = guided.all_told(WORLD, PROBLEMS())
  rule = np.asarray(PROBLEMS()['rule'][0])
  book = ''.join(f'{key}{"uvw"[reply]}' for key, reply in zip('abc', rule, strict=True))
  assert WORLD.decode(told['prompts'][0]).startswith(f'{book}>')
  rows = rows_of(told, np.zeros(2 * GROUP))
  learnt = guided.without_guidance(rows, PROBLEMS(), group_size=GROUP)
  np.testing.assert_array_equal(learnt['tokens'], rows_of(PROBLEMS(), np.zeros(2 * GROUP))['tokens'])
  assert WORLD.decode(learnt['tokens'][-1]).endswith('uav'), 'what was said stays'
  assert not np.array_equal(learnt['tokens'], rows['tokens'])


def test_a_group_that_failed_learns_from_its_guided_attempts_and_one_that_did_not_stays():
  first = rows_of(PROBLEMS(), [0, 0, 0, 0, 0, 1, 0, 0])  # the first group failed
  np.testing.assert_array_equal(group_advantages.centred(first['rewards'], first['groups'])[:GROUP], 0)

  def again(numbers):
    some = jax.tree.map(lambda x: x[numbers], PROBLEMS())
    rows = rows_of(guided.all_told(WORLD, some), np.ones(2 * GROUP))
    return guided.without_guidance(rows, some, group_size=GROUP)

  batch, new = inject.retry(first, again, group_size=GROUP, num_retried=2, kept_rows=2)
  np.testing.assert_array_equal(new, [False, False, True, True, False, False, False, False])
  np.testing.assert_array_equal(batch['tokens'], first['tokens'])
  advantages = group_advantages.centred(batch['rewards'], batch['groups'])
  np.testing.assert_allclose(advantages[:GROUP], [-0.5, -0.5, 0.5, 0.5])
  np.testing.assert_allclose(advantages[GROUP:], [-0.25, 0.75, -0.25, -0.25])


def test_nothing_is_paid_before_all_is_right():
  rule = np.asarray(PROBLEMS()['rule'][0])
  state, paid = WORLD.start(jax.tree.map(lambda x: x[0], PROBLEMS())), []
  for situation in np.asarray(PROBLEMS()['met'][0]):
    action = jnp.asarray(WORLD.encode('uvw'[rule[situation]]))
    reply = WORLD.act(state, action, jnp.int32(1), jax.random.key(0))
    state, paid = reply.state, [*paid, float(reply.reward)]
  assert paid == [0.0, 1.0]
