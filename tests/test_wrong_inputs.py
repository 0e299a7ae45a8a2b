"""Wrong inputs of every kind: exit code 2 and one line that names what is wrong; no traceback, no run.

The table goes through `launch.main` in this process; a few rows are tried as processes of their own as well.
"""

import json
import os
from pathlib import Path
import shutil
import subprocess
import sys

import numpy as np
import pytest

from rlx.experiments import launch
from rlx.experiments.data import FOLDER

TEXT, CONTROL = '--config=quickstart/arithmetic:smoke', '--config=control/ppo_cartpole:smoke'
REPLAY, ROWS = '--config=control/sac_pendulum:smoke', '--config=sft/gsm8k:smoke'
N_STEPS = '--config=control/n_step_dqn_cartpole:smoke'
ANSWERS = '--config=math/word_problems:algorithm=sft,smoke=True'
MODEL = Path(FOLDER) / 'tiny_model'
ADAM = "'b1': 0.9, 'b2': 0.99, 'eps': 1e-8}"
KINDS = "'clip_high': 0.2, 'kl': {'name': 'no_kl'}, 'entropy_coef': 0.0}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
  """The working folder, to which nothing is added."""
  monkeypatch.chdir(tmp_path)
  return tmp_path


def refused(argv, capsys) -> str:
  """The line that a command line is refused with."""
  assert launch.main(argv) == launch.EXIT_DO_NOT_RETRY
  error = capsys.readouterr().err
  assert error.startswith('rlx: ') and error.count('\n') == 1, error
  return error


def refused_run(argv, capsys) -> str:
  error = refused([*argv, '--workdir=run'], capsys)
  assert not Path('run').exists(), 'nothing is written before all is known to be right'
  return error


