"""The side of `turns_generate.py` that is transformers, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with what 64 episodes cost, each turn a `generate` with the whole context.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM
from transformers_side import Clock


def main(folder):
  job = json.loads((pathlib.Path(folder) / 'job.json').read_text())
  model = AutoModelForCausalLM.from_pretrained(job['model'], dtype=torch.float32).eval()
  eos_ids, vocab_size = model.generation_config.eos_token_id, model.config.vocab_size
  prompts = torch.randint(3, vocab_size, (job['prompts'], job['prompt_tokens']))
  prompts = prompts.repeat_interleave(job['samples'], dim=0)
  for _ in sys.stdin:
    clock, context = Clock(), prompts
    for turn in range(job['turns']):
      if turn:
        heard = torch.randint(3, vocab_size, (len(context), job['read']))
        context = torch.cat([context, heard], dim=1)
      context = model.generate(
          input_ids=context, attention_mask=torch.ones_like(context), do_sample=True, temperature=1.0,
          top_k=0, top_p=1.0, max_new_tokens=job['said'], min_new_tokens=job['said'],
          pad_token_id=eos_ids[0],
      )
    row = clock.read('generate')
    room = job['turns'] * job['said'] + (job['turns'] - 1) * job['read']
    assert context.shape[1] == job['prompt_tokens'] + room, 'the lengths were not kept'
    print(json.dumps(row), flush=True)


if __name__ == '__main__':
  main(sys.argv[1])
