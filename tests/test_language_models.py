"""Runs on a Hugging Face model and JSONL files, as the configs start them, and the commands around them."""

import json
from pathlib import Path
import shutil

import jax
import numpy as np
import pytest

from rlx import config as configs
from rlx.experiments import launch
from rlx.models import hf, lora, peft
from rlx.run import states, train
from rlx.run.build import build
from rlx.run.writers import read_metrics
from tests.whole_runs import in_the_repository

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT / 'experiments/configs'
TINY, DATA = ROOT / 'experiments/data/tiny_model', ROOT / 'experiments/data'


@pytest.fixture(scope='module', autouse=True)
def here():
  with in_the_repository():
    yield


def load(name, *overrides):
  config = configs.load(f'{CONFIGS}/{name}.py:smoke')
  configs.override(config, 'mesh.data', '1')
  for text in overrides:
    configs.override(config, *text.split('=', 1))
  return config


def shape_of(run):
  return run.stages[-1].models['policy'].model.functions.shape


@pytest.fixture(scope='module')
def math_run(tmp_path_factory):
  """The workdir of a finished smoke run of GSM8K's config."""
  workdir = tmp_path_factory.mktemp('math')
  outcome = train.train(load('math/gsm8k_grpo'), workdir, quiet=True, command='rlx')
  assert outcome.finished and outcome.step == 8 and outcome.exported == (workdir / 'model',)
  return workdir


@pytest.mark.slow
def test_a_run_is_measured_again_and_its_texts_are_read(math_run, capsys):
  assert launch.main(['evaluate', f'--workdir={math_run}', '--json']) == launch.EXIT_DONE
  measured = json.loads(capsys.readouterr().out)
  recorded = read_metrics(math_run / 'metrics.jsonl')[-1]
  evaluations = {name for name in recorded if name.startswith('eval/')}
  assert 'eval/held_out/accuracy' in evaluations
  assert {name: np.float32(measured[name]) for name in evaluations} == {
      name: np.float32(recorded[name]) for name in evaluations
  }
  assert launch.main(['play', f'--workdir={math_run}', '--episodes=1']) == launch.EXIT_DONE
  assert capsys.readouterr().out.count('(it is ') == 1
  assert launch.main(['play', f'--workdir={math_run}', '--output=x.gif']) == launch.EXIT_DO_NOT_RETRY
  assert 'no moving pictures' in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_with_python_rewards_leaves_what_it_promises(math_run):
  rows = read_metrics(math_run / 'metrics.jsonl')
  assert [row['step'] for row in rows] == list(range(9))
  last = rows[-1]
  assert {'rewards/math', 'rewards/format', 'rollout/policy_lag'} <= last.keys()
  assert {'eval/held_out/math', 'eval/held_out/accuracy'} <= last.keys()
  assert last['reward/failed'] == 0 and last['eval/held_out/failed'] == 0
  assert 0 < last['mismatch/logprob_max'] < 1e-4 and last['mismatch/effective_samples'] > 0.999
  newest = max((math_run / 'samples').iterdir())
  samples = [json.loads(line) for line in newest.read_text().splitlines()]
  held_out = [row for row in samples if row['split'] == 'held_out']
  assert held_out[0]['prompt'].startswith('Question: ') and '####' in held_out[0]['solution']
  assert {'reward', 'advantage', 'rewards/math', 'completion'} <= samples[-1].keys()


@pytest.mark.slow
def test_the_exported_model_is_the_trained_one(math_run):
  run = build(load('math/gsm8k_grpo'))
  with jax.set_mesh(run.mesh):
    state, position = train.restore(run, math_run)
  assert position.step == 8
  exported = hf.load(math_run / 'model', shape_of(run))
  jax.tree.map(np.testing.assert_array_equal, exported, jax.device_get(state.params['policy']))
  begun = hf.load(TINY, shape_of(run))
  assert not np.array_equal(begun['embedding'], exported['embedding'])


@pytest.mark.slow
def test_tokens_in_are_tokens_out(math_run):
  """What is trained on are the tokens of the data set and those that were sampled; texts are for rewards."""
  run = build(load('math/gsm8k_grpo'))
  stage, task = run.stages[1], run.task
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 1, states.begin(run, 0, {}, 0).models, 0)
    batch, world = jax.device_get(stage.train_step.sample(state, stage.rollout.data))
  assert int(world['cursor']) == 2 and batch['rows'][0] != batch['rows'][-1]
  for i, row in enumerate(batch['rows']):
    length = task.data['prompt_lengths'][row]
    np.testing.assert_array_equal(batch['tokens'][i, :length], task.data['prompts'][row, :length])
    assert batch['prompt_lengths'][i] == length
  seen = {}
  scored = stage.program.reward.score

  def spy(rows, completion_ids):
    seen.update(rows=rows, completion_ids=completion_ids)
    return scored(rows, completion_ids)

  stage.program.reward.score = spy
  try:
    stage.program.reward(state.models, batch, None)
  finally:
    stage.program.reward.close()
  for i, ids in enumerate(seen['completion_ids']):
    assert ids == batch['tokens'][i][batch['action_mask'][i]].tolist()


