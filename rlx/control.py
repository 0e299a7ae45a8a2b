"""From a config to the run of a control agent: environment, networks, rollout, algorithm, evaluation.

The config is one of `config.py`, with `env` and `models` in the places of `data`, `model`, `decoding` and
`score`. Each entry of `models` is a network; its name is what an algorithm asks for. What learns from a fixed
set of transitions has a section `data` that names it, and a rollout that asks for `dataset`.
"""

from collections.abc import Callable
import functools

from rlx import sharding, step
from rlx.config import (
  Checkpointing,
  Logging,
  Run,
  Stage,
  StopRule,
  call,
  check_counts,
  require_keys,
)
from rlx.controllers.memory import stateful
from rlx.errors import ConfigError
from rlx.names import resolve

RUN_SECTIONS = frozenset(
    {'seed', 'population', 'mesh', 'env', 'models', 'stages', 'eval', 'checkpoint', 'log'}
)
STAGE_SECTIONS = frozenset(
    {'steps', 'stop', 'rollout', 'algorithm', 'updates', 'optimizer', 'params', 'slow'}
)


def build(config) -> Run:
  """The run that a control config describes; nothing is computed yet.

  Raises:
    ConfigError: the config cannot run; one line with the value, the limit and what to do.
  """
  names = tuple(config.stages)
  own = {name for name in names if name != 'main'}
  require_keys(config.keys(), RUN_SECTIONS | _stage_sections(config) | own, 'stages', 'a control run')
  log = call(Logging, config.log, 'log')
  if log.samples:
    raise ConfigError(f'log.samples={log.samples}: a control run has no texts to show; set it to 0')
  env = call(resolve(config.env.name, 'rlx.envs'), config.env, 'env')
  parts = _parts(config, env)
  section = {key: value for key, value in config.eval.items() if key != 'every'}
  run = Run(
      config=config, task=env, model=None, mesh=call(sharding.make_mesh, config.mesh, 'mesh'),
      population=config.population.size,
      stages=tuple(_build_stage(config, name, env, parts) for name in names),
      evaluation=call(resolve(section['name'], 'rlx.evaluation'), section, 'eval', parts),
      checkpoint=call(Checkpointing, config.checkpoint, 'checkpoint'), log=log, eval_every=config.eval.every,
  )
  check_counts(run)
  return run


def _stage_sections(section) -> set[str]:
  return STAGE_SECTIONS | ({'data', 'reward'} & set(section.keys()))


def _parts(config, env) -> dict[str, Callable]:
  """What functions may ask for by name: the environment and every network, each built once."""
  parts = {'env': lambda: env}
  for name, section in config.models.items():
    if name in ('env', 'dataset', 'rollout', 'reward'):
      raise ConfigError(f'config.models.{name}: the name is taken; call the network something else')
    parts[name] = functools.cache(functools.partial(_network, parts['env'], name, section))
  return parts


def _network(env, name, section):
  return call(resolve(section.name, 'rlx.models'), section, f'models.{name}', {'env': env})


def _build_stage(config, name, env, networks) -> Stage:
  section = config if name == 'main' else config[name]
  if name != 'main':
    require_keys(section.keys(), _stage_sections(section), name, f'a stage of {section.algorithm.name!r}')
  parts = dict(networks)
  if 'data' in section:
    parts['dataset'] = functools.cache(
        lambda: call(resolve(section.data.name, 'rlx.data'), section.data, 'data', parts)
    )
  parts['rollout'] = functools.cache(
      lambda: call(resolve(section.rollout.name, 'rlx.rollout'), section.rollout, 'rollout', parts)
  )
  if 'reward' in section:
    parts['reward'] = functools.cache(
        lambda: call(resolve(section.reward.name, 'rlx.rewards'), section.reward, 'reward', parts)
    )
  factory = resolve(section.algorithm.name, 'rlx.algorithms.control')
  algorithm = call(factory, section.algorithm, 'algorithm', parts)
  if 'data' in section and not parts['dataset'].cache_info().misses:
    raise ConfigError(
        f'config.data is given, and neither the rollout {section.rollout.name!r} nor the algorithm asks for '
        "a dataset; use a rollout such as 'offline', or leave it out"
    )
  optimizer = call(resolve(section.optimizer.name, 'rlx.optimizers'), section.optimizer, 'optimizer')
  require_keys(
      section.updates.keys(), {'epochs', 'minibatches', 'microbatches'}, 'updates', 'make_train_step()'
  )
  begins = set(section.params.values()) | (set(section.slow.values()) - set(section.params))
  if unknown := begins - set(config.models):
    raise ConfigError(f'params and slow name {sorted(unknown)}; config.models has {sorted(config.models)}')
  return Stage(
      name=section.algorithm.name if name == 'main' else name,
      num_steps=section.steps,
      stop=call(StopRule, section.stop, 'stop') if section.stop else None,
      algorithm=algorithm,
      optimizer=optimizer,
      train_step=step.make_train_step(algorithm, optimizer, **section.updates),
      rollout=stateful(algorithm.rollout),
      host_reward=None,
      lora=None,
      makers={network: _maker(networks[network]) for network in config.models},
      loaders={},
      params=section.params.to_dict(),
      slow=section.slow.to_dict(),
  )


def _maker(network):
  return lambda key, models: network().init(key)
