"""Rewards of programs: the share of unit tests, or of input and output pairs, that a completion passes.

The functions have the signature of `host.py` and run completions in a sandbox (`sandbox.py`). A program that
does not end, ends early, takes too much memory, or does not even parse gets 0 for all that it had not passed
by then; one on which the whole call has to be stopped gets 0 (`stopped_value`). So it never pays to hang.
Where the machine is at fault, because a sandbox does not start or the system ended it, `SandboxError` is
raised, and the row is not scored.

Unit tests and the program do not share a process, let alone a namespace. The tests run beside it in the
sandbox; where they call the program, the arguments go to its process and the result comes back *by value*
(numbers, strings, lists, ... of exactly these types). Other objects stay where they are; the tests hold
a `Remote`, whose methods run in the program. So a program cannot

- end before the tests, or in their middle, and be taken for one that passed (`os._exit(0)`, `sys.exit`);
- print a verdict: the verdict takes a way that the program's process does not have;
- read the tests, the values that they expect, or the verdict in a frame, a module, a file, an argument, or
  another process's memory, which is closed to it;
- replace what the tests use: `assert`, built-in functions and modules of the tests are their own, not the
  program's, even where the program defines the same name;
- return an object that equals everything: an object of the program equals a value only if it *is* one (a
  subclass of `int`, `dict`, ... has the value that it holds), and does not get to see the value.

What is not defended against: an answer that is wrong but that the tests accept, tests that compare objects of
the program with each other (whether they are equal is for the program to say) or ask it a yes-no question,
and results that the program writes down because it has seen the tests elsewhere.

What tests cannot do here: hand an object of their own to the program (but functions, types and plain data,
which are updated in place if the program changes them); see that a result is the very list that went in; use
the result of a coroutine; mean their own function by a name that Python has built in. Code inside the
sandbox has the standard library alone. `random` starts from a fixed seed in tests that use it.
"""

import ast
from collections.abc import Callable, Sequence
import re
import sys
from typing import Any
import warnings

from rlx.rewards import sandbox, sent
from rlx.rewards.sent import judge
from rlx.rewards.texts import text_of

_FENCE = re.compile(r'^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)', re.DOTALL | re.MULTILINE)
_SPARE_BYTES = 1 << 16
_STOPS = ('\nclass ', '\ndef ', '\n#', '\nif __name__', '\nprint(')


def unit_tests(
    completions: list,
    tests: list,
    *,
    timeout_seconds: float,
    memory_bytes: int,
    tier: str,
) -> list[float]:
  """The share of tests that the program in a completion passes.

  Args:
    completions: [N] texts or messages with a program; see `extract_code`.
    tests: [N] Python source with asserts, which passes (1) or not (0), or lists of asserts, of which a share
      passes. They use the names that the program defines.
    timeout_seconds: wall time of a program and all its tests; what comes later is not passed.
    memory_bytes: of a program.
    tier: of the sandbox; 'bubblewrap', or 'seccomp' where that cannot be had.
  Raises:
    SandboxError: the sandbox does not start.
    ValueError: tests do not parse, assert nothing, import other than the standard library, or hand objects
      to the program that cannot be sent.
  """
  rewards = []
  for row, (completion, source) in enumerate(zip(completions, tests, strict=True)):
    data = _tests([source] if isinstance(source, str) else source, row)
    program = extract_code(text_of(completion))
    rewards.append(_share(program, data, row, timeout_seconds, memory_bytes, tier))
  return rewards


