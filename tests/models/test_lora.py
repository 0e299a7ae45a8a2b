"""LoRA: it begins as the base, learns through every algorithm's own code, and costs adapters, not a model."""

import dataclasses
import functools
import json

import algorithms_table as table
import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors.numpy import load_file, save_file

from rlx import lens, sharding, tracking
from rlx.engine.speaker import Scoring, Speaker
from rlx.losses.anchors import kl_in_loss
from rlx.models import hf, lora, peft, transformer
from rlx.models.adapters import Lora
from rlx.models.language import LanguageModel
from rlx.models.transformer import AXES, TransformerConfig
from rlx.step import make_train_step
from rlx.types import Algorithm, State, StatefulRollout
from tests.cases import cases

MATRICES = 'layers/(query|key|value|attention_out|gate|up|down)'
EVERY = Lora(rank=3, alpha=6, targets=MATRICES, full='')
SOME = Lora(rank=2, alpha=1, targets='layers/(value|attention_out|up)', full='final_norm/scale|unembedding')
CONFIG = TransformerConfig(
    vocab_size=11, num_layers=2, width=12, num_heads=4, num_kv_heads=2, head_size=6, mlp_size=14,
    context_length=16, tied=False, qkv_bias=True,
)
TOKENS = jnp.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])


@functools.cache
def a_base(config=CONFIG):
  """Random weights; drawn with NumPy, because the program of `transformer.init` takes a second to compile."""
  shapes = jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0))
  rng = np.random.default_rng(0)
  draw = lambda path, x: rng.normal(path[-1].key == 'scale', config.width**-0.5, x.shape)
  return jax.tree_util.tree_map_with_path(lambda path, x: jnp.asarray(draw(path, x), x.dtype), shapes)


def trained(adapters):
  """Adapters as they may be after training: no B is zero."""
  rng = np.random.default_rng(1)
  return jax.tree.map(lambda x: x + 0.1 * rng.normal(size=x.shape).astype(np.float32), adapters)


@functools.partial(jax.jit, static_argnums=1)
def logits(params, config=CONFIG):
  return transformer.logits(params, config, transformer.forward(params, config, TOKENS)[0])


def largest_difference(a, b):
  return max(float(jnp.max(jnp.abs(x - y))) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))


# --- adapters -----------------------------------------------------------------------------------------------


def test_shapes_by_hand():
  adapters = lora.init(jax.random.key(1), a_base(), SOME)
  shapes = jax.tree.map(lambda x: (x.shape, str(x.dtype)), adapters)
  f32 = lambda *shape: (shape, 'float32')
  assert shapes == {
      'layers': {
          'value_lora_a': f32(2, 12, 2), 'value_lora_b': f32(2, 2, 2, 6),
          'attention_out_lora_a': f32(2, 4, 6, 2), 'attention_out_lora_b': f32(2, 2, 12),
          'up_lora_a': f32(2, 12, 2), 'up_lora_b': f32(2, 2, 14),
      },
      'final_norm': {'scale': f32(12)},
      'unembedding': f32(11, 12),
  }


def test_a_is_uniform_by_its_fan_in_and_b_is_zero():
  """Kaiming with a = sqrt(5): the bound is sqrt(6 / ((1 + 5) fan_in)); stacked layers are no fan-in."""
  config = dataclasses.replace(CONFIG, num_layers=3, width=50)
  shapes = jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0))
  base = jax.tree.map(lambda x: jnp.zeros(x.shape), shapes)
  layers = lora.init(jax.random.key(1), base, dataclasses.replace(EVERY, rank=40))['layers']
  fan_in = {'attention_out_lora_a': 4 * 6, 'down_lora_a': 14}
  for name, leaf in layers.items():
    if name.endswith('_a'):
      bound = fan_in.get(name, 50) ** -0.5
      assert 0.98 * bound < float(jnp.max(jnp.abs(leaf))) <= bound, name
      np.testing.assert_allclose(jnp.std(leaf), bound / 3**0.5, rtol=0.05, err_msg=name)
    else:
      assert not np.any(leaf), name
  first, second, _ = layers['query_lora_a']
  assert not np.any(np.isclose(first, second, atol=1e-6).all(axis=0)), 'layers share their noise'
  assert not np.allclose(layers['query_lora_a'], layers['key_lora_a']), 'matrices share their noise'


