"""One switch for everything that can be computed in several ways.

An operation names its implementations in order of preference, each with a function that says why it cannot
run here. What is asked for by name runs or fails; only 'auto' chooses, and it says in the log what it chose.
"""

from collections.abc import Callable, Mapping
import importlib.util
import logging
from typing import NamedTuple

import jax
import jax.numpy as jnp

_LOGGER = logging.getLogger('rlx.kernels')
_logged: set[tuple[str, str]] = set()
OF_HEADS = 'tensor'  # the mesh axis that splits heads; all others split rows
# Of GPUs that are not here but compiled for, by a part of their name.
_CAPABILITIES = {'A100': '8.0', 'H100': '9.0', 'H200': '9.0', 'GH200': '9.0', 'B200': '10.0'}


def choose(op: str, asked: str, available: Mapping[str, Callable[[], str]]) -> str:
  """The name of the implementation to run.

  Args:
    op: the operation, for messages.
    asked: one of the names, or 'auto' for the first that can run.
    available: name -> a function that returns '' if that implementation can run, or else the reason why not;
      in the order in which 'auto' tries them.
  Returns:
    A key of `available`. What 'auto' chose is logged once per operation and choice.
  Raises:
    ValueError: there is no such name, or what was asked for cannot run here; nothing else is taken instead.
  """
  if asked == 'auto':
    name = next((name for name, reason in available.items() if not reason()), '')
    if not name:
      reasons = '; '.join(f'{name}: {reason()}' for name, reason in available.items())
      raise ValueError(f"{op}: implementation='auto' finds nothing that can run here ({reasons})")
    if (op, name) not in _logged:
      _logged.add((op, name))
      _LOGGER.info('%s runs as %r', op, name)
    return name
  if asked not in available:
    raise ValueError(f"{op}: implementation={asked!r} is not one of {('auto', *available)}")
  if reason := available[asked]():
    others = tuple(name for name, other in available.items() if not other())
    raise ValueError(f'{op}: implementation={asked!r} cannot run here: {reason}; available are {others}')
  return asked


def no_package(name: str) -> str:
  """Why a package cannot be used, or ''."""
  return '' if importlib.util.find_spec(name) else f'the package {name} is not installed'


def no_module(name: str) -> str:
  """Why a module of jax cannot be used, or ''."""
  return '' if importlib.util.find_spec(name) else f'this jax has no {name}'


class Device(NamedTuple):
  """What a program is compiled for."""

  platform: str  # 'cpu', 'gpu' or 'tpu'
  kind: str  # as its maker calls it
  capability: tuple[int, ...]  # of an NVIDIA GPU, or ()


def device() -> Device:
  """That of the mesh (`jax.set_mesh`), which may be of devices that are not here; else the first one here."""
  mesh, here = jax.sharding.get_abstract_mesh(), jax.devices()[0]
  there = here if mesh.empty or mesh.abstract_device is None else mesh.abstract_device
  capability = getattr(here, 'compute_capability', None) if there.device_kind == here.device_kind else None
  if capability is None:
    capability = next((x for kind, x in _CAPABILITIES.items() if kind in there.device_kind), '')
  numbers = tuple(int(part) for part in str(capability).split('.') if part.isdigit())
  return Device(there.platform, there.device_kind, numbers)


def no_tpu() -> str:
  """Why this is not a TPU, or ''."""
  platform = device().platform
  return '' if platform == 'tpu' else f'it needs a TPU; this is {platform}'


def no_gpu(capability: tuple[int, int]) -> str:
  """Why this is not an NVIDIA GPU of at least that compute capability, or ''."""
  found = device()
  needed = f'it needs a GPU of compute capability {".".join(map(str, capability))}'
  if found.platform != 'gpu':
    return f'{needed}; this is {found.platform}'
  if not found.capability:  # a GPU of another maker
    return f'{needed}; this is {found.kind}'
  has = '.'.join(map(str, found.capability))
  return '' if found.capability >= capability else f'{needed}; this one has {has}'


def no_hopper() -> str:
  """Why the instructions of Hopper GPUs, which later ones do not have, cannot be used, or ''."""
  reason = no_gpu((9, 0))
  if not reason and not no_gpu((10, 0)):
    return f'it is written for Hopper GPUs (9.x); this is {device().kind}'
  return reason


def no_own_rows() -> str:
  """Why a device does not know which rows are its own, or ''; the compiler cannot cut a kernel."""
  mesh = jax.sharding.get_abstract_mesh()
  axes = [] if mesh.empty else [axis for axis in mesh.axis_names if axis not in mesh.manual_axes]
  split = [axis for axis in axes if axis != OF_HEADS and mesh.shape[axis] > 1]
  return f'rows are split over {" and ".join(split)} (not by sharding.over_rows)' if split else ''


def no_own_heads(kv_heads: int) -> str:
  """Why devices would compute heads that are not their own, or ''."""
  mesh = jax.sharding.get_abstract_mesh()
  free = not mesh.empty and OF_HEADS in mesh.axis_names and OF_HEADS not in mesh.manual_axes
  size = mesh.shape[OF_HEADS] if free else 1
  return f'{size} devices of {OF_HEADS} do not divide {kv_heads} kv heads' if kv_heads % size else ''


def no_cudnn(query: jax.Array) -> str:
  """Why cuDNN's attention cannot take these queries [..., H], or ''."""
  if query.dtype not in (jnp.bfloat16, jnp.float16):
    return f'{query.dtype} queries; it takes bfloat16 or float16'
  size, largest = query.shape[-1], 128 if no_gpu((9, 0)) else 256
  if size % 8 or size > largest:
    return f'head size {size} is not a multiple of 8 up to {largest}'
  return no_gpu((8, 0))
