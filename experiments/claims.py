"""Claims: what a paper says of its config, the number that would show it, and the runs that must not show it.

A config file that defines `claim() -> Claim` has one; nothing is registered. `rlx reproduce` runs its arms:
the config as it is, the baseline at an equal budget, and the controls, which are the same run with the
mechanism off. An assertion is about the run, and is *shown* where the run passes it and every control fails.
What passes is decided by bootstrap intervals over seeds (`rlx/evaluation/aggregates.py`): arms share their
seeds, so the differences are taken seed by seed. Of five seeds such an interval is too narrow (95 % is then
about 85 %): where runs are cheap, take ten.
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict
import numpy as np

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.evaluation import aggregates

RUN = 'run'  # the name of the arm that is the config as it is
OPEN = 'the seeds leave it open'  # why something does not show that the run passes
MIN_SEEDS = 5
TRAIN_STEPS = 'train steps'  # as a budget; any other is a metric that is summed over the run
BUDGET_SLACK = 1.1  # times that of whom it is compared with; stages that stop by a rule differ a little
AGGREGATES: Mapping[str, aggregates.Aggregate] = {
    'interquartile mean': aggregates.interquartile_mean,
    'mean': lambda scores: np.mean(scores, (-2, -1)),
    'median': lambda scores: np.median(scores, (-2, -1)),
    'worst': lambda scores: np.min(scores, (-2, -1)),
}


# --- what is read of a run ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Reading:
  """One number a seed, from the rows of a metric.

  Attributes:
    metric: its name in `metrics.jsonl`. Those of evaluations (`eval/..`) are had of seeds side by side in
      one program; any other is read from one run a seed.
    how: in words, which with the metric says what is read.
    read: (places [points] in the budget's unit, values [seeds, points]) -> [seeds]; where seeds learn from
      each other, one number for each group of them, as in `stages/swarm_skills`.
    lower: whether less of it is better.
  """

  metric: str
  how: str
  read: Callable[[np.ndarray, np.ndarray], np.ndarray]
  lower: bool = False

  @property
  def name(self) -> str:
    return f'{self.how} {self.metric}'


def final(metric: str, *, lower: bool = False) -> Reading:
  """The last value."""
  return Reading(metric, 'final', lambda at, values: values[:, -1], lower)


def best(metric: str, *, lower: bool = False) -> Reading:
  """The best value; the largest, or the smallest of what should be `lower`."""
  return Reading(metric, 'best', lambda at, values: values.min(1) if lower else values.max(1), lower)


def mean(metric: str, *, last: int = 0, lower: bool = False) -> Reading:
  """The mean over all rows that have the metric, or over the `last` ones."""
  how = f'mean of the last {last}' if last else 'mean over the run of'
  return Reading(metric, how, lambda at, values: values[:, -last:].mean(axis=1), lower)


def rise(metric: str, *, last: int = 0) -> Reading:
  """The last value less the first one, or less the one that is `last` rows before it."""
  how = f'rise in the last {last} of' if last else 'rise of'
  return Reading(metric, how, lambda at, values: values[:, -1] - values[:, -last - 1 if last else 0])


def until(metric: str, at_least: float) -> Reading:
  """What of the budget is spent when the metric first is `at_least` so much; all of it where it never is."""

  def read(at, values):
    reached = values >= at_least
    return np.where(reached.any(axis=1), at[np.argmax(reached, axis=1)], at[-1])

  return Reading(metric, f'budget until {at_least:g} of', read, lower=True)


# --- what is claimed ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Arm:
  """One way to run a config, all seeds of it.

  Attributes:
    name: in tables; says what is off, or who is compared with.
    overrides: dotted key -> value, as `--config.key=value`; a dict is a section.
    config: another one, `NAME[:ARG]`; '' for the claim's own.
    cost: of a unit of the budget, where steps of arms cost differently (rollouts of a train step).
  """

  name: str
  overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  config: str = ''
  cost: float = 1.0


@dataclasses.dataclass(frozen=True)
class Assertion:
  """That a number of the run, over its seeds, lies above a bound: the lower end of its interval does.

  Attributes:
    bound: that it has to be above; for what should be lower, that `than` is above it by.
    than: the arm whose readings are taken off, seed by seed; '' for the reading itself.
    of: which of `AGGREGATES`, over seeds.
    reading: where it is not the claim's.
  """

  bound: float
  than: str
  of: str
  reading: Reading | None

  def __post_init__(self):
    if self.of not in AGGREGATES:
      raise ConfigError(f'an assertion of={self.of!r}: it is one of {", ".join(AGGREGATES)}')


def above(than: str, *, by: float = 0.0, of: str = 'interquartile mean', reading: Reading | None = None):
  """The run is better than another arm by more than `by`; less than nothing for "no worse than"."""
  return Assertion(by, than, of, reading)


def reaches(value: float, *, of: str = 'interquartile mean', reading: Reading | None = None) -> Assertion:
  """The run comes to more than a value: on average over seeds, or in the `worst` one."""
  return Assertion(value, '', of, reading)


@dataclasses.dataclass(frozen=True)
class Claim:
  """What is said of a config, and how it is tried.

  Attributes:
    paper: its id in the list of papers, such as `S237`; several with spaces, '' for none.
    says: the claim in a sentence.
    reading: the number that it is about.
    asserts: what has to hold.
    minutes: estimate for all seeds and arms on two idle cores.
    baseline: who is compared with at an equal budget, if anybody is.
    controls: the mechanism off, everything else equal; each must fail every assertion.
    beside: more arms to compare with, which need not fail: rivals, or parts of the mechanism alone.
    budget: what is equal: `train steps`, or a metric whose sum over the run it is (`env/steps`).
    budget_name: what it is called where arms say what a train step costs (`rollouts`).
    seeds: at least five.
    cost: of the run, as `Arm.cost`.
    argument: of the config (`CONFIG:argument`), for the run and the arms without a config of their own.
    apart: one run a seed though a population would do.
  """

  paper: str
  says: str
  reading: Reading
  asserts: tuple[Assertion, ...]
  minutes: float
  baseline: Arm | None = None
  controls: tuple[Arm, ...] = ()
  beside: tuple[Arm, ...] = ()
  budget: str = TRAIN_STEPS
  budget_name: str = ''
  cost: float = 1.0
  seeds: int = MIN_SEEDS
  argument: str = ''
  apart: bool = False

  def __post_init__(self):
    names = [arm.name for arm in self.arms]
    if self.seeds < MIN_SEEDS:
      raise ConfigError(f'a claim of {self.seeds} seeds; it needs at least {MIN_SEEDS}')
    if len(names) < 2 or len(set(names)) < len(names) or not self.asserts:
      raise ConfigError(
          f'a claim with the arms {", ".join(names)}: it needs a baseline or a control, each with a name of '
          'its own, and something that it asserts'
      )
    if unknown := [one.than for one in self.asserts if one.than not in ('', *names)]:
      raise ConfigError(f'a claim asserts something beside {unknown[0]!r}; its arms are {", ".join(names)}')

  @property
  def arms(self) -> tuple[Arm, ...]:
    """The run, the baseline, the controls, and the others."""
    baseline = (self.baseline,) if self.baseline else ()
    return (Arm(RUN, cost=self.cost), *baseline, *self.controls, *self.beside)

  @property
  def readings(self) -> dict[str, Reading]:
    """All that are asked for, by name; the claim's is the first."""
    found = [self.reading, *(one.reading for one in self.asserts if one.reading)]
    return {one.name: one for one in found}

  @property
  def unit(self) -> str:
    return self.budget_name or self.budget


def of(name: str) -> Claim | None:
  """The claim of a config; None where its file has none.

  Raises:
    ConfigError: there is no such config, or its claim cannot be one.
  """
  path = configs.find(name)
  if path.suffix != '.py' or 'def claim(' not in path.read_text():
    return None
  made = configs.load_module(path).claim()
  if not isinstance(made, Claim):
    raise ConfigError(f'--config={name}: claim() returns {type(made).__name__}; it returns a Claim')
  return made


def named() -> dict[str, Claim]:
  """The claims of the configs that come with rlx, by the name of the config."""
  found = {name: of(str(path)) for name, path in configs.names().items()}
  return {name: claim for name, claim in found.items() if claim}


def with_argument(claim: Claim, argument: str) -> Claim:
  """The same claim of configs that are given an argument beside their own, such as `smoke`."""
  add = lambda text: ','.join(filter(None, (text, argument)))

  def change(arm: Arm | None) -> Arm | None:
    if not (arm and arm.config):
      return arm
    name, _, own = arm.config.partition(':')
    return dataclasses.replace(arm, config=f'{name}:{add(own)}')

  return dataclasses.replace(
      claim, argument=add(claim.argument), baseline=change(claim.baseline),
      controls=tuple(map(change, claim.controls)), beside=tuple(map(change, claim.beside)),
  )


def path_of(name: str, claim: Claim, arm: Arm) -> str:
  """`CONFIG[:ARG]` of an arm of the claim of a config."""
  return arm.config or f'{name}:{claim.argument}'.removesuffix(':')


def words(arm: Arm) -> list[str]:
  """The overrides of an arm as they are typed."""
  return [f'--config.{key}={value}' for key, value in arm.overrides.items()]


def config_of(name: str, claim: Claim, arm: Arm) -> ConfigDict:
  """The config of an arm, without its seeds.

  Raises:
    ConfigError: it has no such key, or the value is of another type.
  """
  config = configs.load(path_of(name, claim, arm))
  for key, value in arm.overrides.items():
    configs.override(config, key, str(value))
  return config


def digest(name: str, claim: Claim, arm: Arm) -> str:
  """Of all that decides what an arm runs: its config, wherever rlx stands on the disk, and its seeds."""
  return _digest(name, claim, arm, together(name, claim))


def _digest(name: str, claim: Claim, arm: Arm, as_one: bool) -> str:
  text = config_of(name, claim, arm).to_json().replace(str(Path(__file__).parent), 'experiments')
  config = json.loads(text)
  return _hash([{**config, 'population': claim.seeds}, as_one])


def digest_of_all(name: str, claim: Claim) -> str:
  """Of what decides a result: the arms and what is read of them; not the bounds, which judge it later."""
  as_one = together(name, claim)
  arms = [(arm.name, arm.cost, _digest(name, claim, arm, as_one)) for arm in claim.arms]
  return _hash([arms, sorted(claim.readings), claim.budget, claim.budget_name])


def _hash(tree) -> str:
  return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:12]