# What is said names the last part of the key, if nothing else stands behind it.
OVERRIDES = {
    TEXT: [
        'seed=-1', f'seed={2**40}', 'seed=1.5', 'seed=True', 'seed=None', 'steps=0', 'steps=-4', 'steps=3',
        'steps=1e3',
        'sft.steps=0', 'population.size=0', 'population.size=-1', ("population={'size': 'a'}", "size='a'"),
        ("population={'size': 2.0}", 'population.size=2.0'), (f"population={{'size': {2**40}}}", 'size'),
        ("updates={'epochs': 1.5, 'minibatches': 1, 'microbatches': 1}", 'updates.epochs=1.5'),
        (f'rollout.batch_size={10**12}', 'too large'), (f'evals.held_out.problems={10**12}', 'too large'),
        ('models.policy.width=1_000_000', 'largest array is params/policy/'),
        ('nothing.at.all=1', "no 'nothing'"), ('algorithm.clip_hihg=1', "did you mean 'algorithm.clip_high'"),
        'algorithm=3', 'rollout=grpo', ('algorithm={}', 'no section with a name'),
        ("algorithm={'name', 'x'}", 'a section is a dictionary'),
        ("algorithm={'name': 'x', 3: 4}", '3 is no name'),
        ("algorithm={'name': 'grpo', 'names': 3}", 'names=3 is a dictionary'),
        ('algorithm={', 'never closed'), ("algorithm={'name': 3}", 'name=3'),
        ("algorithm={'name': 'grpo'}", 'lacks'), ("algorithm={'name': 'a b'}", "name='a b'"),
        (f"algorithm={{'name': 'grpo', 'clip_low': 'a', {KINDS}", "algorithm.clip_low='a': needs a number"),
        (f"algorithm={{'name': 'grpo', 'clip_low': True, {KINDS}", 'needs a number'),
        ('algorithm.name=grop', "did you mean 'grpo'"), 'algorithm.clip_low=-1', 'algorithm.clip_low=2',
        'algorithm.clip_high=-0.1', 'algorithm.entropy_coef=x',
        'rollout.batch_size=0', 'rollout.batch_size=-8', 'rollout.batch_size=9', 'rollout.group_size=0',
        'rollout.group_size=-2', 'rollout.group_size=3', 'rollout.num_slots=-1', 'sft.rollout.batch_size=0',
        ('rollout.name=prompts.completion', "did you mean 'completions'"),
        ('reward.name=verifer', 'verifier'),
        ('task.name=aritmetic', 'arithmetic'), ('optimizer.name=adamx', 'adam'),
        ('models.policy.name=lama', 'llama'),
        ('evals.held_out.name=verifid', 'verified'),
        'log.steps_per_dispatch=0', 'log.steps_per_dispatch=-2', 'log.steps_per_dispatch=3', 'log.samples=-1',
        'log.headline=nothing', 'log.headline=eval/nothing/accuracy', 'log.writers="tensorboard"',
        ("log.writers=('tensorbord',)", "did you mean 'tensorboard'"), ('log.writers=(3,)', 'name=3'),
        'evals.held_out.problems=0', 'evals.held_out.problems=-4', 'evals.held_out.every=0',
        'evals.held_out.every=-2', ("evals={'x': 3}", 'evals.x=3'),
        ("evals.more={'name': 'verified', 'every': 2}", 'problems'),
        ("evals.more={'name': 'verified', 'every': 'a', 'problems': 2}", "every='a'"),
        'optimizer.learning_rate=-1', 'optimizer.learning_rate=1e999', 'optimizer.learning_rate=nan',
        'optimizer.learning_rate=-inf',
        (f"optimizer={{'name': 'adam', 'learning_rate': None, {ADAM}", 'learning_rate=None'),
        (f"optimizer={{'name': 'adam', 'learning_rate': 1e999 - 1e999, {ADAM}", 'a section is a dictionary'),
        'optimizer.weight_decay=-1', 'optimizer.clip_norm=0', 'optimizer.clip_norm=-1',
        'optimizer.warmup_steps=-1',
        'optimizer.decay_steps=-1', 'optimizer.b1=1', 'optimizer.b1=-0.5', 'optimizer.b2=2',
        'optimizer.eps=-1',
        'optimizer.final_fraction=-1', ("optimizer={'name': 'every', 'period': 0}", 'optimizer'),
        'decoding.temperature=0', 'decoding.temperature=-1', 'decoding.temperature=1e999', 'decoding.top_p=0',
        'decoding.top_p=2', 'decoding.top_k=-1', 'decoding.max_tokens=0', 'decoding.max_tokens=100',
        'decoding.min_tokens=9', 'decoding.sampler=beam', ("decoding={'max_tokens': 'a'}", 'decoding'),
        "stages=('nothing','main')", 'stages=()', "stages=('main','sft')", 'stages=3', "stages=('sft',)",
        ('trained=()', 'optimizer'), "trained=('polcy',)", 'trained="policy"',
        ("slow={'reference': 'polcy'}", 'slow'),
        'checkpoint.every=0', 'checkpoint.every=3', 'checkpoint.keep=0', 'checkpoint.keep=1',
        ('mesh.data=3', 'mesh'), ('mesh.data=0', 'mesh'), ('mesh.data=-2', 'mesh'), ('mesh.fsdp=0', 'mesh'),
        ('mesh.fsdp=16', 'mesh'), ('mesh.fsdp=3', 'mesh'), ('mesh.tensor=-1', 'mesh'),
        ("mesh={'data': 1}", 'lacks'),
        'updates.epochs=0', 'updates.minibatches=0', 'updates.minibatches=5', 'updates.microbatches=-1',
        'updates.microbatches=3', 'score.chunk_tokens=0', 'score.chunk_tokens=-5', 'score.packed_columns=-1',
        'score.packed_columns=8',
        'models.policy.num_layers=0', 'models.policy.num_layers=-1', 'models.policy.width=0',
        'models.policy.num_heads=3',
        'models.policy.num_heads=0', 'models.policy.num_kv_heads=3',
        ('models.policy.context_length=2', 'context of 2'),
        'models.policy.context_length=0', 'models.policy.dtype=float31', 'models.policy.attention=quick',
        'models.policy.rope_theta=-1', 'models.policy.rope_theta=0', 'models.policy.mlp_size=0',
        ('models={}', 'models'),
        ("models.value={'name': 'llama'}", 'lacks'),
        ("models.policy={'name': 'run', 'directory': 'nowhere', 'model': 'policy'}", 'nowhere'),
        'task.min_operand=-5', 'task.max_operand=0', 'task.held_out_share=0', 'task.held_out_share=2',
        ('task.operators=', 'operators'), 'sft.stop.at_least=nan',
        ('sft.stop.metric=eval/none/x', 'stop.metric'),
        ("sft.stop={'name': 'reachd', 'metric': 'x', 'at_least': 1.0}", "did you mean 'reached'"),
        ("sft.stop={'name': 'plateau', 'metric': 'x', 'patience': 0, 'min_rise': 0.1}", 'patience=0'),
    ],
    CONTROL: [
        'seed=-1', 'rollout.num_envs=0', 'rollout.num_envs=-1', 'rollout.num_steps=0', 'rollout.num_steps=-3',
        'env.max_steps=0', 'env.max_steps=-1', ('env.name=cartpol', "did you mean 'cartpole'"),
        ('env.name=nothing:x', 'nothing'),
        ('models.policy.hidden=(0,)', 'units'), ('models.policy.hidden=(-3,)', 'units'),
        ('models.policy.hidden=("a",)', "hidden=('a',): needs a tuple, each of them a whole number"),
        'models.policy.hidden=3', 'models.policy.activation=tanhh',
        ('models.value.name=state_valu', 'state_value'),
        'algorithm.discount=2', 'algorithm.discount=-1', 'algorithm.lambda_=2', 'algorithm.lambda_=-1',
        ('algorithm.value_clip=-1', 'clip=-1'), 'algorithm.clip_low=-1', 'evals.episodes.episodes=0',
        'evals.episodes.max_steps=0', 'evals.episodes.episodes=-1', 'updates.minibatches=7', 'log.samples=3',
        'optimizer.learning_rate=-1', ('algorithm.value_coef=-1', 'value_coef=-1.0: at least 0'),
    ],
    REPLAY: [
        'rollout.batch_size=0', 'rollout.batch_size=-1', 'rollout.warmup_steps=-1', 'rollout.capacity=0',
        'rollout.num_envs=0', 'rollout.capacity=1', 'algorithm.discount=-1',
        (f'rollout.capacity={2 * 10**9}', 'largest array is world/'), ('algorithm.target_rate=2', 'rate=2'),
        ("env={'name': 'gymnasium:Pendulum-v1', 'arguments': 3}", 'arguments=3'),
    ],
    N_STEPS: ['rollout.discount=0.5', 'rollout.discount=2.0'],
    '--config=control/prioritised_cartpole:smoke': ['rollout.alpha=-1.0', 'rollout.beta=-1.0'],
    '--config=control/her_bit_flip:smoke': ['rollout.goal_size=11'],
    '--config=offline/iql_pointmass:smoke': [
        'algorithm.expectile=1.5', 'data.num_envs=0', 'data.num_steps=0', 'data.discount=2.0',
    ],
    '--config=selfplay/kuhn_magnet:smoke': [('rollout.episodes=3', 'rollout.episodes=3')],
    ROWS: [
        'task.malformed=maybe', 'task.max_prompt_tokens=0', 'task.max_prompt_tokens=3',
        'task.max_completion_tokens=0',
        ("task.columns={'prompt': '{nothing}'}", 'nothing'),
        ("task.columns={'prompt': '{question'}", 'question'),
        ("task.columns={'prompt': 3}", 'columns'), 'task.chat=maybe',
        ('evals.held_out.problems=100000', '100000 held-out rows'),
        'models.policy.context_length=-1', 'models.policy.context_length=100000',
    ],
    ANSWERS: [('decoding.max_tokens=600', "evals.held_out, in stage 'sft': prompts of")],
}
CASES = [
    (base, *(row if isinstance(row, tuple) else (row, '')))
    for base, rows in OVERRIDES.items() for row in rows
]


