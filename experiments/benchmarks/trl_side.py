"""The half of `grpo_step.py` that is TRL, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with what generation and the whole step cost.
"""

import json
import pathlib
import random
import resource
import sys
import time

from datasets import Dataset
import torch
from transformers import (
  AutoModelForCausalLM,
  AutoTokenizer,
  LogitsProcessor,
  LogitsProcessorList,
  TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer


class Forced(LogitsProcessor):
  """The end token exactly where each row is to end."""

  def __init__(self, lengths, eos_ids, prompt_length):
    self.lengths, self.eos_ids, self.prompt_length = torch.tensor(lengths), eos_ids, prompt_length

  def __call__(self, input_ids, scores):
    last = input_ids.shape[1] - self.prompt_length == self.lengths - 1
    scores[:, self.eos_ids] = -torch.inf
    scores[last] = -torch.inf
    scores[last, self.eos_ids[0]] = 0
    return scores


class Clock:
  """CPU-seconds of all threads and wall time since it was made."""

  def __init__(self):
    self.cpu, self.wall = self._cpu(), time.monotonic()

  def _cpu(self):
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])

  def read(self, name):
    return {f'{name}_cpu': self._cpu() - self.cpu, f'{name}_wall': time.monotonic() - self.wall}


class Turns(TrainerCallback):
  """Waits for a 'go' before each step and reports after it."""

  def __init__(self):
    self.row = {}

  def on_step_begin(self, args, state, control, **kwargs):
    if not sys.stdin.readline():
      control.should_training_stop = True
    self.row, self.clock = {}, Clock()

  def on_step_end(self, args, state, control, **kwargs):
    print(json.dumps(self.row | self.clock.read('step')), flush=True)


def main(folder):
  job = json.loads((pathlib.Path(folder) / 'job.json').read_text())
  tokenizer = AutoTokenizer.from_pretrained(job['model'])
  model = AutoModelForCausalLM.from_pretrained(job['model'], dtype=torch.float32)
  turns, eos_ids = Turns(), model.generation_config.eos_token_id  # rows end at any of these
  generate = model.generate

  def timed(*args, **kwargs):
    ids = kwargs['input_ids']
    forced = Forced(job['lengths'], eos_ids, ids.shape[1])
    clock = Clock()
    out = generate(*args, **kwargs, logits_processor=LogitsProcessorList([forced]))
    turns.row |= clock.read('generate')
    assert ids.shape == (len(job['lengths']), job['prompt_tokens']), ids.shape
    ends = torch.isin(out[:, ids.shape[1] :], torch.tensor(eos_ids)).int().argmax(dim=1) + 1
    assert ends.tolist() == job['lengths'], 'the lengths were not kept'
    return out

  model.generate = timed
  config = GRPOConfig(
      output_dir=f'{folder}/trl', per_device_train_batch_size=len(job['lengths']),
      num_generations=job['samples'], max_completion_length=job['max_new'], max_steps=1000,
      learning_rate=1e-5, lr_scheduler_type='constant', beta=0.0, temperature=1.0, use_cpu=True, bf16=False,
      fp16=False, report_to=[], save_strategy='no', logging_steps=1000, gradient_checkpointing=False,
      disable_tqdm=True,
  )
  text = ' '.join(str(i) for i in range(10_000))
  ids = tokenizer(text)['input_ids']
  prompts = [tokenizer.decode(ids[100 * i : 100 * i + job['prompt_tokens']]) for i in range(200)]
  prompts = [p for p in prompts if len(tokenizer(p)['input_ids']) == job['prompt_tokens']]
  trainer = GRPOTrainer(
      model=model, args=config, processing_class=tokenizer, callbacks=[turns],
      reward_funcs=lambda completions, **columns: [random.random() for _ in completions],
      train_dataset=Dataset.from_dict({'prompt': prompts}),
  )
  trainer.train()


if __name__ == '__main__':
  main(sys.argv[1])
