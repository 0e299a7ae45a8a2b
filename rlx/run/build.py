"""From a config to a run: the one builder, for language and control.

A config has sections of three kinds. What every run has is read here: `seed, population, mesh, models,
stages, evals, checkpoint, log`, and of every stage `steps, stop, algorithm, updates, optimizer, trained,
slow`. What has a `name` is a part, made when a function asks for it (`parts.py`): `task` or `env`, `data`,
`rollout`, `reward`, or any other name. `decoding` and `score` say how language models speak and are scored. A
section that nobody asks for is an error. `given` has the digests of parts that are handed over as objects
(`given.py`).

`stages` names the stages in order: `main` is made of the sections at the top of the config; any other name is
a section that holds the same sections again, of which it may leave out `task` and `env`. A name that stands
there several times is one stage that is entered as often. Models that a later stage wants are handed on; with
`keeps` a stage finds its optimizer and world again, with `takes` it takes memories over. A stage that trains
nothing has neither `optimizer` nor `updates`; one with several learners has them in `learners.<name>`
(docs/stages.md). With `sampling` it samples ahead of learning, or on a mesh of its own.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import functools
from typing import Any

import jax
from ml_collections import ConfigDict
import optax

from rlx import processes, sharding, step
from rlx.data.stream import Streamed
from rlx.engine.decoding import Decoding
from rlx.engine.packing import Packing
from rlx.engine.speaker import Scoring, in_stage
from rlx.engine.stops import automaton
from rlx.envs.control import conformance
from rlx.envs.control.environment import Environment
from rlx.envs.control.host import HostEnvironment
from rlx.envs.text import Task
from rlx.errors import ConfigError, at_least, between
from rlx.models.heads import Head
from rlx.models.language import LanguageModel
from rlx.models.model import as_model
from rlx.names import resolve
from rlx.rewards.host import OnHost
from rlx.run import learning
from rlx.run.given import NOTHING
from rlx.run.given import check as check_given
from rlx.run.parts import (
  PACKAGES,
  Parts,
  bound,
  build_section,
  call,
  functions_of,
  is_section,
  require_keys,
  require_named,
  require_section,
  require_type,
  roles_of,
)
from rlx.run.program import Compiled, Program, Split, Streaming
from rlx.run.stages import (
  Checkpointing,
  Examination,
  Logging,
  NamedModel,
  Run,
  Stage,
  owners,
  seen,
)
from rlx.run.trackers import Writer
from rlx.split import SplitStep
from rlx.types import HostRollout

RUN_KEYS = ('seed', 'population', 'mesh', 'models', 'stages', 'evals', 'checkpoint', 'log')
STAGE_KEYS = ('steps', 'stop', 'algorithm', 'updates', 'optimizer', 'trained', 'slow')
MAY_HAVE = ('keeps', 'takes', 'sampling')
TAKEN = ('task', 'env', 'data', 'rollout', 'reward', 'score', 'decoding', 'transcripts')  # no model's name
Watch = Callable[[optax.GradientTransformation], optax.GradientTransformation]
SHARED = ('task', 'env')  # a stage without one has that of the run; built once, for they take long to load


_WRITERS = {'writers': ('tensorboard',)}  # of runs that were recorded before a config named them


def build(
    config: ConfigDict, given: Mapping[str, Any] = NOTHING, *, watched: Watch = lambda optimizer: optimizer
) -> Run:
  """The run that a config describes; nothing is computed yet.

  Args:
    config: from `config.load`, or made by hand.
    given: parts that no config can say, of which `config.given` has the digests (`run/given.py`).
    watched: put around every optimizer with its guard, for who looks at gradients and updates.
  Raises:
    ConfigError: the config cannot run; one line with the value, the limit and what to do.
  """
  _refuse_older(config)
  _check_run(config)
  check_given(config, given)
  entries = _stage_names(config)
  names = tuple(dict.fromkeys(entries))
  log = call(Logging, {**_WRITERS, **config.log}, 'log')
  mesh = call(sharding.make_mesh, config.mesh, 'mesh')
  objects = {name: functools.partial(lambda value: value, value) for name, value in given.items()}
  shared = Parts({name: config[name] for name in SHARED if name in config}, objects, check=_check_world)
  data = Parts({'data': config.data} if 'data' in config else {}, {}, shared)
  models = _build_models(config, data)
  build_one = functools.partial(
      _build_stage, config, models=models, shared=shared, log=log, mesh=mesh, watched=watched
  )
  if 'data' in data.asked:  # moments are of it: the last stage has the same
    build_one = functools.partial(build_one, data=data['data'])
  built = {name: build_one(name, learnt=_learnt(config, entries, name)) for name in names}
  stages = tuple(built[name][0] for name in entries)
  parts = built[entries[-1]][1]
  evals = tuple(_build_evaluation(name, config.evals[name], stages[-1], parts) for name in config.evals)
  _check_asked(config, names, [parts for _, parts in built.values()], shared)
  _check_entries(stages)
  _check_models_are_used(models, stages)
  task = parts['task' if 'task' in config else 'env']()
  _check_worlds(models, task)
  if log.samples and 'task' not in config:
    raise ConfigError(f'log.samples={log.samples}: a run without texts has none to show; set it to 0')
  run = Run(
      config=config, task=task, mesh=mesh,
      population=config.population.size, stages=stages, evals=evals,
      checkpoint=call(Checkpointing, config.checkpoint, 'checkpoint'), log=log, trackers=_trackers(log),
  )
  _check_counts(run)
  return run


def _trackers(log: Logging) -> tuple[Writer, ...]:
  """The writers that a config names; none is opened yet."""
  if isinstance(log.writers, str):
    raise ConfigError(f"log.writers={log.writers!r} is a list: ('{log.writers}',), or () for none")
  sections = [one if is_section(one) else {'name': one} for one in log.writers]
  return tuple(bound(section, 'log.writers', PACKAGES['writers'])() for section in sections)


def _check_world(name: str, section, made: Any) -> None:
  """An environment that somebody else wrote keeps the contract; those of rlx are tested."""
  of_rlx = lambda x: x.__module__.startswith('rlx.')
  if name != 'env' or (of_rlx(type(made)) and not isinstance(made, Environment)):
    return
  if isinstance(made, HostEnvironment) or all(map(of_rlx, functions_of(section, name))):
    return
  try:
    conformance.check_forms(made, jax.random.key(0))
  except ValueError as error:
    guide = 'docs/guides/own_environment.md'
    raise ConfigError(f'config.env: {section["name"]}: {error}; see {guide}') from error


# What sections were called before models had names.
_OLDER = {
    'model': 'models.policy', 'params': "trained, e.g. ('policy',); how each begins is models.<name>",
    'eval': 'evals.<name>, e.g. evals.held_out', 'lora': "models.policy = {'name': 'lora', ..}",
    'drafter': "models.drafter = {'name': 'drafter', ..}", 'hybrid': "models.policy = {'name': 'hybrid', ..}",
}


def _check_run(config) -> None:
  """What every run has is there, and of its kind."""
  require_keys(set(config.keys()) & {*RUN_KEYS}, {*RUN_KEYS}, 'main', 'a run')
  for name in ('population', 'mesh', 'models', 'evals', 'checkpoint', 'log'):
    require_section(config[name], name)
  if not ({*SHARED} & {*config.keys()}):
    raise ConfigError('the config has neither task nor env: what the run is about')
  require_keys(config.population.keys(), {'size'}, 'population', 'a run')
  require_type(config.population.size, int, 'population.size')
  try:
    between(1, 2**31 - 1, **{'population.size': config.population.size})
    between(0, 2**32 - config.population.size, seed=config.seed)  # keys are made of 32 bits
  except ValueError as error:
    raise ConfigError(str(error)) from error


def _refuse_older(config) -> None:
  """A config of an earlier version says what to write now."""
  stages = config.stages if 'stages' in config else ()
  present = [name for name in _OLDER if name in config and name not in stages]
  old = [f'{name} is now {_OLDER[name]}' for name in present]
  if 'reward' in config and 'overlap' in config.reward:
    old.append('reward.overlap is now sampling.lag, 0 or 1 or more')
  if 'data' in config and 'task' not in config and 'env' not in config:
    old.append('data is now task')
  if old:
    raise ConfigError(f'the config is of an earlier version: {"; ".join(old)} (docs/config.md)')


def _stage_names(config) -> tuple[str, ...]:
  names = tuple(config.stages)
  if not names or names[-1] != 'main' or not all(isinstance(name, str) for name in names):
    raise ConfigError(f"stages={names!r} must name sections and end with 'main', the sections at the top")
  if missing := [name for name in names if name != 'main' and name not in config]:
    raise ConfigError(f'stages={names!r}: the config has no sections {missing}')
  is_stage = lambda value: isinstance(value, ConfigDict) and 'steps' in value and 'slow' in value
  sections = (name for name, value in config.items() if is_stage(value))
  if never := sorted(set(sections) - set(names)):
    raise ConfigError(f'stages={names!r}: nobody enters {never}; name them there, or take the sections away')
  return names


def _trained(section) -> tuple[str, ...]:
  """What a stage trains: of several learners, what any of them does."""
  if 'learners' not in section:
    return tuple(section.trained)
  learners = learning.sections_of(section.learners)
  return tuple(dict.fromkeys(name for learner in learners.values() for name in learner.trained))


def _learnt(config, entries: tuple[str, ...], name: str) -> frozenset[str]:
  """The models that have been trained before a stage is entered for the last time."""
  last = len(entries) - 1 - entries[::-1].index(name)
  before = [config if entry == 'main' else config[entry] for entry in entries[:last]]
  return frozenset(trained for section in before for trained in _trained(section))


# --- models -------------------------------------------------------------------------------------------------


def _build_models(config, outer: Parts) -> dict[str, NamedModel]:
  """Every entry of `config.models`; a model that asks for another is built after it, `outer` for the rest."""
  sections = config.models
  if taken := sorted({*sections} & {*config.keys(), *TAKEN}):
    raise ConfigError(f'config.models has {taken}, names of sections; call these models something else')
  named: dict[str, NamedModel] = {}

  def build_model(name: str) -> Any:
    section = sections[name]
    made = build_section(section, f'models.{name}', parts, PACKAGES['models'])
    try:
      model = as_model(made)
    except ValueError as error:
      raise ConfigError(f'config.models.{name}: {error}') from error
    named[name] = NamedModel(
        model=model, roles=roles_of(resolve(section['name'], *PACKAGES['models']), section, sections)
    )
    return model.functions

  parts = Parts({}, {name: functools.partial(build_model, name) for name in sections}, outer)
  for name in sections:
    parts[name]()
  return named


def _check_models_are_used(models: Mapping[str, NamedModel], stages: Iterable[Stage]) -> None:
  used = {source for stage in stages for source in (*stage.trained, *stage.slow.values())}
  used |= {name for name, one in models.items() if one.model.init is None}
  if unused := sorted(models.keys() - used):
    raise ConfigError(f'config.models has {unused}, which no stage has in trained or slow')


def _check_worlds(models: Mapping[str, NamedModel], task: Any) -> None:
  """Models of other runs see and do what there is to see and to do in this one."""
  told = lambda x: f'observations {x.observation_shape} and {x.actions}'
  for name, one in models.items():
    both = (one.model.made_for, task)
    if all(isinstance(x, Environment) for x in both) and told(both[0]) != told(both[1]):
      raise ConfigError(f'config.models.{name} was trained on {told(both[0])}; this run has {told(both[1])}')


def _check_held(where: str, trained, slow: Mapping[str, str], models: Mapping[str, NamedModel]) -> None:
  """What a stage trains and holds are models, each once, with those that they stand on."""
  own = {name for name, one in models.items() if one.model.init is not None}
  if unknown := sorted((set(trained) | set(slow.values())) - own):
    raise ConfigError(f'config.{where}: trained and slow name {unknown}; config.models has {sorted(own)}')
  if twice := sorted(set(trained) & set(slow)):
    raise ConfigError(f'config.{where}: {twice} are in trained and in slow; a model is in one of them')
  if clash := sorted(name for name, source in slow.items() if name in models and name != source):
    raise ConfigError(
        f'config.{where}.slow: {clash} are models of their own; hold them under their own names, or choose '
        'another name for the copy'
    )
  held = {*trained, *slow}
  for name in held:
    kind = models[slow.get(name, name)]
    bases = {role: kind.roles[role] for role in kind.model.stands_on}
    if missing := [base for base in owners(bases.values(), models) if base not in held]:
      raise ConfigError(f'config.{where}: {name!r} stands on {missing}; the stage lacks it, add it to slow')


def _check_vocabularies(where: str, held: Iterable[NamedModel], task: Any) -> None:
  """Language models that meet in a batch know the same tokens, and the task's are among them."""
  functions = [one.model.functions for one in held]
  decoders = [f.trunk if isinstance(f, Head) else f for f in functions]
  sizes = {decoder.vocab_size for decoder in decoders if isinstance(decoder, LanguageModel)}
  if len(sizes) > 1:
    raise ConfigError(
        f'config.{where}: its models know {sorted(sizes)} tokens; models that meet in a batch need the same '
        'vocabulary'
    )
  for words in sizes:
    if task.vocab_size > words or (isinstance(task, Task) and task.vocab_size != words):
      raise ConfigError(
          f'config.{where}.task has {task.vocab_size} tokens, its models {words}: take the tokenizer of the '
          'models, and the same alphabet in every stage'
      )


