"""Algorithms whose papers are tried on worlds on the device, each in a run with tools in Python: its twin.

Sections that are the paper's (algorithm, what is around the rollout, weights of the reward) are those of its
config; the world is `plain_twins.Asked`, in which the search that rlx has (tantivy) finds real passages.
"""

import importlib
import json

from ml_collections import ConfigDict
import numpy as np
import pytest

from rlx.experiments.configs.tools import checked_problems, word_problems_grpo
from tests.whole_runs import run_in

pytest.importorskip('tantivy')
THINGS = ('pen', 'book', 'lamp', 'rope', 'drum', 'kite', 'boat', 'coat', 'ring', 'vase', 'harp', 'sofa')
PRICES = {thing: str(3 * place + 2) for place, thing in enumerate(THINGS)}


@pytest.fixture(scope='module')
def files(tmp_path_factory):
  """Rows, and two files of passages: what things cost, and what nobody asked."""
  folder = tmp_path_factory.mktemp('files')
  texts = {
      'rows': [{'question': f'What does the {x} cost?', 'answer': price} for x, price in PRICES.items()],
      'prices': [{'text': f'the {x} costs {price}'} for x, price in PRICES.items()],
      'weights': [{'text': f'the {x} weighs {int(price) + 1}'} for x, price in PRICES.items()],
  }
  for name, rows in texts.items():
    (folder / f'{name}.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
  return folder


def own(name):
  """The config that shows a paper on the device."""
  return importlib.import_module(f'rlx.experiments.configs.{name}').get_config('smoke=True')


def sections(files, *, pays, fails=0.0, indices=('prices',)):
  """The world, as a section of a toolbox."""
  return {
      'name': 'plain_twins.Asked', 'files': [[str(files / f'{name}.jsonl')] for name in indices],
      'folder': str(files / 'indexes'), 'fails': fails, 'pays': pays,
  }


def on_the_host(files, name, world):
  """The config of tools in Python, with what is the paper's own; a stage of reinforcement alone."""
  paper = own(name)
  config = word_problems_grpo.get_config('smoke=True')
  config.unlock()
  config.stages = ('main',)
  del config['sft']
  asks(config, files)
  config.toolbox.tools, config.toolbox.environments = ConfigDict(), ConfigDict({'asked': world})
  config.toolbox.calls = ConfigDict({'name': 'plain_twins.now_and_then'})
  config.toolbox.update(result_tokens=32, before=' ', after=' ')
  config.decoding.update(stop=(), max_tokens=96)
  config.rollout.turn_tokens = 6
  config.reward = ConfigDict({'name': 'of_world'})
  config.evals = ConfigDict()
  config.algorithm, config.slow = paper.algorithm, paper.slow
  config.steps = 2
  config.log.update(steps_per_dispatch=1, headline='reward/mean')
  return config, paper


def asks(config, files):
  """The rows of `files` are the problems."""
  config.task.update(train=str(files / 'rows.jsonl'), held_out='')
  config.task.columns = ConfigDict({'prompt': '{question}'})


def ran(config, folder):
  """The rows of metrics."""
  metrics, state, _ = run_in(config, folder)
  rows = [row for row in map(json.loads, metrics.decode().splitlines()) if 'loss/total' in row]
  assert len(rows) == 2 and all(np.isfinite(row['loss/total']) for row in rows)
  return rows, state


# paper, its config, what the world pays, and what else the twin has
PAID = [
    ('S005', 'search.noisy_deepresearcher', {'f1': 1.0}, {'fails': 0.3}),
    ('S008', 'search.clinic_dxsearch', 'reward.weights', {}),
    ('S115', 'search.pages_vrag', {'success': 1.0, 'ndcg': 0.5}, {}),
    ('S227', 'search.scenes_mmsearch', {'success': 1.0, 'calls': -0.1}, {}),
    ('S230', 'search.graph_medresearcher', 'reward.weights', {'indices': ('prices', 'weights')}),
]


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'pays', 'more'), [case[1:] for case in PAID], ids=[x[0] for x in PAID])
def test_grpo_learns_from_what_a_real_search_found(files, tmp_path, name, pays, more):
  weights = own(name).reward.weights.to_dict() if pays == 'reward.weights' else pays
  config, _ = on_the_host(files, name, sections(files, pays=weights, **more))
  rows, _ = ran(config, tmp_path)
  records = [path.read_text() for path in (tmp_path / 'calls').rglob('*.jsonl')]
  assert len(records) == 2 and all(records) and all(row['tools/calls'] > 0.5 for row in rows)
  assert any(row['reward/std'] > 0 for row in rows) and not any(row['tools/failed_raised'] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize('name, told', [
    ('agents.library_simple_tir', 'turns/void'), ('agents.library_roc', 'roc/errors_pool'),
], ids=['S018', 'S049'])
def test_episodes_with_tools_are_chosen_by_their_turns(files, tmp_path, name, told):
  config, paper = on_the_host(files, name, sections(files, pays={'success': 1.0}))
  around = {key: value for key, value in paper.rollout.to_dict().items() if key != 'rollout'}
  config.rollout = ConfigDict({**around, 'rollout': config.rollout.to_dict()})
  rows, _ = ran(config, tmp_path)
  assert all(0 < row[told] <= 1 for row in rows), [row[told] for row in rows]


@pytest.mark.slow
def test_pairs_of_episodes_with_tools_are_right_before_wrong_and_then_by_calls(files, tmp_path):
  """S134."""
  config, paper = on_the_host(
      files, 'search.pages_webthinker', sections(files, pays={'success_with_fewer': 1.0})
  )
  of_world, inner = config.reward.to_dict(), config.rollout.to_dict()
  config.rollout = ConfigDict({'name': 'paired', 'rollout': inner, 'reward': of_world})
  del config['reward']
  rows, state = ran(config, tmp_path)
  assert all('preference/margin' in row for row in rows) and 'reference' in state.slow


@pytest.mark.slow
def test_a_planner_searches_for_a_reader_that_is_frozen(files, tmp_path):
  """S028."""
  paper, config = own('search.archive_planner'), checked_problems.get_config('smoke=True')
  config.unlock()
  config.stages = ('main',)
  del config['sft']
  asks(config, files)
  config.models.reader = ConfigDict(config.models.policy.to_dict())
  config.slow = paper.slow
  planned = {
      'name': 'plain_twins.Planned', 'files': [str(files / 'prices.jsonl')], 'folder': str(files / 'indexes'),
      'cost': paper.task.cost,
  }
  config.toolboxes = ConfigDict({'name': 'rollout.tabletop.toolboxes'})
  config.table.environments = ConfigDict({'planned': planned})
  config.rollout.update(learnt=paper.rollout.learnt, turn_tokens=8)
  config.rollout.names = paper.rollout.names
  config.algorithm, config.evals, config.steps = paper.algorithm, ConfigDict(), 2
  config.log.update(steps_per_dispatch=1, headline='loss/total')
  config.decoding.update(stop=())
  _, state = ran(config, tmp_path)
  assert {*state.params} == {'policy'} and not state.slow, 'the reader is in no state: nothing changes it'
