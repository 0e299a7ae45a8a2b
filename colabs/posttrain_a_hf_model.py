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
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/rlx-project/rlx/blob/main/colabs/posttrain_a_hf_model.ipynb)

# %%
import importlib.util

if importlib.util.find_spec('rlx') is None:
  print('installing rlx')
  # %pip install --quiet git+https://github.com/rlx-project/rlx

# %% [markdown]
# # Post-training a Hugging Face model
#
# A model directory, a JSONL file and a Python reward function: that is what a run is made of. Here the model is a
# small random one, so that everything works offline and in minutes; put your own directory in its place.

# %%
import json
from pathlib import Path
import sys
import tempfile

import matplotlib.pyplot as plt

from rlx.experiments import talk
from rlx.experiments.configs.math import gsm8k_grpo
from rlx.experiments.data import generate
from rlx.experiments.init_model import init_model
from rlx.run import train
from rlx.run.writers import read_metrics

folder = Path(tempfile.mkdtemp())
sys.path.insert(0, str(folder))  # for the reward function below
here = Path(generate.__file__).parent
print((here / 'word_problems_train.jsonl').read_text().splitlines()[0])

# %% [markdown]
# **A model directory** as transformers writes and reads it: config, weights, tokenizer, chat template.

# %%
init_model(
    [here / 'word_problems_train.jsonl'], folder / 'model', family='qwen2', vocab_size=384, layers=2, width=64,
    heads=4, kv_heads=2, mlp_size=128, context_length=256, chat_template='chatml', seed=0, dtype='float32',
)
print(sorted(path.name for path in (folder / 'model').iterdir()))

# %% [markdown]
# **A reward function** has the signature of TRL's and lives in a module, because it runs in processes that are killed
# when they hang. It may raise, too: the row is then left out and counted. This one likes digits.

# %%
# %%writefile {folder}/my_rewards.py
def digits(completions, log_metric, **columns):
  shares = [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]
  log_metric('longest_completion', max(map(len, completions)))
  return shares

# %% [markdown]
# **A config** is the record of a run. We start from that of GSM8K: supervised fine-tuning on solutions, then GRPO.

# %%
config = gsm8k_grpo.get_config(
    f'smoke,model={folder}/model,train={here}/word_problems_train.jsonl,held_out={here}/word_problems_test.jsonl'
)
config.sft.steps = config.steps = 20
config.log.steps_per_dispatch = 5
config.evals.held_out.every = config.checkpoint.every = 10
config.evals.held_out.problems = 8
config.sft.optimizer.warmup_steps = config.optimizer.warmup_steps = 5
config.optimizer.learning_rate = 1e-3
config.rollout.batch_size = 64
config.reward.functions.digits = {'name': 'my_rewards.digits', 'weight': 1.0}
outcome = train.train(config, folder / 'run', quiet=True, command='')
print(f'{outcome.step} steps in {outcome.seconds:.0f} s')

# %% [markdown]
# **Samples** are written as text, with every reward, next to the metrics.

# %%
newest = max((folder / 'run/samples').iterdir())
row = json.loads(newest.read_text().splitlines()[-1])
for name, value in row.items():
  print(f'{name:<26}{value!r}')

# %% [markdown]
# **The trained model** is a Hugging Face directory again, for transformers, vLLM or `rlx generate`.

# %%
speaker = talk.load(folder / 'run/model', adapter=None, context_length=0, dtype='float32')
question = 'Question: Ada has 20 books and gets 5 more. How many books does Ada have now?\nAnswer:'
decoding = speaker.decoding(max_tokens=32, temperature=0.0, top_k=0, top_p=1.0, chat=False)
answers = speaker.answer([speaker.encode(question, chat=False)], decoding, num_samples=1, seed=0, batch_size=1)
print(speaker.tokenizer.decode(answers[0][0]))

# %% [markdown]
# **The curve**: held-out loss is not shown here, the digits are.

# %%
rows = [row for row in read_metrics(folder / 'run/metrics.jsonl') if 'rewards/digits' in row]
plt.plot([row['step'] for row in rows], [row['rewards/digits'] for row in rows])
plt.xlabel('train step')
plt.ylabel('share of digits')
plt.show()

# %% [markdown]
# The reward rose, and whatever failed on the way was counted.

# %%
first, last = (sum(row['rewards/digits'] for row in part) / 5 for part in (rows[:5], rows[-5:]))
assert last > first, (first, last)
assert sum(row['reward/failed'] for row in rows) == 0
