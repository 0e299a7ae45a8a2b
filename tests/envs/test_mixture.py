"""Two tasks as one: the shares of a batch, and that each judges its own rows in its own letters."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.arithmetic import arithmetic
from rlx.envs.conformance import check_task
from rlx.envs.countdown import countdown
from rlx.envs.fork import fork
from rlx.envs.mixture import mixture, together

SUMS = functools.partial(arithmetic, min_operand=0, max_operand=9, operators='+', held_out_share=0.2)
FORK = functools.partial(fork, choices=3, length=2, before=1, after=1, letters=4, held_out_share=0.3)
BOTH = mixture(first=SUMS, second=FORK, shares=(1.0, 1.0))


def draw(task, num, seed=0):
  return jax.tree.map(np.asarray, task.sample(jax.random.key(seed), num, False))


@pytest.mark.slow
def test_it_keeps_the_contract_of_a_task():
  check_task(BOTH)


@pytest.mark.slow
def test_a_batch_holds_as_much_of_each():
  for seed in range(5):
    assert np.bincount(draw(BOTH, 32, seed)['tasks']).tolist() == [16, 16]


def test_shares_hold_to_within_one_and_on_average():
  task = together([SUMS(), FORK(), SUMS()], shares=(5.0, 1.0, 2.0))
  tasks = jax.jit(jax.vmap(lambda key: task.sample(key, 10, False)['tasks']))(
      jax.random.split(jax.random.key(0), 200)
  )
  counts = np.stack([np.bincount(row, minlength=3) for row in np.asarray(tasks)])
  expected = np.array([6.25, 1.25, 2.5])
  assert np.abs(counts - expected).max() < 1
  np.testing.assert_allclose(counts.mean(axis=0), expected, atol=0.15)


@pytest.mark.slow
def test_problems_are_those_of_their_tasks_in_the_common_letters():
  tasks, problems = (SUMS(), FORK()), draw(BOTH, 64)
  assert BOTH.alphabet == '0123456789+-=abcd'
  for row in range(64):
    number = int(problems['tasks'][row])
    prompt, answer = (BOTH.decode(problems[name][row]) for name in ('prompts', 'solutions'))
    assert answer == tasks[number].decode(problems[f'task{number}_solutions'][row])
    if number == 0:
      assert str(eval(prompt.rstrip('='))) == answer
    else:
      assert answer[1] == prompt[0] and len(prompt) == 3


@pytest.mark.slow
def test_each_row_is_judged_by_its_own_task():
  """The solution of the other task is wrong, and so is a letter that the row's task does not have."""
  problems = draw(BOTH, 64)
  own = BOTH.verify(problems, problems['solutions'])
  np.testing.assert_array_equal(own, 1)
  others = {**problems, 'tasks': 1 - problems['tasks']}
  assert np.asarray(BOTH.verify(others, problems['solutions'])).mean() < 0.1
  sums = problems['tasks'] == 0
  spoilt = problems['solutions'].copy()
  spoilt[:, 0] = BOTH.encode('a')[0]
  assert not np.asarray(BOTH.verify(problems, spoilt))[sums].any()


@pytest.mark.slow
def test_tasks_keep_columns_of_their_own():
  task = together(
      [countdown(num_numbers=2, max_number=5, held_out_share=0.2), FORK()], shares=(1.0, 1.0)
  )
  problems = draw(task, 32)
  assert jnp.all(task.verify(problems, problems['solutions']) == 1)


@pytest.mark.parametrize('shares', [(1.0,), (1.0, 0.0), (1.0, 1.0, 1.0)])
def test_one_share_a_task(shares):
  with pytest.raises(ValueError, match='pass a number above 0 for each'):
    mixture(first=SUMS, second=FORK, shares=shares)
