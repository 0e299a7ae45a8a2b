"""One decoder, eight families: against a plain NumPy decoder, against itself token by token; causality."""

import dataclasses
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.models import blocks, rope, transformer
from rlx.models.transformer import TransformerConfig
from tests.cases import cases

VOCAB, WIDTH, LAYERS, CONTEXT = 11, 16, 2, 12
LLAMA = TransformerConfig(
    vocab_size=VOCAB, num_layers=LAYERS, width=WIDTH, num_heads=4, num_kv_heads=2, head_size=4, mlp_size=24,
    context_length=CONTEXT, tied=False, rope_theta=500.0,
)
GEMMA = {
    'norm_offset': True, 'post_norms': True, 'activation': 'gelu_tanh', 'scale_embedding': True, 'tied': True,
    'window': 3, 'sliding_layers': (0,),
}
GPT2 = {
    'norm': 'layernorm', 'norm_eps': 1e-5, 'positions': 'learned', 'activation': 'gelu_tanh', 'gated': False,
    'qkv_bias': True, 'out_bias': True, 'mlp_bias': True, 'num_kv_heads': 4, 'tied': True,
}
FAMILIES = {
    name: dataclasses.replace(LLAMA, **changes)
    for name, changes in {
        'llama': {'qkv_bias': True, 'out_bias': True, 'mlp_bias': True},
        'mistral': {'window': 3, 'sliding_layers': [0, 1]},
        'qwen2': {
            'qkv_bias': True, 'tied': True, 'rope_scaling': 'yarn', 'rope_factor': 3.0,
            'rope_slow_turns': 0.1, 'rope_fast_turns': 1.0, 'rope_original_context': 4,
        },
        'qwen3': {'qk_norm': True, 'head_size': 6},
        'qwen3_moe': {'qk_norm': True, 'num_experts': 5, 'experts_per_token': 2},
        'gemma2': {**GEMMA, 'attention_softcap': 2.0, 'logit_softcap': 3.0, 'query_scale': 0.3},
        'gemma3': {
            **GEMMA, 'qk_norm': True, 'local_rope_theta': 20.0, 'num_kv_heads': 1, 'rope_scaling': 'linear',
            'rope_factor': 4.0,
        },
        'gpt2': GPT2,
    }.items()
}
WINDOWS = {'mistral': [3, 3], 'gemma2': [3, CONTEXT], 'gemma3': [3, CONTEXT]}  # of the layers; others see all
ALL = pytest.mark.parametrize('family', FAMILIES)
SOME_AT_ONCE = pytest.mark.parametrize('family', [
    pytest.param(family, marks=() if family in ('llama', 'gemma3') else pytest.mark.slow)
    for family in FAMILIES
])
close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-5)

forward = jax.jit(transformer.forward, static_argnums=1)


def shapes(config):
  return jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0))


@functools.cache
def model(family):
  """A config and random parameters, biases and norms too: at their first values they could be left out."""
  config, rng = FAMILIES[family], np.random.default_rng(0)
  random = lambda x: jnp.array(0.4 * rng.normal(size=x.shape), jnp.float32)
  return config, jax.tree.map(random, shapes(config))


def random_tokens(*shape, seed=0):
  return np.random.default_rng(seed).integers(0, VOCAB, shape).astype(np.int32)


# --- a plain decoder: one row, float64, loops over layers, heads and positions ----------------------------


def plain_forward(params, config, tokens, windows):
  params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
  x = params['embedding'][tokens] * (WIDTH**0.5 if config.scale_embedding else 1)
  if config.positions == 'learned':
    x = x + params['position_embedding'][: len(tokens)]
  for i, window in enumerate(windows):
    weights = jax.tree.map(lambda leaf, i=i: leaf[i], params['layers'])
    y = plain_norm(weights['attention_norm'], config, x)
    y = plain_attention(weights, config, y, window, plain_turns(config, window))
    x = x + (plain_norm(weights['post_attention_norm'], config, y) if config.post_norms else y)
    y = (plain_experts if config.num_experts else plain_mlp)(
        weights, config, plain_norm(weights['mlp_norm'], config, x)
    )
    x = x + (plain_norm(weights['post_mlp_norm'], config, y) if config.post_norms else y)
  return plain_norm(params['final_norm'], config, x)


def plain_norm(weights, config, x):
  if 'bias' in weights:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + config.norm_eps) * weights['scale'] + weights['bias']
  scale = weights['scale'] + (1 if config.norm_offset else 0)
  return x / np.sqrt((x**2).mean(-1, keepdims=True) + config.norm_eps) * scale