# --- stages -------------------------------------------------------------------------------------------------


def _build_stage(
    config, name, *, models, shared, log, mesh, learnt, watched, data=None
) -> tuple[Stage, Parts]:
  section, where = (config, 'main') if name == 'main' else (config[name], name)
  _require_stage_keys(section, where)
  trained, slow = _trained(section), section.slow.to_dict()
  _check_held(where, trained, slow, models)
  given = {'watched': lambda: watched} | ({} if data is None or name != 'main' else {'data': data})
  parts = _stage_parts(config, section, slow, models, shared, log, given)
  held = {name: models[slow.get(name, name)] for name in (*trained, *slow)}
  stands = any(one.model.stands_on for one in models.values())
  view = functools.partial(_seen, models=models, slow=slow) if stands else None
  axes = {name: one.model.axes for name, one in held.items()}
  make = learning.several if 'learners' in section else learning.single
  train_step, optimizer, reward = make(section, where, parts, view)
  if any(isinstance(one.model.functions, LanguageModel | Head) for one in held.values()):
    _check_vocabularies(where, held.values(), parts['task']())
  _check_rows(section, config.mesh, mesh)
  _check_processes(where, section, train_step, mesh)
  called = section.learners.order[0] if 'learners' in section else section.algorithm.name.rpartition('.')[2]
  return Stage(
      name=called if name == 'main' else name,
      num_steps=section.steps,
      stop=_stop_rule(section.stop, parts) if section.stop else None,
      optimizer=optimizer,
      rollout=train_step.rollout,
      train_step=train_step,
      program=_streaming(
          _program(config, section, train_step, reward, log, axes, mesh), train_step.rollout, parts, config,
          mesh,
      ),
      trained=trained,
      slow=slow,
      models=models,
      learnt=learnt,
      keeps='keeps' in section and section.keeps,
      takes=tuple(section.takes) if 'takes' in section else (),
  ), parts


