"""Accelerators that are not here: their compilers are, and say whether a program compiles and fits.

XLA compiles for TPUs and NVIDIA GPUs without the device. What it gives back is the executable that would run
there, so its memory, products, collectives and kernels are real; only speed and numbers are not. A time is a
roofline: the longest of computing at the peak, of reading and writing memory at its bandwidth, and of the
collectives at the bandwidth of the links, none of which is reached.

Sources: the makers' data sheets, dense bfloat16; a link is counted in one direction.
"""

from collections.abc import Mapping
import dataclasses
import importlib.util
import math
import os
import re
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding
import numpy as np

from rlx.errors import ConfigError, did_you_mean
from rlx.run.costs import Costs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
  """A kind of device.

  Attributes:
    platform: 'tpu' or 'cuda'.
    memory: bytes.
    flops: a second, bfloat16.
    bandwidth: of its memory, bytes a second.
    link: bytes a second to the devices beside it.
  """

  platform: str
  memory: float
  flops: float
  bandwidth: float
  link: float


MACHINES: Mapping[str, Machine] = {
    'v4': Machine(platform='tpu', memory=32e9, flops=275e12, bandwidth=1228e9, link=150e9),
    'v5e': Machine(platform='tpu', memory=16e9, flops=197e12, bandwidth=819e9, link=100e9),
    'v5p': Machine(platform='tpu', memory=95e9, flops=459e12, bandwidth=2765e9, link=300e9),
    'v6e': Machine(platform='tpu', memory=32e9, flops=918e12, bandwidth=1640e9, link=224e9),
    'h100': Machine(platform='cuda', memory=80e9, flops=989e12, bandwidth=3350e9, link=450e9),
    'h200': Machine(platform='cuda', memory=141e9, flops=989e12, bandwidth=4800e9, link=450e9),
}
ACROSS_HOSTS = 50e9  # bytes a second and GPU, between hosts of eight
# Without a device there is nothing to tune on.
_GPU_FLAGS = '--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0'
_HOPPER = """gpu_device_info {{ threads_per_block_limit: 1024 threads_per_warp: 32
shared_memory_per_block: 49152 shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132
fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
memory_bandwidth: {bandwidth:.0f} l2_cache_size: {cache} clock_rate_ghz: 1.98 device_memory_size: {memory:.0f}
shared_memory_per_block_optin: 232448 cuda_compute_capability {{ major: 9 minor: 0 }}
registers_per_core_limit: 65536 registers_per_block_limit: 65536 }} platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }} device_description_str: "NVIDIA {name}" """
_CACHES = {'h100': 52428800, 'h200': 62914560}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Topology:
  """Devices of one kind, wired together.

  Attributes:
    name: as it was asked for, such as 'v5p:4x4x4', 'h200:8' or 'h200:2x8' (hosts x devices).
    machine: the kind of device.
    sizes: devices along each dimension.
  """

  name: str
  machine: Machine
  sizes: tuple[int, ...]

  @property
  def num_devices(self) -> int:
    """How many devices there are."""
    return math.prod(self.sizes)

  def link(self, group: tuple[int, ...]) -> float:
    """Bytes a second that reach a device of a group, by the numbers of its devices."""
    a_host = self.sizes[-1] if self.machine.platform == 'cuda' else self.num_devices
    return self.machine.link if len({device // a_host for device in group}) < 2 else ACROSS_HOSTS

  def devices(self) -> list:
    """The devices, as XLA's compiler describes them.

    Raises:
      ConfigError: the compiler is not installed, or knows no such topology.
    """
    from jax.experimental import topologies

    kind = self.name.split(':')[0]
    if self.machine.platform == 'tpu':
      _require('libtpu', 'tpu')
      os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')  # it asks a metadata server otherwise
      os.environ.setdefault('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')  # one process may have the TPU; here none does
      how = {'platform': 'tpu', 'topology_name': self.name, 'num_slices': 1}
    else:
      _require('jax_cuda13_plugin', 'gpu')
      hosts, devices = self.sizes if len(self.sizes) == 2 else (1, *self.sizes)
      target = _HOPPER.format(
          bandwidth=self.machine.bandwidth, memory=self.machine.memory, name=kind.upper(), cache=_CACHES[kind]
      )
      how = {
          'topology_name': kind.upper(), 'platform': 'cuda', 'topology': f'1x{hosts}x{devices}',
          'target_config': target,
      }
    try:
      return list(topologies.get_topology_desc(**how).devices)
    except Exception as error:  # of several kinds, as the compiler has it
      reason = str(error).splitlines()[0]
      raise ConfigError(f'--topology={self.name}: its compiler refuses: {reason}') from error


def parse(name: str) -> Topology:
  """A topology by its name.

  Raises:
    ConfigError: there is no such kind of device, or the sizes cannot be read.
  """
  kind, _, sizes = name.partition(':')
  if kind not in MACHINES:
    hint = did_you_mean(kind, tuple(MACHINES)) or f'; known are {", ".join(MACHINES)}'
    raise ConfigError(f'--topology={name}: there is no device {kind!r}{hint}')
  machine = MACHINES[kind]
  most = 3 if machine.platform == 'tpu' else 2
  if not re.fullmatch(r'[1-9]\d*(x[1-9]\d*)*', sizes) or sizes.count('x') >= most:
    example = f'{kind}:2x2' if machine.platform == 'tpu' else f'{kind}:8, or {kind}:2x8 for two hosts'
    raise ConfigError(f'--topology={name}: devices are missing or cannot be read; write {example}')
  return Topology(name=name, machine=machine, sizes=tuple(int(n) for n in sizes.split('x')))


def prepare(topology: Topology) -> None:
  """Readies this process to compile for it: the CPU, as so many devices, stands for them until then.

  To be called before jax is asked for anything.
  """
  if topology.machine.platform == 'cuda' and 'autotune_level' not in os.environ.get('XLA_FLAGS', ''):
    os.environ['XLA_FLAGS'] = f'{os.environ.get("XLA_FLAGS", "")} {_GPU_FLAGS}'.strip()
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_num_cpu_devices', topology.num_devices)


def mesh_like(mesh: Mesh, topology: Topology) -> Mesh:
  """A mesh of the topology's devices in place of those of a mesh.

  Raises:
    ConfigError: the mesh has another number of devices.
  """
  if mesh.size != topology.num_devices:
    sizes = ' x '.join(f'{axis}={size}' for axis, size in mesh.shape.items())
    raise ConfigError(
        f'--topology={topology.name} has {topology.num_devices} devices, the mesh {sizes} asks for '
        f'{mesh.size}; set config.mesh, or config.mesh.data to -1'
    )
  devices = np.array(topology.devices()).reshape(mesh.devices.shape)
  return Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)


def elsewhere(tree: Any, mesh: Mesh) -> Any:
  """Shapes with the shardings that they have, on the devices of another mesh."""
  def moved(leaf):
    if not isinstance(getattr(leaf, 'sharding', None), NamedSharding):
      return leaf
    sharding = NamedSharding(mesh, leaf.sharding.spec)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

  return jax.tree.map(moved, tree)


def roofline(costs: Costs, topology: Topology) -> dict[str, float]:
  """Seconds that a program takes at least: 'compute', 'memory' and 'links', each at its peak."""
  sent = (x.num_bytes * x.times / topology.link(x.groups[0] if x.groups else ()) for x in costs.collectives)
  return {
      'compute': costs.flops / topology.machine.flops,
      'memory': costs.num_bytes / topology.machine.bandwidth,
      'links': sum(sent),
  }


def _require(package: str, extra: str) -> None:
  if importlib.util.find_spec(package) is None:
    raise ConfigError(f"--topology needs {package}, which is not installed: pip install 'rlx[{extra}]'")
