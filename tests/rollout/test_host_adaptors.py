"""Worlds and tools of others: environments in gymnasium's words, a retrieval server, a server of tools."""

import functools
from http.server import BaseHTTPRequestHandler, HTTPServer
import json
import random
import socket
import subprocess
import sys
import threading
import time

import pytest

from rlx.envs.host import mcp_server, open_env, retrieval
from rlx.envs.host.calls import Call, whole
from rlx.envs.host.tools import OVER, tool
from rlx.errors import ConfigError
from rlx.rollout import calls_again, calls_record
from rlx.rollout.toolbox import Desk, Seat, toolbox

LIMITS = {
    'timeout_seconds': 20.0, 'max_calls': 20, 'workers': 2, 'result_tokens': 32, 'keep': 'head', 'before': '',
    'after': '', 'role': 'user', 'reset_tokens': 16,
}


def desk_of(tools=None, environments=None, folder=None):
  calls = functools.partial(whole, tool='act')
  made = Desk(toolbox(tools=tools or {}, environments=environments or {}, calls=calls, **LIMITS))
  made.keep_in(folder)
  made.open('step')
  return made


GUESS = {'name': 'text_env.TextEnv', 'make': 'plain_tools.Guess', 'arguments': {'largest': 4}}


def play(desk, guesses, seed=7):
  seat = Seat(0, {'seed': seed}, 'guess')
  results = [desk.turn(seat, turn, whole(guess, tool='act'))[0] for turn, guess in enumerate(guesses)]
  desk.end(seat)
  return seat, results


def test_an_environment_of_gymnasium_is_played_in_words_until_it_is_over(tmp_path):
  number = random.Random(7).randrange(4)
  desk = desk_of(environments={'guess': GUESS}, folder=tmp_path)
  assert desk.begin(0, {'seed': 7}, 'guess') == 'a number below 4'
  seat, (missed, found) = play(desk, [f'{(number + 1) % 4}', f' {number}\n'])
  assert (missed.text, missed.kind) == ('no', '') and (found.text, found.kind) == ('found', OVER)
  assert seat.reward == 1 and not seat.failures
  desk.keep_in(None)
  desk.open('another')
  seat, results = play(desk, [f'{(number + 1) % 4}'] * 3)
  assert [result.kind for result in results] == ['', '', OVER] and seat.reward == 0
  desk.close()
  entries = calls_record.read(tmp_path / 'step.jsonl')
  box = toolbox(
      tools={}, environments={'guess': GUESS}, calls=functools.partial(whole, tool='act'), **LIMITS
  )
  again = calls_again.again(box, entries)
  assert len(again) == 3 and all(one.is_same for one in again)  # two moves and a reward


def test_what_makes_no_environment_refuses_the_run():
  section = {**GUESS, 'make': 'nowhere.make'}
  with pytest.raises(ConfigError, match="'nowhere.make' makes no environment.*install the package"):
    desk_of(environments={'guess': section})


def test_nothing_said_is_no_action():
  assert whole(' \n', tool='act') == [] and whole(' go on ', tool='act') == [Call('act', 'go on')]


class Retrieval(BaseHTTPRequestHandler):
  """What Search-R1's server says; it knows one passage of two lines and one of one."""

  def do_POST(self):
    asked = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
    passages = ['"Title"\nThe text.', 'No title.'][: asked['topk']]
    found = [{'document': {'contents': f'{x} {asked["queries"][0]}'}, 'score': 1.0} for x in passages]
    said = b'[]' if asked['queries'] == ['odd'] else json.dumps({'result': [found]}).encode()
    self.send_response(200)
    self.send_header('Content-Length', str(len(said)))
    self.end_headers()
    self.wfile.write(said)

  def log_message(self, *arguments):
    """Says nothing."""


@pytest.fixture(scope='module')
def url():
  with HTTPServer(('127.0.0.1', 0), Retrieval) as server:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f'http://127.0.0.1:{server.server_port}/retrieve'
    server.shutdown()
    thread.join()