@pytest.mark.parametrize('what', cases(
    [EVERY, SOME, Lora(rank=0, alpha=0, targets='', full='layers/.*_norm/.*')], at_once=[SOME]
))
def test_the_adapted_model_begins_as_its_base(what):
  """Bitwise: what is added is exactly zero."""
  adapters = lora.init(jax.random.key(1), a_base(), what)
  adapted = lora.attach(a_base(), adapters, what)
  np.testing.assert_array_equal(logits(adapted), logits(a_base()))
  chex.assert_trees_all_equal(lora.merge(a_base(), adapters, what), a_base())


def test_full_parts_are_copies():
  """A donated state would otherwise hold one buffer twice."""
  base = a_base()
  make = functools.partial(lora.init, lora=SOME)
  for adapters in (make(jax.random.key(1), base), jax.jit(make)(jax.random.key(1), base)):
    np.testing.assert_array_equal(adapters['unembedding'], base['unembedding'])
    pointers = [x['unembedding'].unsafe_buffer_pointer() for x in (adapters, base)]
    assert pointers[0] != pointers[1]


def test_attaching_copies_nothing():
  base = a_base()
  adapters = trained(lora.init(jax.random.key(1), base, SOME))
  adapted = lora.attach(base, adapters, SOME)
  for path, leaf in jax.tree.leaves_with_path(base):
    where = jax.tree_util.keystr(path)
    here = functools.reduce(lambda tree, entry: tree[entry.key], path, adapted)
    replaced = where in ("['final_norm']['scale']", "['unembedding']")
    assert (here is not leaf) == replaced, where
  assert adapted['unembedding'] is adapters['unembedding']


@pytest.mark.parametrize('what', [EVERY, SOME], ids=['every', 'some'])
def test_merging_is_attaching(what):
  adapters = trained(lora.init(jax.random.key(1), a_base(), what))
  merged = lora.merge(a_base(), adapters, what)
  chex.assert_trees_all_equal_shapes_and_dtypes(merged, a_base())
  attached = logits(lora.attach(a_base(), adapters, what))
  np.testing.assert_allclose(logits(merged), attached, atol=1e-5)
  assert largest_difference(attached, logits(a_base())) > 0.1


def test_merging_by_hand():
  """Two layers, one hidden unit in: W [1, 2] + 6/2 [a1 a2] [[b11 b12] [b21 b22]]."""
  base = {'layers': {'up': jnp.array([[[1.0, 2.0]], [[3.0, 4.0]]])}}
  adapters = {
      'layers': {
          'up_lora_a': jnp.array([[[1.0, 2.0]], [[0.0, 1.0]]]),
          'up_lora_b': jnp.array([[[1.0, 0.0], [0.0, 1.0]], [[5.0, 5.0], [1.0, -1.0]]]),
      }
  }
  merged = lora.merge(base, adapters, Lora(rank=2, alpha=6, targets='layers/up', full=''))
  np.testing.assert_allclose(merged['layers']['up'], [[[1 + 3, 2 + 6]], [[3 + 3, 4 - 3]]])


def test_half_precision_bases_have_float32_adapters_and_keep_their_dtype():
  config = dataclasses.replace(CONFIG, dtype='bfloat16', param_dtype='bfloat16')
  base = a_base(config)
  adapters = lora.init(jax.random.key(1), base, SOME)
  assert {leaf.dtype for leaf in jax.tree.leaves(adapters)} == {jnp.dtype('float32')}
  adapters = trained(adapters)
  merged = lora.merge(base, adapters, SOME)
  chex.assert_trees_all_equal_shapes_and_dtypes(merged, base)
  a, b = (np.asarray(adapters['layers'][f'up_lora_{x}']) for x in 'ab')
  exact = np.asarray(base['layers']['up'], np.float32) + 0.5 * a @ b
  np.testing.assert_array_equal(merged['layers']['up'], jnp.asarray(exact).astype('bfloat16'))
  forward = lambda base: transformer.forward(lora.attach(base, adapters, SOME), config, TOKENS)
  assert {x.dtype for x in jax.tree.leaves(jax.eval_shape(forward, base))} == {jnp.dtype('bfloat16')}


