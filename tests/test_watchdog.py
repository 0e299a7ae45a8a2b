"""Where a run hangs is said, once, and it goes on."""

from pathlib import Path
import subprocess
import sys
import textwrap
import time

from rlx import watchdog

ROOT = Path(__file__).parent.parent


def hangs_here(seconds):
  time.sleep(seconds)


def test_a_section_that_takes_long_is_told_once_with_its_stack(capfd):
  with watchdog.watching(0.5), watchdog.section('step'):
    time.sleep(0.01)  # as long as Python may collect garbage
    with watchdog.section('reward'):
      hangs_here(1.0)
  told = capfd.readouterr().err
  assert told.count('rlx: ') == 1
  assert 'rlx: reward in step has taken more than 0.5 s (log.stuck_seconds), and goes on' in told
  assert 'in hangs_here' in told and 'MainThread' not in told.splitlines()[0]


def test_short_sections_and_no_limit_say_nothing(capfd):
  with watchdog.watching(0.3):
    for _ in range(8):
      with watchdog.section('step'):
        time.sleep(0.1)
  with watchdog.watching(0), watchdog.section('step'):
    time.sleep(0.1)
  with watchdog.section('step'):
    pass
  assert capfd.readouterr().err == ''


def test_where_python_is_held_up_the_stacks_come_all_the_same():
  program = textwrap.dedent("""
      import ctypes, time
      from rlx import watchdog
      with watchdog.watching(0.2), watchdog.section('step'):
        time.sleep(0.3)
        ctypes.PyDLL(None).usleep(1_500_000)  # does not let go of Python
  """)
  said = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, check=True)
  assert 'rlx: step has taken more' in said.stderr and 'Timeout (0:00:00' in said.stderr

