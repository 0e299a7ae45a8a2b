"""Claims: what is read of a run, when an assertion shows, and what is refused."""

import json
from pathlib import Path

from ml_collections import ConfigDict
import numpy as np
import pytest

from rlx.errors import ConfigError
from rlx.experiments import claims, compare, results
from rlx.experiments.claims import (
  Arm,
  Claim,
  Measured,
  Reading,
  above,
  best,
  final,
  mean,
  reaches,
  rise,
  until,
)

AT = np.array([0.0, 10.0, 20.0])
VALUES = np.array([[0.1, 0.9, 0.5], [0.0, 0.2, 0.4]])


@pytest.mark.parametrize('reading, expected', [
    (final('x'), [0.5, 0.4]),
    (rise('x'), [0.4, 0.4]),
    (rise('x', last=1), [-0.4, 0.2]),
    (best('x'), [0.9, 0.4]),
    (best('x', lower=True), [0.1, 0.0]),
    (mean('x'), [0.5, 0.2]),
    (mean('x', last=2), [0.7, 0.3]),
    (until('x', at_least=0.4), [10, 20]),
    (until('x', at_least=0.8), [10, 20]),  # never reached: the whole budget
])
def test_readings(reading, expected):
  np.testing.assert_allclose(reading.read(AT, VALUES), expected)


OFF = (Arm('off'),)


def a_claim(*asserts, reading=None, controls=OFF):
  return Claim(
      paper='S000', says='it helps', reading=reading or final('eval/x'), asserts=asserts, minutes=1.0,
      baseline=Arm('other'), controls=controls,
  )


def measured(budget=100.0, name='final eval/x', **arms):
  return {arm: Measured({name: np.array(x)}, budget) for arm, x in arms.items()}


SEEDS = np.array([0.3, 0.5, 0.4, 0.6, 0.5])
ARMS = {'other': SEEDS, 'off': SEEDS + [0.0, 0.01, -0.01, 0.01, -0.02]}


def judged(claim, arms):
  return claims.judge(claim, arms)[0]


def test_differences_are_taken_seed_by_seed():
  """Each seed gains 0.1, which is less than the seeds differ by."""
  part = judged(a_claim(above('other', by=0.05)), measured(run=SEEDS + 0.1, **ARMS))
  assert part.shows and not part.reason
  np.testing.assert_allclose([part.got, *part.interval], 0.1)


@pytest.mark.parametrize('gain, by, reason', [
    ([0.2, 0.2, -0.1, -0.1, 0.2], 0.05, 'the seeds leave it open'),
    ([0.0, 0.1, 0.0, 0.1, 0.0], 0.1, 'the run fails it'),
    (np.full(5, -0.1), 0.0, 'the reverse holds'),
    (np.full(5, -0.01), -0.03, "without the mechanism it holds as well: 'off'"),
])
def test_what_does_not_show_says_why(gain, by, reason):
  part = judged(a_claim(above('other', by=by)), measured(run=SEEDS + gain, **ARMS))
  assert not part.shows and part.reason == reason


def test_a_control_that_passes_takes_the_verdict():
  arms = measured(run=SEEDS + 0.2, **{**ARMS, 'off': SEEDS + 0.15})
  claim = a_claim(above('other', by=0.1), above('off', by=0.04))
  parts = claims.judge(claim, arms)
  assert [part.shows for part in parts] == [False, True]
  assert parts[0].reason == "without the mechanism it holds as well: 'off'"
  assert claims.verdict(parts) == "shows in part (above 'off' by 0.04)"
  assert claims.verdict(parts[:1]) == 'does not show'
  assert claims.verdict(parts[1:]) == 'shows'


def test_a_run_that_spent_more_shows_nothing():
  arms = {**measured(run=SEEDS + 0.2, budget=150.0), **measured(**ARMS)}
  part = judged(a_claim(above('other')), arms)
  assert part.reason == "the run had 1.50 times the train steps of 'other'"
  assert judged(a_claim(above('other')), {**arms, **measured(run=SEEDS + 0.2, budget=90.0)}).shows