def _stop_rule(section, parts: Parts):
  if 'name' not in section:
    raise ConfigError(f"config.stop has {sorted(section)} and lacks ['name']: a rule, such as 'reached'")
  return build_section(section, 'stop', parts, PACKAGES['stop'])


def _require_stage_keys(section, where: str) -> None:
  """The keys that a stage has: fewer where it trains nothing, others where several learn."""
  if 'learners' in section:
    wanted = {'steps', 'stop', 'learners', 'slow'}
  else:
    idle = {'updates', 'optimizer'} if 'trained' in section and not section.trained else {'updates'}
    wanted = {*STAGE_KEYS} - idle
  given = set(section.keys()) & {*STAGE_KEYS, 'learners'}
  require_keys(given - ({'updates'} if 'optimizer' in wanted else set()), wanted, where, 'a stage')
  kinds = {'steps': int, 'trained': tuple[str, ...], 'takes': tuple[str, ...], 'keeps': bool}
  for name in [name for name in kinds if name in section]:
    require_type(section[name], kinds[name], f'{where}.{name}')
  path = lambda name: name if where == 'main' else f'{where}.{name}'
  for name in ('slow', 'stop', 'decoding', 'updates', 'learners'):
    if name in section:
      require_section(section[name], path(name))
  for name in ('algorithm', 'rollout', 'optimizer', 'reward', *SHARED):
    if name in section:
      require_named(section[name], path(name))


