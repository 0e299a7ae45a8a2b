"""The pool: what misbehaves is counted, costs its own rows and a bounded time, and leaves nothing behind."""

from concurrent.futures import CancelledError, Future
import contextlib
import os
import pathlib
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from rlx.rewards import workers
from rlx.rewards.pool import RewardFunction, RewardPool, Share
from rlx.rewards.workers import Reply
from tests.cases import cases
from tests.rewards import hostile_rewards, plain_rewards
from tests.rewards.hostile_rewards import FAULTS

TIMEOUT = 1.0
SLACK = 1.0  # seconds behind the time limit in which a call is to be resolved
REPOSITORY = pathlib.Path(__file__).parents[2]


def term(function, *, weight=1.0, name=None, **arguments):
  name = name or getattr(function, '__name__', 'reward')
  return RewardFunction(name=name, function=function, weight=weight, arguments=arguments)


def make_pool(*terms, timeout_seconds=60.0, workers=1, rows_per_call=1):
  return RewardPool(terms, timeout_seconds=timeout_seconds, workers=workers, rows_per_call=rows_per_call)


def score(pool, completions, **columns):
  ids = [list(range(i)) for i, _ in enumerate(completions)]
  return pool.score([f'prompt {i}' for i, _ in enumerate(completions)], completions, ids, columns)


def score_once(*terms, completions, columns=None, **settings):
  with make_pool(*terms, **settings) as pool:
    return score(pool, completions, **columns or {})


@pytest.mark.parametrize('rows_per_call', [1, 2])
def test_processes_share_the_calls_and_have_all_answers(rows_per_call):
  terms = [term(plain_rewards.length), term(plain_rewards.length, name='again', weight=0.5)]
  completions, answers = ['a', 'bb', '', 'dddd', 'eeeee'], []

  def process(index, gather):
    share = Share(index=index, count=2, gather=gather)
    with RewardPool(terms, timeout_seconds=60, workers=1, rows_per_call=rows_per_call, share=share) as pool:
      return score(pool, completions)

  for index in range(2):
    process(index, lambda own: answers.append(own) or [own])
  starts = sorted(rows.start for own in answers for _, rows, _ in own)
  assert all(answers) and starts == sorted(2 * [*range(0, 5, rows_per_call)])
  alone = score_once(*terms, completions=completions, rows_per_call=rows_per_call)
  for index in range(2):
    together = process(index, lambda own: answers)
    np.testing.assert_equal(together._asdict(), alone._asdict())


def has_ended(pid, *, seconds=3.0):
  """Whether a process ends soon; a zombie has ended."""
  deadline = time.monotonic() + seconds
  while time.monotonic() < deadline:
    try:
      state = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(') ')[2][0]
    except FileNotFoundError:
      return True
    if state == 'Z':
      return True
    time.sleep(0.02)
  return False


# --- what people write --------------------------------------------------------------------------------------


def test_values_weights_and_rows_to_which_nothing_applies():
  scores = score_once(
      term(plain_rewards.length, weight=0.5),
      term(plain_rewards.only_digits, weight=-2.0, name='digits'),
      completions=['7', 'abcd', ''],
  )
  np.testing.assert_array_equal(scores.values['length'], [1, 4, 0])
  np.testing.assert_array_equal(scores.values['digits'], [7, np.nan, np.nan])
  np.testing.assert_array_equal(scores.totals, [0.5 * 1 - 2 * 7, 0.5 * 4, 0])
  assert scores.scored.tolist() == [True, True, True]
  assert scores.totals.dtype == scores.values['length'].dtype == np.float32
  assert (scores.faults, scores.messages, scores.extra, scores.metrics) == ({}, [], {}, {})
  assert not any(failed.any() for failed in scores.failed.values())


def test_a_row_to_which_no_function_applies_is_not_scored_and_has_not_failed():
  scores = score_once(term(plain_rewards.only_digits), completions=['12', 'x'])
  assert scores.scored.tolist() == [True, False] and str(scores.totals.tolist()) == '[12.0, nan]'
  assert scores.failed['only_digits'].tolist() == [False, False] and scores.faults == {}


