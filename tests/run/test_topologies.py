"""Devices that are not here: how they are named, and what is said where they cannot be had."""

import importlib.util

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
import pytest

from rlx import sharding
from rlx.errors import ConfigError
from rlx.experiments import launch
from rlx.run import costs, topologies


@pytest.mark.parametrize(
    ('name', 'number'), [('v5p:4x4x4', 64), ('v5e:2x2', 4), ('h200:8', 8), ('h200:8x8', 64)]
)
def test_a_topology_is_a_kind_and_sizes(name, number):
  assert topologies.parse(name).num_devices == number


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('h20:8', "there is no device 'h20'"),
        ('abc:8', 'known are v4, v5e'),
        ('h200', 'write h200:8, or h200:2x8 for two hosts'),
        ('h200:0', 'write h200:8'),
        ('h200:2x2x2', 'write h200:8'),
        ('v5e:2y2', 'write v5e:2x2'),
    ],
)
def test_what_is_no_topology_is_told(name, message):
  with pytest.raises(ConfigError, match=message):
    topologies.parse(name)


def test_between_hosts_links_are_slower():
  hosts, pod = topologies.parse('h200:2x8'), topologies.parse('v5p:4x4x4')
  within, across = tuple(range(8, 16)), (0, 8)
  assert hosts.link(within) == hosts.machine.link > hosts.link(across)
  assert pod.link(tuple(range(64))) == pod.machine.link


def test_a_mesh_of_another_size_is_told():
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=1)
  with pytest.raises(ConfigError, match='has 8 devices, the mesh data=2 x fsdp=2 x tensor=1 asks for 4'):
    topologies.mesh_like(mesh, topologies.parse('h200:8'))


@pytest.mark.parametrize(
    ('name', 'package', 'extra'), [('v5e:2x2', 'libtpu', 'tpu'), ('h200:4', 'cuda', 'gpu')]
)
def test_a_compiler_that_is_not_installed_is_told(monkeypatch, name, package, extra):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(ConfigError, match=rf'{package}.* is not installed: pip install .rlx\[{extra}\]'):
    topologies.parse(name).devices()


def test_shapes_keep_their_layout_elsewhere():
  here, there = sharding.make_mesh(data=2, fsdp=2, tensor=2), sharding.make_mesh(data=4, fsdp=2, tensor=1)
  x = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(here, P('fsdp')))
  moved = topologies.elsewhere({'x': x, 'y': jax.ShapeDtypeStruct((2,), jnp.int32)}, there)
  assert moved['x'].sharding == NamedSharding(there, P('fsdp'))
  assert moved['y'].sharding is None


def test_a_roofline_is_each_limit_at_its_peak():
  topology = topologies.parse('h200:8')
  gather = costs.Collective('all-gather', (('f32', (2**28,)),), (tuple(range(8)),), 2.0, '')
  seconds = topologies.roofline(costs.Costs(989e12, 2400e9, (gather,), {}), topology)
  assert seconds == {'compute': 1.0, 'memory': 0.5, 'links': pytest.approx(2 * 7 / 8 * 2**30 / 450e9)}


def test_a_topology_goes_with_a_dry_run(capsys):
  assert launch.main(['--config=quickstart/arithmetic', '--workdir=w', '--topology=h200:8']) == 2
  assert '--topology only compiles: it goes with --dry_run' in capsys.readouterr().err
  assert launch.main(['--config=quickstart/arithmetic', '--dry_run', '--topology=h2:8']) == 2
  assert "there is no device 'h2'; did you mean" in capsys.readouterr().err