# --- gradients ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_gradients_follow_the_chain_rule():
  """Of the merged weights W' = W + s A B: dA = s dW' Bᵀ, dB = s Aᵀ dW'; of full parts: dW'."""
  adapters = trained(lora.init(jax.random.key(1), a_base(), SOME))
  objective = lambda params: jnp.sum(jnp.sin(logits(params)))
  found = jax.jit(jax.grad(lambda x: objective(lora.attach(a_base(), x, SOME))))(adapters)
  whole = jax.jit(jax.grad(objective))(lora.merge(a_base(), adapters, SOME))
  chex.assert_trees_all_close(found['unembedding'], whole['unembedding'], atol=2e-5)
  chex.assert_trees_all_close(found['final_norm'], whole['final_norm'], atol=2e-5)
  a, b, d = adapters['layers'], adapters['layers'], whole['layers']
  expected = {
      'value_lora_a': np.einsum('ldkh,lrkh->ldr', d['value'], b['value_lora_b']),
      'value_lora_b': np.einsum('ldkh,ldr->lrkh', d['value'], a['value_lora_a']),
      'attention_out_lora_a': np.einsum('lkhd,lrd->lkhr', d['attention_out'], b['attention_out_lora_b']),
      'attention_out_lora_b': np.einsum('lkhd,lkhr->lrd', d['attention_out'], a['attention_out_lora_a']),
      'up_lora_a': np.einsum('ldm,lrm->ldr', d['up'], b['up_lora_b']),
      'up_lora_b': np.einsum('ldm,ldr->lrm', d['up'], a['up_lora_a']),
  }
  expected = jax.tree.map(lambda x: 0.5 * x, expected)
  assert min(np.abs(x).max() for x in expected.values()) > 0.02
  chex.assert_trees_all_close(found['layers'], expected, atol=2e-5)


# --- whole runs ---------------------------------------------------------------------------------------------

ROW = next(row for row in table.ROWS if row.name == 'grpo')  # with a KL term: it asks for a reference
# A frozen output matrix bounds the logits, and so the reward; the scale of the last norm lifts the bound.
TOY = Lora(rank=4, alpha=8, targets=MATRICES, full='final_norm/scale')


ADAM = optax.adam(1e-2)


def model_of(what, base=table.MODEL):
  return lora.lora(base, **dataclasses.asdict(what), directory='')


def viewed(what, base=table.MODEL):
  """What algorithms see of a policy with adapters, whose base is the reference."""
  policy = model_of(what, base)

  def view(models):
    seen = {**models, 'policy': policy.view(models['policy'], {'base': models['base']})}
    return lens.cast(seen, {'reference': 'base'})

  return view


@functools.cache
def make_step():
  algorithm = lens.through(viewed(TOY), ROW.make())
  return jax.jit(make_train_step(algorithm, ADAM, epochs=1, minibatches=1, microbatches=1))


def make_state(optimizer=ADAM, what=TOY, config=table.MODEL.shape):
  base = jax.tree.map(jnp.copy, a_base(config))
  adapters = model_of(what).init(jax.random.key(1), {'base': base})
  return state_of(optimizer, {'policy': adapters}, {'base': base})


def state_of(optimizer, params, slow):
  return State(
      step=jnp.int32(0), params=params, slow=slow, opt_state=optimizer.init(params), world={},
      key=jax.random.key(1),
  )


def num_bytes(tree):
  return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


@pytest.mark.slow
def test_grpo_learns_through_adapters_and_the_base_stays():
  state, step, history = make_state(), make_step(), []
  for _ in range(150):
    state, metrics = step(state)
    history.append(metrics)
  chex.assert_tree_all_finite(history)
  rewards, kl = (np.array([metrics[name] for metrics in history]) for name in ('reward/mean', 'kl/reference'))
  assert rewards[0] < 0.5 and rewards[-20:].mean() > 0.9, (rewards[0], rewards[-20:].mean())
  assert abs(kl[0]) < 1e-6 and kl[-1] > 0.1
  chex.assert_trees_all_equal(state.slow['base'], a_base(table.MODEL.shape))
  assert step._cache_size() == 1, 'the step compiled more than once'