def humaneval(
    prompts: list,
    completions: list,
    test: list,
    entry_point: list,
    *,
    timeout_seconds: float,
    memory_bytes: int,
    tier: str,
) -> list[float]:
  """1 where the function that a completion writes, or goes on writing, passes its test; 0 elsewhere.

  A completion with a fenced block, or that defines the function itself, is the program, behind the imports
  and helpers of the prompt. Any other continues the prompt, and is cut where the function ends: before the
  first line that begins with `class `, `def `, `#`, `if __name__` or `print(`.

  Args:
    prompts: [N] beginnings of a program, or messages of which the last of the user holds one.
    completions: [N] texts or messages.
    test: [N] source that defines `check(candidate)`.
    entry_point: [N] names of the functions.
    timeout_seconds: as in `unit_tests`.
    memory_bytes: likewise.
    tier: likewise.
  Raises:
    SandboxError, ValueError: likewise.
  Source: Chen et al., 2021, https://arxiv.org/abs/2107.03374, section 3.2 (the paper also stops at any `if`).
  """
  rewards = []
  rows = zip(prompts, completions, test, entry_point, strict=True)
  for row, (prompt, completion, source, name) in enumerate(rows):
    data = _tests([f'{source}\n\ncheck({name})'], row)
    program = _function(_question(prompt), text_of(completion), name)
    rewards.append(_share(program, data, row, timeout_seconds, memory_bytes, tier))
  return rewards


def stdin_stdout(
    completions: list,
    inputs: list,
    outputs: list,
    *,
    timeout_seconds: float,
    memory_bytes: int,
    tier: str,
    log_metric: Callable[[str, float], None] | None = None,
) -> list[float]:
  """The share of inputs for which the program in a completion prints what it should.

  White space at the ends of lines, and empty lines at the end, do not count. The program has to end with
  exit code 0. It does not see the expected outputs. It may print twice as much as it should, and 64 KiB: what
  prints more is not right, and the share of the runs that did is logged as `output_overruns`.

  Args:
    completions: [N] texts or messages with a program; see `extract_code`.
    inputs: [N] lists of what the program reads.
    outputs: [N] lists of what it should print.
    timeout_seconds: wall time of a program on one input.
    memory_bytes: as in `unit_tests`.
    tier: likewise.
    log_metric: of the reward pool, which gives it to who asks for it.
  Raises:
    SandboxError: the sandbox does not start, or the system ended it.
    ValueError: a row has no inputs, or not as many as outputs.
  """
  limits = {'timeout_seconds': timeout_seconds, 'memory_bytes': memory_bytes, 'tier': tier}
  rewards, overruns = [], []
  for row, (completion, given, expected) in enumerate(zip(completions, inputs, outputs, strict=True)):
    if isinstance(given, str) or isinstance(expected, str) or not 0 < len(given) == len(expected):
      raise ValueError(f'row {row}: need two lists of texts of one length, at least one, not {given!r:.80}')
    sandbox.check(tier)
    program = extract_code(text_of(completion))
    right = 0
    for text, wanted in zip(given, expected, strict=True):
      output_bytes = 2 * len(wanted.encode('utf-8', 'replace')) + _SPARE_BYTES
      result = _not_killed(sandbox.run_python(program, stdin=text, output_bytes=output_bytes, **limits))
      right += result.status == 'ok' and not result.overran and _lines(result.stdout) == _lines(wanted)
      overruns.append(result.overran)
    rewards.append(right / len(given))
  if log_metric is not None:
    log_metric('output_overruns', sum(overruns) / len(overruns))
  return rewards


unit_tests.stopped_value = humaneval.stopped_value = stdin_stdout.stopped_value = 0.0


def share_passed(
    program: str, tests: Sequence[str], *, timeout_seconds: float, memory_bytes: int, tier: str
) -> float:
  """The share of tests that a program passes.

  Args:
    program: Python source, whole.
    tests: as a row of `unit_tests` has them, at least one.
    timeout_seconds: as in `unit_tests`.
    memory_bytes: likewise.
    tier: likewise.
  Raises:
    SandboxError, ValueError: likewise.
  """
  return _share(program, _tests(tests, 0), 0, timeout_seconds, memory_bytes, tier)


def extract_code(text: str) -> str:
  """The program in a text: the last fenced block of Python, even if the end of the text cuts it off; else the
  last block without a language; else the text.
  """
  return last_block(text, ('python', 'python3', 'py'))


def last_block(text: str, languages: Sequence[str]) -> str:
  """The last fenced block in one of the languages; else the last one without a language; else the text."""
  blocks = [(language.lower(), code) for language, code in _FENCE.findall(text)]
  for wanted in (languages, ('',)):
    if found := [code for language, code in blocks if language in wanted]:
      return found[-1]
  return text


