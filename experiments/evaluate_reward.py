"""`rlx evaluate --reward=DIR --data=FILE`: what a reward model says of the comparisons or answers of a JSONL.

Of rows `prompt, chosen, rejected` it prints accuracy, margin and calibration, beside the accuracy of taking
the shorter answer; of rows `prompt, completion` the mean reward. Answers to the same prompt are ranked.
"""

import json
from pathlib import Path

import numpy as np

from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, natural, positive


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  try:
    task, rewards = _scored(arguments)
  except ValueError as error:
    raise CommandError(error) from error
  known = ~np.isnan(rewards)
  pairs = task.num_answers == 2
  rows = _rows(task, rewards)
  lines = _of_pairs(task, rewards) if pairs else {'answers': f'{len(rewards)}'}
  lines['mean reward'] = f'{rewards[known].mean():.3f}' if known.any() else 'none'
  if not known.all():
    lines['no number'] = f'{(~known).sum()} of {len(rewards)} rewards are NaN, and left out'
  if arguments.output:
    Path(arguments.output).write_text(''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows))
  for name, value in lines.items():
    print(f'{name:<20}{value}')
  return EXIT_DONE


def _scored(arguments):
  """The rows of the file, and the rewards of their answers [N]."""
  import jax
  import jax.numpy as jnp

  from rlx import sharding
  from rlx.data.dataset import dataset
  from rlx.engine.speaker import Judge, Scoring
  from rlx.models.classifier import classifier

  model = classifier(
      directory=arguments.reward, context_length=arguments.context_length, dtype=arguments.dtype,
      param_dtype=arguments.dtype, remat=False, attention='auto',
  )
  length = model.functions.trunk.context_length
  task = dataset(
      directory=arguments.reward, train=arguments.data, held_out='', columns={}, chat=arguments.chat,
      system='', max_prompt_tokens=length, max_completion_tokens=length, malformed='skip',
  )
  if not task.num_answers:
    raise ValueError(f'{arguments.data} holds prompts only; it needs chosen and rejected, or completion')
  params = model.load(sharding.make_mesh(data=1, fsdp=1, tensor=1))
  scoring = Scoring(chunk_tokens=length, packing=None)
  judge, size = jax.jit(Judge(head=model.functions, scoring=scoring).apply), arguments.batch_size
  tokens, lengths = (task.data[name] for name in ('tokens', 'lengths'))
  if tokens.shape[1] > length:
    raise ValueError(f'a row has {tokens.shape[1]} tokens, and the reward model reads {length}; shorten it')
  missing = -len(tokens) % size
  tokens = np.pad(tokens, ((0, missing), (0, 0)))
  valid = np.arange(tokens.shape[1])[None] < np.pad(lengths, (0, missing), constant_values=1)[:, None]
  parts = [
      judge(params, {'tokens': jnp.asarray(tokens[i : i + size]), 'valid': jnp.asarray(valid[i : i + size])})
      for i in range(0, len(tokens), size)
  ]
  return task, np.concatenate(jax.device_get(parts))[: len(lengths)]


def _of_pairs(task, rewards: np.ndarray) -> dict[str, str]:
  from rlx.evaluation.preferences import described

  numbers = described(rewards, task.data['action_mask'].sum(axis=1))
  percent = lambda name: f'{100 * numbers[name]:.1f} %'
  return {
      'pairs': f'{len(rewards) // 2}', 'accuracy': percent('accuracy'), 'shorter answer': percent('shorter'),
      'margin': f'{numbers["margin"]:.3f}', 'calibration error': f'{numbers["calibration_error"]:.3f}',
  }


def _rows(task, rewards: np.ndarray) -> list[dict]:
  """A row an answer, with its rank among those to the same prompt, 1 for the best."""
  prompts = [json.dumps(text, default=str) for text in task.texts for _ in range(task.num_answers)]
  groups: dict[str, list[float]] = {}
  for prompt, reward in zip(prompts, rewards.tolist(), strict=True):
    groups.setdefault(prompt, []).append(reward)
  masks = task.data['action_mask']
  return [
      {
          'prompt': task.texts[i // task.num_answers],
          'completion': task.decode(task.data['tokens'][i][masks[i]]),
          'reward': None if np.isnan(reward) else reward,
          'rank': None if np.isnan(reward) else 1 + sum(other > reward for other in groups[prompts[i]]),
      }
      for i, reward in enumerate(rewards.tolist())
  ]


def _parser() -> Parser:
  parser = Parser(
      prog='rlx evaluate', description='Scores the answers of a file with a reward model, and ranks them.',
  )
  parser.add_argument('--reward', required=True, metavar='DIR', help='for sequence classification, one label')
  parser.add_argument('--data', required=True, metavar='FILE', help='prompt, chosen, rejected; or completion')
  parser.add_argument('--chat', action='store_true', help='prompts that are strings are what a user says')
  parser.add_argument('--context_length', type=natural, default=0, help="0: the directory's own")
  parser.add_argument('--dtype', default='float32', help='of the computation')
  parser.add_argument('--batch_size', type=positive, default=16, help='rows in one program')
  parser.add_argument('--output', metavar='FILE', help='JSONL with every answer, its reward and its rank')
  return parser
