"""What a compiled program does, read from its text: products and collectives, as often as they run."""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
import numpy as np
import pytest

from rlx.run import costs


def compiled(function, *shapes):
  return jax.jit(function).lower(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)).compile()


def read(function, *shapes, **options):
  return costs.read(compiled(function, *shapes).as_text(), **options)


def test_a_product_is_two_flops_a_multiplication():
  assert read(jnp.matmul, (3, 5), (5, 7)).flops == 2 * 3 * 5 * 7
  assert read(functools.partial(jnp.einsum, 'bij,bjk->bik'), (4, 3, 5), (4, 5, 7)).flops == 4 * 2 * 3 * 5 * 7


def test_a_loop_counts_as_often_as_it_runs():
  def scanned(x, w):
    return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, length=6)[0]

  def decided(x, w):
    return jax.lax.while_loop(lambda x: jnp.sum(x) < 1, lambda x: scanned(x, w), x)

  once = 2 * 8 * 16 * 16
  assert read(scanned, (8, 16), (16, 16)).flops == 6 * once
  found = read(decided, (8, 16), (16, 16), trips=lambda loop: 10)
  assert found.flops == 60 * once
  assert list(found.loops.values()) == [10]


def test_an_instruction_may_go_over_several_lines():
  """As what a TPU's kernel says of itself does; what follows in the computation counts."""
  program = """HloModule jit_f

%other (p: f32[4,8]) -> f32[4,8] {
  ROOT %p = f32[4,8]{1,0} parameter(0)
}, execution_thread="sparsecore"

ENTRY %main (x: f32[4,8]) -> f32[4,4] {
  %x = f32[4,8]{1,0} parameter(0)
  %y = f32[8,4] custom-call(%x), custom_call_target="tpu_custom_call", attributes={m={
"xprof_metadata":"{\\"block_q\\": 512
}}, metadata={op_name="jit(f)/kernel"}
  %done = () custom-call(%x), custom_call_target="Unlock"
  ROOT %z = f32[4,4]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
  computations, entry = costs.parse(program)
  assert list(computations) == ['other', 'main']
  assert [x.name for x in computations[entry]] == ['x', 'y', 'done', 'z']
  assert computations[entry][1].op_name == 'jit(f)/kernel'
  found = costs.read(program)
  assert found.flops == 2 * 4 * 8 * 4
  assert found.num_bytes == 4 * ((32 + 32) + 32 + (32 + 32 + 16))  # kernel, what gives nothing, product


WRITES = """HloModule jit_f

%fused (stack: f32[24,8,16], row: f32[8,16], at: s32[]) -> (f32[24,8,16], s8[64]) {
  %stack = f32[24,8,16]{2,1,0} parameter(0)
  %row = f32[8,16]{1,0} parameter(1)
  %at = s32[] parameter(2)
  %zero = s32[] constant(0)
  %rows = f32[1,8,16]{2,1,0} bitcast(%row)
  %updated = f32[24,8,16]{2,1,0} dynamic-update-slice(%stack, %rows, %at, %zero, %zero)
  %room = s8[64]{0} custom-call(), custom_call_target="nothing"
  ROOT %both = (f32[24,8,16]{2,1,0}, s8[64]{0}) tuple(%updated, %room)
}

%started (stack: f32[24,8,16], row: f32[8,16], at: s32[]) -> f32[24,8,16] {
  %stack.1 = f32[24,8,16]{2,1,0} parameter(0)
  %row.1 = f32[8,16]{1,0} parameter(1)
  %at.1 = s32[] parameter(2)
  %zero.1 = s32[] constant(0)
  %rows.1 = f32[1,8,16]{2,1,0} bitcast(%row.1)
  ROOT %updated.1 = f32[24,8,16]{2,1,0} dynamic-update-slice(%stack.1, %rows.1, %at.1, %zero.1, %zero.1)
}

