"""Configs: every mistake is one clear line, and a section is exactly a call."""

import os
from pathlib import Path

import jax.numpy as jnp
from ml_collections import ConfigDict
import pytest

from rlx import config as configs
from rlx.config import ConfigError
from rlx.run.build import build
from rlx.run.parts import call

ROOT = Path(__file__).parent.parent
QUICKSTART = 'experiments/configs/quickstart/arithmetic.py:smoke'


def changed(*overrides):
  config = configs.load(QUICKSTART)
  for text in overrides:
    configs.override(config, *text.split('=', 1))
  return config


@pytest.mark.parametrize(
    'text, words',
    [
        ('algorithm.clip_hig=1', "did you mean 'algorithm.clip_high'?"),
        ('algoritm.clip_high=1', "did you mean 'algorithm.clip_high'?"),
        ('algorithm.clip_high=abc', 'needs float, like the 0.2'),
        ('algorithm.clip_high=nan', 'needs float, like the 0.2'),
        ('seed=1.5', 'needs int'),
        ('stages=3', 'needs tuple'),
        ('algorithm=3', 'is a section; set one of its values: clip_high'),
        ('steps.x=3', "has no 'steps.x'"),
    ],
)
def test_overrides_name_the_mistake(text, words):
  with pytest.raises(ConfigError) as error:
    changed(text)
  assert words in str(error.value) and '\n' not in str(error.value)


def test_overrides_keep_types():
  config = changed(
      'algorithm.clip_high=1', 'models.policy.tied=false', "stages=('main',)", 'task.operators=+-'
  )
  assert config.algorithm.clip_high == 1.0 and isinstance(config.algorithm.clip_high, float)
  assert config.models.policy.tied is False and config.stages == ('main',)
  assert config.sft.task.operators == '+-', 'the stages share one task'
  assert changed('optimizer.clip_norm=inf').optimizer.clip_norm == float('inf')


@pytest.mark.parametrize(
    'overrides, words',
    [
        (['rollout.group_size=7'], 'group_size=7 does not divide rollout.batch_size=16'),
        (['stages=(1,)'], "end with 'main'"),
        (['stages=("main",)'], "nobody enters ['sft']"),
        (['mesh.fsdp=16'], 'needs 16 devices, 8 are free'),
        (['mesh.data=3'], 'batch_size=16 is not divisible by the 3 devices'),
        (['steps=3'], 'multiple of log.steps_per_dispatch=2'),
        (['evals.held_out.every=3'], 'multiple of log.steps_per_dispatch=2'),
        (['checkpoint.keep=1'], 'at least 2'),
        (['models.policy.num_kv_heads=3'], 'num_kv_heads=3 does not divide num_heads'),
        (['models.policy.num_heads=3'], 'num_heads=3 does not divide width=64'),
        (['score.packed_columns=64'], 'config.score: packed_columns=64, packed_rows=0'),
        (['decoding.sampler=cdf'], "need 'gumbel' or 'inverse_cdf'"),
        (['models.policy.attention=flash'], "attention='flash' is not one of"),
        (['algorithm.name=grop'], "did you mean 'grpo'?"),
        (['algorithm.name=yours.mine'], "no package 'yours' is installed, or in a folder"),
        (['optimizer.name=sgd'], "no function 'sgd'"),
        (['algorithm.name=rloo'], "config.algorithm has ['clip_high', 'clip_low'"),
        (['task.name=sorting'], "config.task has ['max_operand', 'min_operand', 'operators']"),
        (['decoding.top_p=0.0'], 'top_p=0.0'),
        (['sft.decoding.max_tokens=2'], 'solutions take up to'),
        (['trained=("actor",)'], "trained and slow name ['actor']; config.models has ['policy']"),
        (['log.headline=eval/other/accuracy'], "is of none of the evaluations ['eval/held_out']"),
        (['updates.epochs=0'], 'at least 1 each'),
        (['population.size=0'], 'from 1 to 2147483647'),
        (['sft.stop.metric=3', 'sft.stop.at_least=x'], 'needs float'),
        (['task.held_out_share=0.0'], 'leaves one part empty'),
    ],
)
def test_a_config_that_cannot_run_says_so_in_one_line(overrides, words):
  from rlx.run import train

  with pytest.raises(ConfigError) as error:
    train.check(build(changed(*overrides)))
  assert words in str(error.value) and '\n' not in str(error.value), str(error.value)