# --- programs and tests -------------------------------------------------------------------------------------


def _question(prompt: str | list[dict]) -> str:
  """A prompt, or the last message of the user in it."""
  if isinstance(prompt, str):
    return prompt
  asked = [message['content'] for message in prompt if message['role'] == 'user']
  if not asked:
    raise ValueError(f'a prompt is a text or has a message of the user; not {str(prompt)[:100]!r}')
  return asked[-1]


def _function(prompt: str, completion: str, name: str) -> str:
  """The program that HumanEval's test is about."""
  starts = re.compile(rf'^(async )?def {re.escape(name)}\b', re.MULTILINE)
  code = extract_code(completion)
  if code == completion and not starts.search(completion):
    ends = [at for at in map(completion.find, _STOPS) if at >= 0]
    return prompt + completion[: min(ends, default=len(completion))]
  begin = starts.search(prompt := extract_code(prompt))
  try:
    before = ast.parse(prompt[: begin.start()] if begin else '').body
  except (SyntaxError, ValueError):  # words about the task
    before = []
  kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
  helpers = [ast.unparse(statement) for statement in before if isinstance(statement, kept)]
  return '\n'.join([*helpers, code])


def _lines(text: str) -> list[str]:
  return [line.rstrip() for line in text.rstrip().split('\n')]


def _tests(sources: Sequence[str], row: int) -> dict[str, Any]:
  """What the judge gets: compiled tests, and the modules that they mean by name."""
  codes, attributes, imports = [], set(), set()
  for source in sources:
    try:
      with warnings.catch_warnings(action='ignore'):
        tree = ast.parse(source)
        codes.append(compile(tree, 'tests.py', 'exec', dont_inherit=True))
    except (SyntaxError, ValueError) as error:
      raise ValueError(f'row {row}: a test does not parse ({error}): {source!r:.200}') from None
    if not _asserts(tree):
      raise ValueError(f'row {row}: a test needs an assert that runs when the source does: {source!r:.200}')
    for node in ast.walk(tree):
      if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        attributes.add(node.value.id)
      elif isinstance(node, ast.Import):
        imports |= {alias.name.partition('.')[0] for alias in node.names}
      elif isinstance(node, ast.ImportFrom):
        imports.add(str(node.module).partition('.')[0])
  if not codes:
    raise ValueError(f'row {row}: there are no tests')
  if unknown := imports - sys.stdlib_module_names:
    raise ValueError(f'row {row}: tests import {sorted(unknown)}; the sandbox has only the standard library')
  return {'tests': codes, 'modules': sorted((attributes | imports) & sys.stdlib_module_names)}


def _asserts(tree: ast.Module) -> bool:
  """Whether there are asserts, and statements that run them: asserts themselves, or calls."""
  definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
  run = [node for part in tree.body if not isinstance(part, definitions) for node in ast.walk(part)]
  return any(isinstance(node, ast.Assert) for node in ast.walk(tree)) and any(
      isinstance(node, ast.Assert | ast.Call) for node in run
  )


def _not_killed(result: sandbox.Result) -> sandbox.Result:
  """A result that is the program's doing."""
  if result.status == 'killed':
    raise sandbox.SandboxError('the system ended a sandbox, as where memory is short; run fewer at a time')
  return result


def _share(
    program: str, data: dict[str, Any], row: int, timeout_seconds: float, memory_bytes: int, tier: str
) -> float:
  """The share of the tests that passed."""
  sandbox.check(tier)
  limits = {'timeout_seconds': timeout_seconds, 'memory_bytes': memory_bytes, 'tier': tier}
  result, report = sandbox.run_judged(program, sent.functions(judge), data, **limits)
  _not_killed(result)
  for outcome in report:
    if isinstance(outcome, str):
      raise ValueError(
          f'row {row}: a test hands a {outcome} to the program, but only plain data, functions, types and '
          'objects of the program reach it; let the prompt define the class'
      )
  return sum(report) / len(data['tests'])
