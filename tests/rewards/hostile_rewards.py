"""Reward functions that misbehave, for the tests of the pool. Workers import this module."""

import asyncio
import collections
import contextlib
import ctypes
import itertools
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time


class Unpicklable:
  def __reduce__(self):
    raise RuntimeError('not this one')


class Trap:
  """Does harm wherever it is unpickled, as a result that comes back might."""

  def __reduce__(self):
    return os._exit, (3,)


def out_of_memory():
  raise MemoryError


def raise_odd_error():
  class OddError(Exception):
    def __str__(self):
      raise KeyError('no text')

  raise OddError


def recurse():
  return recurse() + 1


def hang_in_c():
  collections.deque(itertools.repeat(None), maxlen=0)  # holds the GIL, looks at no signal


def hang_deaf():
  for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
  while True:
    time.sleep(60)


def close_files():
  os.closerange(3, 256)
  return 1.0


def write_everywhere():
  for fd in range(3, 64):
    with contextlib.suppress(OSError):
      os.write(fd, struct.pack('<qq', 4, 4) + b'[[]]')
  return 1.0


async def never():
  await asyncio.Event().wait()


def fork_and_die():
  if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
  os._exit(5)


def print_much():
  for _ in range(20):
    print('x' * 1_000_000)
    sys.stderr.write('y' * 1_000_000)
    os.write(1, b'z' * 1_000_000)
  return 20.0


# name -> (what it does instead of returning a number, the fault, what the message says)
FAULTS = {
    'raises': (lambda: [][1], 'raised', 'IndexError: list index out of range'),
    'raises an odd error': (raise_odd_error, 'raised', 'OddError'),
    'exits': (lambda: sys.exit(3), 'raised', 'SystemExit: 3'),
    'recurses': (recurse, 'raised', 'RecursionError: maximum recursion depth exceeded'),
    'runs out of memory': (out_of_memory, 'raised', 'MemoryError'),
    'interrupts': (lambda: signal.raise_signal(signal.SIGUSR1), 'died', 'killed by SIGUSR1'),
    'exits at once': (lambda: os._exit(0), 'died', 'exit status 0'),
    'exits at once, with 7': (lambda: os._exit(7), 'died', 'exit status 7'),
    'kills itself': (lambda: os.kill(os.getpid(), signal.SIGKILL), 'died', 'killed by SIGKILL'),
    'kills its group': (lambda: os.killpg(0, signal.SIGKILL), 'died', 'killed by SIGKILL'),
    'crashes': (lambda: ctypes.string_at(0), 'died', 'killed by SIGSEGV'),
    'closes files': (close_files, 'died', ''),
    'writes into files': (write_everywhere, 'died', ''),
    'hangs': (lambda: time.sleep(60), 'timeout', 'no result after 1 s'),
    'spins': (lambda: sum(0 for _ in itertools.repeat(None)), 'timeout', ''),
    'hangs in a regular expression': (lambda: re.match('(a+)+$', 'a' * 40 + 'b'), 'timeout', ''),
    'hangs in C': (hang_in_c, 'timeout', ''),
    'hangs deaf to signals': (hang_deaf, 'timeout', ''),
    'stops itself': (lambda: os.kill(os.getpid(), signal.SIGSTOP), 'timeout', ''),
    'leaves a child with its files': (fork_and_die, 'timeout', ''),
    'returns nan': (lambda: float('nan'), 'not_finite', 'nan'),
    'returns inf': (lambda: -float('inf'), 'not_finite', '-inf'),
    'returns too much': (lambda: 1e39, 'not_finite', '1e+39'),
    'returns a huge int': (lambda: 10**5000, 'not_finite', 'beyond float32'),
    'returns a string': (lambda: '1.0', 'malformed', 'str instead of a number'),
    'returns a list': (lambda: [1.0], 'malformed', 'list instead of a number'),
    'returns an unpicklable thing': (Unpicklable, 'malformed', 'Unpicklable instead of a number'),
    'returns a trap': (Trap, 'malformed', 'Trap instead of a number'),
}


def act(completions):
  """Each completion is a number to return, or what to do instead."""
  return [FAULTS[text][0]() if text in FAULTS else float(text) for text in completions]


async def never_finishes(completions):
  await asyncio.sleep(0)
  await never()


def returns_nothing(completions):
  del completions


def returns_a_string(completions):
  return 'x' * len(completions)


def returns_too_few(completions):
  return [1.0] * (len(completions) - 1)


def returns_a_number(completions):
  return float(len(completions))


def prints(completions):
  return [print_much() for _ in completions]


def leaves_a_bomb(completions):
  """Answers well; its process ends a moment later."""
  threading.Timer(0.05, os._exit, (1,)).start()
  return [1.0 for _ in completions]


def starts_a_program(completions, path):
  """Starts a program that runs on, says its number, and then does what the completion says."""
  program = subprocess.Popen(['sleep', '60'])
  with open(path[0], 'a') as file:
    file.write(f'{os.getpid()} {program.pid}\n')
  return act(completions)


def kills_the_keeper(completions):
  if completions[0] == 'kill':
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
  return [1.0 for _ in completions]


def computes(completions):
  """As `act`, but what it has to be stopped on is the answer's doing."""
  return act(completions)


computes.stopped_value = 0.0


def dies_once(completions, marks):
  """Its process is killed the first time: by the machine, as it were."""
  for mark in marks:
    if not os.path.exists(mark):
      open(mark, 'w').close()
      os._exit(1)
  return act(completions)


dies_once.stopped_value = 0.0