@pytest.mark.parametrize('rows_per_call', [1, 2, 5])
def test_calls_get_consecutive_rows_with_their_columns(rows_per_call):
  scores = score_once(
      term(plain_rewards.equals), term(plain_rewards.slow_length), term(plain_rewards.num_distinct),
      completions=['a', 'b', 'b', 'c', 'c'],
      columns={'answer': ['a', 'x', 'b', 'x', 'c'], 'unused': [None] * 5},
      workers=2,
      rows_per_call=rows_per_call,
  )  # fmt: skip
  assert scores.values['equals'].tolist() == [1, 0, 1, 0, 1]
  assert scores.values['slow_length'].tolist() == [0, 1, 2, 3, 4]  # `async`, and the rows' own ids
  distinct = {1: [1, 1, 1, 1, 1], 2: [2, 2, 2, 2, 1], 5: [3, 3, 3, 3, 3]}
  assert scores.values['num_distinct'].tolist() == distinct[rows_per_call]


def test_arguments_partials_callables_arrays_and_conversations():
  terms = [
      term(plain_rewards.scaled, factor=3.0, offset=1.0),
      term(plain_rewards.doubled, name='doubled'),
      term(plain_rewards.Power(3), name='power'),
      term(plain_rewards.as_array),
      term(plain_rewards.as_scalars),
  ]
  scores = score_once(*terms, completions=['2', '0.1'], rows_per_call=2)
  rounded = {name: np.float32(values) for name, values in scores.values.items()}
  np.testing.assert_array_equal(rounded['scaled'], np.float32([7, 3 * 0.1 + 1]))
  np.testing.assert_array_equal(rounded['doubled'], np.float32([4, 2 * 0.1]))
  np.testing.assert_array_equal(rounded['power'], np.float32([8, 0.1**3]))
  np.testing.assert_array_equal(rounded['as_array'], np.float32([2, 0.1]))
  np.testing.assert_array_equal(rounded['as_scalars'], np.float32([2, 0.1]))
  messages = [[{'role': 'assistant', 'content': text}] for text in ('5', '6')]
  assert score_once(term(plain_rewards.content), completions=messages).totals.tolist() == [5, 6]


def test_what_functions_log():
  scores = score_once(term(plain_rewards.logs), completions=['a', 'bb', 'ccc'], workers=2)
  assert scores.extra['upper'] == ['A', 'BB', 'CCC']
  assert scores.extra['odd'][1] == {'n': 2, 'of': '{1}'}  # what JSON does not know becomes text
  assert scores.extra['only_b'] == [None, 1, None]
  assert scores.metrics == {'length': (1 + 0 + 2 + 0 + 3 + 0) / 6}


def test_what_cannot_be_logged_is_a_fault():
  scores = score_once(term(plain_rewards.logs_badly), completions=['short', 'text'])
  assert scores.faults == {'raised': 2} and scores.extra == {} and scores.metrics == {}
  assert "ValueError: log_extra('upper') got 0 values for 1 rows" in scores.messages[0]
  assert 'ValueError: could not convert string to float' in scores.messages[1]


def test_what_is_logged_leaves_the_columns_of_samples():
  scores = score_once(term(plain_rewards.logs_over_the_prompt), completions=['a'])
  assert scores.faults == {'raised': 1} and scores.extra == {}
  assert "log_extra('prompt'): samples have a column of this name" in scores.messages[0]


def test_no_rows():
  scores = score_once(term(plain_rewards.length), completions=[])
  assert scores.totals.shape == scores.scored.shape == scores.values['length'].shape == (0,)


def test_results_do_not_depend_on_scheduling():
  completions = [str(i / 7) for i in range(40)]
  terms = [term(plain_rewards.dawdles, weight=0.1), term(plain_rewards.logs), term(hostile_rewards.act)]
  completions[11] = completions[23] = 'raises'
  runs = []
  for num_workers in (1, 3, 3):
    with make_pool(*terms, workers=num_workers) as pool:
      runs += [score(pool, completions), score(pool, completions)]
  assert len({pickle.dumps(tuple(scores)) for scores in runs}) == 1
  assert runs[0].faults == {'raised': 4}


def test_submitted_work_is_done_meanwhile_and_in_any_order():
  with make_pool(term(plain_rewards.dawdles), workers=2) as pool:
    start = time.monotonic()
    pending = [pool.submit(['p'] * 20, [str(i)] * 20, [[]] * 20, {}) for i in range(4)]
    assert time.monotonic() - start < 0.3
    totals = [pending[i].result().totals.tolist() for i in (2, 0, 3, 1, 2)]
  assert totals == [[i] * 20 for i in (2, 0, 3, 1, 2)]