def plain_turns(config, window):
  """What a pair of entries is multiplied by at each position, as complex numbers [T, H / 2]."""
  theta, factor, stretch = config.rope_theta, config.rope_factor, 1.0
  if config.local_rope_theta and window < CONTEXT:
    theta, factor = config.local_rope_theta, 1.0
  frequencies = theta ** (-2 * np.arange(config.head_size // 2) / config.head_size) / factor
  if config.rope_scaling == 'yarn':
    frequencies = rope.frequencies(
        config.head_size, theta, scaling='yarn', factor=factor, slow_turns=config.rope_slow_turns,
        fast_turns=config.rope_fast_turns, original_context=config.rope_original_context,
    )
    stretch = 0.1 * math.log(factor) + 1
  return stretch * np.exp(1j * np.arange(CONTEXT)[:, None] * frequencies)


def plain_attention(weights, config, x, window, turns):
  bias = lambda name, head: weights[f'{name}_bias'][head] if config.qkv_bias else 0
  project = lambda name, head: x @ weights[name][:, head] + bias(name, head)
  output = weights.get('attention_out_bias', 0.0) + np.zeros_like(x)
  for head in range(config.num_heads):
    shared = head // (config.num_heads // config.num_kv_heads)
    query, key, value = project('query', head), project('key', shared), project('value', shared)
    if config.qk_norm:
      query = plain_norm(weights['query_norm'], config, query)
      key = plain_norm(weights['key_norm'], config, key)
    if config.positions == 'rope':
      query, key = plain_rotation(query, turns), plain_rotation(key, turns)
    for t in range(len(x)):
      past = slice(max(t - window + 1, 0), t + 1)
      scores = key[past] @ query[t] * (config.query_scale or config.head_size**-0.5)
      if config.attention_softcap:
        scores = config.attention_softcap * np.tanh(scores / config.attention_softcap)
      probs = np.exp(scores - scores.max())
      output[t] += (probs / probs.sum()) @ value[past] @ weights['attention_out'][head]
  return output


def plain_rotation(x, turns):
  """Entries j and j + half are the real and imaginary part of a number that turns."""
  half = x.shape[1] // 2
  turned = (x[:, :half] + 1j * x[:, half:]) * turns[: len(x)]
  return np.concatenate([turned.real, turned.imag], axis=1)


def plain_experts(weights, config, x):
  """Each token on its own, through each expert that it takes."""
  output, names = np.zeros_like(x), ('up', 'down', 'gate')
  for t, row in enumerate(np.asarray(x, np.float64)):
    shares = np.exp(row @ weights['router'])
    shares /= shares.sum()
    taken = np.argsort(-shares)[: config.experts_per_token]
    total = shares[taken].sum() if config.normalise_experts else 1
    for expert in taken:
      mlp = {name: weights[f'expert_{name}'][expert] for name in names}
      output[t] += shares[expert] / total * plain_mlp(mlp, config, row)
  return output


def plain_mlp(weights, config, x):
  gelu_tanh = lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
  gelu = lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / 2**0.5))
  silu = lambda x: x / (1 + np.exp(-x))
  activation = {'gelu_tanh': gelu_tanh, 'gelu': gelu, 'silu': silu}[config.activation]
  up = x @ weights['up'] + weights.get('up_bias', 0)
  gate = x @ weights['gate'] + weights.get('gate_bias', 0) if config.gated else 0
  hidden = up * activation(gate) if config.gated else activation(up)
  return hidden @ weights['down'] + weights.get('down_bias', 0)


# --- the tests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize('family', cases(FAMILIES, at_once=('llama', 'gemma3', 'qwen3_moe')))
def test_against_a_plain_decoder(family):
  """A failure here alone is a difference of formula: both run the same layers in the same order."""
  config, params = model(family)
  check_against_plain(config, params, WINDOWS.get(family, [CONTEXT] * LAYERS))


def test_shares_of_experts_that_add_up_to_one():
  config, params = model('qwen3_moe')
  check_against_plain(dataclasses.replace(config, normalise_experts=True), params, [CONTEXT] * LAYERS)


def test_the_exact_gelu():
  config, params = model('gpt2')
  check_against_plain(dataclasses.replace(config, activation='gelu'), params, [CONTEXT] * LAYERS)


def check_against_plain(config, params, windows):
  tokens = random_tokens(9, 9)
  hidden, _ = forward(params, config, jnp.array(tokens))
  close(hidden, [plain_forward(params, config, row, windows) for row in tokens])