POLICY = Speaker(
    model=LanguageModel(CONFIG), decoding=dataclasses.replace(table.DECODING, max_tokens=4, eos_ids=()),
    scoring=Scoring(chunk_tokens=8, packing=None),
)


@jax.jit
def sampled(params):
  lengths = jnp.array([5, 3])
  return POLICY.sample(params, TOKENS, lengths, jax.random.key(2), group_size=3)


@pytest.mark.slow
def test_sampler_and_scorer_agree_under_adapters():
  adapters = lora.init(jax.random.key(1), a_base(), EVERY)
  chex.assert_trees_all_equal(sampled(lora.attach(a_base(), adapters, EVERY)), sampled(a_base()))
  params = lora.attach(a_base(), trained(adapters), EVERY)
  batch = sampled(params)
  logprobs, _ = jax.jit(POLICY.score)(params, batch)
  assert batch['action_mask'].sum() == 6 * 4
  np.testing.assert_allclose(logprobs, batch['sampler_logprobs'], atol=1e-5)
  assert not np.array_equal(batch['tokens'], sampled(a_base())['tokens'])


def test_state_holds_one_model_and_three_times_the_adapters():
  """A full fine-tune with a reference holds four models: weights, two moments, reference."""
  base = num_bytes(a_base(table.MODEL.shape))
  state = make_state()
  adapters = num_bytes(state.params)
  scalars = num_bytes(optax.tree.get(state.opt_state, 'count'))
  assert num_bytes((state.params, state.slow, state.opt_state)) == base + 3 * adapters + scalars
  policy = a_base(table.MODEL.shape)
  fine_tune = state_of(ADAM, {'policy': policy}, {'reference': jax.tree.map(jnp.copy, policy)})
  assert num_bytes((fine_tune.params, fine_tune.slow, fine_tune.opt_state)) == 4 * base + scalars


@pytest.mark.slow
def test_a_step_takes_one_model_of_memory():
  """Also beside its arguments: no second copy of the base, no gradient of it."""
  model = table.MODEL.replace(num_layers=8, width=128, mlp_size=512, vocab_size=640)
  optimizer = optax.sgd(0.1)
  policy = Speaker(model=model, decoding=table.DECODING, scoring=Scoring(chunk_tokens=8, packing=None))
  samples = table.prompts.completions(table.TASK, policy, batch_size=4, group_size=2, num_slots=0)
  algorithm = table.grpo(
      samples, table.reward, policy, kl_in_loss(policy, coef=0.1), **table.clip, entropy_coef=0.0
  )
  what = dataclasses.replace(EVERY, targets='layers/(query|value)')
  algorithm = lens.through(viewed(what, model), algorithm)
  step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  state = jax.eval_shape(lambda: make_state(optimizer, what, model.shape))
  memory = jax.jit(step, donate_argnums=0).lower(state).compile().memory_analysis()
  base = sum(x.size * 4 for x in jax.tree.leaves(state.slow))
  adapters = sum(x.size * 4 for x in jax.tree.leaves(state.params))
  assert base > 7e6 and adapters < 0.02 * base
  assert base < memory.argument_size_in_bytes < base + 2 * adapters
  # Activations, and layers in use. A gradient of the base, or a copy, would alone take `base`.
  assert memory.temp_size_in_bytes < 0.7 * base, memory.temp_size_in_bytes / base


@pytest.mark.slow
def test_devices_take_the_same_step():
  """Compared are Adam's first moments, which are gradients: its updates would make much of their rounding."""
  state = make_state()
  state = state.replace(params=trained(state.params))  # so that the KL term is live, and the gradient of A
  single_state, single = make_step()(state)
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  with jax.set_mesh(mesh):
    placed = jax.device_put(state, sharding.state_shardings(state, mesh, {'policy': AXES, 'base': AXES}))
    sharded_state, sharded = make_step()(placed)
  assert placed.slow['base']['layers']['up'].addressable_shards[0].data.shape == (1, 8, 16)
  gradients = [jax.device_get(optax.tree.get(x.opt_state, 'mu')) for x in (sharded_state, single_state)]
  assert min(np.abs(x).max() for x in jax.tree.leaves(gradients)) > 1e-5
  chex.assert_trees_all_close(*gradients, atol=2e-7, rtol=2e-4)
  chex.assert_trees_all_close(jax.device_get(sharded), jax.device_get(single), atol=2e-6, rtol=2e-4)