def test_less_is_better_where_a_reading_says_so():
  reading = until('eval/x', at_least=0.5)
  arms = measured(name=reading.name, run=[10, 20, 10, 10, 20], other=[40] * 5, off=[40] * 5)
  part = judged(a_claim(above('other', by=15), reading=reading), arms)
  assert part.shows and part.claimed == "below 'other' by 15"


def test_the_worst_seed_is_asked_for():
  arms = measured(run=[500, 500, 390, 500, 500], other=[1] * 5, off=[9] * 5)
  assert not judged(a_claim(reaches(400, of='worst')), arms).shows
  part = judged(a_claim(reaches(380, of='worst')), arms)
  assert part.shows and part.got == 390 and part.claimed == 'the worst seed above 380'


@pytest.mark.parametrize('make, words', [
    (lambda: a_claim(above('nobody')), "beside 'nobody'; its arms are run, other, off"),
    (lambda: a_claim(above('off'), controls=(Arm('other'),)), 'each with a name of its own'),
    (lambda: a_claim(), 'something that it asserts'),
    (lambda: a_claim(above('off', of='luck')), 'interquartile mean, mean, median, worst'),
    (lambda: Claim('', 'x', final('x'), (reaches(1.0),), 1.0, controls=(Arm('off'),), seeds=3), '3 seeds'),
])
def test_claims_that_are_none(make, words):
  with pytest.raises(ConfigError, match=words):
    make()


def test_an_argument_comes_on_top_of_every_arm():
  claim = a_claim(above('other'), controls=(Arm('off', config='a/b:jointly=True'), Arm('zero', {'x': 0.0})))
  smoke = claims.with_argument(claim, 'smoke')
  paths = [claims.path_of('a/c', smoke, arm) for arm in smoke.arms]
  assert paths == ['a/c:smoke', 'a/c:smoke', 'a/b:jointly=True,smoke', 'a/c:smoke']


@pytest.mark.parametrize('read', [
    lambda at, values: values[:2, -1],  # two of five seeds
    lambda at, values: values,  # every point
    lambda at, values: values.mean(),
])
def test_a_reading_has_a_number_a_seed_or_one_a_group(read):
  claim = a_claim(above('other'), reading=Reading('eval/x', 'some of', read))
  line = compare.Line('run', {}, AT, np.ones((5, 3)))
  with pytest.raises(ConfigError, match='a reading is one number a seed'):
    results.make('quickstart/arithmetic', claim, {arm.name: {'eval/x': line} for arm in claim.arms}, {}, {})


def test_claims_of_the_tree_can_be_run():
  """Every arm is a config with these keys, and every control differs from the run."""
  known = claims.named()
  assert known
  for name, claim in known.items():
    digests = [claims.digest(name, claim, arm) for arm in claim.arms]
    assert len(set(digests)) == len(digests), name
    for config in (claims.config_of(name, claim, arm) for arm in claim.arms):
      stages = [config if stage == 'main' else config[stage] for stage in config.stages]
      assert not [stage.steps for stage in stages if stage.steps % config.log.steps_per_dispatch], name


def test_a_digest_does_not_say_where_rlx_stands(monkeypatch, tmp_path):
  name = 'tools/gsm8k_calculator'  # its model is one of rlx's own files
  claim = claims.of(name)
  there = claims.digest(name, claim, claim.arms[0])
  at_home, moved = str(Path(claims.__file__).parent), str(tmp_path / 'elsewhere')
  config_of = claims.config_of
  text = config_of(name, claim, claim.arms[0]).to_json()
  assert at_home in text
  elsewhere = ConfigDict(json.loads(text.replace(at_home, moved)))
  monkeypatch.setattr(claims, 'config_of', lambda *arguments: elsewhere)
  monkeypatch.setattr(claims, '__file__', f'{moved}/claims.py')
  monkeypatch.setattr(claims, 'together', lambda *arguments: False)
  assert claims.digest(name, claim, claim.arms[0]) == there
