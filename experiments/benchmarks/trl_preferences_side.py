"""The half of `preference_step.py` that is TRL, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with what a step cost, the reading of its rows left out.
"""

import json
import pathlib
import sys

from datasets import Dataset
import torch
from transformers import (
  AutoModelForCausalLM,
  AutoModelForSequenceClassification,
  AutoTokenizer,
  TrainerCallback,
)
from transformers_side import Clock  # beside this file
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer


class Turns(TrainerCallback):
  """Waits for a 'go' before each step and reports after it."""

  def on_step_begin(self, args, state, control, **kwargs):
    if not sys.stdin.readline():
      control.should_training_stop = True
    self.clock = Clock()

  def on_step_end(self, args, state, control, **kwargs):
    print(json.dumps(self.clock.read('step')), flush=True)


def main(folder):
  job = json.loads((pathlib.Path(folder) / 'job.json').read_text())
  tokenizer = AutoTokenizer.from_pretrained(job['model'])
  rows = [json.loads(line) for line in pathlib.Path(job['pairs']).read_text().splitlines()]
  common = dict(
      output_dir=f'{folder}/trl', per_device_train_batch_size=job['batch'], max_steps=1000,
      learning_rate=1e-5, lr_scheduler_type='constant', use_cpu=True, bf16=False, fp16=False, report_to=[],
      save_strategy='no', logging_steps=1000, gradient_checkpointing=False, disable_tqdm=True,
      max_length=job['prompt_tokens'] + job['answer_tokens'],
  )
  shared = dict(processing_class=tokenizer, callbacks=[Turns()], train_dataset=Dataset.from_list(rows))
  if job['method'] == 'dpo':
    model = AutoModelForCausalLM.from_pretrained(job['model'], dtype=torch.float32)
    reference = AutoModelForCausalLM.from_pretrained(job['model'], dtype=torch.float32)
    trainer = DPOTrainer(model=model, ref_model=reference, args=DPOConfig(beta=0.1, **common), **shared)
  else:
    model = AutoModelForSequenceClassification.from_pretrained(
        job['model'], num_labels=1, dtype=torch.float32
    )
    model.config.pad_token_id = tokenizer.pad_token_id
    trainer = RewardTrainer(model=model, args=RewardConfig(**common), **shared)
  trainer.train()


if __name__ == '__main__':
  main(sys.argv[1])
