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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/agents.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # An agent and its world
#
# A number is guessed, and the world says whether it is smaller or larger. The policy, a tiny decoder, speaks; the world
# answers in the same compiled program; and the episode, what was said and what was read, is one row. GRPO learns from how
# episodes end, GiGPO also from turns that began in the same state. The columns of a row, and worlds that come with rlx, are in
# [the guide](https://github.com/rlx-project/rlx/blob/main/docs/guides/agents.md).

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from rlx.envs import text
from rlx.envs.conformance import check_turn_task
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.experiments.configs.agents import rooms_gigpo, rooms_grpo
from rlx.run import examining, states
from rlx.run.build import build

# %% [markdown]
# **A world** is three pure functions of one episode: `start` makes a state of a problem, `act` answers an action, `expert` says
# what is right. The state knows what was narrowed down so far: equal states are where GiGPO compares turns.

# %%
DIGITS = '01234567'


def guessing(*, num_clues: int, held_out_share: float) -> TurnTask:
  """`b?` -> `4` -> `<` -> `2` -> `>` -> `3`, and it is found. The letter is a clue that says nothing."""
  alphabet = '?<>!' + DIGITS + 'abcdefghijklmnopqrst'[:num_clues]
  marks, digits = text.characters('?<>!', alphabet), text.characters(DIGITS, alphabet)
  clues = text.characters(alphabet[-num_clues:], alphabet)

  def sample(key, num, held_out):
    number = text.draw_indices(
        key, num, num_problems=len(DIGITS) * num_clues, held_out=held_out, held_out_share=held_out_share
    )
    prompts = jnp.stack([clues[number // len(DIGITS)], jnp.broadcast_to(marks[0], (num,))], axis=1)
    return {'secret': number % len(DIGITS), 'prompts': prompts, 'prompt_lengths': jnp.full(num, 2)}

  def start(problem):
    return {'secret': problem['secret'], 'low': jnp.int32(0), 'high': jnp.int32(len(DIGITS) - 1)}

  def act(state, action, length, key):
    word = said(action, length, 2)
    guess, is_digit = index_in(digits, word[0])
    understood = is_digit & (word[1] == text.PAD_ID)
    smaller, larger = understood & (guess > state['secret']), understood & (guess < state['secret'])
    found = understood & ~smaller & ~larger
    high = jnp.where(smaller, jnp.minimum(state['high'], guess - 1), state['high'])
    low = jnp.where(larger, jnp.maximum(state['low'], guess + 1), state['low'])
    sign = jnp.select([smaller, larger], marks[1:3], marks[3])
    reward = found.astype(jnp.float32)
    return Reply(
        state={**state, 'low': low, 'high': high}, observation=sign[None], length=jnp.int32(1), reward=reward,
        ended=found, understood=understood, info={SUCCESS: reward},
    )

  def expert(state):
    return with_end(digits[(state['low'] + state['high']) // 2][None], jnp.int32(1), 2)

  return TurnTask(
      alphabet=alphabet, prompt_columns=2, answer_columns=2, sample=sample, observation_columns=1, start=start, act=act,
      expert=expert, expert_return=1.0,
  )


world = guessing(num_clues=20, held_out_share=0.2)
check_turn_task(world, num=128, max_turns=8)  # silent, or says in a sentence what is wrong
print(f'random tokens, 4 turns: {world.random_return(max_turns=4):.2f}')

# %% [markdown]
# **Two runs** that differ in the credit alone. Four turns are just enough for whoever halves what is left; a few steps on the
# expert's episodes come first, so that there is something to be better at.


# %%
def run_of(module, steps=60, turns=4):
  config = module.get_config()
  config.population.size = 3
  config.task = config.sft.task = {'name': '__main__.guessing', 'num_clues': 20, 'held_out_share': 0.2}
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 14
  config.models.policy.context_length = 16
  config.steps, config.sft.steps, config.sft.stop = steps, 10, {}
  config.rollout.update(batch_size=64, num_slots=0, max_turns={**config.rollout.max_turns, 'value': turns})
  config.sft.rollout.max_turns = turns
  config.evals.held_out.update(every=10, problems=64, max_turns=turns)
  config.log.steps_per_dispatch = config.checkpoint.every = 10
  return build(config)


def learn(run):
  """The accuracy of each seed at every tenth step, and what the first seed said before and after."""
  points, models = [], {}
  for number, stage in enumerate(run.stages):
    ask = examining.make_ask(run, stage, run.evals[0])
    state = states.begin(run, number, models, 0)
    for _ in range(0, stage.num_steps, 10):
      if number:
        points.append(ask(state.models, state.world, {}))
      state, _ = stage.program.dispatch(state, None)
    models = state.models
  points.append(ask(state.models, state.world, {}))
  first = lambda point: run.evals[0].evaluation.read(jax.tree.map(lambda x: x[0], jax.device_get(point)))[1]
  return np.stack([point[0]['accuracy'] for point in points]), first(points[0]), first(points[-1])


curves = {name: learn(run_of(module)) for name, module in (('GRPO', rooms_grpo), ('GiGPO', rooms_gigpo))}

# %% [markdown]
# **What was said**, of the same held-out problem, before and after: `>` is the policy, the other lines are the world's.

# %%
for when, row in zip(('before', 'after'), curves['GiGPO'][1:], strict=True):
  print(when, row[0]['prompt'], row[0]['completion'], '\n')

# %%
plt.figure(figsize=(7, 3.5))
for color, (name, (accuracy, *_)) in zip(('C0', 'C1'), curves.items(), strict=True):
  print(f'{name}: {accuracy[0].round(2)} -> {accuracy[-1].round(2)}')
  steps = np.arange(len(accuracy)) * 10
  plt.plot(steps, accuracy.mean(axis=1), color=color, label=name)
  plt.plot(steps, accuracy, color=color, alpha=0.3)
plt.xlabel('train steps')
plt.ylabel('held-out episodes that end well')
plt.legend()
plt.show()