def together(name: str, claim: Claim) -> bool:
  """Whether the seeds are a population: of that only evaluations are kept, and Python rewards have none."""
  config = config_of(name, claim, claim.arms[0])
  stages = [config, *(config[stage] for stage in config.stages if stage != 'main')]
  alone = any('sampling' in one or 'reward' in one and one.reward.name == 'host' for one in stages)
  return not (claim.apart or alone) and all(x.metric.startswith('eval/') for x in claim.readings.values())


def result_path(name: str) -> Path:
  """Where the result of a config is kept: beside it."""
  path = configs.find(name)
  return path.parent / 'results' / f'{path.stem}.json'


# --- what came of it ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Part:
  """What came of an assertion.

  Attributes:
    claimed: in words.
    got: the aggregate over seeds.
    interval: its ends.
    shows: whether the run passes and every control fails.
    reason: why it does not; '' if it does.
  """

  claimed: str
  got: float
  interval: tuple[float, float]
  shows: bool
  reason: str


@dataclasses.dataclass(frozen=True)
class Measured:
  """What an arm came to.

  Attributes:
    readings: name -> [seeds].
    budget: that each seed has spent.
  """

  readings: Mapping[str, np.ndarray]
  budget: float


def judge(claim: Claim, arms: Mapping[str, Measured]) -> tuple[Part, ...]:
  """What came of each assertion, from what its arms came to."""
  return tuple(_part(claim, one, arms) for one in claim.asserts)


