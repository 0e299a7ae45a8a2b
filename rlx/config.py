"""From a config to a run: loading, overriding, and building the pieces that a config names.

A config is the record of a result. Its sections are calls: `name` is the function and the rest are exactly
its keyword-only arguments, so that a missing, misspelt or unused value is an error and none has a hidden
default. A value that is itself a section with a `name` is a function with the rest bound to it. A name
is a module path (`grpo` is `rlx.algorithms.grpo.grpo`; a name with dots is taken from the top, your own
package too), so that there is nothing to register. What a function needs beside numbers (the task, the
sampler, a scorer) it asks for by the name of a positional parameter.

A run is one or more stages. `stages` names them in order: `main` is made of the sections at the top of the
config; any other name is a section that holds the same sections again. A stage hands its models on.
"""

import ast
from collections.abc import Callable, Mapping
import dataclasses
import difflib
import functools
import importlib.util
import inspect
import json
from pathlib import Path
from typing import Any
import zlib

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import optax

from rlx import sharding, step
from rlx.controllers.memory import stateful
from rlx.data.dataset import Dataset
from rlx.engine import sample
from rlx.engine.packing import Packing
from rlx.engine.sample import Decoding
from rlx.envs.control.environment import Environment
from rlx.envs.text import Task
from rlx.errors import ConfigError
from rlx.evaluation.text import Evaluation
from rlx.models import drafter, heads, hf, latent, lora, transformer
from rlx.models.lora import Lora
from rlx.models.transformer import TransformerConfig
from rlx.names import resolve
from rlx.rewards.host import HostReward
from rlx.types import Algorithm, Key, Models, State, StatefulRollout