def _seen(own, models, slow):
  """What functions see of models' own parameters."""
  return seen(own, {name: models[slow.get(name, name)] for name in own}, models)


def _stage_parts(config, section, slow, models, shared: Parts, log: Logging, more) -> Parts:
  """What the functions of a stage may ask for: its sections, and models as they speak here."""
  task = lambda: parts['task']()

  @functools.cache
  def decoding() -> Decoding:
    parts.asked.add('decoding')
    if 'decoding' not in section:
      raise ConfigError('a language model speaks here, and there is no section decoding that says how')
    kinds = {field.name: field for field in dataclasses.fields(Decoding)}
    optional = lambda field: field.default is not dataclasses.MISSING and field.name not in section.decoding
    fields = {name for name, field in kinds.items() if not optional(field)} - {'eos_ids', 'pad_id', 'stops'}
    require_keys(section.decoding.keys(), fields, 'decoding', 'Decoding')
    for name, value in section.decoding.items():
      require_type(value, kinds[name].type, f'decoding.{name}')
    try:
      made = Decoding(eos_ids=task().eos_ids, pad_id=task().pad_id, **section.decoding)
      stops = automaton(made.stop, task().vocabulary) if made.stop else None
      return dataclasses.replace(made, stops=stops)
    except ValueError as error:
      raise ConfigError(f'config.decoding: {error}') from error

  scoring = functools.cache(lambda: _scoring(config, parts))
  speaker = lambda source: in_stage(models[source].model.functions, decoding, scoring)
  names = {**{name: name for name in models}, **slow}
  given = {name: functools.partial(speaker, source) for name, source in names.items()}
  given |= {'transcripts': lambda: log.samples, 'optimizer': lambda: learning.optimizer_of(section, parts)}
  given |= more
  same = {name for name in SHARED if _is_same(section, config, name)}
  sections = {name: value for name, value in section.items() if name not in same}
  parts = Parts(sections, given, shared, _check_world)
  parts.asked |= same if section is not config else set()
  return parts