@pytest.mark.parametrize(
    'overrides, words',
    [
        (['updates.minibatches=3'], 'minibatches=3 does not divide the 16 rows'),
        (['updates.microbatches=3'], 'microbatches=3 does not divide the 16 rows'),
        (['decoding.max_tokens=40'], 'do not fit the context of 32'),
        (['algorithm.kl.name=kl_in_loss'], "lacks ['coef']"),
        (['score.packed_columns=4', 'score.packed_rows=2'], 'packed_columns=4 is less than the 10 columns'),
        (['models.policy.attention=cudnn'], "implementation='cudnn' cannot run here"),
    ],
)
def test_a_program_that_cannot_be_built_says_so_before_the_first_stage(overrides, words):
  from rlx.run import train

  with pytest.raises(ConfigError) as error:
    train.check(build(changed('mesh.data=1', *overrides)))
  assert words in str(error.value) and '\n' not in str(error.value), str(error.value)


def test_a_section_is_set_whole_or_added():
  config = changed("optimizer={'name': 'adam', 'learning_rate': 0.1}", "evals.more={'name': 'verified'}")
  assert config.optimizer.to_dict() == {'name': 'adam', 'learning_rate': 0.1}
  assert config.evals.more.name == 'verified' and 'held_out' in config.evals and config.is_locked
  configs.override(config, 'evals.more.name', 'rewarded')
  assert config.evals.more.name == 'rewarded'
  with pytest.raises(ConfigError, match="seed={'name': 1}: needs int"):
    changed("seed={'name': 1}")
  with pytest.raises(ConfigError, match="no 'evil'"):
    changed("evil.more={'name': 'verified'}")


def test_the_config_that_a_run_left_is_a_config_again(tmp_path):
  config = configs.load(QUICKSTART)
  (tmp_path / 'config.json').write_text(config.to_json())
  again = configs.load(str(tmp_path / 'config.json'))
  assert again == config and isinstance(again.stages, tuple)
  configs.override(again, 'algorithm.clip_high', '0.3')
  assert configs.differences(config, again) == ['algorithm.clip_high: 0.2 -> 0.3']


def test_missing_files_and_arguments(tmp_path):
  with pytest.raises(ConfigError, match='no such file'):
    configs.load('nowhere.py')
  empty = tmp_path / 'empty.py'
  empty.write_text('')
  with pytest.raises(ConfigError, match='defines no get_config'):
    configs.load(str(empty))
  with pytest.raises(ConfigError, match="takes no argument 'smok'; did you mean 'smoke'"):
    configs.load(QUICKSTART.replace('smoke', 'smok'))


def test_differences_name_keys():
  old, new = {'a': {'b': 1, 'c': 2}}, {'a': {'b': 1, 'c': 3}, 'd': 4}
  assert configs.differences(old, old) == []
  assert configs.differences(old, new) == ['a.c: 2 -> 3', "d: '(absent)' -> 4"]


def test_call_takes_exactly_what_the_function_asks_for():
  def function(part, *, x, y=2):
    return part, x, y

  assert call(function, {'name': 'f', 'x': 1}, 'section', {'part': lambda: 'p'}) == ('p', 1, 2)
  assert call(function, {'name': 'f', 'x': 1, 'y': 3}, 'section', {'part': lambda: 'p'}) == ('p', 1, 3)
  wrong = [({}, "lacks ['x']"), ({'x': 1, 'z': 2}, "has ['z']")]
  for section, words in wrong:
    with pytest.raises(ConfigError) as error:
      call(function, section, 'section', {'part': lambda: 'p'})
    assert words in str(error.value)
  with pytest.raises(ConfigError, match='asks for'):
    call(function, {'x': 1}, 'section', {})


def test_parse_arg():
  values = configs.parse_arg('smoke,layers=4', smoke=False, layers=2, name='x')
  assert values.to_dict() == {'smoke': True, 'layers': 4, 'name': 'x'}
  assert isinstance(values, ConfigDict)
  with pytest.raises(ConfigError, match="takes no argument 'zzz'; it takes smoke, layers$"):
    configs.parse_arg('zzz', smoke=False, layers=2)
  with pytest.raises(ConfigError, match="takes no argument 'x'; it takes none"):
    configs.parse_arg('x')
  with pytest.raises(ConfigError, match='^the argument layers=many of the config: needs int, like the 2'):
    configs.parse_arg('layers=many', layers=2)