@SOME_AT_ONCE
def test_causality_through_gradients(family):
  """d hidden[t] / d embedding of token s is zero for s > t and beyond the windows, and only there."""
  config, params = model(family)
  tokens = np.arange(7)  # all different, so that the gradient of an embedding is that of a position
  mixture = jax.random.normal(jax.random.key(0), (WIDTH,))

  @jax.jit
  @jax.jacrev
  def jacobian(embedding):
    hidden, _ = transformer.forward({**params, 'embedding': embedding}, config, jnp.array(tokens)[None])
    return jnp.einsum('td,d->t', hidden[0], mixture)

  influence = np.abs(jacobian(params['embedding'])).sum(-1)[:, : len(tokens)]  # [t, s]
  distance = tokens[:, None] - tokens
  reach = np.eye(len(tokens))
  for window in WINDOWS.get(family, [CONTEXT] * LAYERS):
    reach = ((distance >= 0) & (distance < window)) @ reach
  np.testing.assert_array_equal(influence > 0, reach > 0)


@functools.partial(jax.jit, static_argnums=1)
def decoded(params, config, prompts, lengths, completions, poison):
  """[B, C, D]: hidden states of completions [B, C] read one by one; unused room is filled with `poison`."""
  _, prompt_kv = transformer.forward(params, config, prompts)
  behind = (jnp.arange(prompts.shape[1])[None] >= lengths[:, None])[None, :, :, None, None]
  prompt_kv = jax.tree.map(lambda x: jnp.where(behind, poison, x), prompt_kv)
  cache = jax.tree.map(lambda x: x + poison, transformer.empty_cache(config, *completions.shape))

  def step(cache, x):
    hidden, cache = transformer.decode(params, config, x[0], x[1], lengths, prompt_kv, cache)
    return cache, hidden

  _, hidden = jax.lax.scan(step, cache, (completions.T, jnp.arange(completions.shape[1])))
  return jnp.moveaxis(hidden, 0, 1)


@pytest.mark.parametrize(
    ('family', 'group_size'),
    cases(
        [('llama', 1), ('gemma2', 1), *((family, 3) for family in FAMILIES)],
        at_once=[('llama', 1), ('gemma3', 3)],
    ),
)
def test_decoding_token_by_token_is_forward_on_whole_rows(family, group_size):
  """Ragged prompts, shared by their group. Also: neither padding nor unwritten room reaches a real token."""
  config, params = model(family)
  lengths, num_steps = np.array([3, 1, 5]), 4
  prompts, completions = random_tokens(3, 5), random_tokens(3 * group_size, num_steps, seed=1)
  rows, index = random_tokens(9, 9, seed=2), np.arange(3 * group_size)
  for b in index:
    length = lengths[b // group_size]
    rows[b, :length] = prompts[b // group_size, :length]
    rows[b, length : length + num_steps] = completions[b]
  whole, _ = forward(params, config, jnp.array(rows))
  columns = np.repeat(lengths, group_size)[:, None] + np.arange(num_steps)
  args = params, config, jnp.array(prompts), jnp.array(lengths), jnp.array(completions)
  close(decoded(*args, 0.0), whole[index[:, None], columns])
  np.testing.assert_array_equal(decoded(*args, 1e4), decoded(*args, 0.0))


@SOME_AT_ONCE
def test_padding_changes_nothing(family):
  config, params = model(family)
  tokens = random_tokens(9, 9)
  padded = tokens.copy()
  padded[:, 6:] = (padded[:, 6:] + 1) % VOCAB
  results = [forward(params, config, jnp.array(x)) for x in (tokens, padded)]
  real = [(hidden[:, :6], kv.keys[:, :, :6], kv.values[:, :, :6]) for hidden, kv in results]
  jax.tree.map(np.testing.assert_array_equal, *real)
  assert (results[0][0][:, 6:] != results[1][0][:, 6:]).any(-1).all()


@pytest.mark.parametrize('family', ['llama', 'gemma3', 'qwen3_moe'])
@pytest.mark.slow
def test_scanned_layers_are_a_loop_over_unstacked_ones(family):
  config, params = model(family)
  tokens = jnp.array(random_tokens(2, 7))
  positions = jnp.broadcast_to(jnp.arange(7), (2, 7))
  x = transformer._embed(params, config, tokens, positions)
  reaches, turns = blocks.layer_pattern(config)
  for i in range(LAYERS):
    mask = blocks.visible(positions, positions, reaches[i])
    attend = lambda q, k, v: (blocks.attention(config, q, [(k, v, mask)]), None)
    weights = jax.tree.map(lambda leaf: leaf[i], params['layers'])
    x, _ = blocks.block(weights, config, x, positions, [t[i] for t in turns], attend)
  close(forward(params, config, tokens)[0], blocks.norm(params['final_norm'], config, x))


@pytest.mark.slow
@pytest.mark.parametrize('family', ['gemma2', 'qwen3_moe'])
def test_a_population_is_a_vmap_over_init_and_forward(family):
  config, keys = FAMILIES[family], jax.random.split(jax.random.key(1), 3)
  tokens = jnp.array(random_tokens(3, 2, 7))
  init = jax.jit(jax.vmap(functools.partial(transformer.init, config=config)))
  population, turned = init(keys), init(keys[::-1])
  jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[::-1]), population, turned)
  assert (population['embedding'][0] != population['embedding'][1]).all()
  hidden, _ = jax.vmap(lambda params, tokens: forward(params, config, tokens))(population, tokens)
  for i in range(3):
    close(hidden[i], forward(jax.tree.map(lambda x, i=i: x[i], population), config, tokens[i])[0])