# --- what algorithms see ------------------------------------------------------------------------------------


def spy(seen, track=None):
  """An algorithm whose functions note the models that they are shown."""

  def note(slot, result):
    def function(models, *rest):
      seen[slot] = (models, rest)
      return result

    return function

  slots = {slot: note(slot, slot) for slot in ('rollout', 'reward', 'advantage', 'loss')}
  return Algorithm(**slots, **({'track': track} if track else {}))


def test_every_slot_sees_policy_and_reference():
  adapters = trained(lora.init(jax.random.key(1), a_base(), EVERY))
  models = {'base': a_base(), 'policy': adapters, 'value': jnp.ones(3)}
  seen = {}
  adapted = lens.through(viewed(EVERY), spy(seen))
  for slot in ('rollout', 'reward', 'advantage', 'loss'):
    assert getattr(adapted, slot)(models, 'second', 'third') == slot
    shown, rest = seen[slot]
    assert rest == ('second', 'third')
    assert shown.keys() == {'policy', 'base', 'reference', 'value'}
    assert shown['reference'] is models['base'] and shown['value'] is models['value']
    chex.assert_trees_all_equal(shown['policy'], lora.attach(a_base(), adapters, EVERY))


def test_a_rollout_warms_up_with_the_policy():
  seen = {}
  rollout = StatefulRollout(
      begin=lambda key: {}, draw=None, data=None,
      warm_up=lambda models, world, key: seen.update(models) or {**world, 'warm': True},
  )
  adapted = lens.through(viewed(EVERY), dataclasses.replace(spy({}), rollout=rollout))
  models = {'base': a_base(), 'policy': lora.init(jax.random.key(1), a_base(), EVERY)}
  assert adapted.rollout.warm_up(models, {}, jax.random.key(0)) == {'warm': True}
  assert seen.keys() == {'policy', 'base', 'reference'} and 'embedding' in seen['policy']


def test_several_stand_on_one_base():
  """Each is seen with adapters of its own; the weights of the base are there once."""
  model, base = model_of(EVERY, LanguageModel(CONFIG)), {'base': a_base()}
  assert model.stands_on == ('base',) and model.functions == LanguageModel(CONFIG)
  one, other = (trained(model.init(jax.random.key(seed), base)) for seed in (1, 2))
  first, second = (model.view(adapters, base) for adapters in (one, other))
  assert first['layers']['query'] is second['layers']['query'] is a_base()['layers']['query']
  assert largest_difference(logits(first), logits(second)) > 1e-3


def test_a_lagging_copy_of_the_policy_is_its_adapters():
  """`track` sees parameters as they are, so a copy costs no second base, and is seen like what it copies."""
  adapters = trained(lora.init(jax.random.key(1), a_base(), SOME))
  track = tracking.periodic({'proximal': 'policy'}, period=1)
  adapted = lens.through(viewed(SOME), spy({}, track))
  slow = {'base': a_base(), 'proximal': jax.tree.map(jnp.zeros_like, adapters)}
  moved = adapted.track(slow, {'policy': adapters}, jnp.int32(0))
  chex.assert_trees_all_equal(moved['proximal'], adapters)
  assert moved['base'] is slow['base']
  seen = model_of(SOME).view(moved['proximal'], moved)
  chex.assert_trees_all_equal(seen, lora.attach(a_base(), adapters, SOME))