def _is_same(section, config, name: str) -> bool:
  """Whether a stage has the part of the run: it is then built once."""
  return name in section and name in config and section[name].to_json() == config[name].to_json()


def _scoring(config, parts: Parts) -> Scoring:
  parts.asked.add('score')
  if 'score' not in config:
    raise ConfigError('rows of a language model are scored here, and there is no section score that says how')
  keys = {'chunk_tokens', 'packed_columns', 'packed_rows', 'share_prompts'}
  require_keys({*config.score.keys()} - {'packed_kept'}, keys, 'score', 'a run')
  section = config.score
  kept = section.packed_kept if 'packed_kept' in section else 0
  try:
    at_least(1, chunk_tokens=section.chunk_tokens)
    at_least(0, packed_columns=section.packed_columns, packed_rows=section.packed_rows, packed_kept=kept)
    packing = Packing(
        columns=section.packed_columns, rows=section.packed_rows, share_prompts=section.share_prompts,
        kept=kept,
    ) if section.packed_columns else None
  except ValueError as error:
    raise ConfigError(f'config.score: {error}') from error
  return Scoring(chunk_tokens=section.chunk_tokens, packing=packing)


def _program(config, section, train_step: step.Step, reward, log: Logging, axes, mesh) -> Program:
  """What is run: several train steps, cut where rows leave the device."""
  on_host, sampling = isinstance(reward, OnHost), _sampling(section)
  host = train_step.rollout.host if isinstance(train_step.rollout, HostRollout) else None
  size = {'num_steps': log.steps_per_dispatch, 'samples': log.samples}
  if not on_host and sampling is None and host is None:
    return Compiled(train_step, population=config.population.size, **size)
  if config.population.size > 1:
    raise ConfigError(
        f'population.size={config.population.size}: rewards and tools in Python and samples ahead of '
        'learning are of one run; start one run a seed'
    )
  lag, away = (0, None) if sampling is None else (sampling.lag, _sampling_mesh(sampling, mesh))
  if lag >= log.steps_per_dispatch:
    raise ConfigError(
        f'sampling.lag={lag} works inside a dispatch: raise log.steps_per_dispatch={log.steps_per_dispatch} '
        f'to more than that, or lower the lag'
    )
  try:
    pieces = SplitStep(train_step, lag=lag, on_host=on_host, sampling=away, axes=axes)
  except ValueError as error:
    raise ConfigError(f'config.sampling: {error}') from error
  return Split(pieces, reward if on_host else None, host, **size)