def test_passages_of_a_server_are_read_by_title_and_text(url):
  ask = functools.partial(retrieval.retrieve, url=url, answer_seconds=5.0)
  assert ask('who?', results=2) == '(1) "Title": The text. who?\n(2) No title. who?'
  assert ask('who?', results=1).count('\n') == 0
  with pytest.raises(RuntimeError, match="says no 'result'"):
    ask('odd', results=1)


def test_a_run_without_its_server_is_refused():
  section = {
      'name': 'retrieval.retrieve', 'url': 'http://127.0.0.1:9/retrieve', 'results': 1, 'answer_seconds': 1.0
  }
  with pytest.raises(ConfigError, match='127.0.0.1:9/retrieve does not answer'):
    desk_of(tools={'search': section})


SERVER = '''
from mcp.server import MCPServer

server = MCPServer('sums')

@server.tool()
def add(x: int, y: int = 1) -> str:
  """Adds two numbers."""
  if x < 0:
    raise ValueError('below zero')
  return str(x + y)

server.run()
'''


def test_tools_of_a_server_are_checked_and_called(tmp_path):
  pytest.importorskip('mcp')
  file = tmp_path / 'server.py'
  where = f'import sys\nsys.path[:0] = {sys.path!r}\n'  # a server is told little of what is around it
  file.write_text(where + SERVER)
  sections = mcp_server.sections((sys.executable, str(file)))
  desk = desk_of(tools=sections)
  calls = [Call('add', given) for given in ({'x': 1, 'y': 2}, {'x': 1}, {'x': '1'}, {'x': -1})]
  plain, default, wrong, failed = desk.turn(Seat(0, {}, ''), 0, calls)
  assert (plain.text, default.text) == ('3', '2')
  assert wrong.kind == 'arguments' and 'it has to be int' in wrong.text
  assert failed.kind == 'raised' and 'add' in failed.text
  desk.close()
  command = sections['add']['command']
  described = tool('sum', mcp_server.ServerTool(command=command, tool='add')).schema['function']
  assert described['name'] == 'sum' and described['parameters']['required'] == ['x']
  with pytest.raises(ConfigError, match="has no tool 'divide'"):
    mcp_server.ServerTool(command=command, tool='divide')


def test_a_missing_package_is_one_line(monkeypatch):
  monkeypatch.setitem(sys.modules, 'mcp', None)
  with pytest.raises(ConfigError, match=r"pip install 'rlx\[mcp\]'"):
    mcp_server.sections(('nobody',))


OPEN_ENV = '''
import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

class Say(Action):
  text: str

class Heard(Observation):
  words: str

class Count(Environment):
  SUPPORTS_CONCURRENT_SESSIONS = True  # each has a state of its own

  def __init__(self):
    super().__init__()
    self.left = 0

  def reset(self, seed=None, episode_id=None, **rest):
    self.left = seed
    return Heard(words=f'{self.left} left')

  def step(self, action, timeout_s=None, **rest):
    if action.text == 'fall':
      raise RuntimeError('it fell')
    self.left -= 1
    return Heard(words=f'{action.text}: {self.left}', reward=0.5, done=self.left == 0)

  @property
  def state(self):
    return State()

uvicorn.run(create_fastapi_app(Count, Say, Heard, max_concurrent_envs=8), port=%d, log_level='error')
'''


@pytest.fixture
def open_env_server(tmp_path):
  pytest.importorskip('openenv')
  with socket.create_server(('127.0.0.1', 0)) as free:
    port = free.getsockname()[1]
  file = tmp_path / 'open_env.py'
  file.write_text(f'import sys\nsys.path[:0] = {sys.path!r}\n' + OPEN_ENV % port)
  server = subprocess.Popen([sys.executable, str(file)])
  url, deadline = f'http://127.0.0.1:{port}', time.monotonic() + 120
  while time.monotonic() < deadline and server.poll() is None:
    try:
      socket.create_connection(('127.0.0.1', port), 1).close()
      break
    except OSError:
      time.sleep(0.1)
  yield {
      'name': 'open_env.OpenEnv', 'url': url, 'action': 'text', 'observation': 'words',
      'begins_with': ('seed',), 'answer_seconds': 20.0,
  }
  server.terminate()
  server.wait()