@pytest.mark.parametrize(('base', 'override', 'words'), CASES, ids=[f'{b[9:13]} {o}' for b, o, _ in CASES])
def test_a_wrong_value_of_a_config(base, override, words, capsys):
  error = refused_run([base, f'--config.{override}'], capsys)
  assert (words or override.partition('=')[0].rpartition('.')[2]) in error


def nothing(*, every: int = 1):
  del every


def three(*, every: int = 1):
  del every
  return 3


@pytest.mark.parametrize('section', ['rollout', 'stop', 'evals.more'])
@pytest.mark.parametrize(('factory', 'returned'), [(nothing, 'None'), (three, '3')])
def test_a_factory_that_makes_no_part(section, factory, returned, capsys):
  name = f'{factory.__module__}.{factory.__name__}'
  error = refused_run([TEXT, f"--config.{section}={{'name': '{name}', 'every': 1}}"], capsys)
  assert f'returned {returned}, which is no part' in error


@pytest.mark.parametrize('row', [{'chosen': '4', 'rejected': '5'}, {'completion': '5', 'label': False}])
def test_what_is_not_to_be_imitated_is_no_demonstration(row, folder, capsys):
  (folder / 'rows.jsonl').write_text((json.dumps({'prompt': '2 + 2 = ', **row}) + '\n') * 8)
  error = refused_run(['--config=llm/sft:smoke,train=rows.jsonl,held_out='], capsys)
  assert 'not to be imitated' in error


