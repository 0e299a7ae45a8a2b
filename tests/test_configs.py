"""Every config in the tree builds and reads all its keys, stages work, and the table of papers is true."""

import functools
import inspect
from pathlib import Path

import jax
from ml_collections import ConfigDict
import pytest

from rlx import config as configs
from rlx.experiments import catalogue, claims, config_docs, paper_list, papers
from rlx.names import PACKAGES, resolve
from rlx.run import learning, train
from rlx.run.build import build

ROOT = Path(__file__).parent.parent
CONFIGS = sorted(p for p in (ROOT / 'experiments/configs').rglob('*.py') if p.name != '__init__.py')


# To build and to trace takes seconds: at once the first config of each folder (and fewer are traced).
TRACED = ('offline', 'quickstart', 'sft')  # folders that differ most
FIRST = list({path.parent: path for path in reversed(CONFIGS)}.values())


def needs(config):
  """Skips where the environment is of a project that is not installed, and is no part of `dev`."""
  project, colon, _ = config.env.name.partition(':') if 'env' in config else ('', '', '')
  if colon:
    pytest.importorskip(project)


def each(paths, *, at_once):
  name = lambda path: str(path.relative_to(ROOT))
  mark = lambda path: () if path in at_once else pytest.mark.slow
  return pytest.mark.parametrize('path', [pytest.param(p, id=name(p), marks=mark(p)) for p in paths])


loaded = functools.cache(lambda path: configs.load(str(path)))  # to be read only


@each(CONFIGS, at_once=FIRST)
def test_config_builds_and_is_not_modified(path):
  config = configs.load(f'{path}:smoke')
  before = config.to_json()
  needs(config)
  build(config)
  assert config.to_json() == before
  configs.load(str(path))  # the real one is at least a config
  assert 'Result: ' in path.read_text(), 'a config is the record of a result'


@each(CONFIGS, at_once=[path for path in FIRST if path.parent.name in TRACED])
def test_every_stage_of_a_config_can_be_traced(path):
  config = configs.load(f'{path}:smoke')
  needs(config)
  run = build(config)
  with jax.set_mesh(run.mesh):
    train.check(run)


# What slots take out of a section before its function sees the rest.
OF_SLOTS = ('name', 'names', 'every', 'size', 'weight')


def named(config, packages=('rlx',)):
  """Where each section's name is looked up, and the section."""
  for key, value in config.items():
    if isinstance(value, ConfigDict):
      inside = PACKAGES.get(key, packages)
      if 'name' in value:
        yield (*inside, 'rlx'), value
      yield from named(value, inside)


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_name_of_a_config_means_one_function_that_takes_its_keys(path):
  """What a function of the same name, written later, would break in a config that is built by a slow test."""
  config = loaded(path)
  needs(config)
  for packages, section in named(config):
    parameters = inspect.signature(resolve(section['name'], *dict.fromkeys(packages))).parameters
    if inspect.Parameter.VAR_KEYWORD not in {p.kind for p in parameters.values()}:
      assert set(section) <= {*parameters, *OF_SLOTS}, section['name']


def parts(config):
  """The sections of a config, and of its stages, that are parts: (section, what stands there)."""
  for stage in (config, *(config[name] for name in config.stages if name in config)):
    for section in set(stage) & set(catalogue.KINDS):
      if section in ('models', 'evals'):
        yield from ((section, value) for value in stage[section].values())
      elif 'name' in stage[section]:
        yield section, stage[section]


def test_what_configs_name_is_listed():
  """In `rlx list` and docs/config.md; what stands in the file of an algorithm is shown with it."""
  listed = {section: catalogue.functions(section) for section in catalogue.KINDS}
  for path in CONFIGS:
    for section, value in parts(loaded(path)):
      if ':' in value['name']:
        continue  # of another project
      function = resolve(value['name'], *PACKAGES[section], 'rlx')
      if function.__module__.startswith(PACKAGES[section]):
        name = f'{function.__module__.rpartition(".")[2]}.{function.__name__}'
        assert name in listed[section], f'{path.stem}: what does catalogue.KINDS lack for {name}?'


NAMES = ('models.', 'evals.')  # keys in these are free to choose