def test_a_worker_knows_nothing_of_the_run():
  scores = [score_once(term(plain_rewards.about_the_process), completions=['']) for _ in range(2)]
  modules = scores[0].extra['modules'][0]
  assert 'rlx.rewards.pool' in modules and 'jax' in sys.modules
  assert not {'jax', 'pytest', 'math_verify', '__mp_main__'} & set(modules)
  assert scores[0].extra['set'] == scores[1].extra['set']  # the order of a set is that of every run
  pid, group, session = scores[0].extra['group'][0]
  assert pid == group and session != os.getsid(0)  # Ctrl-C in the terminal reaches the run alone


# --- what misbehaves ----------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def mix():
  """Every fault between two good rows, two workers, and how long it took."""
  completions = []
  for i, name in enumerate(FAULTS):
    completions += [str(i / 3), name]
  with make_pool(term(hostile_rewards.act), timeout_seconds=TIMEOUT, workers=2) as pool:
    start = time.monotonic()
    scores = score(pool, completions)
    seconds = time.monotonic() - start
    again = score(pool, ['1', '2'])
  assert len(completions) > 40 and again.totals.tolist() == [1, 2]
  return scores, seconds


def test_good_rows_among_hostile_ones_keep_their_values_and_order(mix):
  scores, _ = mix
  good, bad = slice(0, None, 2), slice(1, None, 2)
  expected = np.float32([i / 3 for i in range(len(FAULTS))])
  np.testing.assert_array_equal(scores.values['act'][good], expected)
  np.testing.assert_array_equal(scores.totals[good], expected)
  assert scores.scored[good].all() and not scores.scored[bad].any()
  assert scores.failed['act'][bad].all() and not scores.failed['act'][good].any()
  assert np.isnan(scores.values['act'][bad]).all() and np.isnan(scores.totals[bad]).all()


def test_every_fault_is_counted_and_a_few_are_said(mix):
  scores, _ = mix
  kinds = [kind for _, kind, _ in FAULTS.values()]
  assert scores.faults == {kind: kinds.count(kind) for kind in kinds}
  assert len(scores.messages) == 5
  assert scores.messages[0] == 'act, row 1: raised (IndexError: list index out of range)'


def test_hostile_rows_take_a_bounded_time(mix):
  _, seconds = mix
  num_hanging = sum(kind == 'timeout' for _, kind, _ in FAULTS.values())
  assert seconds < (num_hanging + 1) // 2 * (TIMEOUT + SLACK) + SLACK


@pytest.fixture(scope='module')
def pool():
  with make_pool(term(hostile_rewards.act), timeout_seconds=TIMEOUT) as pool:
    yield pool


@pytest.mark.parametrize('name', FAULTS)
def test_a_fault_has_its_kind_and_is_resolved_in_time(pool, name):
  _, kind, text = FAULTS[name]
  start = time.monotonic()
  scores = score(pool, ['1.5', name, '2.5'])
  seconds = time.monotonic() - start
  assert scores.faults == {kind: 1}
  assert scores.messages[0].startswith(f'act, row 1: {kind} (') and text in scores.messages[0]
  assert scores.values['act'].tolist()[::2] == [1.5, 2.5] and np.isnan(scores.values['act'][1])
  assert seconds < (TIMEOUT if kind == 'timeout' else 0) + SLACK


@pytest.mark.parametrize(
    ('function', 'kind', 'text'),
    [
        (hostile_rewards.returns_nothing, 'malformed', 'NoneType instead of a list'),
        (hostile_rewards.returns_a_string, 'malformed', 'str instead of a list'),
        (hostile_rewards.returns_a_number, 'malformed', 'float instead of a list'),
        (hostile_rewards.returns_too_few, 'malformed', '1 values for 2 rows'),
        (hostile_rewards.never_finishes, 'timeout', 'no result after 0.5 s'),
    ],
)
def test_a_fault_of_a_call_costs_all_its_rows(function, kind, text):
  name = function.__name__
  scores = score_once(term(function), completions=['', '', ''], timeout_seconds=0.5, rows_per_call=2)
  first = f'{name}, row 0: {kind} ({text})'
  assert scores.messages[0] == first and scores.failed[name].all() and not scores.scored.any()
  assert scores.faults == {kind: 3}


