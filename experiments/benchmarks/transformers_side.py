"""The side of `generate.py` that is transformers, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with what generation cost. `trl_side.py` shares the clock and the lengths.
"""

import json
import pathlib
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList


class Forced(LogitsProcessor):
  """The end token exactly where each row is to end."""

  def __init__(self, lengths, eos_ids, prompt_length):
    self.lengths, self.eos_ids, self.prompt_length = torch.tensor(lengths), eos_ids, prompt_length

  def __call__(self, input_ids, scores):
    self.lengths = self.lengths.to(scores.device)
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
    if torch.cuda.is_available():
      torch.cuda.synchronize()
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])

  def read(self, name):
    return {f'{name}_cpu': self._cpu() - self.cpu, f'{name}_wall': time.monotonic() - self.wall}


def check_lengths(completions, eos_ids, lengths):
  """Every row ends where it was told to."""
  ends = torch.isin(completions.cpu(), torch.tensor(eos_ids)).int().argmax(dim=1) + 1
  assert ends.tolist() == lengths, 'the lengths were not kept'


def main(folder):
  job = json.loads((pathlib.Path(folder) / 'job.json').read_text())
  model = AutoModelForCausalLM.from_pretrained(job['model'], dtype=torch.float32).eval()
  eos_ids = model.generation_config.eos_token_id
  prompts = torch.randint(3, model.config.vocab_size, (job['prompts'], job['prompt_tokens']))
  forced = LogitsProcessorList([Forced(job['lengths'], eos_ids, job['prompt_tokens'])])
  for _ in sys.stdin:
    clock = Clock()
    out = model.generate(
        input_ids=prompts, attention_mask=torch.ones_like(prompts), do_sample=True, temperature=1.0, top_k=0,
        top_p=1.0, max_new_tokens=job['max_new'], num_return_sequences=job['samples'],
        pad_token_id=eos_ids[0], logits_processor=forced,
    )
    row = clock.read('generate')
    check_lengths(out[:, job['prompt_tokens'] :], eos_ids, job['lengths'])
    print(json.dumps(row), flush=True)


if __name__ == '__main__':
  main(sys.argv[1])