def test_labels_in_turn_are_no_pairs(folder, capsys):
  rows = [{'prompt': f'{i} + 1 = ', 'completion': '5', 'label': i % 2 == 0} for i in range(16)]
  (folder / 'rows.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
  command = ['--config=preferences/kto:smoke,train=rows.jsonl,held_out=rows.jsonl']
  assert 'are no pairs' in refused_run([*command, '--config.evals.held_out.pairs=4'], capsys)


def test_a_dry_run_says_it_as_the_run_does(capsys):
  assert 'units' in refused_run([CONTROL, '--config.models.policy.hidden=(0,)', '--dry_run'], capsys)


FILES = {
    'syntax.py': ('def get_config(:', 'SyntaxError'),
    'import.py': ('import nothing_like_it', 'nothing_like_it'),
    'zero.py': ('1 / 0', 'ZeroDivisionError: division by zero'),
    'none.py': ('get_config = lambda arg: None', 'returns NoneType'),
    'dict.py': ('get_config = lambda arg: {"seed": 0}', 'returns dict'),
    'list.py': ('get_config = lambda arg: [1]', 'returns list'),
    'raises.py': ('def get_config(arg):\n  raise RuntimeError("boom")', 'RuntimeError: boom'),
    'key.py': ('get_config = lambda arg: {}["x"]', "KeyError: 'x'"),
    'no_argument.py': ('get_config = lambda: 3', 'TypeError'),
    'number.py': ('get_config = 3', 'defines no get_config'), 'empty.py': ('', 'defines no get_config'),
    'exits.py': ('import sys\nsys.exit(3)', 'SystemExit: 3'), 'nul.py': ('\0\0', 'null bytes'),
    'nothing.py': (
        'from ml_collections import ConfigDict\nget_config = lambda arg: ConfigDict()', "lacks ['checkpoint'"
    ),
    'broken.json': ('{', 'cannot be read as JSON'), 'list.json': ('[1]', 'holds list'),
    'three.json': ('3', 'holds int'),
    'empty.json': ('{}', "lacks ['checkpoint'"), 'config.yaml': ('seed: 0', 'neither a .py nor a .json'),
}


@pytest.mark.parametrize('name', FILES)
def test_a_file_that_is_no_config(name, folder, capsys):
  text, words = FILES[name]
  (folder / name).write_text(text)
  assert words in refused_run([f'--config={name}'], capsys)


ROWS_OF = {
    'absent.jsonl': (None, 'no such file'), 'empty.jsonl': ('', 'has no rows'),
    'blank.jsonl': ('\n\n', 'has no rows'),
    'text.jsonl': ('hello\n', 'not JSON'), 'lists.jsonl': ('[1]\n', 'not an object'),
    'numbers.jsonl': ('3\n', 'not an object'),
    'columns.jsonl': ('{"a": 1}\n', "no 'answer'"),
    'null.jsonl': ('{"question": null, "answer": "x"}\n', "no 'question'"),
    'rows.csv': ('a,b\n', 'ends in none of'), 'nul.jsonl': ('\0' * 30, 'not JSON'),
    '.': (None, 'ends in none of'),
}


@pytest.mark.parametrize('name', ROWS_OF)
def test_a_file_that_has_no_rows(name, folder, capsys):
  text, words = ROWS_OF[name]
  if text is not None:
    (folder / name).write_text(text)
  assert words in refused_run([f'--config=sft/gsm8k:smoke,train={name}'], capsys)


def setting(**changes):
  """Other values in config.json; 'absent' takes one away."""

  def change(model):
    path = model / 'config.json'
    settings = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: x for name, x in settings.items() if x != 'absent'}))

  return change