@pytest.mark.parametrize('rows_per_call', cases([1, 2, 4], at_once=[2]))
def test_to_hang_or_crash_pays_no_better_than_to_be_wrong(rows_per_call):
  """Whatever else is in its call; what the function itself says of a row stays as it is."""
  completions = ['1', 'hangs', '0', 'crashes', '3', 'returns nan', '2']
  with make_pool(
      term(hostile_rewards.computes), timeout_seconds=TIMEOUT, workers=2, rows_per_call=rows_per_call
  ) as pool:
    scores = pool.score(completions, completions, [[]] * 7, {})
  assert scores.faults == {'stopped': 2, 'not_finite': 1}
  assert scores.scored.tolist() == [True] * 5 + [False, True]
  assert str(scores.totals.tolist()) == '[1.0, 0.0, 0.0, 0.0, 3.0, nan, 2.0]'
  assert any('row 1: stopped (no result after 1 s: worth 0)' in message for message in scores.messages)


def test_what_the_machine_does_once_costs_nobody(tmp_path):
  marks = [str(tmp_path / '0'), str(tmp_path / '1')]
  with make_pool(term(hostile_rewards.dies_once), rows_per_call=2) as pool:
    scores = pool.score(['', ''], ['4', '5'], [[], []], {'marks': marks})
  assert scores.totals.tolist() == [4, 0] and scores.faults == {'stopped': 1}  # the second died twice


def test_a_fault_of_a_row_or_of_another_call_costs_no_other_row():
  completions = ['1', 'returns nan', '3', '4', 'raises', '6']
  scores = score_once(term(hostile_rewards.act), completions=completions, rows_per_call=3)
  assert scores.scored.tolist() == [True, False, True, False, False, False]
  assert scores.faults == {'not_finite': 1, 'raised': 3}


def test_a_row_on_which_one_function_failed_is_not_scored_by_the_others():
  terms = [term(hostile_rewards.act), term(plain_rewards.length)]
  scores = score_once(*terms, completions=['1', 'returns inf'])
  assert scores.scored.tolist() == [True, False] and str(scores.totals.tolist()) == '[2.0, nan]'
  assert scores.values['length'].tolist() == [1, 11] and scores.failed['length'].tolist() == [False, False]


def test_an_answer_that_cannot_be_read_is_a_fault(monkeypatch):
  garbage = Future()
  garbage.set_result(Reply(b'[[1.0], [nu'))
  with make_pool(term(plain_rewards.length)) as pool:
    monkeypatch.setattr(pool._workers, 'submit', lambda call: garbage)
    assert score(pool, ['x']).messages == ['length, row 0: died (its answer cannot be read)']


def test_printing_neither_blocks_nor_floods(capfd):
  start = time.monotonic()
  scores = score_once(term(hostile_rewards.prints), completions=['', ''], timeout_seconds=30.0)
  assert scores.totals.tolist() == [20, 20] and time.monotonic() - start < 10
  assert capfd.readouterr() == ('', '')


def test_a_worker_that_dies_between_calls_is_replaced():
  with make_pool(term(hostile_rewards.leaves_a_bomb)) as pool:
    for _ in range(3):
      assert score(pool, ['']).totals.tolist() == [1]
      time.sleep(0.2)


def test_a_pool_survives_its_keeper():
  with make_pool(term(hostile_rewards.kills_the_keeper), workers=2) as pool:
    scores = score(pool, ['kill'])  # alone: what else is under way dies with the keeper, or is done before
    assert scores.faults == {'died': 1}
    assert score(pool, ['', '', '']).totals.tolist() == [1, 1, 1]


def test_a_keeper_that_is_stuck_is_replaced(monkeypatch):
  monkeypatch.setattr(workers, '_ASK_SECONDS', 0.3)
  with make_pool(term(plain_rewards.length)) as pool:
    os.kill(pool._workers._keeper._process.pid, signal.SIGSTOP)
    assert score(pool, ['a', 'bc']).totals.tolist() == [1, 2]


