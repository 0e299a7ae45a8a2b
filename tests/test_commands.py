"""The command line as it is typed: help, what there is, and mistakes that are told in one line."""

import argparse
import os
import subprocess
import sys

import pytest

from rlx import config, names
from rlx.experiments import catalogue, launch
from rlx.experiments import list as listing
from rlx.experiments.launch import COMMANDS, main

SECTIONS = {**listing.SECTIONS, 'algorithms': 'algorithm', 'reward-functions': 'reward'}

OF_SEVERAL = ('dual_rl', 'dynamic_weights', 'moorl', 'resfit')  # whose functions have names of their own


def said(capsys, *argv) -> str:
  assert main(list(argv)) == 0
  return capsys.readouterr().out


def helped(capsys, *argv) -> str:
  with pytest.raises(SystemExit) as end:
    main([*argv, '--help'])
  assert end.value.code == 0
  return capsys.readouterr().out


def test_help_says_of_every_command_what_it_does(capsys):
  lines = helped(capsys).splitlines()
  for command in ('train', *COMMANDS):
    (line,) = [line for line in lines if line.split()[:1] == [command]]
    assert len(line.split()) > 3, command


@pytest.mark.parametrize('command', ['train', *COMMANDS])
def test_every_command_has_help(command, capsys):
  assert 'usage: rlx' in helped(capsys, command)


@pytest.mark.parametrize('lines', [
    [['--help']], [['--version']], [['list', 'algorithms']],
    [[command, '--help'] for command in ('train', *COMMANDS)],
])
def test_what_only_prints_does_not_import_jax(lines):
  program = f'import sys; from rlx.experiments.launch import main\nfor line in {lines}:\n'
  program += '  try: main(line)\n  except SystemExit: pass\nsys.exit("jax" in sys.modules)'
  assert subprocess.run([sys.executable, '-c', program], check=False, stdout=subprocess.PIPE).returncode == 0