def sections(config, prefix=''):
  if prefix not in NAMES:
    yield prefix, config
  for name, value in config.items():
    if isinstance(value, ConfigDict) and name != 'slow':
      yield from sections(value, f'{prefix}{name}.')


def test_every_key_is_read():
  """A surplus key is refused in every section, so there is none that nothing reads."""
  path = f'{ROOT}/experiments/configs/quickstart/arithmetic.py:smoke'
  names = [name for name, _ in sections(configs.load(path))]
  assert len(names) > 20
  for name in names:
    config = configs.load(path).unlock()
    dict(sections(config))[name]['surplus'] = 1
    with pytest.raises(configs.ConfigError) as error:
      build(config)
    assert 'surplus' in str(error.value), name


@pytest.mark.slow
def test_the_smoke_run_of_a_critic_trains(tmp_path):
  """A config with two trained models and another structure in its second stage."""
  path = ROOT / 'experiments/configs/policy_gradient/ppo_arithmetic.py'
  config = configs.load(f'{path}:smoke')
  outcome = train.train(config, tmp_path, quiet=True, command='')
  assert outcome.finished and outcome.step == 8
  again = train.train(config, tmp_path, quiet=True, command='')
  assert again.finished and again.step == 8 and again.after == outcome.after


@pytest.mark.slow
def test_a_stop_rule_ends_a_stage_early(tmp_path):
  config = configs.load(f'{ROOT}/experiments/configs/quickstart/arithmetic.py:smoke')
  configs.override(config, 'sft.stop.at_least', '0.0')
  outcome = train.train(config, tmp_path, quiet=True, command='')
  assert outcome.finished and outcome.step == 2 + 4, 'the first evaluation of SFT ends it'


def test_the_learning_rate_of_each_config_falls_until_the_end():
  early = {path.stem: learning.rates_that_end_early(loaded(path)) for path in CONFIGS}
  assert {name: said for name, said in early.items() if said} == {}


def test_a_learning_rate_that_falls_too_soon_is_told():
  """Two updates a step, and a schedule as long as the steps."""
  config = configs.load(str(ROOT / 'experiments/configs/quickstart/arithmetic.py'))
  assert learning.rates_that_end_early(config) == []
  configs.override(config, 'updates.minibatches', '2')
  (said,) = learning.rates_that_end_early(config)
  steps = config.steps
  assert said.startswith(f'main: the learning rate has fallen after {steps} of {2 * steps} updates'), said
  with_own = config.copy_and_resolve_references()
  with_own.optimizer = {'name': 'mine.sgd', 'decay_steps': 3}  # which has no warm-up
  assert learning.rates_that_end_early(with_own) == []
  configs.override(config, 'optimizer.decay_steps', '0')
  assert learning.rates_that_end_early(config) == []


@pytest.mark.slow
def test_a_run_says_that_its_learning_rate_falls_too_soon(tmp_path, capsys):
  config = configs.load(f'{ROOT}/experiments/configs/quickstart/arithmetic.py:smoke')
  configs.override(config, 'optimizer.warmup_steps', '0')
  configs.override(config, 'optimizer.decay_steps', '2')
  train.train(config, tmp_path, quiet=False, command='')
  assert 'has fallen after 2 of 4 updates' in capsys.readouterr().err


def test_the_page_of_sections_is_up_to_date():
  said = (ROOT / 'docs/config.md').read_text()
  assert said == config_docs.text(), 'run: python -m rlx.experiments.config_docs'


def test_papers_table_is_up_to_date():
  assert (ROOT / 'docs/papers.md').read_text() == papers.table(), 'run: python -m rlx.experiments.papers'


def test_every_paper_has_a_row_and_leads_where_it_says():
  listed = paper_list.papers()
  assert [paper.id for paper in listed] == [f'S{number:03}' for number in range(1, 248)]
  for paper in listed:
    for place in paper.places:
      if place.name not in configs.names():
        assert paper.id in catalogue.docstring(ROOT / place.name), place.name


def test_papers_are_found_by_the_claims_of_configs():
  """They are read from the sources, without importing any."""
  named = {(one, name) for name, claim in claims.named().items() for one in claim.paper.split()}
  found = {(paper.id, place.name) for paper in paper_list.papers() for place in paper.places}
  assert named == {(one, name) for one, name in found if name in configs.names()}