ENTRY %main (stack: f32[24,8,16], row: f32[8,16], at: s32[]) -> f32[24,8,16] {
  %stack.2 = f32[24,8,16]{2,1,0} parameter(0)
  %row.2 = f32[8,16]{1,0} parameter(1)
  %at.2 = s32[] parameter(2)
  WRITE
}
"""


@pytest.mark.parametrize(
    ('write', 'more'),
    [
        ('ROOT %w = (f32[24,8,16], s8[64]) fusion(%stack.2, %row.2, %at.2), kind=kCustom, calls=%fused', 64),
        (
            '%s = ((f32[24,8,16], f32[8,16], s32[]), f32[24,8,16], s32[]) '
            'fusion-start(%stack.2, %row.2, %at.2), '
            'kind=kLoop, calls=%started\n  ROOT %w = f32[24,8,16] fusion-done(%s)',
            0,
        ),
    ],
    ids=['beside others', 'started'],
)
def test_a_part_that_is_written_in_place_counts_as_a_part(write, more):
  """The row is read and written; the stack stays where it is."""
  assert costs.read(WRITES.replace('WRITE', write)).num_bytes == 2 * 4 * 8 * 16 + 4 + more


def test_a_kernel_computes_what_its_name_says():
  program = """ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %y = f32[4] custom-call(%x), custom_call_target="k", metadata={op_name="jit(f)/flops_1200/pallas_call"}
}
"""
  assert costs.read(program).flops == 1200


def test_of_branches_the_heaviest_counts():
  def branch(x, w):
    return jax.lax.cond(jnp.sum(x) > 0, lambda: x @ w @ w, lambda: x)

  assert read(branch, (8, 16), (16, 16)).flops == 2 * 2 * 8 * 16 * 16


@pytest.mark.parametrize(
    ('spec', 'function', 'kind', 'received'),
    [
        (P(None, 'a'), lambda x: jax.lax.all_gather(x, 'a', axis=1, tiled=True), 'all-gather', 3 / 4),
        (P(), lambda x: jax.lax.psum(x, 'a'), 'all-reduce', 2 * 3 / 4),
        (P(), lambda x: jax.lax.psum_scatter(x, 'a', tiled=True), 'reduce-scatter', 3 / 4),
    ],
    ids=['gather', 'sum', 'scatter'],
)
def test_bytes_are_those_of_a_ring(spec, function, kind, received):
  mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ('a', 'b'), axis_types=(AxisType.Auto,) * 2)
  ours = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=P(), check_vma=False)
  x = jax.ShapeDtypeStruct((64, 32), jnp.float32, sharding=NamedSharding(mesh, spec))
  found = costs.read(jax.jit(ours).lower(x).compile().as_text())
  (collective,) = found.collectives
  assert (collective.kind, collective.size) == (kind, 4)
  assert found.collective_bytes() == found.collective_bytes(kind) == received * 64 * 32 * 4


@pytest.mark.parametrize(
    ('text', 'groups'),
    [
        ('replica_groups={{0,1},{2,3}}', ((0, 1), (2, 3))),
        ('replica_groups=[2,2]<=[4]', ((0, 1), (2, 3))),
        ('replica_groups=[2,2]<=[2,2]T(1,0)', ((0, 2), (1, 3))),
        ("replica_groups=mesh['x'=2,'y'=2] {'x'}", ((0, 2), (1, 3))),
        ("replica_groups=mesh['x'=2,'y'=2] {'x','y'}", ((0, 1, 2, 3),)),
    ],
)
def test_groups_are_read_however_they_are_written(text, groups):
  line = f'%r = f32[8]{{0}} all-reduce(%x), channel_id=1, {text}, to_apply=%add'
  program = f'ENTRY %main (x: f32[8]) -> f32[8] {{\n  %x = f32[8]{{0}} parameter(0)\n  ROOT {line}\n}}\n'
  (collective,) = costs.read(program).collectives
  assert collective.groups == groups
  assert collective.num_bytes == 2 * (len(groups[0]) - 1) / len(groups[0]) * 32
