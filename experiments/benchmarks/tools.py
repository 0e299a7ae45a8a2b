"""What tools in Python cost: calls that take long, the host beside the device, sessions beside programs.

    python -m rlx.experiments.benchmarks.tools

- *calls*: 128 episodes of 4 turns of 64 tokens, whose calls take 50 ms, beside calls that take nothing, and
  beside a loop that makes them one after the other.
- *engines*: episodes of the world `echo` of `benchmarks/turns.py` in the compiled loop, and the same ones
  driven from the host, where answers are there at once.
- *sessions*: 256 Python sessions that run a cell, beside as many programs in the sandbox.
- *queries*: searches for the questions of GSM8K's file, or of another one with these columns (`--passages`),
  in an index of the lines of its answers; CPU-milliseconds of a query.

The median of the rounds; the sides are interleaved. Seconds are those of the wall, of *engines* CPU-seconds
of the process. The model is a random decoder of 1.1 million parameters.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import functools
import json
from pathlib import Path
import statistics
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data.dataset import dataset
from rlx.engine import turns as episodes
from rlx.engine.decoding import Decoding
from rlx.engine.host_turns import Answer, Conversation, Said
from rlx.engine.speaker import Scoring, Speaker
from rlx.engine.turns import Turns
from rlx.envs.host.calls import Call
from rlx.envs.host.search import search
from rlx.experiments.benchmarks import tools_called
from rlx.experiments.benchmarks.turns import PIECE, echo
from rlx.experiments.data import FOLDER
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.sandbox import run_python
from rlx.rewards.sandbox_session import PythonSession
from rlx.rollout.host_turns import Table
from rlx.rollout.toolbox import toolbox

EPISODES, TURNS, TOKENS = 128, 4, 64
SESSIONS, SLOTS = 256, 32


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--rounds', type=int, default=3)
  parser.add_argument('--only', default='calls,engines,sessions', help='which of them')
  parser.add_argument('--tier', default='bubblewrap')
  parser.add_argument('--passages', default=f'{FOLDER}/word_problems_train.jsonl', help='of queries')
  arguments = parser.parse_args()
  if 'queries' in arguments.only:
    queries(arguments.passages)
    return
  kinds = {'calls': calls, 'engines': engines, 'sessions': lambda: sessions(arguments.tier)}
  for name in arguments.only.split(','):
    clock = time.process_time if name == 'engines' else time.monotonic
    seconds = interleaved(kinds[name](), arguments.rounds, clock)
    print(name, *(f'{side} {x:.2f} s' for side, x in seconds.items()), sep='   ')
    first, *others = seconds.values()
    print('  each beside the first:', *(f'{x / first:.2f}' for x in others))


def interleaved(sides: dict[str, Callable[[], None]], rounds: int, clock: Callable) -> dict[str, float]:
  """Seconds of each side, the median; the first round of all compiles and does not count."""
  seconds: dict[str, list[float]] = {name: [] for name in sides}
  for _ in range(rounds + 1):
    for name, side in sides.items():
      began = clock()
      side()
      seconds[name].append(clock() - began)
  return {name: statistics.median(x[1:]) for name, x in seconds.items()}


def decoder(vocab_size: int) -> LanguageModel:
  """The model of the benchmarks."""
  return LanguageModel(TransformerConfig(
      vocab_size=vocab_size, num_layers=4, width=128, num_heads=4, num_kv_heads=4, head_size=32, mlp_size=512,
      context_length=512,
  ))


def always(text: str) -> list[Call]:
  """Every turn is a call."""
  return [Call('tool', text)]


def calls() -> dict[str, Callable[[], None]]:
  """Calls that take nothing, 50 ms, and 50 ms one after the other."""
  rows = dataset(
      directory=f'{FOLDER}/tiny_model', train=f'{FOLDER}/word_problems_train.jsonl', held_out='',
      columns={'prompt': '{question}'}, chat=False, system='', max_prompt_tokens=256,
      max_completion_tokens=256, malformed='strict',
  )
  model, room = decoder(rows.vocab_size), TURNS * (TOKENS + 4)
  params, key = model.init(jax.random.key(0)), jax.random.key(1)
  decoding = Decoding(
      max_tokens=room, min_tokens=room, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=rows.eos_ids, pad_id=rows.pad_id,
  )
  speaker = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=512, packing=None))
  problems = {name: jnp.asarray(rows.data[name][:16]) for name in ('prompts', 'prompt_lengths')}
  problems['rows'] = jnp.arange(16)

  def side(tool: Callable, workers: int) -> Callable[[], None]:
    box = toolbox(
        tools={'tool': tool}, environments={}, calls=always, timeout_seconds=10.0, max_calls=TURNS,
        workers=workers, result_tokens=4, keep='head', before='', after='', role='tool', reset_tokens=0,
    )
    table = Table(rows, speaker, box, group_size=EPISODES // 16, num_slots=0, turn_tokens=TOKENS)

    def run() -> None:
      found = table.sample(params, problems, key, record='step', max_turns=TURNS)
      assert found['tools/calls'].sum() == EPISODES * TURNS, found['tools/calls']

    return run

  return {
      'at once': side(tools_called.nothing, 64), '50 ms': side(tools_called.slow, 64),
      'one by one': side(tools_called.slow, 1),
  }


class Echo:
  """The world `echo` as a counterpart: the number of turns is in the problem, the words are of no matter."""

  info = ()

  def __init__(self, turns: np.ndarray):
    self._left, self._there = turns.tolist(), []
    self._words = np.random.default_rng(0).integers(2, 500, (len(turns), PIECE))

  def say(self, said: Said) -> None:
    """As `Counterpart`."""
    self._left[said.sequence] -= 1
    words = self._words[said.sequence]
    self._there.append(Answer(said.sequence, words, ended=not self._left[said.sequence]))

  def answers(self, *, wait: bool) -> list[Answer]:
    """As `Counterpart`: all of them, at once."""
    del wait
    there, self._there = self._there, []
    return there

  def over(self, sequence: int) -> None:
    """As `Counterpart`."""


def engines() -> dict[str, Callable[[], None]]:
  """The compiled loop, and the same episodes driven from the host."""
  world, room = echo(), 320
  model = decoder(world.vocab_size)
  params, key = model.init(jax.random.key(0)), jax.random.key(1)
  decoding = Decoding(
      max_tokens=room, min_tokens=room, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=world.eos_ids, pad_id=world.pad_id,
  )
  problems = world.sample(jax.random.key(2), 96, False)
  turns = Turns(turn_tokens=PIECE, max_turns=20)
  device = jax.jit(lambda params: episodes.sample(
      params, model, world, problems, key, group_size=1, decoding=decoding, turns=turns, num_slots=SLOTS,
      world_key=key,
  ))
  host = Conversation(model, decoding, turns, group_size=1, num_slots=SLOTS)
  asked = np.asarray(problems['turns'])

  def from_host() -> None:
    rows = host.sample(
        params, problems['prompts'], problems['prompt_lengths'], key, Echo(asked), max_turns=20
    )
    jax.block_until_ready(rows)

  return {'device': lambda: jax.block_until_ready(device(params)), 'host': from_host}


def sessions(tier: str) -> dict[str, Callable[[], None]]:
  """Programs in the sandbox, and sessions that run the same as a cell, eight at a time."""
  program, limits = 'print(6 * 7)', {'memory_bytes': 1 << 28, 'tier': tier}

  def plain(_) -> None:
    assert run_python(program, stdin='', timeout_seconds=10.0, output_bytes=100, **limits).stdout == '42\n'

  def session(_) -> None:
    with PythonSession(shown=(), session_seconds=60.0, output_bytes=100, **limits) as one:
      assert one.run(program, timeout_seconds=10.0).text == '42\n'

  def every(function: Callable) -> None:
    with ThreadPoolExecutor(8) as threads:
      list(threads.map(function, range(SESSIONS)))

  return {'programs': lambda: every(plain), 'sessions': lambda: every(session)}


def queries(path: str) -> None:
  """Prints how long queries take."""
  rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
  lines = [line for row in rows for line in row['answer'].splitlines()]
  with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / 'passages.jsonl'
    file.write_text(''.join(json.dumps({'text': line}) + '\n' for line in lines))
    ask = functools.partial(search, files=(str(file),), field='text', results=3, folder=folder)
    ask(rows[0]['question'])  # makes the index
    seconds = []
    for row in rows[:1000]:
      began = time.process_time()
      ask(row['question'])
      seconds.append(time.process_time() - began)
  middle, high = (1e3 * np.quantile(seconds, share) for share in (0.5, 0.95))
  print(f'queries   {len(seconds)} of {len(lines)} passages: median {middle:.2f} ms, p95 {high:.2f} ms')


if __name__ == '__main__':
  main()