def before_the_first(data):
  """A safetensors file one of whose tensors begins in its header."""
  size = int.from_bytes(data[:8], 'little')
  header = json.loads(data[8:8 + size])
  entry = next(x for name, x in header.items() if name != '__metadata__')
  start, stop = entry['data_offsets']
  entry['data_offsets'] = [start - stop, 0]
  text = json.dumps(header).encode()
  return len(text).to_bytes(8, 'little') + text + data[8 + size:]


def weights(change):
  def rewrite(model):
    path = model / 'model.safetensors'
    path.write_bytes(change(path.read_bytes()))

  return rewrite


def index(text):
  def change(model):
    (model / 'model.safetensors').unlink()
    (model / 'model.safetensors.index.json').write_text(text)

  return change


MODELS = {
    'no directory': (lambda model: shutil.rmtree(model), 'is not a Hugging Face model directory'),
    'no settings': (lambda model: (model / 'config.json').unlink(), 'is not a Hugging Face model directory'),
    'broken settings': (lambda model: (model / 'config.json').write_text('{'), 'is not the JSON of a config'),
    'another family': (setting(model_type='t5'), "model type 't5' is not supported"),
    'a text for a number': (setting(rms_norm_eps='x'), "norm_eps='x' of a decoder: needs a number"),
    'a negative eps': (setting(rms_norm_eps=-1.0), 'norm_eps=-1.0'),
    'no heads': (setting(num_attention_heads=0), 'num_heads=0'),
    'heads in words': (setting(num_attention_heads='4'), "num_heads='4'"),
    'layers below none': (setting(num_hidden_layers=-1), 'num_layers=-1'),
    'half a layer': (setting(num_hidden_layers=1.5), 'num_layers=1.5'),
    'no width': (setting(hidden_size=None), 'width=None'),
    'a width that is absent': (setting(hidden_size='absent'), "lacks 'hidden_size'"),
    'few words': (setting(vocab_size=3), 'are not those of'),
    'many words': (setting(vocab_size='many'), "vocab_size='many'"),
    'rope in words': (setting(rope_theta='x', rope_parameters='absent'), "'x'"),
    'another rope': (setting(rope_scaling={'rope_type': 'odd'}), "'odd' is not supported"),
    'rope of a number': (setting(rope_scaling=3, rope_parameters=3), 'cannot be'),
    'another activation': (setting(hidden_act='cubic'), "'cubic' is not supported"),
    'tied in words': (setting(tie_word_embeddings='yes'), "tied='yes' of a decoder: needs True or False"),
    'a length in words': (setting(max_position_embeddings='long'), 'long'),
    'more layers': (setting(num_hidden_layers=9), 'is missing'),
    'no tokenizer': (lambda model: [path.unlink() for path in model.glob('tokenizer*')], 'tokenizer'),
    'a broken tokenizer': (lambda model: (model / 'tokenizer.json').write_text('{'), 'no readable tokenizer'),
    'half of the weights': (weights(lambda data: data[: len(data) // 2]), 'ends after'),
    'a torn header': (weights(lambda data: data[:20]), 'is not a safetensors file'),
    'an empty file': (weights(lambda data: b''), 'is not a safetensors file'),
    'a tensor before the first': (weights(before_the_first), 'is not a safetensors file'),
    'garbage': (weights(lambda data: b'\xff' * 100), 'is not a safetensors file'),
    'a broken index': (index('{'), 'is not an index of files'),
    'an index of what is not there': (index('{"weight_map": {"a": "b.safetensors"}}'), 'lacks 1 of 1 files'),
}


@pytest.mark.parametrize('name', MODELS)
def test_a_model_that_cannot_be(name, folder, capsys):
  change, words = MODELS[name]
  shutil.copytree(MODEL, folder / 'model')
  change(folder / 'model')
  assert words in refused_run(['--config=sft/gsm8k:smoke,model=model'], capsys)


def with_nan(data: bytes) -> bytes:
  """The same file with one number that is none."""
  start = 8 + int.from_bytes(data[:8], 'little')
  return data[:start] + np.float32('nan').tobytes() + data[start + 4 :]


@pytest.mark.parametrize(('change', 'words'), [
    (weights(with_nan), 'weights that are infinite or NaN'),
    (lambda model: (model / 'model.safetensors').unlink(), 'has neither model.safetensors nor'),
])
def test_weights_that_only_show_when_they_are_read(change, words, folder, capsys):
  shutil.copytree(MODEL, folder / 'model')
  change(folder / 'model')
  argv = ['--config=sft/gsm8k:smoke,model=model', '--workdir=run', '--quiet']
  assert words in refused(argv, capsys)


@pytest.mark.parametrize(('argv', 'words'), [
    (['generate', '--model=nowhere', '--prompt=x'], 'is not a Hugging Face model directory'),
    (['generate', f'--model={MODEL}', '--prompt='], 'has no tokens'),
    (['generate', f'--model={MODEL}', '--prompt=x', '--system=hi'], 'add --chat'),
    (['generate', f'--model={MODEL}', '--prompt=x', '--max_tokens=0'], 'no whole number of at least 1'),
    (['generate', f'--model={MODEL}', '--prompt=x', '--samples=-1'], "'-1' is no whole number of at least 1"),
    (['generate', f'--model={MODEL}', '--prompt=x', '--top_k=-1'], "'-1' is no whole number of at least 0"),
    (['generate', f'--model={MODEL}', '--prompt=x', '--temperature=nan'], 'temperature=nan'),
    (['generate', f'--model={MODEL}', '--prompt=x', '--presence_penalty=nan'], 'presence_penalty=nan'),
    (['generate', f'--model={MODEL}', '--prompt=x', '--dtype=float31'], "did you mean 'float32'"),
    (['evaluate', f'--model={MODEL}', '--data=nowhere.jsonl', '--reward=x'], 'no such file'),
    (['evaluate', '--model=x', '--data=y', '--reward=z', '--k=0'], '--k=0'),
    (['evaluate', '--model=x', '--data=y', '--reward=z', '--batch_size=0'], '--batch_size'),
    (['evaluate', '--workdir=nowhere'], 'holds no run'), (['play', '--workdir=nowhere'], 'holds no run'),
    (['play', '--workdir=nowhere', '--episodes=0'], '--episodes'),
    (['play', '--workdir=nowhere', '--output=x.mp4'], 'call it NAME.gif'),
    (['play', '--workdir=nowhere', f'--seed={2**32}'], 'from 0 to 4294967295'),
    ([CONTROL, '--dry_run', "--config.mesh={'data': 'a', 'fsdp': 1, 'tensor': 1}"], "mesh.data='a'"),
    ([CONTROL, '--workdir=x', '--distributed', '--coordinator=here', '--num_processes=2', '--process_id=0'],
     'has no port; it is HOST:PORT'),
    (['report', '--workdir=nowhere'], 'holds no run'),
    (['export', '--workdir=nowhere', '--output=x'], 'holds no run'),
    (['compare', 'nowhere', '--output=x'], 'holds no run'),
    (['make-dataset', '--source=random', '--output=x', '--workdir=nowhere'], 'holds no run'),
    (['init-model', '--text=nowhere', '--output=x'], 'no such file'),
    (['init-model', '--text=nowhere', '--output=x', '--layers=0'], '--layers'),
    (['sweep', CONTROL, '--workdir=x', '--space.seed=1,2', '--jobs=0'], '--jobs'),
    (['sweep', CONTROL, '--workdir=x', '--space.seed=1,2', '--trials=0'], '--trials'),
    (['sweep', CONTROL, f'--workdir={__file__}', '--space.seed=1,2'], 'File exists'),
])
def test_a_wrong_argument_of_a_command(argv, words, capsys):
  assert words in refused(argv, capsys)


@pytest.mark.parametrize('command', ['report', 'evaluate', 'play', 'export', 'compare', 'make-dataset'])
@pytest.mark.parametrize(('text', 'words'), [('{', 'be read as JSON'), ('{"a": 1}', 'of no run of rlx')])
def test_a_directory_whose_config_is_of_no_run(command, text, words, folder, capsys):
  (folder / 'config.json').write_text(text)
  more = dict.fromkeys(('export', 'compare'), ['--output=x'])
  more['make-dataset'] = ['--source=mode', '--output=x']
  where = '.' if command == 'compare' else '--workdir=.'
  assert words in refused([command, where, *more.get(command, ())], capsys)


def started(*argv):
  """A command line as a process: exit code, and the last line that it says."""
  command = [sys.executable, '-m', 'rlx.experiments.launch', *argv]
  environment = {**os.environ, 'PYTHONPATH': str(Path(__file__).parents[1])}
  process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
  assert 'Traceback' not in process.stderr
  return process.returncode, process.stderr.splitlines()[-1]


PROCESSES = [
    (['--config=broken.py', '--workdir=run'], 'SyntaxError'),
    ([TEXT, '--workdir=run', '--config.rollout.group_size=0'], 'group_size=0: at least 1'),
    ([TEXT, '--workdir=run', '--config.seed=-1'], 'seed=-1: from 0 to'),
    ([CONTROL, '--workdir=run', '--config.optimizer.learning_rate=1e999'], 'learning_rate=inf: at least 0'),
    ([CONTROL, '--workdir=run', '--config.mesh.data=64'], 'needs 64 devices'),
    ([CONTROL, '--workdir=broken.py'], '--workdir=broken.py cannot be used: broken.py: File exists'),
    ([CONTROL, '--workdir=/proc/x'], '--workdir=/proc/x cannot be used'),
    ([TEXT, '--workdir=r', "--config.models.policy={'name': 'run', 'directory': 'a b', 'model': ''}"], 'a b'),
    ([ROWS, '--workdir=run', '--config.task.train=nowhere.jsonl', '--config.task.held_out='], 'no such file'),
    (['report', '--workdir=.'], '--workdir=. holds no run'),
]


@pytest.mark.parametrize(('argv', 'words'), [
    pytest.param(*row, marks=() if index < 2 else pytest.mark.slow) for index, row in enumerate(PROCESSES)
])
def test_a_process_ends_with_one_line_and_its_code(argv, words, folder):
  (folder / 'broken.py').write_text('def get_config(:')
  code, line = started(*argv)
  assert code == 2 and line.startswith('rlx: ') and words in line


THEIRS = '''
import jax, jax.numpy as jnp
from rlx.envs.control.environment import Discrete, Environment, timestep, with_time_limit

def corridor(*, reset: str, step: str, max_steps: int):
  def begin(key):
    place = jax.random.randint(key, (), 0, 4)
    return {'fine': (place, jnp.zeros(1)), 'place': place, 'ints': (place, jnp.zeros(1, int))}[reset]
  def go(place, action, key):
    if step == 'branches' and place > 2:
      place = place * 0
    new = jnp.clip(place + 2 * action - 1, 0, 4)
    made = timestep(new, jnp.zeros(1), 1.0, terminated=new == 4)
    return {'fine': made, 'floats': made._replace(state=new * 1.0), 'nothing': None}.get(step, made)
  env = Environment(reset=begin, step=go, observation_shape=(1,), actions=Discrete(2), random_return=0.0,
                    expert_return=1.0)
  return with_time_limit(env, max_steps)

def nothing(*, max_steps: int):
  return None
'''
BROKEN = {  # reset, step -> what is said
    ('place', 'fine'): ('reset cannot be traced: TypeError',),
    ('ints', 'fine'): ('the observation of reset is int32(1,); it needs float32(1,)',),
    ('fine', 'branches'): ('step cannot be traced: TracerBoolConversionError', 'theirs.py, line 10'),
    ('fine', 'floats'): ('the state is', 'after a step'),
    ('fine', 'nothing'): ("step cannot be traced: AttributeError: 'NoneType'",),
}


@pytest.mark.parametrize(('reset', 'step'), [*BROKEN, ('nothing', 'nothing')])
def test_an_environment_of_ones_own_that_breaks_the_contract(reset, step, folder, monkeypatch, capsys):
  Path('theirs.py').write_text(THEIRS)
  monkeypatch.syspath_prepend(folder)
  monkeypatch.delitem(sys.modules, 'theirs', raising=False)
  env = {'name': 'theirs.corridor', 'reset': reset, 'step': step, 'max_steps': 9}
  if reset == 'nothing':
    env = {'name': 'theirs.nothing', 'max_steps': 9}
  error = refused_run([CONTROL, f'--config.env={env}'], capsys)
  said = BROKEN.get((reset, step), ('nothing() returned None, which is no part of a run',))
  assert all(words in error for words in ('config.env: theirs.', *said)), error


def test_a_lock_that_somebody_else_wrote_is_left(folder, capsys):
  Path('run').mkdir()
  Path('run/run.lock').write_text('mine')
  assert 'run.lock was not made by rlx; move it' in refused([CONTROL, '--workdir=run'], capsys)
  assert Path('run/run.lock').read_text() == 'mine'