@pytest.mark.slow
def test_stopped_and_started_again_is_the_same_run(math_run, tmp_path, monkeypatch):
  """Order of the data, noise and rewards go on where they were: the files are equal to the byte."""
  show = train._Session._show

  def stop_now_and_then(session, position, rows, seconds):
    show(session, position, rows, seconds)
    if position.step in (2, 6):
      session.stopping.append('enough')

  monkeypatch.setattr(train._Session, '_show', stop_now_and_then)
  config = load('math/gsm8k_grpo')
  steps = [train.train(config, tmp_path, quiet=True, command='rlx').step for _ in range(3)]
  assert steps == [2, 6, 8]
  assert (tmp_path / 'metrics.jsonl').read_bytes() == (math_run / 'metrics.jsonl').read_bytes()


@pytest.mark.slow
def test_overlap_is_said_in_the_metrics(tmp_path, monkeypatch):
  monkeypatch.syspath_prepend(str(ROOT / 'tests/rewards'))
  config = load(
      'math/gsm8k_grpo', 'log.steps_per_dispatch=4', 'checkpoint.every=4', 'evals.held_out.every=4',
      'optimizer.warmup_steps=0', 'optimizer.learning_rate=0.01',
  ).unlock()
  config.sampling = {'lag': 1}
  config.reward.functions.length = {'name': 'host_rewards.length', 'weight': 0.01}  # not the same for all
  train.train(config, tmp_path, quiet=True, command='rlx')
  rows = [row for row in read_metrics(tmp_path / 'metrics.jsonl') if 'rollout/policy_lag' in row]
  assert [row['rollout/policy_lag'] for row in rows] == [0, 1, 1, 1]
  assert rows[1]['mismatch/logprob_mean'] > 10 * rows[0]['mismatch/logprob_mean']


@pytest.mark.slow
def test_lora_trains_beside_its_base_and_is_exported_both_ways(tmp_path):
  config = load('math/gsm8k_grpo_lora')
  run = build(config)
  with jax.set_mesh(run.mesh):
    state, frozen = states.abstract_state(run, 1)
  assert state.params.keys() == {'policy'} and not state.slow and frozen.keys() == {'base'}
  outcome = train.train(config, tmp_path, quiet=True, command='rlx')
  assert set(outcome.exported) == {tmp_path / 'model', tmp_path / 'adapter'}
  rows = read_metrics(tmp_path / 'metrics.jsonl')
  assert rows[-1]['kl/reference'] > 0 and 'rewards/math' in rows[-1]
  base, merged = (hf.load(path, shape_of(run)) for path in (TINY, tmp_path / 'model'))
  adapters, found = peft.load(tmp_path / 'adapter', shape_of(run), family='qwen2')
  assert (found.rank, found.alpha) == (8, 16)
  again = lora.merge(base, adapters, found)
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), again, merged)
  assert not np.array_equal(base['layers']['query'], merged['layers']['query'])
  _continue_from(tmp_path / 'adapter', state.params['policy'])


def _continue_from(directory, shapes):
  """A run may begin from adapters of another one, if they have the shape that it asks for."""
  run = build(load('math/gsm8k_grpo_lora', f'models.policy.directory={directory}'))
  with jax.set_mesh(run.mesh):
    adapters = states.begin(run, 0, {}, 0, states.load_frozen(run, 0, {})).params['policy']
  assert jax.tree.map(lambda x: x.shape, adapters) == jax.tree.map(lambda x: x.shape, shapes)
  b = next(x for path, x in jax.tree_util.tree_leaves_with_path(adapters) if 'lora_b' in str(path))
  assert np.abs(b).max() > 0, 'fresh adapters would begin at zero'
  other = build(load('math/gsm8k_grpo_lora', f'models.policy.directory={directory}', 'models.policy.rank=4'))
  with jax.set_mesh(other.mesh), pytest.raises(configs.ConfigError, match='rank'):
    states.begin(other, 0, {}, 0, states.load_frozen(other, 0, {}))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which('bwrap') is None, reason='needs bubblewrap')
def test_code_is_run_against_tests(tmp_path):
  outcome = train.train(load('code/humaneval_grpo'), tmp_path, quiet=True, command='rlx')
  last = read_metrics(tmp_path / 'metrics.jsonl')[-1]
  assert outcome.finished and {'rewards/tests', 'eval/held_out/tests'} <= last.keys()
  assert last['reward/failed'] == 0