RUN_SECTIONS = frozenset(
    {'seed', 'population', 'mesh', 'model', 'score', 'stages', 'eval', 'checkpoint', 'log'}
)
STAGE_SECTIONS = frozenset(
    {'steps', 'stop', 'data', 'decoding', 'rollout', 'algorithm', 'updates', 'optimizer', 'params', 'slow'}
)
SCORE_KEYS = frozenset({'chunk_tokens', 'packed_columns', 'packed_rows', 'share_prompts'})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpointing:
  """The `checkpoint` section.

  Attributes:
    every: train steps between checkpoints; a multiple of `log.steps_per_dispatch`.
    keep: how many of the newest are kept.
  """

  every: int
  keep: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Logging:
  """The `log` section.

  Attributes:
    steps_per_dispatch: train steps in one program; divides everything that is counted in steps.
    samples: rows of training samples and held-out transcripts written at each evaluation.
  """

  steps_per_dispatch: int
  samples: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class StopRule:
  """The `stop` section of a stage: it ends early, at the evaluation that finds it good enough.

  Attributes:
    metric: of an evaluation, e.g. 'eval/accuracy'; the median of a population.
    at_least: the value that ends the stage.
  """

  metric: str
  at_least: float

  def met(self, metrics: Mapping[str, float]) -> bool:
    """Whether the metrics of a step end the stage; a step without an evaluation never does."""
    return self.metric in metrics and metrics[self.metric] >= self.at_least


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
  """One stage of a run: `num_steps` train steps, or fewer by its stop rule."""

  name: str
  num_steps: int
  stop: StopRule | None
  algorithm: Algorithm
  optimizer: optax.GradientTransformation
  train_step: step.TrainStep
  rollout: StatefulRollout
  host_reward: HostReward | None  # the step is then a `SplitStep`
  lora: Lora | None  # how the adapters are made, where it trains some
  makers: Mapping[str, Callable]  # how a model can begin
  loaders: Mapping[str, Callable]  # those that read files: mesh -> parameters
  params: Mapping[str, str]  # trained model -> how it begins, if no earlier stage hands it on
  slow: Mapping[str, str]  # lagging model -> the model it begins as a copy of, or how it begins

  def policy(self, models: Models) -> Any:
    """The policy's parameters, as `transformer.forward` takes them."""
    return models['policy'] if self.lora is None else lora.view(models, self.lora)['policy']

  def load(self, models: Models, mesh: jax.sharding.Mesh) -> Models:
    """The models of the stage that begin from files and that no earlier stage hands on.

    Args:
      models: of the stage before; empty for the first.
      mesh: where they are put, in shards.
    """
    begins = {**self.params, **{name: how for name, how in self.slow.items() if how not in models}}
    files = {name: how for name, how in begins.items() if how in self.loaders and name not in models}
    return {name: self.loaders[how](mesh) for name, how in files.items()}

  def enter(self, models: Models, key: Key, run_key: Key, at_step: jax.Array) -> State:
    """The state at the start of the stage: models handed on or made, a fresh optimizer, a fresh world.

    Args:
      models: of the stage before, and those of `load`.
      key: for models that are made here.
      run_key: the key that the state carries.
      at_step: [] int32, train steps taken so far.
    """
    params, slow = {}, {}
    key_of = lambda name: jax.random.fold_in(key, zlib.crc32(name.encode()) % 2**31)
    # A source that is a model here is copied; a network of a control run has the name of its model.
    made = [how for how in self.makers if how not in self.params and how not in models]
    lagging = [name for name in self.slow if self.slow[name] in made]
    for name in lagging:
      slow[name] = models[name] if name in models else self.makers[self.slow[name]](key_of(name), models)
    for name, how in sorted(self.params.items(), key=lambda item: item[1] in _OF_THE_POLICY):
      known = {**models, **slow, **params}
      params[name] = models[name] if name in models else self.makers[how](key_of(name), known)
    for name in self.slow.keys() - set(lagging):
      known, source = {**models, **params}, self.slow[name]
      if source not in known:
        raise ConfigError(f'slow.{name} copies {source!r}, which is none of {sorted(known)}')
      slow[name] = jax.tree.map(jnp.copy, known[source])
    world = self.rollout.begin(key_of('world'))
    return State(
        step=at_step, params=params, slow=slow, opt_state=self.optimizer.init(params),
        world=self.rollout.warm_up({**slow, **params}, world, key_of('warm_up')), key=run_key,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Run:
  """Everything that the train loop needs, built from one config."""

  config: ConfigDict
  task: Task | Dataset | Environment
  model: TransformerConfig | None  # of a language model
  mesh: jax.sharding.Mesh
  population: int
  stages: tuple[Stage, ...]
  evaluation: Evaluation
  checkpoint: Checkpointing
  log: Logging
  eval_every: int

  def steps_from(self, stage: int) -> int:
    """The most train steps that a stage and those after it can take."""
    return sum(stage.num_steps for stage in self.stages[stage:])


# --- loading ------------------------------------------------------------------------------------------------


def load(path: str) -> ConfigDict:
  """The config of a file, `experiments/configs/x.py` or `x.py:argument`, or of a run, `runs/x/config.json`.

  Raises:
    ConfigError: there is no such file, or it has no `get_config`.
  """
  filename, _, argument = path.partition(':')
  if not Path(filename).is_file():
    raise ConfigError(f'--config={filename}: no such file (the working directory is {Path.cwd()})')
  if filename.endswith('.json'):
    return ConfigDict(_with_tuples(json.loads(Path(filename).read_text()))).lock()
  spec = importlib.util.spec_from_file_location('rlx_config', filename)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  if not hasattr(module, 'get_config'):
    raise ConfigError(f'--config={filename} defines no get_config(arg)')
  return module.get_config(argument).lock()


def _with_tuples(tree):
  """What JSON made lists of are tuples again, as config files write them."""
  if isinstance(tree, dict):
    return {name: _with_tuples(x) for name, x in tree.items()}
  return tuple(map(_with_tuples, tree)) if isinstance(tree, list) else tree


def parse_arg(argument: str, **defaults):
  """The value of a config's argument: `get_config('smoke=1,layers=4')` over defaults, with their types.

  A name without `=` is True. Raises `ConfigError` for a name that is not among the defaults.
  """
  values = ConfigDict(defaults)
  for part in filter(None, argument.split(',')):
    name, equals, text = part.partition('=')
    override(values, name, text if equals else 'True')
  return values


def override(config: ConfigDict, path: str, text: str) -> None:
  """Sets one value from the command line, keeping its type.

  Args:
    config: changed in place.
    path: dotted, e.g. `algorithm.clip_high`.
    text: the value as written.
  Raises:
    ConfigError: an unknown key (with the nearest name), or a value of another type.
  """
  *sections, key = path.split('.')
  section = config
  for i, name in enumerate([*sections, key]):
    if not isinstance(section, ConfigDict) or name not in section:
      raise ConfigError(_unknown_key(config, '.'.join([*sections, key][: i + 1]), path))
    parent, section = section, section[name]
  if isinstance(section, ConfigDict):
    raise ConfigError(f'--config.{path} is a section; set one of its values: {", ".join(section)}')
  parent[key] = _parse(path, text, section)


def _parse(path, text, old):
  kind = type(old)
  try:
    if kind is str:
      return text
    if kind is bool:
      return {'true': True, '1': True, 'false': False, '0': False}[text.lower()]
    value = ast.literal_eval(text)
    if kind is float and type(value) is int:
      return float(value)
    if type(value) is kind:
      return value
  except (ValueError, SyntaxError, KeyError):
    pass
  raise ConfigError(f'--config.{path}={text}: needs {kind.__name__}, like the {old!r} in the file')


def _unknown_key(config, prefix, path):
  known = [key for key, _ in _flatten(config)]
  nearest = difflib.get_close_matches(path, known, n=1, cutoff=0.4)
  hint = f'; did you mean {nearest[0]}?' if nearest else ''
  return f'--config.{path}: the config has no {prefix!r}{hint}'


def _flatten(config: Mapping, prefix: str = ''):
  for key, value in config.items():
    if isinstance(value, Mapping | ConfigDict):
      yield from _flatten(value, f'{prefix}{key}.')
    else:
      yield f'{prefix}{key}', value


def differences(old: Mapping, new: Mapping) -> list[str]:
  """`key: old -> new` for every value in which two configs (as dicts) differ."""
  old, new = dict(_flatten(old)), dict(_flatten(new))
  changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
  return [f'{key}: {old.get(key, "(absent)")!r} -> {new.get(key, "(absent)")!r}' for key in changed]


# --- building -----------------------------------------------------------------------------------------------


def call(function: Callable, section: Mapping, where: str, parts: Mapping[str, Any] | None = None):
  """Calls a function with the values of a section as its keyword-only arguments.

  Args:
    function: positional parameters are taken from `parts` by name; keyword-only ones that have no default
      must be in the section, and the section may hold nothing else (`name` aside).
    section: of the config.
    where: the section's name, for errors.
    parts: name -> a function without arguments that builds the part when it is asked for.
  Raises:
    ConfigError: missing or unknown values, or values that the function refuses.
  """
  parameters = inspect.signature(function).parameters.values()
  wanted = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
  given = {key: _bound(value, f'{where}.{key}') for key, value in section.items() if key != 'name'}
  require_keys(given.keys(), wanted, where, f'{function.__name__}()')
  positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
  unknown = [name for name in positional if name not in (parts or {})]
  if unknown:
    raise ConfigError(f'{function.__name__}() asks for {unknown}; known parts are {sorted(parts or {})}')
  try:
    return function(*(parts[name]() for name in positional), **given)
  except ConfigError:
    raise
  except ValueError as error:
    raise ConfigError(f'config.{where}: {error}') from error


def _bound(value, where: str):
  """A value that is a section with a `name` means that function, with the rest of the section bound to it."""
  if not (isinstance(value, Mapping | ConfigDict) and 'name' in value):
    return value
  function = resolve(value['name'], 'rlx')
  parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
  given = {key: _bound(x, f'{where}.{key}') for key, x in value.items() if key != 'name'}
  wanted = {p.name for p in parameters if p.default is p.empty or p.name in given}
  require_keys(given.keys(), wanted, where, f'{function.__name__}()')
  return functools.partial(function, **given) if given else function


def require_keys(given, wanted, where: str, who: str) -> None:
  """Raises `ConfigError` where a section lacks a key or has one that nobody knows."""
  unknown, missing = sorted(set(given) - wanted), sorted(wanted - set(given))
  if unknown:
    nearest = difflib.get_close_matches(unknown[0], wanted, n=1)
    hint = f'; did you mean {nearest[0]!r}?' if nearest else ''
    raise ConfigError(f'config.{where} has {unknown}, which {who} does not know{hint}')
  if missing:
    raise ConfigError(f'config.{where} lacks {missing}, which {who} needs')


def build(config: ConfigDict) -> Run:
  """The run that a config describes; nothing is computed yet.

  Raises:
    ConfigError: the config cannot run; one line with the value, the limit and what to do.
  """
  from rlx import control  # it builds its runs from the pieces of this module

  names = tuple(config.stages)
  if not names or names[-1] != 'main' or not all(isinstance(name, str) for name in names):
    raise ConfigError(f"stages={names!r} must name sections and end with 'main', the sections at the top")
  if 'env' in config:
    return control.build(config)
  own = {name for name in names if name != 'main'}
  sections = RUN_SECTIONS | _stage_sections(config) | own | _optional_sections(config, names)
  require_keys(config.keys(), sections, 'stages', 'a run')
  require_keys(config.population.keys(), {'size'}, 'population', 'a run')
  require_keys(config.score.keys(), SCORE_KEYS, 'score', 'a run')
  log = call(Logging, config.log, 'log')
  mesh = call(sharding.make_mesh, config.mesh, 'mesh')
  tasks = _Tasks()
  task = tasks.of(config.data)
  model = _build_model(config.model, task)
  stages = tuple(_build_stage(config, name, model, mesh, tasks) for name in names)
  checkpoint = call(Checkpointing, config.checkpoint, 'checkpoint')
  evaluation = _build_evaluation(config, model, log, tasks, stages[-1])
  run = Run(
      config=config, task=task, model=model, mesh=mesh, population=config.population.size,
      stages=stages, evaluation=evaluation, checkpoint=checkpoint, log=log, eval_every=config.eval.every,
  )
  check_counts(run)
  return run


def _stage_sections(section) -> set[str]:
  """The sections of a stage; `reward` is one of them where its algorithm asks for a reward."""
  factory = resolve(section.algorithm.name, 'rlx.algorithms')
  return STAGE_SECTIONS | ({'reward'} & inspect.signature(factory).parameters.keys())


def _optional_sections(config, names) -> set[str]:
  """`lora`, `drafter` and `hybrid`, where some stage trains such a model; the section then says which."""
  stages = [config if name == 'main' else config[name] for name in names]
  return {'lora', 'drafter', 'hybrid'} & {how for stage in stages for how in stage.params.values()}


def _build_evaluation(config, model, log, tasks, stage: Stage) -> Evaluation:
  section = {key: value for key, value in config.eval.items() if key != 'every'}
  parts = {**_parts(config, config, model, tasks), 'transcripts': lambda: log.samples}
  if stage.host_reward is not None:
    parts['reward'] = lambda: stage.host_reward  # the same processes
  return call(resolve(section['name'], 'rlx.evaluation'), section, 'eval', parts)


def _build_model(section, task: Task | Dataset) -> TransformerConfig:
  """The shape of the policy: in the config itself (`transformer`), or of a Hugging Face directory (`hf`)."""
  try:
    if section.name == 'transformer':
      shape = {key: value for key, value in section.items() if key != 'name'}
      fields = {field.name for field in dataclasses.fields(TransformerConfig)} - {'vocab_size'}
      require_keys(shape.keys(), fields, 'model', 'TransformerConfig')
      return TransformerConfig(vocab_size=task.vocab_size, **shape)
    model = call(resolve(section.name, 'rlx.models'), section, 'model')
  except ConfigError:
    raise
  except ValueError as error:
    raise ConfigError(f'config.model: {error}') from error
  if task.vocab_size > model.vocab_size:
    raise ConfigError(
        f'config.data: the tokenizer has {task.vocab_size} tokens, the model {model.vocab_size}; take the '
        'tokenizer of the model'
    )
  return model


class _Tasks:
  """The tasks of a run: stages that name the same data share them, for a data set takes long to load."""

  def __init__(self):
    self._built = {}

  def of(self, section) -> Task | Dataset:
    key = section.to_json()
    if key not in self._built:
      self._built[key] = call(resolve(section.name, 'rlx.envs', 'rlx.data'), section, 'data')
    return self._built[key]


def _parts(config, stage, model, tasks) -> dict[str, Callable]:
  """What the functions of a stage may ask for, by name; each is built when it is asked for, once."""
  task = lambda: tasks.of(stage.data)
  parts = {'task': task, 'config': lambda: model}
  parts['decoding'] = functools.cache(
      lambda: Decoding(eos_ids=task().eos_ids, pad_id=task().pad_id, **stage.decoding)
  )
  scoring = {'chunk_size': config.score.chunk_tokens, 'packing': _packing(config.score)}
  parts['score'] = lambda: lambda params, batch: sample.score(
      params, model, batch, decoding=parts['decoding'](), **scoring
  )
  parts['drafter_config'] = functools.partial(_drafter_config, config, model)
  parts['draft_score'] = lambda: lambda params, batch: sample.score(
      params, parts['drafter_config'](), batch, decoding=parts['decoding'](), **scoring
  )
  parts['value'] = lambda: lambda params, batch: heads.values(
      params, model, batch, packing=scoring['packing']
  )
  parts['rollout'] = functools.cache(
      lambda: call(resolve(stage.rollout.name, 'rlx.rollout'), stage.rollout, 'rollout', parts)
  )
  parts['reward'] = functools.cache(
      lambda: call(resolve(stage.reward.name, 'rlx.rewards'), stage.reward, 'reward', parts)
  )
  return parts


def _packing(section) -> Packing | None:
  """How rows are packed for scoring; not at all where `packed_columns` is 0."""
  if section.packed_columns == 0:
    return None
  try:
    return Packing(
        columns=section.packed_columns, rows=section.packed_rows, share_prompts=section.share_prompts
    )
  except ValueError as error:
    raise ConfigError(f'config.score: {error}') from error


def _build_stage(config, name, model, mesh, tasks) -> Stage:
  section = config if name == 'main' else config[name]
  if name != 'main':
    require_keys(section.keys(), _stage_sections(section), name, f'a stage of {section.algorithm.name!r}')
  parts = _parts(config, section, model, tasks)
  decoding_fields = {field.name for field in dataclasses.fields(Decoding)} - {'eos_ids', 'pad_id'}
  require_keys(section.decoding.keys(), decoding_fields, 'decoding', 'Decoding')
  words, task = model.vocab_size, parts['task']()
  if task.vocab_size > words or (isinstance(task, Task) and task.vocab_size != words):
    raise ConfigError(f'config.{name}.data has another alphabet than config.data; stages share one model')
  algorithm = call(
      resolve(section.algorithm.name, 'rlx.algorithms'), section.algorithm, 'algorithm', parts
  )
  optimizer = call(resolve(section.optimizer.name, 'rlx.optimizers'), section.optimizer, 'optimizer')
  update_fields = {'epochs', 'minibatches', 'microbatches'}
  require_keys(section.updates.keys(), update_fields, 'updates', 'make_train_step()')
  _check_rows(section, mesh)
  host_reward = _host_reward(config, section, parts)
  makers, adapters = _model_makers(model), None
  if 'lora' in section.params.values():
    adapters = _lora(config)
    algorithm = lora.adapt(algorithm, adapters)
    makers['lora'] = lambda key, models: lora.init(key, models['base'], adapters)
  if 'drafter' in section.params.values():
    num_layers = _drafter_config(config, model).num_layers
    makers['drafter'] = lambda key, models: drafter.init(
        models['policy' if 'policy' in models else 'base'], num_layers=num_layers
    )
  if 'hybrid' in section.params.values():
    makers['hybrid'] = functools.partial(_hybrid, config, model)
  if unknown := set(section.params.values()) - makers.keys():
    raise ConfigError(f'config.params: {sorted(unknown)} is none of {sorted(makers)}')
  return Stage(
      name=section.algorithm.name if name == 'main' else name,
      num_steps=section.steps,
      stop=call(StopRule, section.stop, 'stop') if section.stop else None,
      algorithm=algorithm,
      optimizer=optimizer,
      train_step=step.make_train_step(
          algorithm, optimizer, **section.updates, host_reward=host_reward is not None
      ),
      rollout=stateful(algorithm.rollout),
      host_reward=host_reward,
      lora=adapters,
      makers=makers,
      loaders=_model_loaders(config, model),
      params=section.params.to_dict(),
      slow=section.slow.to_dict(),
  )


def _host_reward(config, section, parts) -> HostReward | None:
  """The stage's reward where it is Python on the host."""
  if 'reward' not in _stage_sections(section) or not isinstance(parts['reward'](), HostReward):
    return None
  if config.population.size > 1:
    raise ConfigError(
        f'population.size={config.population.size}: rewards in Python score one run; start one run a seed'
    )
  if parts['reward']().overlap and config.log.steps_per_dispatch < 2:
    raise ConfigError('reward.overlap works inside a dispatch: raise log.steps_per_dispatch to 2 or more')
  return parts['reward']()


_OF_THE_POLICY = ('critic', 'drafter')  # makers that copy from it, so it is made before them


def _model_makers(model: TransformerConfig) -> dict[str, Callable]:
  """What `params` may say of a model that no earlier stage hands on: (key, models so far) -> parameters.

  What is read from files (`hf`) has the structure of a random model, which stands for it where only shapes
  are asked.
  """
  return {
      'transformer': lambda key, models: transformer.init(key, model),
      'hf': lambda key, models: transformer.init(key, model),
      'critic': lambda key, models: heads.init_value(models['policy']),
  }


def _model_loaders(config, model: TransformerConfig) -> dict[str, Callable]:
  """Models that begin from files: mesh -> parameters, in their shards."""

  def load_weights(mesh):
    shapes = jax.eval_shape(functools.partial(transformer.init, config=model), jax.random.key(0))
    return hf.load(config.model.directory, model, sharding.shardings(shapes, mesh))

  def load_adapters(mesh):
    del mesh
    family = hf.family_of(config.model.directory)
    adapters, found = lora.load_peft(config.lora.directory, model, family=family)
    base = jax.eval_shape(functools.partial(transformer.init, config=model), jax.random.key(0))
    wanted = jax.eval_shape(functools.partial(lora.init, lora=_lora(config)), jax.random.key(0), base)
    shapes = lambda tree: jax.tree.map(jnp.shape, tree)
    if shapes(adapters) != shapes(wanted) or found.alpha != config.lora.alpha:
      raise ConfigError(f'config.lora is {_lora(config)}, but {config.lora.directory} holds {found}')
    return adapters

  loaders = {'hf': load_weights} if config.model.name == 'hf' else {}
  return {**loaders, 'lora': load_adapters} if 'lora' in config and config.lora.directory else loaders


def _lora(config) -> Lora:
  """The section `lora`: the adapters' shape, and the PEFT directory they begin from ('' for fresh ones)."""
  section = {key: value for key, value in config.lora.items() if key != 'directory'}
  return call(Lora, section, 'lora')


def _drafter_config(config, model: TransformerConfig) -> TransformerConfig:
  """The section `drafter`: how many of the policy's blocks the draft model begins with."""
  if 'drafter' not in config:
    raise ConfigError(
        "a draft model is asked for, and there is none: set params.drafter='drafter' and write the section "
        'drafter, with its num_layers'
    )
  return call(drafter.config_of, config.drafter, 'drafter', {'policy': lambda: model})


def _hybrid(config, model: TransformerConfig, key, models: Models):
  """A fresh decoder with a gate for latents; the section `hybrid` says how far open it begins."""
  del models
  decoder_key, gate_key = jax.random.split(key)
  parts = {'key': lambda: gate_key, 'policy': lambda: transformer.init(decoder_key, model)}
  return call(latent.init, config.hybrid, 'hybrid', parts)


def _check_rows(section, mesh):
  """Rows must divide into minibatches, micro-batches and devices."""
  rows, updates = section.rollout.batch_size, section.updates
  if min(updates.epochs, updates.minibatches, updates.microbatches) < 1:
    raise ConfigError(f'config.updates: {updates.to_dict()} must be at least 1 each')
  devices = mesh.shape['data'] * mesh.shape['fsdp']
  if rows % devices:
    raise ConfigError(
        f'rollout.batch_size={rows} is not divisible by the {devices} devices of mesh.data x mesh.fsdp; '
        f'the nearest is {max(round(rows / devices), 1) * devices}'
    )


def check_counts(run: Run) -> None:
  """Everything that is counted in steps is a multiple of the steps in a dispatch."""
  per_dispatch = run.log.steps_per_dispatch
  counts = {'eval.every': run.eval_every, 'checkpoint.every': run.checkpoint.every}
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
