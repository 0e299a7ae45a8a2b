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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/tools.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # A policy with a calculator
#
# A small decoder learns to write `<<12+18=`. There its turn ends, a Python function says `30>>`, and it reads on: what the
# function said is in its context, and nothing of it is trained on. Tools run in processes that can be killed, while other
# episodes go on. Worlds in Python, Python sessions, SQL and search are in
# [the guide](https://github.com/rlx-project/rlx/blob/main/docs/guides/tools.md).

# %%
import functools
import json
from pathlib import Path
import random
import tempfile

import matplotlib.pyplot as plt

from rlx.envs.host import calculator
from rlx.envs.host.calls import inline
from rlx.experiments import replay_calls
from rlx.experiments.configs.tools import word_problems_grpo
from rlx.experiments.data import generate
from rlx.experiments.init_model import init_model
from rlx.rollout.toolbox import Desk, Seat, toolbox
from rlx.run import train
from rlx.run.writers import read_metrics

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# **A tool** is a function with type hints and a docstring. Here is what becomes of what a policy might write, without a policy.
# Every way to fail is words that it reads, and a number in the metrics.

# %%
calls = functools.partial(inline, tool='calculator', before='<<', after='=')
box = toolbox(
    tools={'calculator': calculator.calculate}, environments={}, calls=calls,
    timeout_seconds=10.0, max_calls=8, workers=2, result_tokens=16, keep='head', before='', after='>>', role='tool',
    reset_tokens=0,
)
desk, seat = Desk(box), Seat(sequence=0, columns={}, world='')
desk.open('trial')
for turn, said in enumerate(['She has <<12+18=', 'Half of it is <<30/0=', 'She has <<__import__("os").getpid()=', 'So 30.']):
  results = desk.turn(seat, turn, box.calls(said))
  print(f'{said:<42}', [f'{result.kind or "ok"}: {result.text}' for result in results] or 'no call: the answer')
desk.end(seat)
desk.close()

# %% [markdown]
# **Problems and a model**, made here: word problems whose solutions have their sums marked as GSM8K's are, and a random
# decoder with a tokenizer of its own. With `model=DIR,train=F,held_out=F` it is your model, and GSM8K's own files.

# %%
rng = random.Random(0)
for name, num in (('train', 2000), ('test', 64)):
  problems = [generate.word_problem(rng) for _ in range(num)]
  (folder / f'{name}.jsonl').write_text(''.join(json.dumps(problem) + '\n' for problem in problems))
print(json.dumps(problems[0], indent=1))
init_model(
    [folder / 'train.jsonl'], folder / 'model', family='qwen2', vocab_size=384, layers=3, width=96, heads=4, kv_heads=2,
    mlp_size=256, context_length=192, chat_template='none', seed=0, dtype='float32',
)

# %% [markdown]
# **Two stages**: solutions first, cut where sampling will cut them, then GRPO on whole episodes, calls and results included.

# %%
config = word_problems_grpo.get_config(
    f'model={folder}/model,train={folder}/train.jsonl,held_out={folder}/test.jsonl'
)
config.sft.steps, config.steps = 160, 30
config.sft.optimizer.decay_steps = 180
config.optimizer.update(learning_rate=3e-4, warmup_steps=2, decay_steps=28)
config.decoding.max_tokens, config.rollout.turn_tokens = 96, 48
config.score.update(packed_columns=192)
config.evals.held_out.update(every=10, problems=64, turn_tokens=48)
config.log.steps_per_dispatch = 5
config.checkpoint.every = 10
outcome = train.train(config, folder / 'run', quiet=True, command='')
print(f'{outcome.step} steps in {outcome.seconds:.0f} s')

# %% [markdown]
# **Episodes**, before the first step and after the last. Inside `<<`, what stands behind `=` was said by the calculator.

# %%
files = sorted((folder / 'run/samples').iterdir())
for file in (files[0], files[-1]):
  print(f'--- {file.stem}')
  for line in file.read_text().splitlines()[:4]:
    row = json.loads(line)
    print(row['prompt'].removeprefix('Question: ').split(' How many')[0], '|', repr(row['completion']), row['correct'])

# %% [markdown]
# **The record.** Each call is written before its result is read; a run that was killed takes them from there, and repeats to
# the bit. Without a model they can be made again at any time:

# %%
records = sorted((folder / 'run/calls/grpo').iterdir())
print(next(line for line in records[-1].read_text().splitlines() if 'value' in line))
assert replay_calls.main([str(folder / 'run')]) == 0

# %% [markdown]
# **The curves**: how often the policy calls, how often that fails, and what is right of problems that it has not seen. The
# solutions alone teach a problem of this size; GRPO, whose steps the first two curves are of, has little left to do.

# %%
rows = read_metrics(folder / 'run/metrics.jsonl')
for name, label in (
    ('tools/calls', 'calls an episode'), ('tools/failed_raised', 'of them no sum'), ('eval/held_out/accuracy', 'held-out accuracy'),
):
  points = [(row['step'], row[name]) for row in rows if name in row]
  plt.plot(*zip(*points, strict=True), label=label)
plt.xlabel('train step')
plt.legend()
plt.show()
