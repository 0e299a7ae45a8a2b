"""HybridFlow (S091): weights go from the layout that learns to the one that samples and back, and nothing is
there twice; an algorithm is a short program over them.

Source: https://arxiv.org/abs/2409.19256, sections 4.1 and 5. There models are worker groups behind a
controller in Python; here the controller is traced, and the layouts are shardings of one program.
"""

import ast
import functools
import inspect
import math
import re
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.algorithms.grpo import grpo
from rlx.algorithms.ppo import ppo
from rlx.algorithms.remax import remax
from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.models.language import LanguageModel
from rlx.models.transformer import AXES, TransformerConfig

MODEL = LanguageModel(TransformerConfig(  # no half of a weight has another's shape
    vocab_size=136, num_layers=3, width=56, num_heads=4, num_kv_heads=4, head_size=20, mlp_size=104,
    context_length=48, tied=False,
))
DECODING = Decoding(
    max_tokens=4, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(), pad_id=0
)
PARAMS = jax.eval_shape(MODEL.init, jax.random.key(0))


@functools.cache
def mesh_of(data, fsdp, tensor):
  return sharding.make_mesh(data=data, fsdp=fsdp, tensor=tensor)


def places(mesh, rules):
  return sharding.state_shardings({'policy': PARAMS}, mesh, {'policy': AXES}, rules)['policy']


def split_over_tensor(mesh):
  """Shapes of the weights of which no device may ever hold all."""
  pairs = zip(jax.tree.leaves(PARAMS), jax.tree.leaves(places(mesh, sharding.SAMPLING_RULES)), strict=True)
  return {leaf.shape for leaf, place in pairs if 'tensor' in place.spec}


def shapes_in(compiled):
  """Shapes of the arrays that exist on a device of a compiled program."""
  found = re.findall(r'(?:f32|bf16)\[([\d,]+)\]', compiled.as_text())
  return {tuple(map(int, shape.split(','))) for shape in found}


@pytest.mark.parametrize('sizes', [(1, 4, 2), pytest.param((2, 2, 2), marks=pytest.mark.slow)])
def test_from_layout_to_layout_and_back_to_the_bit(sizes):
  mesh = mesh_of(*sizes)
  learns, samples = (places(mesh, rules) for rules in (sharding.TRAINING_RULES, sharding.SAMPLING_RULES))
  identity = lambda params: params
  params = jax.jit(MODEL.init, out_shardings=learns)(jax.random.key(0))
  there = jax.jit(identity, in_shardings=(learns,), out_shardings=samples)
  back = jax.jit(identity, in_shardings=(samples,), out_shardings=learns)
  again = back(there(params))
  for before, after in zip(jax.tree.leaves(params), jax.tree.leaves(again), strict=True):
    assert before.sharding == after.sharding
    np.testing.assert_array_equal(before, after)
  moved = there.lower(PARAMS).compile()
  assert not split_over_tensor(mesh) & shapes_in(moved)
  held = sharding.bytes_per_device(PARAMS, samples)
  assert held <= moved.memory_analysis().output_size_in_bytes < held + 1024  # and where each of them is
  whole = sum(4 * math.prod(leaf.shape) for leaf in jax.tree.leaves(PARAMS))
  assert held < 0.6 * whole


def test_to_devices_of_its_own_and_back_to_the_bit():
  """As samples that are ahead: four devices learn, and two others sample in another layout."""
  learns = mesh_of(1, 4, 1)
  samples = sharding.make_mesh(data=1, fsdp=1, tensor=2, beside=learns)
  here, there = places(learns, sharding.TRAINING_RULES), places(samples, sharding.TRAINING_RULES)
  params = jax.jit(MODEL.init, out_shardings=here)(jax.random.key(0))
  away = jax.device_put(params, there)
  assert {d for leaf in jax.tree.leaves(away) for d in leaf.devices()} == set(samples.devices.ravel())
  for before, after in zip(jax.tree.leaves(params), jax.tree.leaves(jax.device_put(away, here)), strict=True):
    np.testing.assert_array_equal(before, after)


@pytest.mark.slow
def test_no_device_holds_a_whole_replica_while_it_samples_and_learns():
  """One program: samples, reads them and differentiates. Weights of a layer may be whole over `fsdp` for as
  long as they are used; no matrix is ever whole over `tensor`."""
  mesh = mesh_of(1, 4, 2)
  prompts, lengths = jnp.full((4, 5), 3, jnp.int32), jnp.full(4, 5, jnp.int32)

  def step(params):
    batch = engine.sample(
        params, MODEL, prompts, lengths, jax.random.key(1), group_size=2, decoding=DECODING
    )

    def loss(params):
      logprobs, _ = engine.score(params, MODEL, batch, decoding=DECODING, chunk_size=16)
      return jnp.sum(logprobs * batch['action_mask'])

    return jax.tree.map(lambda x, g: x + 1e-3 * g, params, jax.grad(loss)(params))

  learns = places(mesh, sharding.TRAINING_RULES)
  with jax.set_mesh(mesh):
    program = jax.jit(step, in_shardings=(learns,), out_shardings=learns, donate_argnums=0)
    compiled = program.lower(PARAMS).compile()
  assert not split_over_tensor(mesh) & shapes_in(compiled)
  assert compiled.memory_analysis().alias_size_in_bytes == sharding.bytes_per_device(PARAMS, learns)


def statements(function):
  """How many statements a function has, those of inner ones among them, without docstrings."""
  (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
  text = lambda x: isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant)
  return sum(isinstance(x, ast.stmt) and not text(x) for x in ast.walk(tree))


@pytest.mark.parametrize('algorithm', [ppo, grpo, remax])
def test_an_algorithm_is_a_short_program(algorithm):
  """The paper counts lines of its controllers; a statement here may take several."""
  assert 5 < statements(algorithm) < 40
