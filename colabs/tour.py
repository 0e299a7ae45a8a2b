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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/tour.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # A tour of rlx
#
# An algorithm is five pure functions, a run is one pytree, an iteration is one program. This notebook builds a run by
# hand, looks at what flows through it, changes one term of a paper, and trains a population.

# %%
import dataclasses

import jax
import jax.numpy as jnp
import optax

from rlx import reductions
from rlx.algorithms.grpo import grpo
from rlx.algorithms.sft import sft
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.sorting import sorting
from rlx.losses.anchors import no_kl
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts
from rlx.step import collect, make_train_step, repeat
from rlx.types import State

# %% [markdown]
# **A task** makes problems and checks answers inside the compiled step, and shows them as text.

# %%
task = sorting(length=3, held_out_share=0.1)
problems = task.sample(jax.random.key(0), 3, False)
for prompt, solution in zip(problems['prompts'], problems['solutions'], strict=True):
  print(task.decode(prompt), '->', task.decode(solution))

# %% [markdown]
# **A model** is a record of functions over a parameter tree; the tree is a nested dict.

# %%
model = LanguageModel(TransformerConfig(
    vocab_size=task.vocab_size, num_layers=2, width=32, num_heads=4, num_kv_heads=4, head_size=8, mlp_size=64,
    context_length=16,
))
params = model.init(jax.random.key(0))
jax.tree.map(lambda x: x.shape, params['layers'])

# %% [markdown]
# **An algorithm** is a record of five functions: rollout, reward, advantage, loss, track. It asks for the model as a
# speaker, which samples and scores; nothing holds it to a reference here.

# %%
decoding = Decoding(
    max_tokens=task.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=(1,), pad_id=0,
)
policy = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=256, packing=None))
rollout = prompts.completions(task, policy, batch_size=128, group_size=8, num_slots=0)
reward = verifier(task, policy)
algorithm = grpo(rollout, reward, policy, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)

# %% [markdown]
# **The state** is everything that may change. `collect` shows the batch that the next step will learn from.

# %%
optimizer = optax.adam(3e-3)


def init(key):
  init_key, run_key = jax.random.split(key)
  params = {'policy': model.init(init_key)}
  return State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optimizer.init(params), world={}, key=run_key
  )


state = init(jax.random.key(0))
batch = jax.jit(lambda state: collect(algorithm, state))(state)
print({name: array.shape for name, array in batch.items()})
print('sampled:', [task.decode(row[mask]) for row, mask in zip(batch['tokens'][:6], batch['action_mask'][:6], strict=True)])

# %% [markdown]
# **One term of a paper** is one function. Here is GRPO whose advantages are clipped at 1, made from its parent.


# %%
def clipped_advantage(models, batch, key):
  batch = algorithm.advantage(models, batch, key)
  return {**batch, 'advantages': jnp.clip(batch['advantages'], -1, 1)}


mine = dataclasses.replace(algorithm, advantage=clipped_advantage)

# %% [markdown]
# **A loss is a mean over rows**: each half of the batch gives half of it, whatever the lengths in it.

# %%
batch = jax.jit(lambda state: collect(mine, state))(state)
loss = jax.jit(lambda batch: mine.loss(state.models, batch, jax.random.key(0))[0])
halves = [jax.tree.map(lambda a, i=i: a[i * 64 : (i + 1) * 64], batch) for i in range(2)]
whole, parts = loss(batch), jnp.array([loss(half) for half in halves])
assert jnp.allclose(whole, parts.mean(), atol=1e-6)
assert jnp.allclose(batch['weights'], reductions.sequence_mean(batch['action_mask']))

# %% [markdown]
# **A population** is a `vmap` over states, N steps a dispatch is a `scan`, and both are one program. **A stage** hands its
# models on: a little supervised learning first, so that some answers are right and the rewards say something.


# %%
def train(algorithm, population, num_steps):
  train_step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  return jax.jit(jax.vmap(repeat(train_step, num_steps)))(population)


supervised = sft(prompts.solutions(task, policy, batch_size=128), policy)
population = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), 3))
population, _ = train(supervised, population, 25)
population, metrics = train(mine, population, 200)
rewards = metrics['reward/mean']  # [seeds, steps]
print('reward of the last 20 steps, by seed:', [f'{reward:.2f}' for reward in rewards[:, -20:].mean(axis=1)])
assert (rewards[:, -20:].mean(axis=1) > rewards[:, :20].mean(axis=1) + 0.2).all()

# %%
import matplotlib.pyplot as plt

plt.figure(figsize=(7, 3.5))
plt.plot(rewards.T, alpha=0.7)
plt.xlabel('step')
plt.ylabel('reward')
plt.title('Three seeds, one program')
plt.show()
