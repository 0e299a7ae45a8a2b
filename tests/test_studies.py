"""Studies: their tasks are right, and each runs from its command line to a page."""

from collections import Counter
import dataclasses

import jax
import numpy as np
import pytest

from rlx.envs.conformance import check_task
from rlx.experiments.configs.math import word_problems
from rlx.experiments.studies import (
  common,
  control,
  estimators,
  formats,
  harmless,
  presets,
  problems,
  savings,
  solutions,
  staleness,
  tricks,
)


@pytest.mark.slow
def test_both_formats_are_right_and_told_apart():
  task = formats.two_formats(max_operand=99, reversed_share=0.5, held_out_share=0.1)
  check_task(task)
  problems = jax.device_get(task.sample(jax.random.key(0), 200, False))
  for prompt, plain, backwards in zip(
      problems['prompts'], problems['plain'], problems['backwards'], strict=True
  ):
    left, right = task.decode(prompt).rstrip('=').split('+')
    total = str(int(left) + int(right))
    assert task.decode(plain) == total and task.decode(backwards) == '-' + total[::-1]
  marked = np.asarray(formats._shares(problems['solutions'])['reversed'])
  assert 0.35 < marked.mean() < 0.65
  for name in ('plain', 'backwards'):
    assert task.verify(problems, problems[name]).all()
  swapped = {**problems, 'plain': problems['plain'][::-1], 'backwards': problems['backwards'][::-1]}
  assert task.verify(swapped, problems['plain']).mean() < 0.1


def test_differences_are_paired_by_seed_and_setting():
  """Two scales and two means; the token mean is 10 points better wherever it is, the scale does nothing."""
  ends = lambda x: np.array([[0.1, 0.1, 0.1], [x, x + 0.2, x + 0.1]])
  curve = lambda x: common.Curve(np.array([0, 1]), {'greedy': ends(x)})
  rest = ('0.2', 'all rows')
  curves = {
      (scale, rest[0], mean, rest[1]): curve(0.5 + 0.1 * (mean == 'token'))
      for scale in ('group std', 'no std') for mean in ('sequence', 'token')
  }
  text = tricks._by_factor(curves)
  better = '+10.0 (+10.0 to +10.0), furthest +10.0, better in 100 %'
  assert f'| mean | sequence -> token | {better} | +5.0' in text
  assert '| scale | group std -> no std | +0.0 (+0.0 to +0.0), furthest +0.0, better in 0 %' in text
  assert 'batch std' not in text and 'upper clip' not in text


def test_methods_are_compared_seed_by_seed_at_equal_rows(tmp_path):
  budgets = {method: problems._budget(method, 90) for method in problems.METHODS}
  rows = lambda method: budgets[method]['steps'] * word_problems.ROWS['sft' if method == 'sft' else 'main']
  assert {rows(method) for method in budgets} == {90 * 128}
  curve = lambda end: [0.4, *np.linspace(0.4, end, problems.POINTS)]
  found = {method: [(curve(end), 2000.0) for end in (0.6, 0.7, 0.65)] for method in problems.METHODS}
  found['sft'] = [(curve(end), 1.0) for end in (0.5, 0.65, 0.6)]
  problems._write(tmp_path / 'page', found, {'sft': 600, 'main': 90})
  page = (tmp_path / 'page.md').read_text()
  assert '40.0 (40.0 to 40.0) %' in ' '.join(page.split()) and (tmp_path / 'page.png').stat().st_size > 5000
  rloo = next(line for line in page.splitlines() if line.startswith('| RLOO'))
  assert '| 65.0 (60.0 to 70.0) |' in rloo and '| +6.7 (+5.0 to +10.0) |' in rloo and rloo.endswith('| 2 |')


@pytest.mark.slow
def test_a_curve_of_control_begins_before_the_first_step(monkeypatch):
  numbers = {**control.PROBLEMS['Pendulum'].numbers, 'num_envs': 2, 'num_steps': 4, 'num_minibatches': 2}
  problem = dataclasses.replace(control.PROBLEMS['Pendulum'], env_steps=80, max_steps=3, numbers=numbers)
  monkeypatch.setattr(control, 'EPISODES', 2)
  returns = control.ours(problem, seeds=2)
  assert returns.shape == (control.POINTS + 1, 2) and np.isfinite(returns).all()
  assert len(set(returns[:, 0])) > 1  # other weights, the same episodes
  config = control.config_of(problem, seeds=2)
  assert config.steps * problem.rows == 80 and config.models.policy.network.activation == 'silu'
  assert config.optimizer.learning_rate == 1e-3 and config.algorithm.value_clip == 0.2


def test_the_page_of_control_has_both_sides_of_each_problem(tmp_path):
  curve = lambda end: {'returns': np.linspace(0, [end] * 9 + [end + 1], control.POINTS + 1), 'seconds': 30}
  found = {
      (name, side): curve(2.0 if side == 'rlx' else 1.5)
      for name in control.PROBLEMS for side in control.SIDES
  }
  control._write(tmp_path / 'page', found)
  line = next(x for x in (tmp_path / 'page.md').read_text().splitlines() if x.startswith('| CartPole'))
  assert line.startswith('| CartPole | 100,000 | 2.0, 2.0 | 1.5, 1.5 | 1.1 | 0.8 | 0.91 (')
  assert (tmp_path / 'page.png').stat().st_size > 5000