@pytest.mark.slow
def test_conversations_are_learned(tmp_path):
  outcome = train.train(load('sft/chat'), tmp_path, quiet=True, command='rlx')
  rows = read_metrics(tmp_path / 'metrics.jsonl')
  losses = [row['eval/held_out/nll'] for row in rows if 'eval/held_out/nll' in row]
  assert outcome.metric == 'eval/held_out/nll' and losses[-1] < losses[0]


@pytest.mark.parametrize(
    'overrides, words',
    [
        (('population.size=2',), 'one run a seed'),
        (('evals.held_out.accuracy=maths',), 'none of the reward functions'),
        (('evals.held_out.problems=1000',), 'held-out rows'),
        (('models.policy.directory=/nowhere',), 'nowhere'),
        (('task.train=/nowhere.jsonl',), 'nowhere.jsonl'),
        (('decoding.max_tokens=4000',), 'context'),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(overrides, words):
  with pytest.raises(configs.ConfigError, match=words) as error:
    run = build(load('math/gsm8k_grpo', *overrides))
    with jax.set_mesh(run.mesh):
      train.check(run)
  assert '\n' not in str(error.value)


# --- commands -----------------------------------------------------------------------------------------------


def test_generate_is_greedy_by_default_and_does_not_depend_on_neighbours(capsys):
  ask = lambda *prompts: launch.main(
      ['generate', f'--model={TINY}', '--max_tokens=8', '--json', *(f'--prompt={p}' for p in prompts)]
  )
  assert ask('What is 2 plus 3?') == 0
  alone = json.loads(capsys.readouterr().out)
  assert ask('What is 2 plus 3?', 'Ada has') == 0
  first, second = map(json.loads, capsys.readouterr().out.splitlines())
  assert first == alone and len(first['tokens']) <= 8 and second['prompt'] == 'Ada has'


def test_evaluate_counts_what_it_samples(capsys, tmp_path):
  code = launch.main([
      'evaluate', f'--model={TINY}', f'--data={DATA}/word_problems_test.jsonl', '--samples=4', '--k=1,4',
      r'--prompt=Question: {question}\nAnswer:', '--reward=rlx.rewards.format.pattern',
      r'--reward_argument=regex=.*[0-9].*', '--max_tokens=16', '--problems=6', '--workers=1',
      f'--output={tmp_path}/samples.jsonl',
  ])
  assert code == 0
  printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if '@' in line)
  rows = [json.loads(line) for line in (tmp_path / 'samples.jsonl').read_text().splitlines()]
  assert len(rows) == 6 and all(len(row['correct']) == 4 for row in rows)
  for row in rows:
    assert row['correct'] == [any(c.isdigit() for c in text) for text in row['completions']]
  share = np.mean([row['correct'] for row in rows])
  assert printed['pass@1'].startswith(f'{100 * share:.1f} %')
  assert printed['pass@4'].startswith(f'{100 * np.mean([any(row["correct"]) for row in rows]):.1f} %')


@pytest.mark.slow
def test_export_of_an_unfinished_run(math_run, tmp_path):
  assert launch.main(['export', f'--workdir={math_run}', f'--output={tmp_path}']) == 0
  name = 'model.safetensors'
  assert (tmp_path / 'model' / name).read_bytes() == (math_run / 'model' / name).read_bytes()


@pytest.mark.slow
def test_an_export_takes_nobody_elses_place(math_run, tmp_path, capsys):
  theirs = tmp_path / 'model' / 'config.json'
  theirs.parent.mkdir()
  theirs.write_text('{"mine": 1}')
  command = ['export', f'--workdir={math_run}', f'--output={tmp_path}']
  assert launch.main(command) == launch.EXIT_DO_NOT_RETRY
  assert 'not written by rlx' in capsys.readouterr().err and theirs.read_text() == '{"mine": 1}'


@pytest.mark.parametrize(
    'arguments, words',
    [
        (['generate', '--model=/nowhere', '--prompt=x'], 'nowhere'),
        (['generate', f'--model={TINY}', '--prompt=x', '--max_tokens=9999'], 'context'),
        (['evaluate', f'--model={TINY}', '--data=x', '--reward=x', '--k=2'], 'each k is between'),
        (['export', '--workdir=/nowhere', '--output=x'], 'holds no run'),
    ],
)
def test_commands_refuse_in_one_line(arguments, words, capsys):
  assert launch.main(arguments) == launch.EXIT_DO_NOT_RETRY
  error = capsys.readouterr().err.strip()
  assert words in error and len(error.splitlines()) == 1