PARTS = {
    'name': 'policy_gradient',
    'baseline': {'name': 'rlx.advantages.groups.normalised', 'eps': 1e-4},
    'weight': {'name': 'rlx.losses.weights.equal'},
    'level': {'name': 'rlx.losses.ratios.sequence_ratio'},
    'surrogate': {'name': 'rlx.losses.policy.clipped', 'clip_low': 3e-4, 'clip_high': 4e-4},
    'reduction': {'name': 'rlx.reductions.sequence_mean'},
    'kl': {'name': 'no_kl'},
    'kl_estimator': {'name': 'kl_k3'},
    'entropy_coef': 0.0,
    'correction': {'name': 'rlx.losses.corrections.none'},
    'correction_level': {'name': 'rlx.losses.ratios.ratio'},
}


def with_parts(*overrides, **parts):
  config = configs.load(QUICKSTART)
  with config.unlocked():
    config.algorithm = {**PARTS, **parts}
  for text in overrides:
    configs.override(config, *text.split('=', 1))
  return config


def test_a_value_can_be_a_function_with_its_numbers():
  seen = {}

  def factory(task, *, clip, plain):
    seen.update(task=task, clip=clip, plain=plain)
    return seen

  section = {'clip': {'name': 'rlx.losses.policy.clipped', 'clip_low': 0.5, 'clip_high': 1.0}, 'plain': 3}
  call(factory, section, 'algorithm', {'task': lambda: 'a task'})
  assert seen['clip'](jnp.float32(2.5), jnp.float32(1)) == -2 and seen['plain'] == 3
  build(with_parts('algorithm.surrogate.clip_high=0.1'))


@pytest.mark.parametrize('parts, words', [
    ({'surrogate': {'name': 'rlx.losses.policy.clipped', 'clip_low': 0.2}},
     "config.algorithm.surrogate lacks ['clip_high'], which clipped() needs"),
    ({'surrogate': {'name': 'rlx.losses.policy.clipped', 'clip_lo': 0.2, 'clip_high': 0.2}},
     "config.algorithm.surrogate has ['clip_lo'], which clipped() does not know; did you mean 'clip_low'?"),
    ({'level': {'name': 'rlx.losses.ratios.sequnce_ratio'}}, "there is no function 'sequnce_ratio'"),
])
def test_a_function_among_the_values_is_checked_as_a_section_is(parts, words):
  with pytest.raises(ConfigError) as error:
    build(with_parts(**parts))
  assert words in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize('name, file', [
    ('quickstart/arithmetic', 'quickstart/arithmetic.py'),
    ('quickstart/arithmetic.py', 'quickstart/arithmetic.py'),
    ('dapo_arithmetic', 'policy_gradient/dapo_arithmetic.py'),
    ('arithmetic', 'quickstart/arithmetic.py'),
])
def test_configs_of_rlx_have_short_names_everywhere(name, file, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert configs.find(name).samefile(ROOT / 'experiments/configs' / file)


@pytest.mark.parametrize('name', ['quickstart/arithmetic.py', 'quickstart/arithmetic'])
def test_what_exists_in_the_working_directory_wins(name, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'quickstart').mkdir()
  (tmp_path / 'quickstart/arithmetic.py').write_text('def get_config(arg): ...')
  assert configs.find(name).samefile(tmp_path / 'quickstart/arithmetic.py')


@pytest.mark.parametrize('name, words', [
    ('quickstart/arithmatic', "no such file in .*did you mean 'quickstart/arithmetic'"),
    ('experiments/configs/quickstart/arithmetic.py', "did you mean 'quickstart/arithmetic'"),
    ('a', 'rlx list configs'),
    ('gsm8k_grpo_lroa', "did you mean 'math/gsm8k_grpo_lora'"),
])
def test_a_config_that_is_nowhere(name, words, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(configs.ConfigError, match=words):
    configs.load(f'{name}:smoke')


def test_a_short_name_of_several_configs_is_refused(monkeypatch):
  monkeypatch.setattr(configs, 'names', lambda: {'a/same': ROOT, 'b/same': ROOT})
  with pytest.raises(configs.ConfigError, match='in several places; say which: a/same, b/same'):
    configs.find('same')


def test_no_config_asks_for_a_file_of_the_working_directory(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name in configs.names():
    config = dict(configs.flat(configs.load(f'{name}:smoke')))
    paths = [x for x in config.values() if isinstance(x, str) and 'experiments/' in x]
    assert all(os.path.isabs(path) and os.path.exists(path) for path in paths), name