SMOKE = ('--smoke', '--steps=4', '--every=2', '--sft_steps=2', '--seeds=3', '--problems=20')


@pytest.mark.slow
@pytest.mark.parametrize('study', [tricks, formats, savings, staleness, presets])
def test_a_study_runs_to_its_page(study, tmp_path):
  more = ['--shares', '0.5'] if study is formats else []
  study.main([*SMOKE, f'--output={tmp_path}/page', *more])
  assert (tmp_path / 'page.md').read_text().count('| ') > 10
  assert (tmp_path / 'page.png').stat().st_size > 5000


@pytest.mark.slow
def test_a_study_goes_on_behind_what_it_has_kept(tmp_path, capsys):
  run = lambda *more: tricks.main([*SMOKE, f'--output={tmp_path}/page', *more]) or capsys.readouterr().out
  assert run().count(' CPU-s ') == 2
  page, kept = tmp_path / 'page.md', tmp_path / 'page.json'
  written, (first, _) = page.read_bytes(), kept.read_text().split(',\n')
  assert run() == '' and page.read_bytes() == written
  kept.write_text(first + '}')  # it was stopped behind the first variant
  assert run().count(' CPU-s ') == 1
  assert run('--every=4').count(' CPU-s ') == 2  # what was asked for is something else


def test_estimators_have_the_bias_that_algebra_says():
  of = lambda name, size: estimators.measured(estimators.ESTIMATORS[name], size, batches=4000)
  np.testing.assert_allclose(of('mean of the others (RLOO)', 4)['length'], 1, atol=0.04)
  centred = of('mean of the group (Dr. GRPO)', 4)  # its own reward is in its mean
  np.testing.assert_allclose(centred['length'], 3 / 4, atol=0.04)
  assert centred['turned'] < 2
  plain, shifted = of('no baseline', 4), of('no baseline, rewards of -1 and 1', 4)
  np.testing.assert_allclose(shifted['length'], 2, atol=0.1)
  assert shifted['noise'] > plain['noise'] and shifted['explained'] < plain['explained']


def test_what_is_saved_is_told_beside_what_chance_does(tmp_path):
  accuracy = lambda *ends: common.Curve(
      np.array([0, 30, 60]), {'greedy': np.array([[0.2, 0.2, 0.2], [0.4, 0.4, 0.4], ends])}
  )
  plain, chance, same = accuracy(0.5, 0.6, 0.7), accuracy(0.6, 0.5, 0.9), accuracy(0.5, 0.6, 0.7)
  curves = {savings.PLAIN: plain, savings.CHANCE: chance, 'slots': same}
  arguments = common.parser('savings', savings.__doc__, steps=60, sft_steps=0).parse_args([])
  savings.write(tmp_path / 'page', curves, arguments, 60.0)
  rows = (tmp_path / 'page.md').read_text().splitlines()[-3:]
  nothing = '+0.0 (+0.0 to +0.0), furthest +0.0'
  assert rows[0] == f'| {savings.PLAIN} | 60.0 (50.0 to 70.0) |  |  |  |'
  assert rows[1].startswith(f'| {savings.CHANCE} | 60.0 (50.0 to 90.0) | {nothing} | +6.7 (')
  assert ', furthest +20.0 | +2.2 (' in rows[1] and rows[1].endswith(', furthest +6.7 |')
  assert rows[2] == f'| slots | 60.0 (50.0 to 70.0) | {nothing} | {nothing} | {nothing} |'


def test_old_samples_are_told_beside_fresh_ones_of_the_same_bound(tmp_path):
  curve = lambda end: common.Curve(np.array([0, 50]), {
      'greedy': np.array([[0.2, 0.3, 0.4], [end, end + 0.1, end + 0.1]]),
      'train/policy/entropy': np.array([[0.5, 0.5, 0.5], [0.1, 0.3, 0.2]]),
  })
  curves = {variant: curve(0.6 if variant[1] == staleness.FRESH else 0.5) for variant in staleness.VARIANTS}
  curves |= {variant: curve(0.4) for variant in curves if variant[0] == '0.05'}
  arguments = common.parser('staleness', staleness.__doc__, steps=50, sft_steps=0).parse_args([])
  staleness.write(tmp_path / 'page', curves, arguments, 60.0)
  page = (tmp_path / 'page.md').read_text()
  assert '| 0.2 | fresh | none | 70.0 (60.0 to 70.0) |  |  | 0.200 |' in page
  less = '| 60.0 (50.0 to 60.0) | -10.0 (-10.0 to -10.0) | -5.0 (-5.0 to -5.0) | 0.200 |'
  assert f'| 0.2 | 8 old | none {less}' in page and page.count(less) == 15
  assert page.count('| +0.0 (+0.0 to +0.0) | +0.0 (+0.0 to +0.0) |') == 5