def _streaming(program: Program, rollout, parts: Parts, config, mesh) -> Program:
  """The program with rows that are read as they are drawn, where the task is such a data set."""
  task = parts['task']() if 'task' in parts else None
  if not isinstance(task, Streamed) or rollout.data is None:
    return program
  if rollout.data is not task.data or config.population.size > 1:
    raise ConfigError(
        "task.name='streamed' reads rows as they are drawn: that is for one run (population.size="
        f"{config.population.size}) of a rollout that takes them in their order; take 'dataset' here"
    )
  return Streaming(program, task, mesh)


def _sampling(section):
  """The section `sampling` of a stage, if it has one."""
  if 'sampling' not in section:
    return None
  require_keys(set(section.sampling.keys()) - {'mesh'}, {'lag'}, 'sampling', 'a stage')
  return section.sampling


def _sampling_mesh(section, mesh):
  """The mesh that samples, of other devices than the one that learns; None where they are the same."""
  if 'mesh' not in section:
    return None

  def make_mesh(*, data: int, fsdp: int, tensor: int):
    return sharding.make_mesh(data=data, fsdp=fsdp, tensor=tensor, beside=mesh)

  return call(make_mesh, section.mesh, 'sampling.mesh')


def _build_evaluation(name: str, section, stage: Stage, parts: Parts) -> Examination:
  """An entry of `evals`; it asks for the parts of the last stage."""
  require_section(section, f'evals.{name}')
  rest = {key: value for key, value in section.items() if key != 'every'}
  if 'every' not in section:
    raise ConfigError(f"config.evals.{name} lacks ['every'], the train steps between two")
  require_type(section.every, int, f'evals.{name}.every')
  evaluation = build_section(rest, f'evals.{name}', parts, PACKAGES['evals'])
  known = {*stage.models, *stage.slow}
  asked = roles_of(resolve(rest['name'], *PACKAGES['evals']), rest, known).values()
  return Examination(name=name, every=section.every, evaluation=evaluation, needs=frozenset(asked))


# --- checks -------------------------------------------------------------------------------------------------


def _check_asked(config, names, parts: Iterable[Parts], shared: Parts) -> None:
  """Refuses what stands in the config and nobody asked for."""
  sections = [(config, 'config', {*RUN_KEYS, 'given', *(name for name in names if name != 'main')})]
  sections += [(config[name], f'config.{name}', set()) for name in names if name != 'main']
  asked_of_all = set().union(*(one.asked for one in parts), shared.asked)
  for (section, where, more), asked in zip(sections, _asked(names, parts), strict=True):
    known = asked | more | {*STAGE_KEYS, *MAY_HAVE, 'learners'} | (({'score'} | {*SHARED}) & asked_of_all)
    if unasked := sorted(set(section.keys()) - known):
      raise ConfigError(f'{where} has {unasked}, which nobody asks for')