def verdict(parts: tuple[Part, ...]) -> str:
  """*shows*, *shows in part (which)*, or *does not show*."""
  shown = [part.claimed for part in parts if part.shows]
  if len(shown) == len(parts):
    return 'shows'
  return f'shows in part ({"; ".join(shown)})' if shown else 'does not show'


def _part(claim: Claim, one: Assertion, arms: Mapping[str, Measured]) -> Part:
  got, low, high = _interval(claim, one, arms, RUN)
  reason = ''
  if not low > one.bound:
    reason = 'the run fails it' if got <= one.bound else OPEN
    reason = 'the reverse holds' if one.than and high < min(one.bound, 0.0) else reason
  elif one.than and arms[RUN].budget > BUDGET_SLACK * arms[one.than].budget:
    times = arms[RUN].budget / arms[one.than].budget
    reason = f'the run had {times:.2f} times the {claim.unit} of {one.than!r}'
  else:
    passing = [arm.name for arm in claim.controls if _interval(claim, one, arms, arm.name)[1] > one.bound]
    reason = f'without the mechanism it holds as well: {", ".join(map(repr, passing))}' if passing else ''
  return Part(_claimed(claim, one), got, (low, high), not reason, reason)


def _interval(claim: Claim, one: Assertion, arms, name: str) -> tuple[float, float, float]:
  """The number that an assertion is about, of an arm in the run's place, and the ends of its interval."""
  reading = one.reading or claim.reading
  scores = np.asarray(arms[name].readings[reading.name], np.float64)
  if one.than:
    scores = scores - np.asarray(arms[one.than].readings[reading.name])
  return _bootstrapped(tuple(-scores if reading.lower else scores), one.of)


@functools.cache  # tables, docstrings and verdicts ask for the same ones again and again
def _bootstrapped(scores: tuple[float, ...], of: str) -> tuple[float, float, float]:
  aggregate, column = AGGREGATES[of], np.array(scores)[:, None]
  return aggregate(column), *aggregates.bootstrap_interval(column, aggregate)


def _claimed(claim: Claim, one: Assertion) -> str:
  reading = one.reading or claim.reading
  what = '' if one.reading is None else f'{reading.name}: '
  over = {'interquartile mean': '', 'worst': 'the worst seed '}.get(one.of, f'the {one.of} ')
  side = 'below' if reading.lower else 'above'
  if not one.than:
    return f'{what}{over}{side} {-one.bound if reading.lower else one.bound:g}'
  return f'{what}{over}{side} {one.than!r}' + (f' by {one.bound:g}' if one.bound else '')
