"""Results of claims: a small file beside the config, its curve, and what is written from them.

`results/NAME.json` has what every seed of every arm came to. Verdicts are judged from that whenever they are
asked for, so that a bound can be changed without running again; a result is *stale* where the configs of its
arms, or what is read of them, have changed. Docstrings and documents are written from results, by `record`
and `python -m rlx.experiments.papers`, and by nobody's hand.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import json
from pathlib import Path, PurePosixPath
import re
import textwrap
from typing import Any

import numpy as np

from rlx.errors import ConfigError
from rlx.experiments import claims
from rlx.experiments.claims import Claim, Measured, Part

_POINTS = 50  # of a curve that is kept
_DIGITS = 5  # of its numbers
_WIDTH = 110  # of a line in a docstring
_RESULT = re.compile(r'Result: .*?(?=\n\s*\n|\n?""")', re.DOTALL)
SHOWN, STALE, NOT_RUN = 'run', 'stale', 'not run'


@dataclasses.dataclass(frozen=True)
class Result:
  """A claim that was run.

  Attributes:
    name: of the config.
    claim: as the config has it now.
    kept: the file.
  """

  name: str
  claim: Claim
  kept: Mapping[str, Any]

  @property
  def measured(self) -> dict[str, Measured]:
    return {
        arm: Measured({key: np.array(x) for key, x in one['readings'].items()}, one['budget'])
        for arm, one in self.kept['arms'].items()
    }

  @property
  def parts(self) -> tuple[Part, ...]:
    return claims.judge(self.claim, self.measured)

  @property
  def verdict(self) -> str:
    return claims.verdict(self.parts)


def make(
    name: str, claim: Claim, lines: Mapping[str, Mapping[str, Any]], seconds: Mapping[str, float],
    where: Mapping[str, Any],
) -> Result:
  """The result of arms that have run.

  Args:
    name: of the config.
    claim: its claim.
    lines: arm -> metric -> `compare.Line` against the budget.
    seconds: arm -> CPU-seconds that it took.
    where: machine and versions.
  """
  arms = {}
  for arm in claim.arms:
    of_arm, first = lines[arm.name], lines[arm.name][claim.reading.metric]
    readings = {key: _readings(claim, one, of_arm[one.metric]) for key, one in claim.readings.items()}
    curve = thinned(first)
    arms[arm.name] = {
        'config': ' '.join([claims.path_of(name, claim, arm), *claims.words(arm)]),
        'budget': _short(first.at[-1]),
        'cpu_seconds': round(seconds[arm.name]),
        'readings': {key: _short(x) for key, x in readings.items()},
        'curve': {'at': _short(curve.at), 'values': _short(curve.values)},
    }
  kept = {
      'config': name, 'digest': claims.digest_of_all(name, claim), 'paper': claim.paper, 'says': claim.says,
      'seeds': claim.seeds, 'reading': claim.reading.name, 'budget': claim.unit, **where,
      'cpu_seconds': round(sum(seconds.values())), 'arms': arms,
  }
  return Result(name, claim, kept)


def _readings(claim: Claim, reading: claims.Reading, line) -> np.ndarray:
  """The numbers of all seeds, or of groups of them.

  Raises:
    ConfigError: they are no seeds, nor groups that are equally large.
  """
  values = np.asarray(reading.read(line.at, line.values))
  if values.ndim != 1 or not values.size or claim.seeds % values.size:
    raise ConfigError(
        f'{reading.name!r} of {claim.seeds} seeds came to an array of shape {values.shape}: a reading is one '
        'number a seed, or one for each of groups of the same size'
    )
  return values


def thinned(line):
  """A `compare.Line` with the points that are kept of it in files and figures, the ends among them."""
  kept = np.unique(np.linspace(0, len(line.at) - 1, _POINTS).round().astype(int))
  return dataclasses.replace(line, at=line.at[kept], values=line.values[:, kept])