# --- mistakes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (dict(targets='layers/q'), "lora.targets='layers/q' matches no parameter; there are embedding, "),
        (dict(targets='query'), 'matches no parameter'),  # the whole path, not a part
        (dict(full='final_norm'), r"lora.full='final_norm' matches no parameter; .*final_norm/scale"),
        (dict(targets='layers/.*'), r'matches layers/attention_norm/scale, .*adapters fit query, .*full'),
        (dict(targets='embedding'), 'matches embedding; adapters fit'),
        (dict(full='layers/(up|down)'), 'both match layers/down, layers/up'),
    ],
    ids=str,
)
def test_what_cannot_be_adapted(changes, message):
  with pytest.raises(ValueError, match=message):
    lora.init(jax.random.key(0), a_base(), dataclasses.replace(EVERY, **changes))


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (dict(rank=0), 'rank=0, alpha=6, .* do not go together'),
        (dict(rank=-1), 'rank=-1'),
        (dict(alpha=0), 'alpha=0'),
        (dict(targets=''), "targets='' do not go together"),
        (dict(rank=0, alpha=0, targets='', full=''), 'train nothing'),
        (dict(targets='layers/('), r"lora.targets='layers/\(' is no regular expression"),
        (dict(full='['), 'lora.full=.* is no regular expression'),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together(changes, message):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(EVERY, **changes)


@pytest.mark.parametrize('apply', [lora.attach, lora.merge])
def test_adapters_of_another_model(apply):
  plain = a_base(dataclasses.replace(CONFIG, gated=False))
  adapters = lora.init(jax.random.key(1), a_base(), EVERY)
  with pytest.raises(ValueError, match='layers/gate_lora_a, layers/gate_lora_b belong to nothing'):
    apply(plain, adapters, EVERY)


# --- directories of PEFT ------------------------------------------------------------------------------------

GPT2 = dataclasses.replace(
    CONFIG, num_kv_heads=4, head_size=3, norm='layernorm', positions='learned', activation='gelu_tanh',
    gated=False, out_bias=True, mlp_bias=True, tied=True,
)
MOE = dataclasses.replace(CONFIG, qkv_bias=False, qk_norm=True, num_experts=3, experts_per_token=2)
DIRECTORIES = {
    'qwen2': (CONFIG, EVERY),
    'qwen3_moe': (MOE, Lora(rank=1, alpha=2, targets='layers/(query|attention_out)', full='')),
    'llama': (dataclasses.replace(CONFIG, qkv_bias=False), SOME),
    'gpt2': (GPT2, Lora(rank=3, alpha=6, targets='layers/(attention_out|up|down)', full='final_norm/.*')),
}


@functools.cache
def some_adapters(family):
  config, what = DIRECTORIES[family]
  return trained(lora.init(jax.random.key(1), a_base(config), what))


def save_peft(directory, family='llama', **changes):
  config, what = DIRECTORIES[family]
  arguments = {'adapters': some_adapters(family), 'lora': what, 'config': config, 'family': family, **changes}
  peft.save(directory, base_model='org/base', **arguments)
  return directory


