"""From a config to a run: the one builder, for language and control.

A config has sections of three kinds. What every run has is read here: `seed, population, mesh, models,
stages, evals, checkpoint, log`, and of every stage `steps, stop, algorithm, updates, optimizer, trained,
slow`. What has a `name` is a part, made when a function asks for it (`parts.py`): `task` or `env`, `data`,
`rollout`, `reward`, or any other name. `decoding` and `score` say how language models speak and are scored. A
section that nobody asks for is an error.

`stages` names the stages in order: `main` is made of the sections at the top of the config; any other name is
a section that holds the same sections again, of which it may leave out `task` and `env`. A stage hands its
models on.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import functools
from typing import Any

from ml_collections import ConfigDict

from rlx import lens, sharding, step
from rlx.controllers.memory import stateful
from rlx.engine.packing import Packing
from rlx.engine.sample import Decoding
from rlx.engine.speaker import Scoring, in_stage
from rlx.envs.text import Task
from rlx.errors import ConfigError
from rlx.models.heads import RowHead, TokenHead
from rlx.models.language import LanguageModel
from rlx.models.model import as_model
from rlx.names import resolve
from rlx.optimizers import finite
from rlx.rewards.host import HostReward
from rlx.run.parts import PACKAGES, Parts, build_section, call, require_keys, roles_of
from rlx.run.program import Compiled, Program, Split
from rlx.run.stages import (
  Checkpointing,
  Examination,
  Logging,
  NamedModel,
  Run,
  Stage,
  StopRule,
  owners,
  seen,
)

RUN_KEYS = ('seed', 'population', 'mesh', 'models', 'stages', 'evals', 'checkpoint', 'log')
STAGE_KEYS = ('steps', 'stop', 'algorithm', 'updates', 'optimizer', 'trained', 'slow')
TAKEN = ('task', 'env', 'data', 'rollout', 'reward', 'score', 'decoding', 'transcripts')  # no model's name
SHARED = ('task', 'env')  # a stage without one has that of the run; built once, for they take long to load


def build(config: ConfigDict) -> Run:
  """The run that a config describes; nothing is computed yet.

  Raises:
    ConfigError: the config cannot run; one line with the value, the limit and what to do.
  """
  _refuse_older(config)
  names = _stage_names(config)
  require_keys(set(config.keys()) & {*RUN_KEYS, *STAGE_KEYS}, {*RUN_KEYS, *STAGE_KEYS}, 'main', 'a run')
  require_keys(config.population.keys(), {'size'}, 'population', 'a run')
  log = call(Logging, config.log, 'log')
  mesh = call(sharding.make_mesh, config.mesh, 'mesh')
  shared = Parts({name: config[name] for name in SHARED if name in config}, {})
  models = _build_models(config, shared)
  build_one = functools.partial(_build_stage, config, models=models, shared=shared, log=log, mesh=mesh)
  built, learnt = [], frozenset()
  for name in names:
    built.append(build_one(name, learnt=learnt))
    learnt |= set(built[-1][0].trained)
  stages = tuple(stage for stage, _ in built)
  parts = built[-1][1]
  evals = tuple(_build_evaluation(name, config.evals[name], stages[-1], parts) for name in config.evals)
  _check_asked(config, names, [parts for _, parts in built], shared)
  _check_models_are_used(models, stages)
  if log.samples and 'task' not in config:
    raise ConfigError(f'log.samples={log.samples}: a run without texts has none to show; set it to 0')
  run = Run(
      config=config, task=parts['task' if 'task' in config else 'env'](), mesh=mesh,
      population=config.population.size, stages=stages, evals=evals,
      checkpoint=call(Checkpointing, config.checkpoint, 'checkpoint'), log=log,
  )
  _check_counts(run)
  return run


# What sections were called before models had names.
_OLDER = {
    'model': 'models.policy', 'params': "trained, e.g. ('policy',); how each begins is models.<name>",
    'eval': 'evals.<name>, e.g. evals.held_out', 'lora': "models.policy = {'name': 'lora', ..}",
    'drafter': "models.drafter = {'name': 'drafter', ..}", 'hybrid': "models.policy = {'name': 'hybrid', ..}",
}


def _refuse_older(config) -> None:
  """A config of an earlier version says what to write now."""
  present = [name for name in _OLDER if name in config and name not in config.stages]
  old = [f'{name} is now {_OLDER[name]}' for name in present]
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
  return names


# --- models -------------------------------------------------------------------------------------------------


def _build_models(config, shared: Parts) -> dict[str, NamedModel]:
  """Every entry of `config.models`; a model that asks for another is built after it."""
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

  parts = Parts({}, {name: functools.partial(build_model, name) for name in sections}, shared)
  for name in sections:
    parts[name]()
  return named


def _check_models_are_used(models: Mapping[str, NamedModel], stages: Iterable[Stage]) -> None:
  used = {source for stage in stages for source in (*stage.trained, *stage.slow.values())}
  used |= {name for name, one in models.items() if one.model.init is None}
  if unused := sorted(models.keys() - used):
    raise ConfigError(f'config.models has {unused}, which no stage has in trained or slow')


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
  decoders = [f.trunk if isinstance(f, TokenHead | RowHead) else f for f in functions]
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


def _build_stage(config, name, *, models, shared, log, mesh, learnt) -> tuple[Stage, Parts]:
  section = config if name == 'main' else config[name]
  where = 'main' if name == 'main' else name
  require_keys(set(section.keys()) & set(STAGE_KEYS), set(STAGE_KEYS), where, 'a stage')
  trained, slow = tuple(section.trained), section.slow.to_dict()
  _check_held(where, trained, slow, models)
  parts = _stage_parts(config, section, slow, models, shared, log)
  algorithm = parts['algorithm']()
  held = {name: models[slow.get(name, name)] for name in (*trained, *slow)}
  if any(isinstance(one.model.functions, LanguageModel | TokenHead | RowHead) for one in held.values()):
    _check_vocabularies(where, held.values(), parts['task']())
  if any(one.model.stands_on for one in models.values()):
    view = lambda own: seen(own, {name: models[slow.get(name, name)] for name in own}, models)
    algorithm = lens.through(view, algorithm)
  optimizer = finite(parts['optimizer']())
  _check_rows(section, mesh)
  axes = {name: one.model.axes for name, one in held.items()}
  train_step, program = _program(config, section, parts, algorithm, optimizer, log, axes)
  return Stage(
      name=section.algorithm.name.rpartition('.')[2] if name == 'main' else name,
      num_steps=section.steps,
      stop=call(StopRule, section.stop, 'stop') if section.stop else None,
      algorithm=algorithm,
      optimizer=optimizer,
      rollout=stateful(algorithm.rollout),
      train_step=train_step,
      program=program,
      trained=trained,
      slow=slow,
      models=models,
      learnt=learnt,
  ), parts


def _stage_parts(config, section, slow, models, shared: Parts, log: Logging) -> Parts:
  """What the functions of a stage may ask for: its sections, and models as they speak here."""
  task = lambda: parts['task']()

  @functools.cache
  def decoding() -> Decoding:
    parts.asked.add('decoding')
    fields = {field.name for field in dataclasses.fields(Decoding)} - {'eos_ids', 'pad_id'}
    if 'decoding' not in section:
      raise ConfigError('a language model speaks here, and there is no section decoding that says how')
    require_keys(section.decoding.keys(), fields, 'decoding', 'Decoding')
    try:
      return Decoding(eos_ids=task().eos_ids, pad_id=task().pad_id, **section.decoding)
    except ValueError as error:
      raise ConfigError(f'config.decoding: {error}') from error

  scoring = functools.cache(lambda: _scoring(config, parts))
  speaker = lambda source: in_stage(models[source].model.functions, decoding, scoring)
  names = {**{name: name for name in models}, **slow}
  given = {name: functools.partial(speaker, source) for name, source in names.items()}
  same = {name for name in SHARED if _is_same(section, config, name)}
  sections = {name: value for name, value in section.items() if name not in same}
  parts = Parts(sections, {**given, 'transcripts': lambda: log.samples}, shared)
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
  require_keys(config.score.keys(), keys, 'score', 'a run')
  section = config.score
  try:
    packing = Packing(
        columns=section.packed_columns, rows=section.packed_rows, share_prompts=section.share_prompts
    ) if section.packed_columns else None
  except ValueError as error:
    raise ConfigError(f'config.score: {error}') from error
  return Scoring(chunk_tokens=section.chunk_tokens, packing=packing)


def _program(
    config, section, parts: Parts, algorithm, optimizer, log: Logging, axes
) -> tuple[step.TrainStep, Program]:
  """A train step of a stage, and what is run: several of them, split where the reward is Python."""
  updates = section.updates
  require_keys(updates.keys(), {'epochs', 'minibatches', 'microbatches'}, 'updates', 'make_train_step()')
  if min(updates.values()) < 1:
    raise ConfigError(f'config.updates: {updates.to_dict()} must be at least 1 each')
  reward = parts['reward']() if 'reward' in parts.asked else None
  on_host = isinstance(reward, HostReward)
  train_step = step.make_train_step(algorithm, optimizer, **updates, host_reward=on_host, axes=axes)
  if not on_host:
    return train_step, Compiled(
        algorithm, train_step, num_steps=log.steps_per_dispatch, population=config.population.size,
        samples=log.samples,
    )
  if config.population.size > 1:
    raise ConfigError(
        f'population.size={config.population.size}: rewards in Python score one run; start one run a seed'
    )
  if reward.overlap and log.steps_per_dispatch < 2:
    raise ConfigError('reward.overlap works inside a dispatch: raise log.steps_per_dispatch to 2 or more')
  split = Split(algorithm, train_step, reward, num_steps=log.steps_per_dispatch, samples=log.samples)
  return train_step, split


def _build_evaluation(name: str, section, stage: Stage, parts: Parts) -> Examination:
  """An entry of `evals`; it asks for the parts of the last stage."""
  rest = {key: value for key, value in section.items() if key != 'every'}
  if 'every' not in section:
    raise ConfigError(f"config.evals.{name} lacks ['every'], the train steps between two")
  evaluation = build_section(rest, f'evals.{name}', parts, PACKAGES['evals'])
  known = {*stage.models, *stage.slow}
  asked = roles_of(resolve(rest['name'], *PACKAGES['evals']), rest, known).values()
  return Examination(name=name, every=section.every, evaluation=evaluation, needs=frozenset(asked))


# --- checks -------------------------------------------------------------------------------------------------


def _check_asked(config, names, parts: Iterable[Parts], shared: Parts) -> None:
  """Refuses what stands in the config and nobody asked for."""
  sections = [(config, 'config', {*RUN_KEYS, *(name for name in names if name != 'main')})]
  sections += [(config[name], f'config.{name}', set()) for name in names if name != 'main']
  asked_of_all = set().union(*(one.asked for one in parts), shared.asked)
  for (section, where, more), asked in zip(sections, _asked(names, parts), strict=True):
    known = asked | more | {*STAGE_KEYS} | (({'score'} | {*SHARED}) & asked_of_all)
    if unasked := sorted(set(section.keys()) - known):
      raise ConfigError(f'{where} has {unasked}, which nobody asks for')


def _asked(names, parts: Iterable[Parts]) -> list[set[str]]:
  """The sections that were asked for at the top, and in each stage of a name of its own."""
  by_name = dict(zip(names, parts, strict=True))
  return [by_name['main'].asked, *(by_name[name].asked for name in names if name != 'main')]


def _check_rows(section, mesh) -> None:
  """Rows must divide into devices."""
  if 'rollout' not in section or 'batch_size' not in section.rollout:
    return
  rows, devices = section.rollout.batch_size, mesh.shape['data'] * mesh.shape['fsdp']
  if rows % devices:
    raise ConfigError(
        f'rollout.batch_size={rows} is not divisible by the {devices} devices of mesh.data x mesh.fsdp; '
        f'the nearest is {max(round(rows / devices), 1) * devices}'
    )


def _check_counts(run: Run) -> None:
  """Everything that is counted in steps is a multiple of the steps in a dispatch."""
  per_dispatch = run.log.steps_per_dispatch
  counts = {f'evals.{one.name}.every': one.every for one in run.evals}
  counts['checkpoint.every'] = run.checkpoint.every
  counts |= {f'steps of stage {s.name!r}': s.num_steps for s in run.stages}
  for name, count in counts.items():
    if count < 1 or count % per_dispatch:
      raise ConfigError(
          f'{name}={count} is not a positive multiple of log.steps_per_dispatch={per_dispatch}'
      )
  if run.population < 1:
    raise ConfigError(f'population.size={run.population} must be at least 1')
  if run.checkpoint.keep < 2:
    raise ConfigError(f'checkpoint.keep={run.checkpoint.keep}: keep at least 2, one to fall back to')
  named = {f'eval/{one.name}' for one in run.evals}
  metrics = {'log.headline': run.log.headline}
  metrics |= {f'stop.metric of stage {s.name!r}': s.stop.metric for s in run.stages if s.stop}
  for where, metric in metrics.items():
    if metric.rpartition('/')[0] not in named:
      raise ConfigError(f'{where}={metric!r} is of none of the evaluations {sorted(named)}')