def _short(x):
  """Numbers with few digits, as lists."""
  if np.ndim(x):
    return [_short(one) for one in x]
  return float(f'{float(x):.{_DIGITS}g}')


def read(path: Path, name: str, claim: Claim) -> Result | None:
  """A result that was kept; None where there is none.

  Raises:
    ConfigError: the file is none, or of other arms or readings, which a stale one may be.
  """
  if not path.exists():
    return None
  try:
    return Result(name, claim, json.loads(path.read_text()))
  except ValueError as error:
    raise ConfigError(f'{path} is no JSON ({error}); delete it, and run `rlx reproduce {name}`') from error


def kept(name: str, claim: Claim) -> Result | None:
  """The result beside the config, if it is not stale."""
  found = read(claims.result_path(name), name, claim)
  return found if found and found.kept['digest'] == claims.digest_of_all(name, claim) else None


def standing(name: str, claim: Claim) -> str:
  """`run`, `stale` or `not run`."""
  if kept(name, claim):
    return SHOWN
  return STALE if claims.result_path(name).exists() else NOT_RUN


def write(result: Result, path: Path) -> None:
  """Writes the file, a line an arm and an entry, so that changes can be read."""
  path.parent.mkdir(parents=True, exist_ok=True)
  parts = [{'claimed': p.claimed, 'got': _short(p.got), 'interval': _short(p.interval), 'shows': p.shows,
            'reason': p.reason} for p in result.parts]
  entries = {**result.kept, 'verdict': result.verdict, 'asserts': parts}
  arms = ',\n'.join(f'  {json.dumps(name)}: {json.dumps(one)}' for name, one in result.kept['arms'].items())
  lines = [f'{json.dumps(key)}: {json.dumps(x)}' for key, x in entries.items() if key != 'arms']
  path.write_text('{\n' + ',\n'.join([*lines, f'"arms": {{\n{arms}\n}}']) + '\n}\n')


# --- in words -----------------------------------------------------------------------------------------------


def number(x: float) -> str:
  return f'{x:.4g}' if abs(x) < 10000 else f'{x:,.0f}'


def middle_and_worst(claim: Claim, values: np.ndarray) -> str:
  """`0.93 (0.91)`: the median over seeds, and the worst of them."""
  worst = values.max() if claim.reading.lower else values.min()
  return f'{number(np.median(values))} ({number(worst)})'


def table(result: Result) -> str:
  """What `rlx reproduce` ends in: what was claimed, what was got, and the arms behind it."""
  claim, measured = result.claim, result.measured
  text = f'{claim.says}\n\n| claimed | got | 95 % | verdict |\n|---|---|---|---|\n'
  for part in result.parts:
    ends = ' to '.join(map(number, part.interval))
    said = 'shows' if part.shows else f'does not show: {part.reason}'
    text += f'| {part.claimed} | {number(part.got)} | {ends} | {said} |\n'
  text += f'\n| {claim.reading.name} | {claim.unit} | median | worst | CPU-seconds | differs by |\n'
  text += '|---|---|---|---|---|---|\n'
  for arm in claim.arms:
    values, one = measured[arm.name].readings[claim.reading.name], result.kept['arms'][arm.name]
    middle, worst = middle_and_worst(claim, values).removesuffix(')').split(' (')
    text += (
        f'| {arm.name} | {number(one["budget"])} | {middle} | {worst} | {one["cpu_seconds"]} '
        f'| {_differs(claim, arm)} |\n'
    )
  return f'{text}\n{result.name}: {result.verdict}\n'


def _differs(claim: Claim, arm) -> str:
  return ' '.join([*([arm.config] if arm.config else []), *claims.words(arm)])


