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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/control.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # Learning to act
#
# PPO balances a pole on a cart. The environment is JAX like everything else, so that acting, learning and a population of
# seeds are one compiled program.

# %%
import json
from pathlib import Path
import tempfile

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from rlx.envs.control.cartpole import cartpole
from rlx.evaluation import aggregates, episodes
from rlx.experiments.configs.control import ppo_cartpole
from rlx.run import train
from rlx.run.build import build

# %% [markdown]
# **An environment** is two pure functions for one episode: how it begins, and what an action leads to. `terminated` says that
# the pole fell, `truncated` that the clock stopped an episode that would have gone on.

# %%
env = cartpole(max_steps=500)
state, observation = env.reset(jax.random.key(0))
new = env.step(state, jnp.int32(1), jax.random.key(1))
print('observation:', np.asarray(new.observation).round(2))
print(f'reward {new.reward}, terminated {new.terminated}, truncated {new.truncated}')

# %% [markdown]
# **Many episodes** are a `vmap` of one, and whole episodes a `scan` of steps; `play` is both. This is what actions by chance
# earn, one point for each step that the pole stands.


# %%
def by_chance(params, observations, key):
  return jax.vmap(env.actions.sample)(jax.random.split(key, len(observations)))


@jax.jit
def returns_by_chance(key):
  return episodes.play(env, by_chance, None, key, num=100, max_steps=500)['return']


chance = float(returns_by_chance(jax.random.key(0)).mean())
print(f'by chance: {chance:.1f} of 500')

# %% [markdown]
# **A run** is a config. Four seeds are trained side by side, each in eight environments.

# %%
config = ppo_cartpole.get_config()
config.population.size = 4
config.steps = 100  # of 8 x 128 steps of the environment
config.optimizer.decay_steps = 1600  # updates: 4 epochs of 4 minibatches a step
config.log.steps_per_dispatch = config.evals.episodes.every = 10
workdir = Path(tempfile.mkdtemp()) / 'run'
outcome = train.train(config, workdir, quiet=True, command='')
print(f'finished: {outcome.finished}, {outcome.step} steps; {outcome.metric} {outcome.before:.0f} -> {outcome.after:.0f}')

# %% [markdown]
# **What it left** is a directory: metrics, checkpoints, a report, and here `members.jsonl`, the evaluations of every seed.

# %%
print(sorted(path.name for path in workdir.iterdir()))
rows = [json.loads(line) for line in (workdir / 'members.jsonl').read_text().splitlines()]
steps = np.array([row['step'] for row in rows]) * 8 * 128
curves = np.array([row['eval/episodes/return'] for row in rows])  # [points, seeds]

# %% [markdown]
# **Evaluation** of what was learnt, in starts that no seed was asked about before: models come out of the checkpoint with an
# axis for the seeds. Actions are drawn as in training, not the likeliest ones.

# %%
run = build(config)
models, position = train.restore_models(run, workdir)
policy = run.stages[-1].models['policy'].model.functions


@jax.jit
@jax.vmap
def returns(params):
  act = lambda params, observations, key: policy.sample(params, observations, key)[0]
  return episodes.play(env, act, params, jax.random.key(1), num=100, max_steps=500)['return']


by_seed = np.asarray(returns(models['policy']).mean(axis=1))
low, high = aggregates.bootstrap_interval(by_seed[:, None], aggregates.interquartile_mean)
print('by seed:', by_seed.round(1))
print(f'interquartile mean {aggregates.interquartile_mean(by_seed[:, None]):.1f} ({low:.1f} to {high:.1f})')
assert by_seed.min() > 5 * chance

# %%
plt.figure(figsize=(7, 3.5))
plt.plot(steps, curves, color='C0', alpha=0.4)
plt.plot(steps, np.median(curves, axis=1), color='C0', label='PPO: median of four seeds')
plt.axhline(chance, color='grey', linestyle=':', label='by chance')
plt.xlabel('steps of the environment, of each seed')
plt.ylabel('return')
plt.legend()
plt.show()