def test_a_machine_that_starts_no_process_is_an_error(monkeypatch):
  def refuse():
    raise BlockingIOError

  here, there = socket.socketpair()
  with here, monkeypatch.context() as patch:
    patch.setattr(os, 'fork', refuse)
    assert workers._start(None, here, there.detach()) == 0  # in the keeper
  monkeypatch.setattr(workers, '_PAUSE_SECONDS', 0.0)
  with make_pool(term(plain_rewards.length)) as pool:
    monkeypatch.setattr(workers._Keeper, '_ask', lambda *_: 0)  # in the run
    with pytest.raises(RuntimeError, match='cannot be started.*refuses another process'):
      score(pool, ['a'])


# --- what is left behind ------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['hangs', 'hangs in C', 'exits at once', 'kills itself'])
def test_programs_that_a_function_started_end_with_it(tmp_path, name):
  path = tmp_path / 'pids'
  terms = [term(hostile_rewards.starts_a_program)]
  with make_pool(*terms, timeout_seconds=0.5) as pool:
    scores = score(pool, [name], path=[str(path)])
    assert sum(scores.faults.values()) == 1
    assert all(has_ended(int(pid)) for pid in path.read_text().split())


def test_closing_kills_what_runs(tmp_path):
  path = tmp_path / 'pids'
  pool = make_pool(term(hostile_rewards.starts_a_program), workers=2)
  pending = pool.submit(['', ''], ['hangs', 'hangs in C'], [[], []], {'path': [str(path)] * 2})
  queued = pool.submit([''], ['1'], [[]], {'path': [str(path)]})
  pids = wait_for_pids(path, 4)
  start = time.monotonic()
  pool.close()
  assert time.monotonic() - start < 2
  assert all(has_ended(pid) for pid in pids)
  for waiting in (pending, queued):
    with pytest.raises(CancelledError):
      waiting.result()
  pool.close()
  with pytest.raises(RuntimeError, match='closed'):
    score(pool, ['1'], path=[str(path)])


def test_killing_the_keeper_leaves_nothing(tmp_path):
  path = tmp_path / 'pids'
  with make_pool(term(hostile_rewards.starts_a_program)) as pool:
    pending = pool.submit([''], ['hangs in C'], [[]], {'path': [str(path)]})
    pids = wait_for_pids(path, 2)
    os.kill(pool._workers._keeper._process.pid, signal.SIGKILL)
    assert pending.result().faults == {'died': 1}
    assert all(has_ended(pid) for pid in pids)


def wait_for_pids(path, count):
  deadline = time.monotonic() + 20
  while time.monotonic() < deadline:
    if path.exists() and len(pids := path.read_text().split()) == count:
      return [int(pid) for pid in pids]
    time.sleep(0.02)
  raise AssertionError(f'{path} does not name {count} processes')


A_RUN = """
import os, signal, sys, time
from rlx.rewards.pool import RewardFunction, RewardPool
from tests.rewards import hostile_rewards

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
path, forks = sys.argv[1:]
function = RewardFunction(
    name='hostile', function=hostile_rewards.starts_a_program, weight=1.0, arguments={}
)
try:
  with RewardPool([function], timeout_seconds=60, workers=2, rows_per_call=1) as pool:
    pending = pool.submit([''] * 2, ['hangs', 'hangs in C'], [[], []], {'path': [path] * 2})
    if forks == 'forks' and os.fork() == 0:
      time.sleep(8)  # a child that has the run's files
      os._exit(0)
    pending.result()
except KeyboardInterrupt:
  print('interrupted')
"""


@contextlib.contextmanager
def a_run(tmp_path, *, forks='alone'):
  """A run whose functions hang, in a process group of its own; its process, and those of its workers."""
  path = tmp_path / 'pids'
  command = [sys.executable, '-c', A_RUN, path, forks]
  run = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, start_new_session=True)
  with run:
    pids = wait_for_pids(path, 4)
    keeper = pathlib.Path(f'/proc/{pids[0]}/stat').read_text().rpartition(') ')[2].split()[1]
    yield run, [*pids, int(keeper)]
    run.kill()


@pytest.mark.parametrize('forks', ['alone', 'forks'])
def test_no_process_outlives_a_run_that_is_killed(tmp_path, forks):
  with a_run(tmp_path, forks=forks) as (run, pids):
    run.kill()
    assert all(has_ended(pid) for pid in pids)


def test_ctrl_c_goes_to_the_run_alone_which_ends_its_workers(tmp_path):
  with a_run(tmp_path) as (run, pids):
    os.killpg(run.pid, signal.SIGINT)
    assert run.communicate(timeout=60)[0] == 'interrupted\n' and run.returncode == 0
    assert all(has_ended(pid) for pid in pids)


