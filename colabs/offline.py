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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/offline.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # Learning from what others did
#
# A mass on a plane is to be pushed to a goal. Nobody may try anything: there are only records, two thirds of them of
# random pushes and one third of a clumsy controller. Cloning the records learns their average; IQL learns which of them
# were worth repeating. Five seeds of each are trained side by side in one program.

# %%
import matplotlib.pyplot as plt
import numpy as np

from rlx.data import transitions as datasets
from rlx.evaluation import aggregates
from rlx.experiments.configs.offline import bc_pointmass, iql_pointmass
from rlx.run import examining, states
from rlx.run.build import build

SEEDS = 5

# %% [markdown]
# **The records.** A data set is a batch of transitions, the steps of an episode one behind the other.

# %%
run = build(bc_pointmass.get_config())
data = run.stages[0].rollout.data
print({name: column.shape for name, column in data.items()})
whole = [x for x in datasets.trajectories(data) if len(x['rewards']) == run.config.env.max_steps]
recorded = np.array([episode['rewards'].sum() for episode in whole])
print(f'{len(recorded)} whole episodes, returns {recorded.min():.0f} to {recorded.max():.0f}')

# %% [markdown]
# **Training.** A config becomes a run: its stage has the state, and a program that takes many steps at once. Nothing here
# knows which algorithm it is.


# %%
def learn(config):
  """Train steps, and the returns of every seed's policy after them: [points], [points, seeds]."""
  config.population.size = SEEDS
  run = build(config)
  stage = run.stages[0]
  ask = examining.make_ask(run, stage, run.evals[0])
  state = states.begin(run, 0, {}, 0)
  dispatch = stage.program.dispatch
  steps, returns = [], []
  for at_step in range(0, stage.num_steps + 1, run.log.steps_per_dispatch):
    if at_step:
      state, _ = dispatch(state, stage.rollout.data)
    steps.append(at_step)
    returns.append(np.asarray(ask(state.models, state.world, {})['return']))
  return steps, np.array(returns)


curves = {'bc': learn(bc_pointmass.get_config()), 'iql': learn(iql_pointmass.get_config())}

# %% [markdown]
# **What came out.** The middle half of the seeds counts (the interquartile mean), and the interval says how far other
# seeds might move it.

# %%
for name, (_, returns) in curves.items():
  last = returns[-1][:, None]
  low, high = aggregates.bootstrap_interval(last, aggregates.interquartile_mean)
  middle = aggregates.interquartile_mean(last)
  print(f'{name:<4} {middle:6.1f}  ({low:.1f} to {high:.1f}), worst seed {last.min():.1f}')

figure, axes = plt.subplots(figsize=(8, 4))
for name, (steps, returns) in curves.items():
  axes.plot(steps, np.median(returns, axis=1), label=name.upper())
  axes.fill_between(steps, returns.min(axis=1), returns.max(axis=1), alpha=0.2)
axes.axhline(recorded.mean(), color='grey', linestyle=':', label='mean of the records')
axes.set_xlabel('train steps')
axes.set_ylabel('return of an episode')
axes.legend()
plt.show()