def test_a_directory_by_hand(tmp_path):
  save_peft(tmp_path / 'adapters')
  assert sorted(path.name for path in tmp_path.rglob('*')) == [
      'adapter_config.json', 'adapter_model.safetensors', 'adapters'
  ]
  settings = json.loads((tmp_path / 'adapters/adapter_config.json').read_text())
  assert settings == {
      'base_model_name_or_path': 'org/base', 'bias': 'none', 'fan_in_fan_out': False, 'inference_mode': True,
      'init_lora_weights': True, 'lora_alpha': 1, 'lora_dropout': 0.0, 'peft_type': 'LORA', 'r': 2,
      'target_modules': ['mlp.up_proj', 'self_attn.o_proj', 'self_attn.v_proj'],
      'modules_to_save': ['lm_head', 'model.norm'], 'task_type': 'CAUSAL_LM',
  }
  shapes = {'base_model.model.lm_head.weight': (11, 12), 'base_model.model.model.norm.weight': (12,)}
  for layer in range(2):
    for name, num_in, num_out in (
        ('self_attn.v_proj', 12, 12), ('self_attn.o_proj', 24, 12), ('mlp.up_proj', 12, 14)
    ):
      module = f'base_model.model.model.layers.{layer}.{name}'
      shapes |= {f'{module}.lora_A.weight': (2, num_in), f'{module}.lora_B.weight': (num_out, 2)}
  tensors = load_file(tmp_path / 'adapters/adapter_model.safetensors')
  assert {name: x.shape for name, x in tensors.items()} == shapes
  assert {x.dtype for x in tensors.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize('family', cases(DIRECTORIES, at_once=('qwen2', 'gpt2')))
def test_a_directory_read_as_peft_reads_it_is_the_merged_model(family, tmp_path):
  """Per tensor of the model in Hugging Face's layout: W + α/r B A, or what was saved whole."""
  config, what = DIRECTORIES[family]
  merged = lora.merge(a_base(config), some_adapters(family), what)
  for name, params in (('base', a_base(config)), ('merged', merged)):
    hf.save(tmp_path / name, params, config, family=family, settings={})
  tensors, expected = (load_file(tmp_path / name / 'model.safetensors') for name in ('base', 'merged'))
  put_on = load_file(save_peft(tmp_path / 'adapters', family) / 'adapter_model.safetensors')
  settings = json.loads((tmp_path / 'adapters/adapter_config.json').read_text())
  assert settings['fan_in_fan_out'] == (family == 'gpt2')
  for name, x in put_on.items():
    module, _, part = name.removeprefix('base_model.model.').partition('.lora_')
    if part == 'A.weight':
      update = put_on[name.replace('lora_A', 'lora_B')] @ x * what.alpha / what.rank
      tensors[f'{module}.weight'] = tensors[f'{module}.weight'] + (update.T if family == 'gpt2' else update)
    elif not part:
      tensors[module] = x
  assert tensors.keys() == expected.keys()
  for name in tensors:
    np.testing.assert_allclose(tensors[name], expected[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize('family', DIRECTORIES)
def test_round_trip_is_bitwise(family, tmp_path):
  config, what = DIRECTORIES[family]
  save_peft(tmp_path / 'adapters', family)
  adapters, found = peft.load(tmp_path / 'adapters', config, family=family)
  chex.assert_trees_all_equal(adapters, some_adapters(family))
  assert (found.rank, found.alpha) == (what.rank, what.alpha)
  again = lora.init(jax.random.key(2), a_base(config), found)
  chex.assert_trees_all_equal_shapes_and_dtypes(again, adapters)


def test_saving_again_replaces_but_keeps_what_is_not_ours(tmp_path):
  directory = save_peft(tmp_path / 'adapters', 'qwen2')
  save_peft(directory)
  peft.load(directory, DIRECTORIES['llama'][0], family='llama')
  (directory / 'notes.txt').write_text('mine')
  with pytest.raises(ValueError, match='holds more than adapters; choose another directory'):
    save_peft(directory)
  assert (directory / 'notes.txt').read_text() == 'mine'


@pytest.mark.parametrize(
    ('family', 'changes', 'message'),
    [
        ('gpt2', {'targets': 'layers/(query|up)'}, r'layers/query is only a part of .*attn\.c_attn$'),
        ('gpt2', {'full': 'embedding'}, 'embedding is also the output matrix'),
        ('gpt2', {'full': 'final_norm/scale'}, 'scale is trained without final_norm/bias of the same'),
        ('qwen3_moe', {'full': 'layers/expert_up'}, 'expert_up is no module of its own'),
        ('qwen2', {'full': 'layers/key_bias', 'targets': 'layers/up'}, 'without layers/key of the same'),
        ('qwen2', {'rank': 0, 'alpha': 0, 'targets': '', 'full': 'unembedding'}, 'nothing for PEFT; save'),
    ],
    ids=str,
)
def test_what_peft_cannot_express(family, changes, message, tmp_path):
  config, what = DIRECTORIES[family]
  what = dataclasses.replace(what, **changes)
  adapters = lora.init(jax.random.key(0), a_base(config), what)
  with pytest.raises(ValueError, match=message):
    save_peft(tmp_path / 'adapters', family, lora=what, adapters=adapters)
  assert not list(tmp_path.iterdir())


def test_saving_adapters_of_other_settings(tmp_path):
  other = dataclasses.replace(SOME, targets='layers/(value|up)', rank=3)
  with pytest.raises(ValueError, match='differ: layers/attention_out_lora_a; layers/attention_out_lora_b; '):
    save_peft(tmp_path / 'adapters', lora=other)


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'peft_type': 'LOHA'}, "peft_type='LOHA' is not supported"),
        ({'use_rslora': True}, 'use_rslora=True is not supported'),
        ({'use_dora': True, 'bias': 'all'}, "bias='all', use_dora=True is not supported"),
        ({'rank_pattern': {'v_proj': 4}}, 'rank_pattern='),
        ({'alpha_pattern': {'v_proj': 4}}, 'alpha_pattern='),
        ({'layers_to_transform': [0]}, 'layers_to_transform='),
        ({'fan_in_fan_out': True}, 'fan_in_fan_out=True'),
        ({'init_lora_weights': 'pissa'}, "init_lora_weights='pissa'"),
        ({'something_new': 1}, 'something_new=1'),
        ({'target_modules': ['v_proj', 'c_attn']}, 'target_modules has c_attn, which is no part'),
        ({'target_modules': ['roj']}, 'target_modules has roj'),  # an end, but not behind a dot
        ({'target_modules': 'v_proj'}, 'target_modules has v_proj'),  # an expression is for the whole name
        ({'target_modules': ['lm_head', 'v_proj']}, 'target_modules has lm_head'),
        ({'target_modules': r'.*\.0\..*v_proj'}, r'takes .*v_proj of some layers; only all are supported'),
        ({'target_modules': '('}, 'adapter_config.json: '),
        ({'target_modules': ['v_proj'], 'modules_to_save': ['v_proj']}, 'both match layers/value'),
        ({'modules_to_save': ['classifier']}, 'modules_to_save has classifier'),
    ],
    ids=str,
)
def test_settings_that_are_not_plain_lora(changes, message, tmp_path):
  path = save_peft(tmp_path / 'adapters') / 'adapter_config.json'
  path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
  with pytest.raises(ValueError, match=message):
    peft.load(tmp_path / 'adapters', DIRECTORIES['llama'][0], family='llama')


