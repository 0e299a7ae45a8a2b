"""Policies of control for programs that know nothing of rlx: their numbers, and what they do as one function.

    policy/params.safetensors  the parameters, by their paths
    policy/policy.stablehlo    `observations [B, ...] -> actions [B, ...]`, for any B, weights inside
    policy/policy.json         shapes, what actions mean, platforms, the step that it is of

The function is what the policy does without chance (`Policy.mode`), serialised by `jax.export`; whoever has
jax and flatbuffers loads it: `jax.export.deserialize(bytearray(path.read_bytes())).call(observations)`. A
policy that remembers is `(memory [B, D], observations) -> (memory, actions)`, with memory 0 at the start.
"""

from collections.abc import Callable
import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control.environment import Environment
from rlx.errors import ConfigError, some
from rlx.files import write_atomically
from rlx.models import safetensors
from rlx.models.networks import Policy
from rlx.models.recurrent import Recurrent
from rlx.run.opened import Opened
from rlx.run.stages import there

_FILES = ('params.safetensors', 'policy.stablehlo', 'policy.json')
PLATFORMS = ('cpu', 'cuda', 'rocm', 'tpu')


def export_policies(opened: Opened, directory: Path, *, member: int) -> tuple[Path, ...]:
  """Writes every policy that the stage has trained, or that is made of models that it has.

  One that another model stands on is a part of that one, and not by itself a policy of observations.

  Args:
    opened: a run of control.
    directory: gets a folder for each, of its name.
    member: of a population.
  Returns:
    The folders.
  Raises:
    ConfigError: there is no such member, a package is missing, or something else stands in a folder.
  """
  if importlib.util.find_spec('flatbuffers') is None:
    raise ConfigError("jax.export writes with flatbuffers, which is not installed: pip install 'rlx[export]'")
  own, stage = opened.own(member), opened.stage
  known = {name: stage.kind(name) for name in there(own, stage.models)}
  parts = {one.roles[role] for one in known.values() for role in one.model.stands_on}
  shown = jax.device_get(stage.view(own))
  folders = {}
  for name, one in known.items():
    functions, is_ours = one.model.functions, name in stage.trained or one.model.init is None
    if is_ours and name not in parts and isinstance(functions, Policy | Recurrent):
      folders[name] = Path(directory) / name
  for folder in folders.values():
    _check_place(folder)
  for name, folder in folders.items():
    _write(folder, known[name].model.functions, shown[name], opened)
  return tuple(folders.values())


def _check_place(folder: Path) -> None:
  """Raises `ConfigError` where a folder holds what no earlier export has left."""
  if folder.exists() and not folder.is_dir():
    raise ConfigError(f'{folder} is there and is no folder; choose another directory')
  if folder.is_dir() and (others := sorted({path.name for path in folder.iterdir()} - set(_FILES))):
    raise ConfigError(f'{folder} holds {some(others)}, no part of a policy; choose another directory')


def _write(folder: Path, policy: Policy | Recurrent, params: Any, opened: Opened) -> None:
  folder.mkdir(parents=True, exist_ok=True)
  env = opened.run.task
  leaves = jax.tree_util.tree_leaves_with_path(params)
  arrays = {jax.tree_util.keystr(path, simple=True, separator='.'): np.asarray(x) for path, x in leaves}
  tensors = [
      safetensors.Written(name=name, shape=x.shape, dtype=x.dtype, fetch=lambda x=x: x)
      for name, x in arrays.items()
  ]
  safetensors.write(folder / 'params.safetensors', tensors, {'step': str(opened.position.step)})
  function, inputs = _function(policy, params, env)
  exported = jax.export.export(jax.jit(function), platforms=PLATFORMS)(*inputs)
  write_atomically(folder / 'policy.stablehlo', bytes(exported.serialize()))
  described = {
      'inputs': [str(x) for x in exported.in_avals], 'outputs': [str(x) for x in exported.out_avals],
      'actions': {'kind': type(env.actions).__name__.lower(), **dataclasses.asdict(env.actions)},
      'platforms': exported.platforms, 'step': opened.position.step,
  }
  write_atomically(folder / 'policy.json', (json.dumps(described, indent=2) + '\n').encode())


def _function(policy: Policy | Recurrent, params: Any, env: Environment) -> tuple[Callable, tuple]:
  """What the policy does, with its parameters inside, and the shapes of what it is given, for any batch."""
  batch = jax.export.symbolic_shape('batch')
  given = lambda *shape: jax.ShapeDtypeStruct((*batch, *shape), jnp.float32)
  observations = given(*env.observation_shape)
  if isinstance(policy, Policy):
    return lambda observations: policy.mode(params, observations), (observations,)

  def remembering(memory, observations):
    memory, logits, _ = policy.step(params, memory, observations)
    return memory, jnp.argmax(logits, axis=-1)

  return remembering, (given(policy.size), observations)
