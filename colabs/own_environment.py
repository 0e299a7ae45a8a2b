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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/own_environment.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # An environment of your own
#
# A corridor with a slippery floor: go right, and arrive. It takes two pure functions; the rest (many episodes at a time,
# the clock, beginning again) is made of them. For a package see
# [the guide](https://github.com/rlx-project/rlx/blob/main/docs/guides/own_environment.md).

# %%
import dataclasses

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from rlx.envs.control.conformance import check_environment
from rlx.envs.control.environment import Discrete, Environment, timestep, with_time_limit
from rlx.evaluation import episodes
from rlx.experiments.configs.control import ppo_cartpole
from rlx.run import examining, states
from rlx.run.build import build

# %% [markdown]
# **The two functions.** `reset` makes a state of a key, `step` a state of a state. Chance comes from the key alone: now and
# then a step goes the other way. 1 at the end of the corridor, and a little less for every step.


# %%
def corridor(*, length: int, slip: float, max_steps: int) -> Environment:
  """Left (0) or right (1), on a floor where a share `slip` of all steps goes the other way."""

  def observe(place):
    return jnp.array([place / length], jnp.float32)

  def reset(key):
    place = jax.random.randint(key, (), 0, length)
    return place, observe(place)

  def step(place, action, key):
    slips = jax.random.bernoulli(key, slip)
    right = jnp.where(slips, 1 - action, action)
    place = jnp.clip(place + 2 * right - 1, 0, length)
    arrived = place == length
    return timestep(place, observe(place), arrived - 0.01, terminated=arrived, success=arrived)

  env = Environment(
      reset=reset, step=step, observation_shape=(1,), actions=Discrete(2), random_return=0.0, expert_return=1.0
  )
  return with_time_limit(env, max_steps)


env = corridor(length=12, slip=0.1, max_steps=50)

# %% [markdown]
# **Check it.** `check_environment` plays by chance and is silent, or says in a sentence what is wrong. Here is a mistake that is
# easy to make: a world that throws the same dice in every step.

# %%
check_environment(env, num_steps=50)

loaded_dice = dataclasses.replace(env, step=lambda state, action, key: env.step(state, action, jax.random.key(0)))
try:
  check_environment(loaded_dice, num_steps=50)
except ValueError as error:
  print(error)

# %% [markdown]
# **What can be earned** is worth knowing before anything learns: by chance, and by always going right.


# %%
@jax.jit
def earned(go_right):
  """The mean return of 200 episodes with a share of actions that go right."""
  act = lambda share, observations, key: jax.random.bernoulli(key, share, observations.shape[:1]).astype(jnp.int32)
  return episodes.play(env, act, go_right, jax.random.key(0), num=200, max_steps=50)['return'].mean()


chance, always_right = float(earned(0.5)), float(earned(1.0))
print(f'by chance {chance:.2f}, always right {always_right:.2f}')

# %% [markdown]
# **Train in it.** A config names a function, `yours.envs.corridor` if it is in a package; here it is in the notebook, which
# Python calls `__main__`. A misspelt or missing argument is an error before anything runs.

# %%
config = ppo_cartpole.get_config()
config.env = {'name': '__main__.corridor', 'length': 12, 'slip': 0.1, 'max_steps': 50}
config.population.size = 3
config.models.policy.hidden = config.models.value.hidden = (32,)  # one number is seen: a small network will do
config.rollout = {'name': 'unroll', 'num_envs': 8, 'num_steps': 32}
config.steps = 20
config.optimizer.decay_steps = 320  # updates: 4 epochs of 4 minibatches a step
config.evals.episodes = {'name': 'sampled_episodes', 'every': 2, 'episodes': 64, 'max_steps': 50}
config.log.steps_per_dispatch = 2
config.checkpoint.every = 2
run = build(config)

# %% [markdown]
# **Watch the returns**, of every seed, between what chance earns and what can be earned. `rlx --config=..` or `train.train`
# would do this, with a directory that holds it all; here are the state, the program that takes two steps at once, and the
# question, asked in between. What `step` puts into its `info`, here `success`, is in the answer.

# %%
stage = run.stages[0]
ask = examining.make_ask(run, stage, run.evals[0])
state = states.begin(run, 0, {}, 0)
answers = [ask(state.models, state.world, {})]
for _ in range(0, stage.num_steps, run.log.steps_per_dispatch):
  state, _ = stage.program.dispatch(state, None)
  answers.append(ask(state.models, state.world, {}))

# %%
steps = np.arange(len(answers)) * 2 * 8 * 32
returns, success = (np.array([answer[name] for answer in answers]) for name in ('return', 'success'))  # [points, seeds]
print('return of each seed: ', returns[0].round(2), '->', returns[-1].round(2))
print('success of each seed:', success[0].round(2), '->', success[-1].round(2))
assert returns[-1].min() > chance

plt.figure(figsize=(7, 3.5))
plt.plot(steps, returns, color='C0', alpha=0.6)
plt.axhline(always_right, color='grey', linestyle='--', label='always right')
plt.axhline(chance, color='grey', linestyle=':', label='by chance')
plt.xlabel('steps of the environment, of each seed')
plt.ylabel('return')
plt.legend()
plt.show()