def gradient_of(config, tokens):
  """params -> gradient of the squared hidden states of rows, which a mesh splits."""

  def loss(params):
    return jnp.sum(jnp.square(transformer.forward(params, config, sharding.shard_rows(tokens))[0]))

  return jax.grad(loss)


@pytest.mark.slow
def test_experts_on_devices_of_a_mesh():
  """Rows, weights and hidden units are split; and no gradient is a scatter, which a CPU does one by one."""
  config, params = model('qwen3_moe')
  gradient = gradient_of(config, jnp.array(random_tokens(4, 7)))
  expected = jax.jit(gradient)(params)
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  with jax.set_mesh(mesh):
    result = jax.jit(gradient)(jax.device_put(params, sharding.shardings(params, mesh, transformer.AXES)))
  jax.tree.map(lambda a, b: close(a, b, atol=1e-5 * np.abs(b).max()), result, expected)
  assert 'scatter' not in str(jax.make_jaxpr(gradient)(params))


def test_a_low_rank_update_is_that_of_its_matrix():
  config, params = model('llama')
  rng, layers = np.random.default_rng(1), dict(params['layers'])
  tokens, merged = jnp.array(random_tokens(2, 7)), dict(params['layers'])
  for name, num_in in {'query': 1, 'value': 1, 'attention_out': 2, 'gate': 1, 'down': 1}.items():
    shape, split = layers[name].shape, 1 + num_in
    a, b = rng.normal(size=(*shape[:split], 2)), 0.3 * rng.normal(size=(LAYERS, 2, *shape[split:]))
    layers |= {f'{name}_lora_a': jnp.array(a, jnp.float32), f'{name}_lora_b': jnp.array(b, jnp.float32)}
    product = a.reshape(LAYERS, -1, 2) @ b.reshape(LAYERS, 2, -1)
    merged[name] = merged[name] + jnp.array(product.reshape(shape), jnp.float32)
  expected, _ = forward({**params, 'layers': merged}, config, tokens)
  result, _ = forward({**params, 'layers': layers}, config, tokens)
  close(result, expected, atol=1e-4)
  assert np.abs(result - forward(params, config, tokens)[0]).max() > 0.1


def test_num_parameters_by_hand():
  embedding, unembedding = 11 * 16, 11 * 16
  attention = 16 * (4 * 4) + 2 * 16 * (2 * 4) + (4 * 4) * 16
  mlp, norms = 3 * 16 * 24, 2 * 16
  total = embedding + unembedding + 2 * (attention + mlp + norms) + 16
  assert transformer.num_parameters(shapes(LLAMA)) == total == 4272


@pytest.mark.slow
def test_recomputing_blocks_changes_no_gradient():
  config, params = model('llama')
  tokens = jnp.array(random_tokens(2, 7))

  def gradient(config):
    return gradient_of(config, tokens), jax.jit(gradient_of(config, tokens))(params)

  (plain, expected), (recomputing, result) = (
      gradient(dataclasses.replace(config, remat=remat)) for remat in (False, True)
  )
  close_enough = lambda a, b: close(a, b, atol=1e-5 * np.abs(b).max())
  jax.tree.map(close_enough, result, expected)
  products = lambda f: str(jax.make_jaxpr(f)(params)).count('dot_general')
  once = products(lambda params: forward(params, config, tokens))
  assert products(plain) <= 3 * once < products(recomputing)  # none twice, unless that is asked for