def sentence(result: Result) -> str:
  """The `Result:` of a config, in one line."""
  claim, kept = result.claim, result.kept
  read = lambda arm: middle_and_worst(claim, result.measured[arm.name].readings[claim.reading.name])
  arms = ', '.join([read(claim.arms[0]), *(f'{arm.name!r} {read(arm)}' for arm in claim.arms[1:])])
  spent = f'{number(kept["arms"][claims.RUN]["budget"])} {claim.unit}'
  what = f'{claim.reading.name[0].upper()}{claim.reading.name[1:]} after {spent}'
  num = len(result.measured[claims.RUN].readings[claim.reading.name])
  each = 'seeds' if num == claim.seeds else f'groups of {claim.seeds // num} seeds'
  return (
      f'it {_kind(result)}. {what}, median of {num} {each} (worst): {arms}. Claimed, and got (95 % '
      f'interval over seeds): {_said(result)}. {kept["cpu_seconds"]} CPU-s on {kept["machine"]}; '
      f'`rlx reproduce {result.name}`.'
  )


def record(result: Result, path: Path) -> None:
  """Writes the `Result:` of a docstring from a result."""
  rewrite(path, sentence(result))


def rewrite(path: Path, said: str) -> None:
  """Writes the `Result:` of a docstring in the place of what stood there; code stays in one line."""
  whole = re.sub('`[^`]*`', lambda code: code[0].replace(' ', '\0'), f'Result: {said}')
  lines = textwrap.fill(whole, _WIDTH, break_long_words=False, break_on_hyphens=False).replace('\0', ' ')
  path.write_text(_RESULT.sub(lambda _: lines, path.read_text(), count=1))


def row(name: str, claim: Claim, link: str, found: Result | None) -> str:
  """A row of the table of claims, run or not; `found` is what is `kept` of it."""
  head = f'| {claim.paper} | [{name}]({link}) | {claim.says} '
  others = [*claim.controls, *claim.beside]
  controls = ', '.join(arm.name for arm in others)
  baseline = claim.baseline.name if claim.baseline else ''
  if found is None:
    state = standing(name, claim)
    return f'{head}| {baseline} | {claim.unit} | | | {controls} | *{state}*, about {claim.minutes:g} min |\n'
  curve = PurePosixPath(link).parent / 'results' / f'{PurePosixPath(link).stem}.png'
  said = lambda arm: middle_and_worst(claim, found.measured[arm].readings[claim.reading.name])
  spent = f'{claim.unit}, {number(found.kept["arms"][claims.RUN]["budget"])}'
  controls = '<br>'.join(f'{arm.name}: {said(arm.name)}' for arm in others)
  return (
      f'{head}| {f"{baseline}: {said(baseline)}" if baseline else ""} | {spent} '
      f'| {claim.reading.name} | {said(claims.RUN)} ([curve]({curve})) | {controls} | {explained(found)} |\n'
  )


def explained(result: Result) -> str:
  """The verdict with each assertion, its interval, and why it does not show."""
  return f'*{_kind(result)}*; {_said(result)}'


def _kind(result: Result) -> str:
  """The verdict without what shows in part."""
  return result.verdict.partition(' (')[0]


def _said(result: Result) -> str:
  """Each assertion with what was got and its interval, and why it does not show."""
  return '; '.join(
      f'{part.claimed}, got {number(part.got)} ({" to ".join(map(number, part.interval))})'
      + ('' if part.shows else f', {part.reason}') for part in result.parts
  )


HEADER = """\
| id | config | claim | baseline | at equal | what is read | median (worst) | controls, others | verdict |
|---|---|---|---|---|---|---|---|---|
"""


def counted(results: Sequence[Result | None]) -> str:
  """How many claims show, show in part, do not, and were not run: those of which nothing is `kept`."""
  verdicts = [one.verdict for one in results if one]
  part = sum(x.startswith('shows in part') for x in verdicts)
  return (
      f'{len(results)} claims: {verdicts.count("shows")} show, {part} show in part, '
      f'{verdicts.count("does not show")} do not show, {results.count(None)} were not run.'
  )
