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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/preferences.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # Preferences, and where they are overdone
#
# People compare answers; a model learns from the comparisons. Whether it got better nobody knows, for nobody knows the
# true reward. Here is a world in which it *is* known, and never shown to any method: prompts and answers are numbers,
# answers have features, and one feature is good to have only up to a point, as length is.

# %%
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.dpo import dpo
from rlx.algorithms.grpo import grpo
from rlx.envs import gold
from rlx.losses import anchors, preference
from rlx.step import make_train_step, repeat
from rlx.types import State

world = gold.gold_world(
    jax.random.key(0), num_prompts=64, num_answers=32, width=24, hump=1.5, hidden=0.5, spread=1.0
)
pairs = gold.labelled(world, jax.random.key(1), num=192, sharpness=1.0)
policy, judge = gold.LogLinear(), gold.Linear()
print({name: x.shape for name, x in pairs.items()})
rewards = world.gold[pairs['tokens'][:, 0], pairs['tokens'][:, 1]]
print(f'{np.mean(rewards[0::2] > rewards[1::2]):.0%} of the labels are right')

# %% [markdown]
# ## What every method shares
#
# A rollout yields rows, an algorithm says what they cost, and the train step is a pure function of a state. A comparison
# is two rows behind one another, the better one first; the step never parts them.


# %%
def recorded(models, memory, key):
  some = jax.random.randint(key, (64,), 0, 192)
  rows = (2 * some[:, None] + jnp.arange(2)).reshape(-1)
  return {**{name: x[rows] for name, x in pairs.items()}, 'groups': jnp.arange(128) // 2}, memory


def train(algorithm, trained, params, slow, steps):
  optimizer = optax.adam(1e-2)
  step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  state = State(
      step=jnp.int32(0), params={trained: params}, slow=slow, opt_state=optimizer.init({trained: params}),
      world={}, key=jax.random.key(2),
  )
  dispatch, seen = jax.jit(repeat(step, 20)), [params]
  for _ in range(steps // 20):
    state, metrics = dispatch(state)
    seen.append(state.params[trained])
  return seen, metrics


# %% [markdown]
# ## A reward model
#
# Bradley and Terry: the chance that an answer is preferred is a logistic function of the difference of rewards.

# %%
models, metrics = train(bradley_terry(recorded, judge, centring=0.01), 'judge', judge.init(world), {}, 600)
fitted = models[-1]
fresh = gold.labelled(world, jax.random.key(3), num=2000, sharpness=jnp.inf)
scores = judge.apply(fitted, fresh)
print(f'right on {np.mean(scores[0::2] > scores[1::2]):.0%} of fresh comparisons')

# %% [markdown]
# ## DPO, and GRPO against the reward model
#
# DPO learns from the comparisons themselves. GRPO samples, and asks the reward model. Both are held to the reference,
# DPO by its β and GRPO by a KL in the loss.


# %%
def sampled(models, memory, key):
  prompt_key, answer_key = jax.random.split(key)
  prompts, lengths = jax.random.randint(prompt_key, (32, 1), 0, 64), jnp.ones(32, int)
  return policy.sample(models['policy'], prompts, lengths, answer_key, group_size=4), memory


def asked(models, batch, key):
  return {**batch, 'rewards': judge.apply(models['judge'], batch)}


slow = {'reference': policy.init(world), 'judge': fitted}
curves = {}
for beta in (0.03, 0.1, 0.3):
  direct = dpo(recorded, policy, policy, loss=functools.partial(preference.sigmoid, beta=beta))
  curves[f'DPO, β = {beta}'], metrics = train(direct, 'policy', policy.init(world), slow, 600)
  clip = dict(clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  online = grpo(sampled, asked, policy, anchors.kl_in_loss(policy, coef=beta), **clip)
  curves[f'GRPO, β = {beta}'], _ = train(online, 'policy', policy.init(world), slow, 600)

# %% [markdown]
# ## What was gained, and what it cost
#
# Dotted: the best policy for the reward model at each price, in closed form. Its true reward rises, and then falls: what
# the reward model never saw, it is wrong about. That is Goodhart's law, and the reason for β.


# %%
def measured(params):
  logprobs = policy.logprobs(params)
  return gold.divergence(world, logprobs), gold.gain(world, logprobs)


measured = jax.jit(measured)
figure, axes = plt.subplots(figsize=(7, 4.5))
for name, seen in curves.items():
  kl, gain = np.array([measured(params) for params in seen]).T
  axes.plot(np.sqrt(np.maximum(kl, 0)), gain, label=name, linestyle='-' if name.startswith('DPO') else '--')
  print(f'{name:<16} most {gain.max():.2f} at {kl[gain.argmax()]:.2f} nats, in the end {gain[-1]:.2f} at {kl[-1]:.2f}')
best = [gold.best(world, judge.rewards(fitted), beta=beta) for beta in np.geomspace(30, 0.02, 40)]
kl, gain = np.array([(gold.divergence(world, x), gold.gain(world, x)) for x in best]).T
axes.plot(np.sqrt(np.maximum(kl, 0)), gain, color='black', linestyle=':', label='best for the reward model')
axes.set(xlabel='root of the KL to the reference', ylabel='gain in true reward')
axes.legend()
assert gain.max() > gain[-1] + 0.1, 'the reward model is overdone'

# %% [markdown]
# On language models the same algorithms read the same rows: `rlx --config=preferences/dpo:model=DIR,train=pairs.jsonl`. Which
# loss when, and where it differs from TRL, is in
# [the guide](https://github.com/rlx-project/rlx/blob/main/docs/guides/preferences.md); all methods over five seeds in
# [the study](https://github.com/rlx-project/rlx/blob/main/docs/studies/preferences.md).
