"""Cobbe et al., 2021: results of marked calculations come from a calculator; nobody is trained on them."""

from types import SimpleNamespace

import numpy as np

from rlx.data import dataset as datasets
from rlx.envs.host.calculator import calculate, right_results
from rlx.evaluation import host_turns as evaluations
from rlx.evaluation.evaluation import HostEvaluation
from rlx.experiments.configs.tools import gsm8k_calculator
from rlx.experiments.data import FOLDER, generate
from rlx.rollout import host_turns
from rlx.rollout.toolbox import toolbox

TEXT = 'He has 48/2 = <<48/2=24>>24, then 24-1 = <<24-1=22>>22 and <<1/3=0.33>> and <<x=2>>.'


def test_results_are_right_where_the_calculation_says_so():
  assert right_results(TEXT) == [True, False, False, False]
  assert right_results('<<1,200*3=3600>> <<0.5+.5=1.0>> <<1/0=0>> <<1=1=1>> <<2+2=>> <<2+2=4') == [
      True, True, False, False, False
  ]


def test_an_evaluation_counts_results_whoever_wrote_them(monkeypatch):
  rewarded = HostEvaluation(ask=None, read=lambda rows: ({'accuracy': 0.5}, ['shown']), host=None)
  monkeypatch.setattr(evaluations, 'rewarded_episodes', lambda *_, **__: rewarded)
  tokens = np.array([[9, 1, 2, 0], [9, 3, 0, 0]])  # a prompt, what was said or read, padding
  rows = {'tokens': tokens, 'valid': tokens > 0, 'prompt_lengths': np.array([1, 1])}
  texts = {(1, 2): '<<1+1=2>> and <<2+2=5>>', (3,): 'none'}
  task = SimpleNamespace(decode=lambda ids: texts[tuple(ids)])
  made = evaluations.marked_episodes(
      task, None, None, None, 1, problems=2, num_slots=0, turn_tokens=1, max_turns=1, accuracy='math'
  )
  assert made.read(rows) == ({'accuracy': 0.5, 'marks': 1.0, 'right_marks': 0.5}, ['shown'])


def differences(one, other, where=''):
  """The paths of what two configs say differently."""
  if not (isinstance(one, dict) and isinstance(other, dict)):
    return set() if one == other else {where}
  keys = one.keys() | other.keys()
  nothing = object()
  return set().union(*(differences(one.get(k, nothing), other.get(k, nothing), f'{where}.{k}') for k in keys))


def test_arms_differ_in_the_calculator_alone():
  own, off = (gsm8k_calculator.get_config(f'tool={tool}').to_dict() for tool in (True, False))
  assert differences(own, off) == {
      '.sft.toolbox', '.sft.rollout.name', '.sft.rollout.marks', '.toolbox.calls.name', '.toolbox.calls.tool',
      '.toolbox.calls.before', '.toolbox.calls.after', '.toolbox.calls.tools', '.decoding.stop',
      '.rollout.turn_tokens', '.evals.held_out.turn_tokens',
  }
  assert own['sft']['rollout']['name'] == 'host_turns.marked_solutions'
  given = gsm8k_calculator.get_config('train=a.jsonl,held_out=b.jsonl')
  assert (given.task.train, given.task.held_out) == ('a.jsonl', 'b.jsonl')


def test_nobody_is_trained_on_results_and_sampling_stops_where_they_stand():
  config = gsm8k_calculator.get_config()
  rows = generate.word_problems(num=3)
  assert not {x['question'] for x in rows['train']} & {x['question'] for x in rows['held_out']}
  rest = {k: v for k, v in config.task.to_dict().items() if k not in ('name', 'rows', 'directory')}
  task = datasets.of_rows(rows, directory=f'{FOLDER}/tiny_model', **rest)
  section = {k: v for k, v in config.toolbox.to_dict().items() if k not in ('name', 'tools', 'calls')}
  box = toolbox(tools={'calculator': calculate}, calls=lambda text: [], **section)
  policy = SimpleNamespace(decoding=SimpleNamespace(max_tokens=config.sft.decoding.max_tokens))
  marks = config.sft.rollout.marks
  data = host_turns.marked_solutions(task, policy, box, batch_size=1, marks=marks).data
  for row, problem in enumerate(rows['train']):
    said = task.decode(data['tokens'][row][data['action_mask'][row]])
    results = problem['answer'].count('>>')
    assert results and said.count('<<') == said.count('=') - results == results and '>>' not in said
    behind = data['lengths'][row]
    read = ~data['action_mask'][row, task.data['prompt_lengths'][row] : behind]
    assert read.any() and task.decode(data['tokens'][row, :behind]).endswith(problem['answer'])
  assert config.decoding.stop == ('=',) and config.toolbox.after == '>>'