def test_bfloat16_activations():
  config, params = model('gemma3')
  tokens, half = jnp.array(random_tokens(2, 7)), dataclasses.replace(config, dtype='bfloat16')
  (expected, _), (hidden, kv) = forward(params, config, tokens), forward(params, half, tokens)
  assert hidden.dtype == kv.keys.dtype == kv.values.dtype == jnp.bfloat16
  assert transformer.logits(params, half, hidden).dtype == jnp.float32
  assert transformer.empty_cache(half, 2, 3).keys.dtype == jnp.bfloat16
  error = jnp.abs(hidden.astype(jnp.float32) - expected)
  assert error.mean() < 0.02 * jnp.abs(expected).mean()  # a few roundings of 2^-8 each


def test_parameters_have_their_own_dtype():
  half = shapes(dataclasses.replace(FAMILIES['gpt2'], param_dtype='bfloat16'))
  assert {leaf.dtype for leaf in jax.tree.leaves(half)} == {jnp.dtype(jnp.bfloat16)}


@pytest.mark.parametrize('family', ['llama', 'qwen2', 'gemma2'])
def test_logits_by_hand(family):
  """Tied to the embedding or with a matrix of its own, and capped."""
  config, params = model(family)
  hidden = np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)
  expected = hidden @ np.asarray(params['embedding' if config.tied else 'unembedding']).T
  if config.logit_softcap:
    expected = config.logit_softcap * np.tanh(expected / config.logit_softcap)
  close(transformer.logits(params, config, jnp.array(hidden)), expected)
  assert ('unembedding' in params) == (not config.tied)


def test_rows_longer_than_the_context_raise():
  with pytest.raises(ValueError, match='13 tokens.*context of 12'):
    transformer.forward(model('llama')[1], LLAMA, jnp.zeros((1, CONTEXT + 1), jnp.int32))


LLAMA3 = {'rope_scaling': 'llama3', 'rope_original_context': 8, 'rope_fast_turns': 4.0}
BAD = [  # the first value is what the message names
    {'norm': 'batchnorm'},
    {'positions': 'alibi'},
    {'activation': 'relu'},
    {'num_heads': 3},
    {'head_size': 5},
    {'window': 3},
    {'sliding_layers': (0,)},
    {'sliding_layers': (1, 0), 'window': 3},
    {'sliding_layers': (2,), 'window': 3},
    {'rope_scaling': 'ntk'},
    {'rope_factor': 2.0},
    {'rope_factor': 0.5, 'rope_scaling': 'linear'},
    {'rope_original_context': 8, 'rope_scaling': 'linear'},
    {'rope_truncate': False, **LLAMA3, 'rope_slow_turns': 1.0},
    {'rope_slow_turns': 4.0, **LLAMA3},
    {'rope_scaling': 'dynamic'},
    {'context_length': 9, 'rope_scaling': 'dynamic', 'rope_original_context': 8},
    {'num_experts': 2},
    {'num_experts': 2, 'experts_per_token': 3},
    {'experts_per_token': 1},
    {'normalise_experts': True},
    {'mlp_bias': True, 'num_experts': 2, 'experts_per_token': 1},
]


@pytest.mark.parametrize('changes', BAD, ids='-'.join)
def test_a_bad_option_raises_and_names_its_value(changes):
  with pytest.raises(ValueError, match=re.escape('{}={!r}'.format(*next(iter(changes.items()))))):
    dataclasses.replace(LLAMA, **changes)


@ALL
@pytest.mark.slow
def test_packed_sequences_know_nothing_of_their_place_or_neighbours(family):
  """A row holds a beginning, two ends of it and another sequence: hidden states as of the three alone."""
  config, params = model(family)
  beginning, first, second, other = (random_tokens(n, seed=n) for n in (4, 5, 3, 6))
  packed = np.concatenate([beginning, first, second, other])
  runs = [(0, 4, 0, 0), (4, 5, 0, 4), (4, 3, 0, 9), (0, 6, 12, 12)]  # position, length, start, own start
  fill = lambda values: jnp.array(np.concatenate(
      [np.full(length, value) for (_, length, *_), value in zip(runs, values, strict=True)]
  ))[None]
  places = transformer.Places(
      positions=jnp.concatenate([jnp.arange(start, start + length) for start, length, *_ in runs])[None],
      starts=fill([0, 0, 0, 12]), shared_ends=fill([4, 4, 4, 12]), own_starts=fill([0, 4, 9, 12]),
  )
  hidden = forward(params, config, packed[None], places)[0][0]
  alone = lambda *parts: forward(params, config, np.concatenate(parts)[None])[0][0]
  close(hidden[:9], alone(beginning, first))
  close(hidden[9:12], alone(beginning, second)[4:])
  close(hidden[12:], alone(other))
