"""Running sums against plain Python, and the contract of a task."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs import chain as chains
from rlx.envs.chain import chain
from rlx.envs.conformance import check_task
from rlx.envs.text import EOS_ID
from rlx.rewards import toys

GOOD = dict(modulus=5, min_steps=2, max_steps=3, checks=1, held_out_share=0.25)
TASK = chain(**GOOD)
BINARY = chain(modulus=2, min_steps=4, max_steps=4, checks=2, held_out_share=0.25)


def tokens(*completions, width=None):
  """Rows of text, in which `$` ends and `_` pads."""
  ids = {'$': EOS_ID, '_': 0}
  rows = [[ids[c] if c in ids else int(TASK.encode(c)[0]) for c in row] for row in completions]
  width = width or max(map(len, rows))
  return np.array([row + [0] * (width - len(row)) for row in rows], np.int32)


@pytest.mark.parametrize('task', [TASK, BINARY], ids=['modulo 5', 'binary'])
@pytest.mark.slow
def test_the_task_keeps_the_contract(task):
  check_task(task, num=500)


@pytest.mark.slow
def test_problems_and_solutions_are_as_described():
  problems = jax.tree.map(np.asarray, TASK.sample(jax.random.key(0), 300, False))
  lengths, spoken = set(), set()
  for prompt, solution, operands, answer in zip(
      *(problems[k] for k in ('prompts', 'solutions', 'operands', 'answers')), strict=True
  ):
    prompt, solution = TASK.decode(prompt), TASK.decode(solution)
    assert re.fullmatch('[0-4]{2,3}=', prompt)
    numbers = [int(c) for c in prompt[:-1]]
    assert operands.tolist() == numbers + [-1] * (3 - len(numbers))
    sums = [str(sum(numbers[: i + 1]) % 5) for i in range(len(numbers))]
    again = (len(solution) - 2) // 2 - len(numbers)
    assert solution == ''.join(f'{x};' for x in sums + sums[-1:] * again) + f'#{sums[-1]}'
    assert TASK.decode(answer) == sums[-1]
    lengths.add(len(numbers))
    spoken.add(again)
  assert lengths == {2, 3} and spoken == {0, 1}


@pytest.mark.parametrize('completion, right', [
    ('1;3;2;#2$', True), ('#2$', True), ('4;#2$', True), ('1;3;2;2;2;2;#2$', True), ('1;3;2;#2$;=_1', True),
    ('1;3;2;#3$', False), ('1;3;2;#2', False), ('1;32;#2$', False), ('1;3;2#2$', False), ('1;3;2$', False),
    (';#2$', False), ('1;3;=;#2$', False), ('1;3;2;##$', False), ('2$', False), ('$', False), ('#$2', False),
    ('1;#2;#2$', False),
])
@pytest.mark.slow
def test_verify(completion, right):
  problems = {'answers': tokens('2')}
  for width in (len(completion), 20):
    assert TASK.verify(problems, tokens(completion, width=width)).tolist() == [float(right)]


@pytest.mark.parametrize('completion, wrong', [
    ('1;3;2;#2$', '.........'), ('1;4;3;#3$', '..xx.....'), ('1;3;2;2;#2$', '...........'),
    ('1;3;2;3;#3$', '......xx...'), ('1;3;2;#4$', '.......x.'), ('2;4;3;#1$', 'xx.....x.'), ('#2$', '...'),
    ('#0$', '.x.'), ('1;#2$', '.....'), ('1;#1$', '...x.'), ('1;3#2$', '...x..'), ('1;3;2;#2', '........'),
    ('11', '.x'), ('1;3;#22$', '......x.'), ('1;3$', '...x'), ('$', 'x'), ('1;#$2', '...x.'),
])
def test_wrong_steps(completion, wrong):
  """Of 1 + 2 + 4; `x` is flagged."""
  operands = np.array([[1, 2, 4]])
  found = chains.wrong_steps(operands, tokens(completion, width=14), modulus=5)
  assert ''.join('.x'[int(x)] for x in found[0]) == wrong + '.' * (14 - len(wrong))


@pytest.mark.parametrize('completion, flagged', [
    ('1;3;2;#2$__', '...........'), ('1;3;#2$____', '....xxx....'), ('#2$', 'xxx'),
    ('1;3;2;2;#2$', '...........'), ('1;3;2', '.....'), ('1;#2#3', '..xxxx'), ('1;3;2;#2$;#', '...........'),
])
def test_an_answer_without_its_steps_is_a_leap(completion, flagged):
  """Of 1 + 2 + 4, and of 1 + 2, which has a step less."""
  find = lambda operands: chains.leaps(np.array([operands]), tokens(completion), modulus=5)[0]
  assert ''.join('x' if x else '.' for x in find([1, 2, 4])) == flagged
  if completion.startswith('1;3;'):
    assert not find([1, 2, -1]).any()


@pytest.mark.slow
def test_critics_are_mistaken_as_often_as_they_say():
  decoding = Decoding(
      max_tokens=TASK.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=TASK.eos_ids, pad_id=0,
  )
  policy = Speaker(model=None, decoding=decoding, scoring=None)
  batch, _ = TASK.demonstrate({}, jax.random.key(1), 200)
  problems = TASK.sample(jax.random.key(1), 200, False)
  batch = {**batch, **{k: problems[k] for k in ('operands', 'answers')}}
  column = batch['prompt_lengths'][:, None] + 2 == jnp.arange(batch['tokens'].shape[1])[None]
  first = len(chains._MARKS) + 2
  batch['tokens'] = jnp.where(column, (batch['tokens'] - first + 1) % 5 + first, batch['tokens'])
  judge = lambda **kwargs: jax.jit(toys.criticised(TASK, policy, modulus=5, **kwargs))(
      {}, batch, jax.random.key(2)
  )
  exact = judge(votes=1, error_rate=0.0)['critiques'][:, 0]
  assert exact.shape == batch['tokens'].shape and not (exact & ~batch['action_mask']).any()
  assert exact[column].all() and not exact[:, :2].any()
  found = judge(votes=3, error_rate=0.2)['critiques']
  errs = (found != exact[:, None]) & batch['action_mask'][:, None]
  share = errs.sum() / (3 * batch['action_mask'].sum())
  assert 0.17 < float(share) < 0.23
  assert (errs[:, 0] != errs[:, 1]).any()


@pytest.mark.parametrize('change, message', [
    ({'modulus': 11}, 'modulus=11'), ({'min_steps': 0}, 'min_steps=0'), ({'max_steps': 1}, 'max_steps=1'),
    ({'checks': -1}, 'checks=-1'),
])
def test_bad_arguments_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    chain(**{**GOOD, **change})