# --- a user's mistakes --------------------------------------------------------------------------------------


def not_importable():
  """A function of a module that only this process has."""
  module = types.ModuleType('made_up_rewards')
  exec('def reward(completions): return [1.0]', module.__dict__)
  module.reward.__module__ = module.__name__
  sys.modules[module.__name__] = module
  return module.reward


def test_a_function_that_workers_cannot_import_is_an_error_at_once():
  with pytest.raises(ValueError, match="'lambda' cannot be sent to a worker.*top level of a module"):
    make_pool(term(lambda completions: [1.0], name='lambda'))
  with pytest.raises(ValueError, match="'f' cannot be sent to a worker"):
    make_pool(term(plain_rewards.scaled, name='f', factor=lambda: 2.0))
  with pytest.raises(ValueError, match="'g' cannot be imported by a worker .ModuleNotFound.*made_up_rewards"):
    make_pool(term(not_importable(), name='g'))


def test_a_module_that_a_function_needs_is_an_error_at_once(monkeypatch):
  power = plain_rewards.Power(2)
  power.imports = ('json', 'no_such_module')
  with pytest.raises(ValueError, match="'p' cannot be imported by a worker .ModuleNotFound.*no_such_module"):
    make_pool(term(power, name='p'))


def test_a_module_that_starts_threads_is_an_error_at_once(tmp_path, monkeypatch):
  code = 'import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n'
  (tmp_path / 'threaded_rewards.py').write_text(code)
  monkeypatch.syspath_prepend(tmp_path)
  power = plain_rewards.Power(2)
  power.imports = ('threaded_rewards',)
  with pytest.raises(ValueError, match=r'started threads .*start them inside the functions'):
    make_pool(term(power, name='p'))


def test_columns_are_checked():
  with make_pool(term(plain_rewards.length), term(plain_rewards.needs_more, name='more')) as pool:
    message = "'more' needs ['trainer_state', 'solution'], but the data have the columns ['answer', 'solut']"
    with pytest.raises(ValueError, match=re.escape(message)):
      pool.check_columns(['solut', 'answer'])
    with pytest.raises(ValueError, match=re.escape(message)):
      score(pool, ['x'], solut=['1'], answer=['2'])
    pool.check_columns(['trainer_state', 'solution', 'answer', 'other'])
    with pytest.raises(ValueError, match=r"columns \['completions'\] .* rename"):
      pool.check_columns(['completions'])
  scaled = term(plain_rewards.scaled, factor=1.0)
  with pytest.raises(ValueError, match=r"columns \['factor'\] .* rename"):
    scaled.check_columns(['factor'])
  scaled.check_columns(['offset'])
  with pytest.raises(ValueError, match=r"needs \['factor'\]"):
    term(plain_rewards.scaled).check_columns([])


def test_arguments_of_a_function_are_checked():
  for bad in ({'fctor': 2.0}, {'completions': []}, {'log_extra': print}):
    with pytest.raises(ValueError, match=f"'scaled' gets arguments .'{next(iter(bad))}'.*'factor', 'offset'"):
      term(plain_rewards.scaled, **bad)
  with pytest.raises(ValueError, match='weight .* is nan'):
    term(plain_rewards.scaled, weight=float('nan'))
  with pytest.raises(ValueError, match='cannot be called'):
    term('rlx.rewards.math', name='text')


def test_numbers_and_names_of_a_pool_are_checked():
  one = term(plain_rewards.length)
  for bad in ({'timeout_seconds': 0}, {'workers': 0}, {'rows_per_call': 0}):
    with pytest.raises(ValueError, match=f'{next(iter(bad))}=0'):
      make_pool(one, **bad)
  for terms in ([], [one, one]):
    with pytest.raises(ValueError, match='at least one'):
      make_pool(*terms)


def test_rows_are_checked():
  with make_pool(term(plain_rewards.length)) as pool:
    with pytest.raises(ValueError, match=r"lengths|one value in each column.*'answer': 2"):
      score(pool, ['x'], answer=['1', '2'])
    with pytest.raises(ValueError, match="rows 1 to 1 cannot be sent to reward function 'length'"):
      score(pool, ['x', 'y'], answer=['1', lambda: 2])
    assert score(pool, ['xy'], answer=['1']).totals.tolist() == [2]
