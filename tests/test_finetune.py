"""`rlx.finetune`: rows and functions of a notebook become a run that is iterated, left, and gone on with."""

import functools
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import threading

import jax
from jax.experimental.compilation_cache import compilation_cache
import numpy as np
import pytest

import rlx
from rlx import config as configs
from rlx.errors import ConfigError
from rlx.run import given, train
from rlx.run.build import build

TINY = str(Path(__file__).parents[1] / 'experiments/data/tiny_model')
ROWS = [{'prompt': f'{i} plus {i} is', 'answer': str(2 * i)} for i in range(6)]
SMALL_SFT = {
    'rollout.batch_size': 8, 'decoding.max_tokens': 4, 'score.packed_columns': 0, 'mesh.data': 1,
    'optimizer.learning_rate': 1e-2, 'log.samples': 0, 'checkpoint.every': 100,
}
SMALL = {**SMALL_SFT, 'rollout.group_size': 4, 'rollout.num_slots': 0, 'reward.workers': 1}


def brief(completions, **kwargs):
  return [-float(len(text)) for text in completions]


def make(workdir, rewards=(brief,), data=ROWS, **arguments):
  arguments = {'steps': 3, 'overrides': {}, **arguments}
  small = SMALL_SFT if arguments.get('algorithm') == 'sft' else SMALL
  arguments['overrides'] = {**small, **arguments['overrides']}
  return rlx.finetune(TINY, rewards, data, workdir=workdir, **arguments)


def rewards_of(suffix):
  """Functions that no module has, as in a notebook."""

  def ends(completions, answer, log_metric):
    assert all(text.isdigit() for text in answer)
    log_metric('asked', 1.0)
    log_metric('mean', 1e6)  # which rlx has, and keeps
    return [float(text.endswith(suffix)) for text in completions]

  rewards = [ends, lambda completions: [float(len(text)) for text in completions]]
  return {'rewards': rewards, 'weights': [1, -0.5]}


@pytest.fixture(scope='module', autouse=True)
def cache(tmp_path_factory):
  """The second run of the same programs does not compile them again."""
  names = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs')
  before = [getattr(jax.config, name) for name in names]
  for name, value in zip(names, (str(tmp_path_factory.mktemp('cache')), 0.1), strict=True):
    jax.config.update(name, value)
  compilation_cache.reset_cache()
  yield
  for name, value in zip(names, before, strict=True):
    jax.config.update(name, value)
  compilation_cache.reset_cache()


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """A run in one go, and the rows that it yielded."""
  run = make(tmp_path_factory.mktemp('whole'), **rewards_of('7'))
  return run, list(run)


def recorded(run):
  return [json.loads(line) for line in (run.workdir / 'metrics.jsonl').read_text().splitlines()]


def test_it_yields_the_metrics_of_each_step(whole):
  run, rows = whole
  assert [row['step'] for row in rows] == [1, 2, 3] and {row['stage'] for row in rows} == {'grpo'}
  for row, written in zip(rows, recorded(run)[1:], strict=True):
    assert row == pytest.approx(written)
    assert row['reward/mean'] == pytest.approx(row['rewards/ends'] - 0.5 * row['rewards/<lambda>'], abs=1e-5)
    assert row['reward/failed'] == 0 and row['reward/asked'] == 1.0
  assert list(run) == [] and run.outcome.finished
  assert run.outcome.after == pytest.approx(rows[-1]['reward/mean'])
  assert (run.workdir / 'report.html').exists()


def test_what_it_leaves(whole, tmp_path):
  run, _ = whole
  (written,) = run.export(tmp_path)
  weights = (run.model / 'model.safetensors').read_bytes()
  assert (written / 'model.safetensors').read_bytes() == weights and run.model == run.workdir / 'model'
  assert weights != (Path(TINY) / 'model.safetensors').read_bytes(), 'it was trained'
  texts = run.generate(['2 plus 2 is', 'x'], max_tokens=3)
  assert len(texts) == 2 and texts == run.generate(['2 plus 2 is', 'x'], max_tokens=3)
  for prompts in ([], '2 plus 2 is'):
    with pytest.raises(ConfigError, match='a list of at least one prompt'):
      run.generate(prompts)