def test_presets_stand_in_the_order_of_their_training_beside_grpo(tmp_path):
  curve = lambda *ends: common.Curve(np.array([0, 60]), {
      'greedy': np.array([[0.2, 0.2, 0.2], ends]),
      f'pass@{presets.SAMPLES}': np.array([[0.5] * 3, [0.8] * 3]),
      'train/policy/entropy': np.array([[0.5] * 3, [0.1, 0.3, 0.2]]),
  })
  curves = {presets.GRPO: curve(0.5, 0.6, 0.7), 'rloo': curve(0.7, 0.8, 0.9), 'dapo': curve(0.3, 0.4, 0.5)}
  arguments = common.parser('presets', presets.__doc__, steps=60, sft_steps=0).parse_args(['--seeds=3'])
  presets._write(tmp_path / 'page', curves, dict.fromkeys(curves, 2), arguments, 60.0)
  page = (tmp_path / 'page.md').read_text()
  assert 'stopped at 20.0 (20.0 to 20.0) %' in page and (tmp_path / 'page.png').stat().st_size > 5000
  rows = page.splitlines()[-3:]
  assert [row.partition(']')[0] for row in rows] == [f'| [{name}' for name in ('rloo', 'grpo', 'dapo')]
  ends = '| 2 | 80.0 (70.0 to 90.0) | 50.0 (45.0 to 55.0) | 80.0 (80.0 to 80.0) | 0.200 |'
  assert rows[0].endswith(f'{ends} +10.0 (+10.0 to +10.0) |') and rows[1].endswith('| 0.200 |  |')
  assert rows[2].endswith('| -10.0 (-10.0 to -10.0) |')
  assert presets._sentence(curves, 'dapo', arguments).startswith(
      'held-out accuracy, median of 3 seeds (worst to best), after 60 steps at `:small`: 40.0 (30.0 to 50.0) '
      '%, GRPO from the same models 60.0 (50.0 to 70.0) %'
  )


def test_solutions_are_compared_with_where_each_seed_began(tmp_path):
  accuracy = {'SFT': [0.2, 0.4, 0.3], **{name: [0.3, 0.3, 0.5] for name in solutions.METHODS}}
  metrics = ('f1', 'first_wrong', 'all_right', 'auc', 'accuracy', 'chosen')
  rows = [dict.fromkeys((f'eval/held_out/{name}' for name in metrics), x) for x in (0.5, 0.6, 0.7)]
  asked = dict.fromkeys((*solutions.ASKED, 'steps'), rows)
  solutions.write(tmp_path / 'page', accuracy, asked, solutions.STEPS)
  page = (tmp_path / 'page.md').read_text()
  assert '| SFT | 30.0 (20.0 to 40.0) | +0.0 (+0.0 to +0.0) | | |' in page
  assert '| Step-DPO | 30.0 (30.0 to 50.0) | +10.0 (-10.0 to +20.0) | 60.0 (50.0 to 70.0) | +0.6 |' in page
  assert 'the first wrong step of 60.0 (50.0 to 70.0) %' in ' '.join(page.split())


def test_the_page_of_preferences_has_each_seed_and_what_it_gained(tmp_path):
  metrics = ('nll', 'accuracy', 'shorter', 'margin', 'reward', 'kl', 'tokens')
  rows = lambda *values: [dict.fromkeys((f'eval/held_out/{name}' for name in metrics), x) for x in values]
  steps = dict(harmless.STEPS)
  found = {'pretrained': rows(7.0, 4.0), 'student': rows(7.0, 5.0)}
  planned = harmless.planned(tmp_path, dict.fromkeys(('texts', 'texts_held_out', 'train', 'held_out'), 'x'),
                             9, steps, 3)
  for name in planned.keys() - found.keys():
    found[name] = rows(0.5, 0.6 + 0.1 * int(name[-1]))
  found |= {f'gkd_{seed}': rows(5.0, 0.5) for seed in range(3)}
  counts = Counter({'all': 9, 'train': 5, 'held out': 3, 'too long': 1})
  harmless.write(tmp_path / 'page', found, counts, 0.62, 'not asked', steps)
  page = (tmp_path / 'page.md').read_text()
  assert '| pretrained, once | nats a token | 7.00 | 4.00 | 4.00 | 4.00 |' in page
  assert '| DPO | implicit accuracy | 0.500 | 0.700 | 0.600 | 0.800 |' in page
  assert '| GRPO, in one run, reward | +0.200 (+0.100 to +0.300) |' in page
  assert '| GKD less as much SFT, nats a token | -0.200 (-0.300 to -0.100) |' in page
  assert '1 too long (characters at most' in page and 'Medians of 3 seeds' in page


def test_a_run_of_stages_is_looked_at_from_the_end_of_the_last_but_one():
  stages = ('sft', 'rewarding', 'rewarding', 'ppo', 'ppo')
  rows = [{'stage': stage, 'step': step} for step, stage in enumerate(stages)]
  assert [row['step'] for row in harmless.last_stage(rows)] == [2, 3, 4]
  assert harmless.last_stage(rows[3:]) == rows[3:]