@pytest.mark.slow
def test_an_environment_of_open_env_is_played_through_its_own_client(open_env_server):
  desk = desk_of(environments={'count': open_env_server})
  assert desk.begin(0, {'seed': 2}, 'count') == '2 left'
  seats = [Seat(number, {'seed': 2}, 'count') for number in range(2)]
  for turn, word in enumerate(('one', 'two')):  # side by side: each has a session of its own
    heard = [desk.turn(seat, turn, whole(word, tool='act'))[0] for seat in seats]
    assert [one.text for one in heard] == [f'{word}: {1 - turn}'] * 2
  assert heard[0].kind == OVER
  for seat in seats:
    desk.end(seat)
    assert seat.reward == 1 and not seat.failures
  broken = Seat(2, {'seed': 2}, 'count')
  [failed] = desk.turn(broken, 0, whole('fall', tool='act'))
  assert failed.kind == 'raised' and 'it fell' in failed.text
  [again] = desk.turn(broken, 1, whole('up', tool='act'))
  assert again.text == 'up: 1'
  desk.end(broken)
  desk.close()
  as_json = desk_of(environments={'count': {**open_env_server, 'action': '', 'observation': ''}})
  seat = Seat(3, {'seed': 1}, 'count')
  wrong, right = as_json.turn(seat, 0, [Call('act', '{"text"'), Call('act', '{"text": "a"}')])
  assert 'an action is a JSON object' in wrong.text and json.loads(right.text)['words'] == 'a: 0'
  as_json.end(seat)
  as_json.close()


NOBODY = {
    'url': 'http://127.0.0.1:9', 'action': 'text', 'observation': 'words', 'begins_with': ('seed',),
    'answer_seconds': 1.0,
}


def test_without_the_package_of_open_env_the_extra_is_named(monkeypatch):
  monkeypatch.setattr(open_env, 'GenericEnvClient', None)
  with pytest.raises(ValueError, match=r"pip install 'rlx\[openenv\]'"):
    open_env.OpenEnv(**NOBODY)._trial()


@pytest.mark.slow
def test_a_server_of_open_env_that_is_not_there_refuses_the_run():
  pytest.importorskip('openenv')
  with pytest.raises(ConfigError, match='at http://127.0.0.1:9 does not answer.*start its server'):
    desk_of(environments={'count': {'name': 'open_env.OpenEnv', **NOBODY}})


def test_a_server_that_does_not_start_is_one_line():
  pytest.importorskip('mcp')
  with pytest.raises(ConfigError, match='the server false does not start'):
    mcp_server.sections(('false',))


GEM = {'env_id': 'game:GuessTheNumber-v0-easy'}


@pytest.mark.parametrize('package, section', [
    ('gem', {'name': 'text_env.TextEnv', 'make': 'gem.make', 'arguments': GEM}),
    ('textarena', {'name': 'text_env.TextArena', 'env_id': 'GuessTheNumber-v0'}),
])
def test_worlds_of_packages_repeat_under_their_seed(package, section):
  pytest.importorskip(package)
  desk = desk_of(environments={'guess': section})
  said = [desk.begin(number, {'seed': 3}, 'guess') for number in range(2)]
  assert said[0] == said[1] and len(said[0]) > 20
  words = {'gem': '\\boxed{{{}}}', 'textarena': '[{}]'}[package]
  moves = [words.format(number) for number in range(1, 20)]
  seats = []
  for number in range(2):
    seat, kinds = Seat(number, {'seed': 3}, 'guess'), []
    for turn, move in enumerate(moves):
      [result] = desk.turn(seat, turn, whole(move, tool='act'))
      kinds.append((result.kind, result.text))
      if result.kind == OVER:
        break
    desk.end(seat)
    seats.append((kinds, seat.reward))
  assert seats[0] == seats[1] and seats[0][0][-1][0] == OVER
  desk.close()
