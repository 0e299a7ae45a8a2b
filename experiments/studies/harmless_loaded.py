"""The part of `harmless.py` that is transformers, in an environment of its own: no import of rlx.

Loads every model that the runs exported, and says what it makes of a text.
"""

import json
from pathlib import Path
import sys

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer


def main(folder):
  row = json.loads((Path(folder) / 'held_out.jsonl').read_text().splitlines()[0])
  said = []
  for name in ('pretrained', 'dpo', 'kto', 'ppo'):
    path = Path(folder) / (name if name == 'pretrained' else f'{name}_0') / 'model'
    ids = AutoTokenizer.from_pretrained(path)(row['prompt'] + row['chosen'], return_tensors='pt')['input_ids']
    loss = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)(input_ids=ids, labels=ids).loss
    said.append(f'{name} {loss.item():.2f} nats a token')
  path = Path(folder) / 'reward_0' / 'judge' / 'model'
  model = AutoModelForSequenceClassification.from_pretrained(path)
  tokenizer = AutoTokenizer.from_pretrained(path)
  score = lambda text: model(**tokenizer(text, return_tensors='pt')).logits.item()
  margin = score(row['prompt'] + row['chosen']) - score(row['prompt'] + row['rejected'])
  said.append(f'a margin of the reward model {margin:.2f}')
  print('of the first held-out comparison, ' + ', '.join(said))


if __name__ == '__main__':
  main(sys.argv[1])
