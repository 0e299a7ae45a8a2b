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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/own_reward.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # A reward of your own
#
# A reward is a function on the device, in the same program as the update, or a function in Python beside it. This
# notebook writes one of each, trains with the first, and then looks at what was rewarded, which is not always what was meant.
# For a package see [the guide](https://github.com/rlx-project/rlx/blob/main/docs/guides/own_reward.md).

# %%
import json
from pathlib import Path
import sys
import tempfile

import jax.numpy as jnp
import matplotlib.pyplot as plt

from rlx.experiments.configs.quickstart import arithmetic
from rlx.rewards.pool import RewardFunction, RewardPool
from rlx.run import train
from rlx.run.writers import read_metrics

folder = Path(tempfile.mkdtemp())
sys.path.insert(0, str(folder))  # for the module below

# %% [markdown]
# **On the device.** The second slot of an algorithm takes a batch and gives it back with `rewards` [B]. These are made of
# another, `reward`, which pays 1 for a right answer. The first takes something off for every token: who is brief should earn
# more. The second does so where the answer is right.


# %%
def brevity(reward, *, weight: float):
  """What another reward says, less `weight` for every token of the answer."""

  def annotate(models, batch, key):
    batch = reward(models, batch, key)
    return {**batch, 'rewards': batch['rewards'] - weight * jnp.sum(batch['action_mask'], axis=-1)}

  return annotate


def brevity_of_right(reward, *, weight: float):
  """The same, but what earns nothing costs nothing."""

  def annotate(models, batch, key):
    batch = reward(models, batch, key)
    price = weight * jnp.sum(batch['action_mask'], axis=-1)
    return {**batch, 'rewards': batch['rewards'] - jnp.where(batch['rewards'] > 0, price, 0)}

  return annotate


# %% [markdown]
# **Train with it.** Three digits are to be put in order: `700=` is answered by `007` and an end token. A little supervised
# learning comes first, then GRPO, with a hundredth off for a token; one seed each. (`__main__` is what Python calls a
# notebook; in a package the name is `yours.rewards.brevity`.)


# %%
def run(name):
  """The metrics of a run with the reward `name`, a row a step, and the samples that were kept."""
  config = arithmetic.get_config()
  config.task = config.sft.task = {'name': 'sorting', 'length': 3, 'held_out_share': 0.1}
  config.models.policy.update(width=32, mlp_size=64, context_length=16)
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 4
  config.reward = {'name': f'__main__.{name}', 'weight': 0.01, 'reward': {'name': 'verifier'}}
  config.rollout.batch_size, config.updates.microbatches = 128, 1
  config.steps, config.optimizer.decay_steps = 120, 0
  config.optimizer.learning_rate = 3e-3
  config.evals.held_out.update(every=10, problems=200)
  config.log.steps_per_dispatch = 10
  train.train(config, folder / name, quiet=True, command='')
  rows = read_metrics(folder / name / 'metrics.jsonl')
  texts = [json.loads(line) for path in sorted((folder / name / 'samples').iterdir()) for line in path.open()]
  return rows, [row for row in texts if row['split'] == 'train' and 'advantage' in row]


runs = {name: run(name) for name in ('brevity', 'brevity_of_right')}

# %%
for name, (rows, _) in runs.items():
  asked = [row for row in rows if 'eval/held_out/accuracy' in row]
  plt.plot([row['step'] for row in asked], [row['eval/held_out/accuracy'] for row in asked], marker='.', label=name)
plt.axvline(sum(row['stage'] == 'sft' for row in rows) - 1, color='grey', linestyle=':', label='GRPO begins')
plt.gcf().set_size_inches(7, 3.5)
plt.xlabel('step')
plt.ylabel('right answers to new problems')
plt.legend()
plt.show()

# %% [markdown]
# **What was rewarded.** One of them does not learn, and the samples of the run say why. This is a group of answers to one
# problem, with their advantages: where nothing is right, the price is all that differs, and GRPO divides by the deviation in
# the group, so that a hundredth is as much as a whole. To say nothing at all is the best that can be done.

# %%
for name, (_, samples) in runs.items():
  print(name)
  for row in samples[:8]:
    print(f'  {row["prompt"]} {row["completion"]!r:<7} earns {row["reward"]:5.2f}, advantage {row["advantage"]:5.2f}')

# %%
accuracy = {name: round(rows[-1]['eval/held_out/accuracy'], 2) for name, (rows, _) in runs.items()}
print(f'right in the end: {accuracy}')
assert accuracy['brevity_of_right'] > accuracy['brevity'] + 0.2

# %% [markdown]
# **In Python.** A function gets lists, a row each: completions, and the columns of the data that it names. It gives a number,
# or `None` where it does not apply. It lives in a module, for it runs in processes that are killed when they hang.

# %%
# %%writefile {folder}/my_rewards.py
def short(completions, *, characters: int):
  """1 for an answer of at most so many characters."""
  return [float(len(text) <= characters) for text in completions]


def near(completions, answer):
  """1 for the right number, less for one that is farther away."""
  return [1 / (1 + abs(int(text) - int(right))) for text, right in zip(completions, answer, strict=True)]


# %%
import my_rewards

functions = [
    RewardFunction(name='near', function=my_rewards.near, weight=1.0, arguments={}),
    RewardFunction(name='short', function=my_rewards.short, weight=0.2, arguments={'characters': 4}),
]
completions = ['12', '14', '00012', 'a dozen']
with RewardPool(functions, timeout_seconds=10.0, workers=1, rows_per_call=1) as pool:
  scores = pool.score(['7 + 5 ='] * 4, completions, [[]] * 4, {'answer': ['12'] * 4})
for text, total, scored in zip(completions, scores.totals, scores.scored, strict=True):
  print(f'{text!r:<10} {f"{total:.2f}" if scored else "left out"}')
print(scores.faults, scores.messages)

# %% [markdown]
# What could not be read raised, was counted, and is left out of its group: it is never a silent 0. In a run the same function
# is an entry of the config, `config.reward.functions.near = {'name': 'my_rewards.near', 'weight': 1.0}`, and `rewards/near` its
# mean; [this notebook](https://github.com/rlx-project/rlx/blob/main/colabs/posttrain_a_hf_model.ipynb) trains with one.