def _asked(names, parts: Iterable[Parts]) -> list[set[str]]:
  """The sections that were asked for at the top, and in each stage of a name of its own."""
  by_name = dict(zip(names, parts, strict=True))
  return [by_name['main'].asked, *(by_name[name].asked for name in names if name != 'main')]


def _check_entries(stages: tuple[Stage, ...]) -> None:
  """Stages have names of their own, and those that keep something are entered again."""
  for stage in dict.fromkeys(stages):
    if len({id(other) for other in stages if other.name == stage.name}) > 1:
      raise ConfigError(f'two stages are called {stage.name!r}; a section needs another name')
    if stage.keeps and stages.count(stage) < 2:
      raise ConfigError(f'stage {stage.name!r} keeps its optimizer and world, and is entered once only')
    if stage.takes and stages.index(stage) == 0 and stages.count(stage) < 2:
      raise ConfigError(f'stage {stage.name!r} takes {stage.takes}, and no stage is before it')


def _check_rows(section, asked, mesh) -> None:
  """Rows divide into the devices that a config asks for; where it takes all there are, what idles is said."""
  if 'rollout' not in section or 'batch_size' not in section.rollout:
    return
  rows, devices = section.rollout.batch_size, mesh.shape['data'] * mesh.shape['fsdp']
  if rows % devices and asked.data != -1:
    raise ConfigError(
        f'rollout.batch_size={rows} is not divisible by the {devices} devices of mesh.data x mesh.fsdp; '
        f'the nearest is {max(round(rows / devices), 1) * devices}'
    )
  sharding.say_what_does_not_divide(rows, devices)


def _check_processes(where: str, section, train_step: step.Step, mesh) -> None:
  """Several processes share no environments on the host, and copy no weights to other meshes."""
  if not processes.several():
    return
  if mesh.size < jax.device_count():
    raise ConfigError(
        f'mesh of {mesh.size} devices: that of several processes is of all {jax.device_count()} of theirs'
    )
  if train_step.rollout.begins_anew:
    raise ConfigError(f'config.{where}: environments on the host are of one process; start it alone')
  if 'sampling' in section and 'mesh' in section.sampling:
    raise ConfigError(f'config.{where}: sampling.mesh is of one process; start it alone, or take it away')


def _check_counts(run: Run) -> None:
  """Everything that is counted in steps is a multiple of the steps in a dispatch."""
  per_dispatch = run.log.steps_per_dispatch
  if per_dispatch < 1:
    raise ConfigError(f'log.steps_per_dispatch={per_dispatch}: at least 1 train step')
  if run.log.samples < 0:
    raise ConfigError(f'log.samples={run.log.samples} rows: at least 0')
  counts = {f'evals.{one.name}.every': one.every for one in run.evals}
  counts['checkpoint.every'] = run.checkpoint.every
  counts |= {f'steps of stage {s.name!r}': s.num_steps for s in run.stages}
  for name, count in counts.items():
    if count < 1 or count % per_dispatch:
      raise ConfigError(
          f'{name}={count} is not a positive multiple of log.steps_per_dispatch={per_dispatch}'
      )
  if run.checkpoint.keep < 2:
    raise ConfigError(f'checkpoint.keep={run.checkpoint.keep}: keep at least 2, one to fall back to')
  named = {f'eval/{one.name}' for one in run.evals}
  # Where nothing is held out, a run is read by a metric of its train steps.
  metrics = {'log.headline': run.log.headline} if named or run.log.headline.startswith('eval/') else {}
  config = run.config
  sections = {name: config if name == 'main' else config[name] for name in config.stages}
  stops = {f'{name}.stop.metric': s.stop.metric for name, s in sections.items() if 'metric' in s.stop}
  metrics |= {where: metric for where, metric in stops.items() if metric.startswith('eval/')}
  for where, metric in metrics.items():
    if metric.rpartition('/')[0] not in named:
      raise ConfigError(f'{where}={metric!r} is of none of the evaluations {sorted(named)}')
