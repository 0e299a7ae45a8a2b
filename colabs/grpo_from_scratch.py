# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/grpo_from_scratch.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # GRPO from scratch
#
# Every line of GRPO on one page, without rlx's engine: sampling, reward, group advantages, clipped loss, Adam. The model
# and the task are rlx's. The last cell takes the same steps with rlx and asserts that the parameters are equal.
#
# Source: DeepSeekMath, https://arxiv.org/abs/2402.03300, eq. 3.

# %%
import jax
import jax.numpy as jnp
import optax

from rlx.envs.sorting import sorting
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig

task = sorting(length=3, held_out_share=0.1)
model = LanguageModel(TransformerConfig(
    vocab_size=task.vocab_size, num_layers=2, width=32, num_heads=4, num_kv_heads=4, head_size=8, mlp_size=64,
    context_length=16,
))
NUM_PROMPTS, GROUP, MAX_TOKENS, CLIP = 16, 8, task.answer_columns, 0.2
optimizer = optax.adam(3e-3)

# %% [markdown]
# **Sampling.** The slowest way that is right: a whole forward pass for each token. A token's noise comes from its sequence
# and its position alone.


# %%
def sample(params, prompts, key):
  tokens = jnp.pad(jnp.repeat(prompts, GROUP, axis=0), ((0, 0), (0, MAX_TOKENS)))
  keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(len(tokens)))
  done = jnp.zeros(len(tokens), bool)
  mask = jnp.zeros(tokens.shape, bool)
  for i in range(MAX_TOKENS):
    column = prompts.shape[1] + i
    hidden, _ = model.forward(params, tokens)
    logits = model.logits(params, hidden[:, column - 1])
    drawn = jax.vmap(lambda k, row: jax.random.categorical(jax.random.fold_in(k, i), row))(keys, logits)
    tokens = tokens.at[:, column].set(jnp.where(done, 0, drawn))
    mask = mask.at[:, column].set(~done)
    done |= drawn == 1  # the end-of-sequence token
  return tokens, mask


# %% [markdown]
# **Log-probabilities** of the actions: column t is predicted by what precedes it.


# %%
def action_logprobs(params, tokens, mask):
  hidden, _ = model.forward(params, tokens)
  logprobs = jax.nn.log_softmax(model.logits(params, hidden[:, :-1]))
  picked = jnp.take_along_axis(logprobs, tokens[:, 1:, None], axis=-1)[..., 0]
  return jnp.where(mask, jnp.pad(picked, ((0, 0), (1, 0))), 0)


# %% [markdown]
# **Advantages.** The samples of a prompt are each other's baseline. A group without variance teaches nothing.


# %%
def group_advantages(rewards):
  rewards = rewards.reshape(-1, GROUP)
  centred = rewards - rewards.mean(axis=1, keepdims=True)
  return (centred / (rewards.std(axis=1, ddof=1, keepdims=True) + 1e-6)).reshape(-1)


# %% [markdown]
# **The clipped loss**: the mean over sequences of the mean over their tokens.


# %%
def grpo_loss(params, tokens, mask, old_logprobs, advantages):
  ratio = jnp.exp(action_logprobs(params, tokens, mask) - old_logprobs)
  clipped = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
  surrogate = jnp.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
  return -jnp.mean(jnp.sum(surrogate * mask, axis=1) / mask.sum(axis=1))


# %% [markdown]
# **One step.** The keys are those that rlx would use, so that both see the same problems and draw the same tokens.


# %%
@jax.jit
def grpo_step(params, opt_state, key):
  rollout_key = jax.random.split(key, 4)[0]
  problem_key, sample_key = jax.random.split(rollout_key)
  problems = task.sample(problem_key, NUM_PROMPTS, False)
  tokens, mask = sample(params, problems['prompts'], sample_key)
  repeated = jax.tree.map(lambda a: jnp.repeat(a, GROUP, axis=0), problems)
  completions = jnp.where(mask, tokens, 0)[:, problems['prompts'].shape[1] :]
  rewards = task.verify(repeated, completions)
  old_logprobs = action_logprobs(params, tokens, mask)
  grads = jax.grad(grpo_loss)(params, tokens, mask, old_logprobs, group_advantages(rewards))
  updates, opt_state = optimizer.update(grads, opt_state, params)
  return optax.apply_updates(params, updates), opt_state, rewards.mean()


# %% [markdown]
# **Train it**, from a policy that has seen a few solutions, so that some of its answers are right.


# %%
def imitation_loss(params, problems):
  tokens = jnp.concatenate([problems['prompts'], problems['solutions']], axis=1)
  mask = jnp.broadcast_to(jnp.arange(tokens.shape[1])[None] >= problems['prompts'].shape[1], tokens.shape)
  return -jnp.mean(jnp.sum(action_logprobs(params, tokens, mask), axis=1))


@jax.jit
def imitate(params, opt_state, key):
  grads = jax.grad(imitation_loss)(params, task.sample(key, 128, False))
  updates, opt_state = optimizer.update(grads, opt_state, params)
  return optax.apply_updates(params, updates), opt_state


init_key, run_key = jax.random.split(jax.random.key(0))
params = model.init(init_key)
opt_state = optimizer.init(params)
for i in range(25):
  params, opt_state = imitate(params, opt_state, jax.random.fold_in(init_key, i))
beginning, opt_state = params, optimizer.init(params)
history, early = [], None
for i in range(300):
  params, opt_state, reward = grpo_step(params, opt_state, jax.random.fold_in(run_key, i))
  history.append(float(reward))
  early = params if i == 9 else early
print(f'reward {history[0]:.2f} -> {sum(history[-20:]) / 20:.2f}')
assert sum(history[-20:]) / 20 > history[0] + 0.2

# %% [markdown]
# **The same with rlx**, and the assertion: after ten steps the parameters are equal up to rounding.

# %%
from rlx.algorithms.grpo import grpo
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.losses.anchors import no_kl
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts
from rlx.step import make_train_step, repeat
from rlx.types import State

decoding = Decoding(
    max_tokens=MAX_TOKENS, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
    pad_id=0,
)
policy = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=256, packing=None))
algorithm = grpo(
    prompts.completions(task, policy, batch_size=NUM_PROMPTS * GROUP, group_size=GROUP, num_slots=0),
    verifier(task, policy), policy, no_kl(), clip_low=CLIP, clip_high=CLIP, entropy_coef=0.0,
)
start = {'policy': beginning}
state = State(
    step=jnp.int32(0), params=start, slow={}, opt_state=optimizer.init(start), world={}, key=run_key
)
train_step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
state, metrics = jax.jit(repeat(train_step, 10))(state)

assert jnp.allclose(metrics['reward/mean'], jnp.array(history[:10])), 'the same rewards'
difference = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), state.params['policy'], early)
largest = float(jnp.max(jnp.array(jax.tree.leaves(difference))))
assert largest < 1e-3, f'the parameters differ by {largest}'
print(f'equal: the parameters differ by at most {largest:.1e} after ten steps')

# %%
import matplotlib.pyplot as plt

plt.plot(history)
plt.xlabel('step')
plt.ylabel('reward')
plt.title('GRPO from scratch: sorting three digits')
plt.show()