@pytest.mark.slow
def test_stopped_and_interrupted_it_is_the_same_run(whole, tmp_path, monkeypatch):
  run = make(tmp_path, **rewards_of('7'))
  next(run)
  run.stop()
  assert not run.outcome.finished and run.outcome.step == 1
  show = train._Session._show
  with monkeypatch.context() as patch:
    patch.setattr(train._Session, '_show', lambda *args: (show(*args), signal.raise_signal(signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt):
      next(run)
  again = make(tmp_path, **rewards_of('7'))
  assert [row['step'] for row in again] == [3]
  assert (tmp_path / 'metrics.jsonl').read_bytes() == (whole[0].workdir / 'metrics.jsonl').read_bytes()
  name = 'model/model.safetensors'
  assert (tmp_path / name).read_bytes() == (whole[0].workdir / name).read_bytes()


@pytest.mark.parametrize(
    ('changed', 'words'),
    [
        ({'rewards': [brief, brief]}, 'called'), ({**rewards_of('8')}, 'given.functions.ends'),
        ({'data': ROWS[1:]}, 'given.rows.train'), ({'held_out': ROWS[:1]}, 'eval'),
    ],
)
def test_other_objects_are_another_run(whole, changed, words):
  with pytest.raises(ConfigError, match=words) as error:
    next(make(whole[0].workdir, **{**rewards_of('7'), **changed}))
  assert '\n' not in str(error.value)


def test_the_config_alone_says_what_it_lacks(whole):
  with pytest.raises(ConfigError, match='functions.*rows.*rlx.finetune'):
    build(configs.load(str(whole[0].workdir / 'config.json')))


def test_what_is_said_by_name_needs_no_objects(tmp_path):
  """Files and functions by name: `config.json` is all that it takes, as of any run."""
  files = [tmp_path / f'{name}.jsonl' for name in ('a', 'b')]
  for file in files:
    file.write_text(''.join(json.dumps(row) + '\n' for row in ROWS))
  rewards = [{'name': 'math.math_answer', 'tolerance': 1e-6}, {'name': 'format.pattern', 'regex': '.'}]
  run = make(tmp_path, rewards, {str(files[0]): 3, files[1]: 1}, weights=[1, 0.5])
  few = {'evals.held_out.problems': 2}
  held_out = make(tmp_path / 'held_out', rewards, files[0], held_out=files[1], overrides=few)
  assert held_out.config.task.held_out == str(files[1])
  assert 'given' not in run.config and run.config.task.train == ((str(files[0]), 3.0), (str(files[1]), 1.0))
  assert run.config.reward.functions.pattern.to_dict() == {**rewards[1], 'weight': 0.5}
  (tmp_path / 'config.json').write_text(run.config.to_json())
  build(configs.load(str(tmp_path / 'config.json')))


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ({'algorithm': 'ppo'}, "neither 'grpo' nor 'sft'"), ({'algorithm': 'sft'}, 'takes no rewards'),
        ({'rewards': ()}, 'at least one reward'), ({'weights': [1, 2]}, '2 weights of 1'),
        ({'data': []}, 'has no rows'), ({'data': iter(ROWS)}, 'list_iterator'),
        ({'held_out': 'rows.jsonl'}, 'make both the same'), ({'window_rows': 4}, 'rows in memory'),
        ({'data': 'rows.jsonl', 'held_out': ROWS}, 'make both the same'),
        ({'held_out': iter(ROWS)}, 'list_iterator'), ({'data': {'prompt': ['a']}}, 'files with their shares'),
        ({'chat': 'yes'}, "chat='yes': True or False"),
        ({'data': [{'text': 'x'}]}, 'no column that is known'),
        ({'overrides': {'optimizer.lr': 1.0}}, "has no 'optimizer.lr'"),
        ({'overrides': {'steps': 'many'}}, 'needs int'), ({'overrides': {'rollout': 3}}, 'is a section'),
        ({'rewards': lambda completions, solution: []}, 'solution'),
        ({'rewards': lambda completions, lock=threading.Lock(): []}, 'cannot be sent'),  # noqa: B008
        ({'rewards': 'math.math_anwser'}, 'did you mean'),
        ({'rewards': [3]}, 'functions, names, sections'), ({'rewards': None}, 'functions, names, sections'),
        ({'rewards': [{'tolerance': 1}]}, 'sections with a name'), ({'weights': 1}, 'a list of numbers'),
        ({'rewards': {'name': 'math.math_answer', 'tolerance': 1e-6, 'weight': 3}}, 'takes no weight'),
        ({'algorithm': {'name': 'grpo'}, 'kl_coef': 0.3}, 'takes no kl_coef'),
        ({'overrides': {3: 3}}, 'a dictionary'),
        ({'lora_rank': 'x'}, "lora_rank='x': a whole number"), ({'sft_steps': -1}, 'sft_steps=-1: a whole'),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, arguments, words):
  with pytest.raises(ConfigError, match=words) as error:
    make(tmp_path, **arguments)
  assert '\n' not in str(error.value)


CHATS = [{'messages': [{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Ho'}]}] * 3


@pytest.mark.parametrize(
    ('data', 'arguments', 'expected'),
    [
        (ROWS, {'chat': True}, lambda run: run.config.task.chat),
        (ROWS, {'kl_coef': 0.1}, lambda run: run.config.slow.reference == 'policy'),
        (ROWS, {'kl_coef': 0.1, 'lora_rank': 2}, lambda run: run.config.slow.base == 'base'),
        (ROWS, {'held_out': ROWS[:1]}, lambda run: run.config.evals.held_out.accuracy == 'brief'),
        (CHATS, {'sft_steps': 2}, lambda run: run.config.stages == ('sft', 'main')),
        (CHATS, {'lora_rank': 2, 'algorithm': 'sft'}, lambda run: run.config.log.headline == 'loss/nll'),
        (CHATS, {'held_out': CHATS, 'algorithm': 'sft'}, lambda run: run.config.evals.held_out.problems == 3),
    ],
)
def test_arguments_change_several_fields_at_once(tmp_path, data, arguments, expected):
  rewards = () if arguments.get('algorithm') == 'sft' else (brief,)
  overrides = {'decoding.max_tokens': 256}  # of demonstrations
  assert expected(make(tmp_path, rewards, data, overrides=overrides, **arguments))


@pytest.mark.parametrize('works_on', [
    (), pytest.param([row['answer'] for row in ROWS[1:]], marks=pytest.mark.slow),
])
def test_a_reward_that_fails_on_all_of_the_first_rows_is_an_error(tmp_path, works_on):
  """On some of them it is told, and the run goes on."""

  def broken(completions, answer, **kwargs):
    if answer[0] not in works_on:
      raise KeyError('no such column')
    return [0.0]

  run = make(tmp_path, (broken,), overrides={'reward.rows_per_call': 1})
  if works_on:
    assert sum(row['reward/failed'] for row in run) > 0
  else:
    with pytest.raises(ConfigError, match=r'each of the \d+ rows .*broken, row 0.*no such column') as error:
      list(run)
    assert '\n' not in str(error.value)


def test_what_stands_in_the_place_of_the_model_is_told_before_it_is_trained(tmp_path):
  demonstrated = functools.partial(make, tmp_path, (), [{**row, 'completion': row['answer']} for row in ROWS])
  begun = demonstrated(algorithm='sft')
  next(begun)
  begun.stop()
  (tmp_path / 'model').mkdir()
  (tmp_path / 'model' / 'mine').write_text('x')
  again = demonstrated(algorithm='sft')
  with pytest.raises(ConfigError, match='model is there and was not written by rlx'):
    next(again)
  assert recorded(again)[-1]['step'] == 1


def test_another_algorithm_takes_the_place_of_grpo(tmp_path):
  section = {'name': 'dr_grpo', 'kl': {'name': 'no_kl'}, 'clip_low': 0.2, 'clip_high': 0.2, 'length': 4}
  assert make(tmp_path, algorithm=section).config.algorithm.length == 4
  rows = [{**row, 'completion': row['answer']} for row in ROWS]
  assert make(tmp_path, (), rows, algorithm='sft').config.algorithm.name == 'sft'


@pytest.mark.slow
def test_files_that_are_read_as_they_go_resume_to_the_bit(tmp_path):
  """A stream of two files by weight, whole and stopped behind each step, over epochs of both."""
  files = [tmp_path / f'{name}.jsonl' for name in ('a', 'b')]
  for sign, file in zip('+-', files, strict=True):
    rows = [{'prompt': f'{i} {sign} {i} =', 'completion': f' {i}'} for i in range(7)]
    file.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  overrides = {'task.max_prompt_tokens': 16, 'task.max_completion_tokens': 4}
  begin = lambda name: make(
      tmp_path / name, (), dict(zip(files, (2, 1), strict=True)), algorithm='sft', window_rows=8,
      overrides=overrides,
  )
  whole, in_parts = begin('whole'), 0
  losses = [row['loss/nll'] for row in whole]
  while not (run := begin('parts')).outcome and next(run, None):
    run.stop()
    in_parts += 1
  assert in_parts == len(set(losses)) == 3 and losses[-1] < losses[0]
  for name in ('metrics.jsonl', 'model/model.safetensors'):
    assert (tmp_path / 'whole' / name).read_bytes() == (tmp_path / 'parts' / name).read_bytes()


def closing(over):
  return lambda completions: over


def with_default(factor):
  def short(completions, by=factor):
    return [by * len(text) for text in completions]

  return short


def times(factor):
  def around(function):
    @functools.wraps(function)
    def scaled(completions, **columns):
      return [factor * x for x in function(completions, **columns)]

    return scaled

  return around


class Scorer:

  def __init__(self, factor):
    self.factor = factor

  def score(self, completions):
    return [self.factor * len(text) for text in completions]


def far_in(value):
  array = np.zeros(5000)
  array[2500] = value
  return array


DIGESTS = [  # things of different digests
    brief, closing(1), closing(2), functools.partial(brief, factor=1), functools.partial(brief, factor=2),
    ROWS, ROWS[::-1], [], with_default(1), with_default(2), Scorer(1).score, Scorer(2).score,
    times(1)(brief), times(2)(brief), closing(far_in(1)), closing(far_in(2)), closing({'a', 'b'}),
    closing(jax.random.key(1)), closing(jax.random.key(2)), [{'prompt': 'a', 3: 'x'}],
    [{'prompt': 'a', 3: 'y'}],
]
OF_SETS = """
from rlx.run import given
def closing(over):
  return lambda completions: over
words = {str(i) for i in range(20)}
print(given.digest_of(closing(words)), given.digest_of([{'prompt': 'a', 'words': words}]))
"""


def test_digests_tell_things_apart():
  first, again = ([given.digest_of(thing) for thing in DIGESTS] for _ in range(2))
  assert first == again and len(set(first)) == len(DIGESTS)
  assert given.digest_of(closing(1)) == first[1] and given.digest_of([dict(row) for row in ROWS]) == first[5]


def test_digests_do_not_depend_on_the_order_of_sets(tmp_path):
  script = tmp_path / 'sets.py'
  script.write_text(OF_SETS)
  told = {
      subprocess.run(
          [sys.executable, script], env=os.environ | {'PYTHONHASHSEED': seed}, text=True, check=True,
          stdout=subprocess.PIPE,
      ).stdout
      for seed in ('1', '2')
  }
  assert len(told) == 1


LEFT = """
import atexit
import sys
import rlx
atexit.register(lambda: print('open' if run._pieces else 'closed'))  # the last of all
def brief(completions, **kwargs):
  return [-float(len(text)) for text in completions]
run = rlx.finetune({model!r}, brief, {rows!r}, workdir='run', steps=40, overrides={small!r})
for metrics in run:
  print(metrics['step'], flush=True)
  if metrics['step'] >= int(sys.argv[1]):
    break
if sys.argv[2] == 'stop':
  run.stop()
"""


@pytest.mark.slow
def test_a_script_that_leaves_the_loop_ends_and_goes_on_from_what_it_saved(tmp_path):
  """What is still open when Python ends hangs on Python 3.13: its threads are waited for, and gone."""
  (tmp_path / 'left.py').write_text(LEFT.format(model=TINY, rows=ROWS, small=SMALL))
  steps = []
  for words in (['2', 'stop'], ['4', 'leave']):
    done = subprocess.run(
        [sys.executable, 'left.py', *words], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=True,
    )
    *seen, state = done.stdout.split()
    assert state == 'closed'
    steps += map(int, seen)
  assert steps == sorted(set(steps)) and steps[-1] == 4, 'the second goes on from where the first has left'