def test_settings_of_others_that_change_nothing(tmp_path):
  """Short names, a regular expression, dropout, and what is switched off."""
  path = save_peft(tmp_path / 'adapters') / 'adapter_config.json'
  settings = json.loads(path.read_text())
  for targets in (['v_proj', 'o_proj', 'up_proj'], r'model\.layers\.\d+\..*\.(v|o|up)_proj'):
    changes = {'target_modules': targets, 'lora_dropout': 0.1, 'use_rslora': False, 'rank_pattern': {}}
    path.write_text(json.dumps({**settings, **changes}))
    adapters, _ = peft.load(tmp_path / 'adapters', DIRECTORIES['llama'][0], family='llama')
    chex.assert_trees_all_equal(adapters, some_adapters('llama'))


def test_tensors_that_do_not_fit_are_named(tmp_path):
  path = save_peft(tmp_path / 'adapters') / 'adapter_model.safetensors'
  tensors = load_file(path)
  layer = 'base_model.model.model.layers.1.'
  del tensors[f'{layer}mlp.up_proj.lora_B.weight']
  tensors[f'{layer}mlp.gate_proj.lora_A.weight'] = np.zeros((2, 12), np.float32)
  tensors[f'{layer}self_attn.v_proj.lora_A.weight'] = np.zeros((3, 12), np.float32)
  save_file(tensors, path)
  with pytest.raises(ValueError, match='does not fit its settings and the model') as error:
    peft.load(tmp_path / 'adapters', DIRECTORIES['llama'][0], family='llama')
  assert f'{layer}mlp.up_proj.lora_B.weight [14, 2] is missing' in str(error.value)
  assert f'{layer}mlp.gate_proj.lora_A.weight [2, 12] is unknown' in str(error.value)
  assert f'{layer}self_attn.v_proj.lora_A.weight is [3, 12], not [2, 12]' in str(error.value)
  path.unlink()
  with pytest.raises(ValueError, match='lacks adapter_model.safetensors'):
    peft.load(tmp_path / 'adapters', DIRECTORIES['llama'][0], family='llama')