@pytest.mark.parametrize('imported', [False, True])
@pytest.mark.parametrize('given, found', [
    ({}, ['home/rlx/compiled', '0.5']),
    ({'JAX_COMPILATION_CACHE_DIR': 'own', 'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '2'}, ['own', '2.0']),
])
def test_compiled_programs_are_kept_in_a_folder(imported, given, found):
  """Whether jax is imported before or behind; what the user has set stays."""
  program = f"""from rlx.experiments import launch
if {imported}: import jax
launch.use_compilation_cache()
import jax
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)"""
  environment = {name: value for name, value in os.environ.items() if not name.startswith('JAX_')}
  environment |= {'XDG_CACHE_HOME': 'home', **given}
  told = subprocess.run([sys.executable, '-c', program], env=environment, check=True, stdout=subprocess.PIPE)
  assert told.stdout.decode().split() == found


@pytest.mark.parametrize('argv, words', [
    ([], '--config=NAME is missing'),
    (['train'], '--config=NAME is missing'),
    (['swep'], "no command 'swep'; did you mean 'sweep'?"),
    (['--confg=x'], "'--confg=x' is not understood; did you mean '--config'?"),
    (['train', '--config=quickstart/arithmetic', '--work_dir=x'], "did you mean '--workdir'?"),
    (['--config=quickstart/arithmetic', 'sweep'], "'sweep' is a command: it comes first"),
    (['--config=quickstart/arithmetic', 'runs/x'], "'runs/x' is none of train"),
    (['--config=quickstart/arithmatic'], "did you mean 'quickstart/arithmetic'?"),
    (['--config=quickstart/arithmetic', '-x'], "'-x' is not understood"),
    (['--config=quickstart/arithmetic', '--config.seed'], 'it is written --config.seed=VALUE'),
    (['sweep', '--config=sft/chat', '--space.seed', '1,2'], 'it is written --space.seed=VALUE'),
    (['compare', '--outputs=x'], "did you mean '--output'?"),
    (['compare'], 'RUN, --output; see rlx compare --help'),
    (['make-dataset', '--source=replayed', '--output=x'], "did you mean 'replay'?"),
    (['generate', '--model=x', '--colour=red'], "'--colour=red' is not understood; see rlx generate --help"),
    (['list', 'algorithm'], "did you mean 'algorithms'?"),
    (['list', 'configs', 'nothing like it'], "none of them has 'nothing like it'"),
    (['list', 'rewards', 'math'], "none of them has 'math' in its line; configs has"),
    (['--config=quickstart/arithmetic', "--config.reward={'name': 'a', 'b': 1}"], '--workdir=DIR is missing'),
    (['show', 'grop'], "'grop' is no config, no function of rlx, and no id of a paper; did you mean 'grpo'?"),
    (['show', 'completions'], 'latent.completions, nucleus.completions, prompts.completions'),
    (['list', 'papers', 'no such paper'], "none of them has 'no such paper'"),
    (['show', 'nobody.of.this_name'], "no package 'nobody' is installed"),
])
def test_a_mistake_is_one_line_and_exit_code_2(argv, words, capsys):
  assert main(argv) == 2
  error = capsys.readouterr().err
  assert words in error and error.count('\n') == 1 and error.startswith('rlx: ')


@pytest.mark.parametrize('kind', [kind for kind in listing.KINDS if kind not in ('configs', 'papers')])
def test_what_is_listed_can_be_named_in_a_config(kind, capsys):
  entries = listing.entries(kind)
  assert entries and len({entry.name for entry in entries}) == len(entries)
  for entry in entries:
    assert entry.what, entry
    if entry.name in OF_SEVERAL:
      assert entry.what in said(capsys, 'show', entry.name).replace('\n', ' ')
      continue
    packages = ('rlx',) if kind in catalogue.FORMULAS else names.PACKAGES[SECTIONS[kind]]
    assert callable(names.resolve(entry.name, *packages))


def test_configs_are_listed_with_what_they_are_and_their_paper(capsys):
  lines = said(capsys, 'list', 'configs').splitlines()
  assert [line.split()[0] for line in lines] == list(config.names())
  (line,) = said(capsys, 'list', 'configs', 'DAPO_arith').splitlines()
  assert line.split()[0] == 'policy_gradient/dapo_arithmetic' and line.endswith('https://arxiv.org/abs/2503.14476')


@pytest.mark.parametrize('argv, words', [
    (['list'], f'{len(config.names())} configs'),
    (['list', 'algorithms', '2402.03300'], 'grpo'),
    (['list', 'papers', 'galactic'], 'tests/papers/test_galactic.py (tested)'),
    (['list', 'papers', 'S002'], ': not built'),
    (['show', 'S002'], 'not built'),
    (['show', 'S001'], 'in agents/rooms_arpo: it shows'),
    (['show', 'S068'], 'in tests/papers/test_srl.py: tested'),
    (['list', 'reward-functions', 'humaneval'], 'code.humaneval'),
    (['list', 'losses', 'sequence_ratio'], 'losses.ratios.sequence_ratio'),
    (['list', 'controllers', 'thompson'], 'controllers.prompts.thompson'),
    (['show', 'grpo'], 'value     clip_low: float'),
    (['show', 'grpo'], 'asks for  reward: Annotate'),
    (['show', 'grpo'], 'value     reduction = reductions.sequence_mean'),
    (['show', 'grpo'], 'in quickstart/arithmetic: held-out accuracy 20.8'),
    (['show', 'grpo'], 'https://arxiv.org/abs/2402.03300'),
    (['show', 'arithmetic'], 'worst of ten seeds 93.5'),
    (['show', 'arithmetic'], 'rlx.envs.arithmetic.arithmetic'),
    (['show', 'ppo'], 'of the same name: rlx.algorithms.control.ppo.ppo'),
    (['show', 'dual_rl'], 'has: reverse_kl, chi_square'),
    (['show', 'quickstart/arithmetic'], 'sft.algorithm.name: sft'),
])
def test_what_is_there_is_said(argv, words, capsys):
  assert words in said(capsys, *argv)


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """A working folder with a package, from which nothing was imported."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, 'path', list(sys.path))
  (tmp_path / 'of_a_user').mkdir()
  (tmp_path / 'of_a_user/rewards.py').write_text('def f(completions, *, weight: int):\n  "Mine."\n')
  yield tmp_path
  for name in [name for name in sys.modules if name.startswith('of_a_user')]:
    del sys.modules[name]


def test_functions_of_the_working_folder_have_names(folder, capsys):
  assert 'Mine.' in said(capsys, 'show', 'of_a_user.rewards.f')


def test_configs_of_the_working_folder_import_from_it(folder, capsys):
  parent = 'rlx.experiments.configs.quickstart.arithmetic'
  (folder / 'of_a_user/x.py').write_text(f'from of_a_user import rewards\nfrom {parent} import get_config\n')
  assert main(['--config=of_a_user/x:smoke']) == 2
  assert '--workdir=DIR is missing' in capsys.readouterr().err


@pytest.mark.parametrize('argv', [['list', 'algorithms'], ['show', 'quickstart/arithmetic']])
def test_a_reader_that_goes_away_is_told_nothing(argv):
  """As `rlx list | head -1` does, but surely before the command writes."""
  reads, writes = os.pipe()
  os.close(reads)
  command = [sys.executable, '-m', 'rlx.experiments.launch', *argv]
  ended = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, check=False)
  os.close(writes)
  assert not ended.stderr and ended.returncode == 141


@pytest.mark.parametrize('name, rate', [
    ('quickstart/arithmetic', 'optimizer.learning_rate'),
    ('control/mpo_pendulum', 'optimizer.learning_rates.critic'),  # an optimizer for each model
    ('control/two_players', 'learners.first.optimizer.learning_rate'),  # one for each learner
    ('stages/judge_arithmetic', 'label.optimizer.learning_rate'),
])
def test_what_to_try_next_is_there_to_be_set(name, rate):
  values = config.load(f'{name}:smoke')
  arguments = argparse.Namespace(config=name, workdir='run')
  given = ['--config.steps=8', '--config.population.size=2']
  seeds, line, _ = launch._next(values, arguments, given).splitlines()
  assert '--config.steps=8' in seeds and seeds.count('--config.population.size') == 1
  assert 'run-lr' in line and '--config.steps=8 --config.population.size=2' in line
  override = line.split('--config.')[-1]
  assert override.startswith(rate)
  config.override(values, *override.split('='))


@pytest.mark.parametrize('line, answers', [
    ('rlx sw', {'sweep'}),
    ('rlx --config=quick', {'--config=quickstart/arithmetic'}),
    ('rlx train --dr', {'--dry_run'}),
    ('rlx compare --ou', {'--output'}),
    ('rlx play --w', {'--workdir'}),
    ('rlx evaluate --wo', {'--workdir', '--workers'}),
    ('rlx evaluate --workdir=runs/x --ev', {'--eval'}),
    ('rlx launch --cl', {'--cluster'}),
    ('rlx show quickstart/a', {'quickstart/arithmetic'}),
    ('rlx show S24', {f'S{number}' for number in range(240, 248)}),
    ('rlx sweep --sampler=', {'--sampler=tpe', '--sampler=random', '--sampler=grid'}),
])
def test_the_shell_is_told_what_could_follow(line, answers, tmp_path):
  pytest.importorskip('argcomplete')
  answer = tmp_path / 'answer'
  asked = {'_ARGCOMPLETE': '1', '_ARGCOMPLETE_IFS': '\n', '_ARGCOMPLETE_STDOUT_FILENAME': str(answer)}
  environment = {**os.environ, **asked, 'COMP_LINE': line, 'COMP_POINT': str(len(line))}
  subprocess.run([sys.executable, '-m', 'rlx.experiments.launch'], env=environment, check=False)
  assert set(answer.read_text().split()) == answers
