"""The half of `grpo_step.py` that is TRL, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with what generation and the whole step cost.
"""

import json
import pathlib
import random
import sys

from datasets import Dataset
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList, TrainerCallback
from transformers_side import Clock, Forced, check_lengths  # beside this file
from trl import GRPOConfig, GRPOTrainer


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
  model = AutoModelForCausalLM.from_pretrained(job['model'], dtype=getattr(torch, job['dtype']))
  turns, eos_ids = Turns(), model.generation_config.eos_token_id  # rows end at any of these
  generate = model.generate

  def timed(*args, **kwargs):
    ids = kwargs['input_ids']
    forced = Forced(job['lengths'], eos_ids, ids.shape[1])
    clock = Clock()
    out = generate(*args, **kwargs, logits_processor=LogitsProcessorList([forced]))
    turns.row |= clock.read('generate')
    assert ids.shape == (len(job['lengths']), job['prompt_tokens']), ids.shape
    check_lengths(out[:, ids.shape[1] :], eos_ids, job['lengths'])
    return out

  model.generate = timed
  config = GRPOConfig(
      output_dir=f'{folder}/trl', per_device_train_batch_size=len(job['lengths']) // job['parts'],
      gradient_accumulation_steps=job['parts'], num_generations=job['samples'],
      max_completion_length=job['max_new'], max_steps=1000,
      learning_rate=1e-5, lr_scheduler_type='constant', beta=0.0, temperature=1.0,
      use_cpu=not torch.cuda.is_available(), bf16=job['dtype'] == 'bfloat16', fp16=False, report_to=[],
      save_strategy='no', logging_steps=1000, gradient_checkpointing=False, disable_tqdm=True,
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
