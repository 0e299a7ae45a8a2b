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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/selfplay.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # Poker, learnt from oneself
#
# Kuhn's poker has three cards and one bet. A tiny decoder sits at both seats: each is told its card, says `p` (pass) or `b`
# (bet), and reads what the other said. A row is one seat's view of a game, and GRPO learns from the rows of both. How far from
# a Nash equilibrium the decoder plays is computed exactly. Worlds of seats, frozen and past opponents and several learners are
# in [the guide](https://github.com/rlx-project/rlx/blob/main/docs/guides/selfplay.md).

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

from rlx.envs.games import kuhn, tree
from rlx.envs.worlds import tables
from rlx.experiments.configs.selfplay import kuhn_magnet
from rlx.run import examining, states
from rlx.run.build import build

# %% [markdown]
# **How far from Nash** is what both seats together could gain, each by its best answer. The first player can at best lose 1/18 a
# game.

# %%
game = tables.kuhn()
written = tree.written_out(game.game)
uniform = tree.uniform(written)
print(f'{len(written.views)} information sets; uniform play is {tree.nash_conv(written, uniform):.3f} from Nash')
print(f'the first player gets {tree.values(written, uniform)[0]:+.3f} there; its value is {kuhn.VALUE:+.3f}')

# %% [markdown]
# **Two runs**, three seeds each: plain self-play, and self-play that is held to a copy of itself, which is brought up to date
# every 50 updates. Nothing else differs.

# %%
STEPS, EVERY = 600, 40


def run_of(coef):
  config = kuhn_magnet.get_config()
  config.population.size, config.steps = 3, STEPS
  config.optimizer.decay_steps = STEPS - 20
  config.algorithm.parent.kl.coef = coef
  config.evals.nash.every = config.log.steps_per_dispatch = config.checkpoint.every = EVERY
  return build(config)


def learn(run):
  """NashConv [points, seeds], the last models, and rows of the last games."""
  stage, points = run.stages[0], []
  ask = examining.make_ask(run, stage, run.evals[0])
  state = states.begin(run, 0, {}, 0)
  for _ in range(0, STEPS, EVERY):
    points.append(ask(state.models, state.world, {})['nash_conv'])
    state, _ = stage.program.dispatch(state, None)
  points.append(ask(state.models, state.world, {})['nash_conv'])
  return run, np.stack(points), jax.tree.map(lambda x: x[0], (state.models, state.world))


plain, held = learn(run_of(0.0)), learn(run_of(0.5))
print('plain self-play', plain[1][-1].round(3), ' held to a lagging copy', held[1][-1].round(3))

# %% [markdown]
# **Games**, as the two seats saw them. What a seat was told at first is its card; behind it, what it said is in brackets.

# %%
run, _, (models, world) = held
batch, _ = jax.jit(run.stages[0].rollout.draw)(models, world, jax.random.key(0))
batch = jax.device_get(batch)
half = len(batch['seats']) // 2
for i in range(0, half, half // 6):
  views = []
  for row in (i, half + i):
    words = [game.decode([token]) for token in batch['tokens'][row][batch['valid'][row]]]
    said = batch['action_mask'][row][batch['valid'][row]]
    views.append(' '.join(f'[{word}]' if own else word for word, own in zip(words, said, strict=True)))
  print(f'{views[0]:16}{views[1]:16}{batch["payoffs"][i]:+.0f}')

# %%
plt.figure(figsize=(7, 3.5))
for color, name, (_, curve, _) in (('C1', 'plain self-play', plain), ('C0', 'held to a lagging copy', held)):
  steps = np.arange(len(curve)) * EVERY
  plt.plot(steps, np.median(curve, axis=1), color=color, label=name)
  plt.plot(steps, curve, color=color, alpha=0.3)
plt.axhline(11 / 12, color='gray', linestyle=':', label='uniform play')
plt.axhline(0.15, color='gray', linestyle='--')
plt.ylim(0, 1.2)
plt.xlabel('train steps')
plt.ylabel('NashConv')
plt.legend()
plt.show()
