"""Guides say what is so: keys are in the config, algorithms and functions are there, sections build."""

from pathlib import Path
import re

import pytest

import rlx
from rlx import config as configs
from rlx.experiments.configs.llm import grpo, sft
from rlx.experiments.finetune import finetune
from rlx.names import resolve

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / 'docs/guides/from_trl.md').read_text()
TINY = str(ROOT / 'experiments/data/tiny_model')
ROWS = [{'prompt': f'{i} plus {i} is', 'answer': str(2 * i)} for i in range(4)]
SECTIONS = (
    'mesh', 'models', 'task', 'rollout', 'decoding', 'optimizer', 'updates', 'algorithm', 'checkpoint',
    'evals', 'log', 'score', 'reward', 'steps', 'seed',
)
TABLES = [line.split(' | ') for line in GUIDE.splitlines() if line.startswith('| ')]


def keys():
  """Dotted keys of the config in the second column of the tables, and in the code."""
  spans = [span for cells in TABLES for span in re.findall(r'`([\w.]+)`', cells[1])]
  spans += re.findall(r"'((?:rollout|decoding|optimizer)\.\w+)'", GUIDE)
  return sorted({span for span in spans if span.partition('.')[0] in SECTIONS})


def test_every_key_is_in_the_config():
  data = ROOT / 'experiments/data/word_problems'
  files = {'model': TINY, 'train': f'{data}_train.jsonl', 'held_out': f'{data}_test.jsonl'}
  known = set()
  for config in (grpo.get_config(**files), grpo.get_config(**files, kl_coef=0.1, lora_rank=4)):
    paths = [path.split('.') for path, _ in configs.flat(config)]
    known |= {'.'.join(path[: i + 1]) for path in paths for i in range(len(path))}
  assert len(keys()) > 30 and set(keys()) <= known, set(keys()) - known


def test_every_algorithm_and_function_is_there():
  cells = [cells[1] for cells in TABLES]
  algorithms = {name for cell in cells if 'algorithm `' in cell for name in re.findall(r'`(\w+)`', cell)}
  functions = {name for name in re.findall(r'`((?:losses|advantages)\.[\w.]+)`', GUIDE)}
  assert len(algorithms) > 10 and len(functions) > 4
  for name in algorithms - {'length', 'ratio_max', 'kl_max'}:
    resolve(name, 'rlx.algorithms')
  for name in functions | {'reductions.without_truncated', 'rewards.learned'}:
    resolve(name, 'rlx')


def test_every_argument_is_one():
  """Of the config file, and of `rlx.finetune` by the name that it has there."""
  said = {name for cells in TABLES for name in re.findall(r'argument `(\w+)', cells[1])}
  in_python = {'train': 'data', 'reward': 'rewards'}
  assert len(said) > 5 and said <= set(grpo.DEFAULTS) and set(sft.DEFAULTS) <= set(grpo.DEFAULTS)
  for name in said:
    assert in_python.get(name, name) in finetune.__kwdefaults__.keys() | {'model', 'rewards', 'data'}


def test_the_script_and_the_sections_build(tmp_path):
  blocks = re.findall(r'```python\n(.*?)```', GUIDE, re.DOTALL)
  script = next(block for block in blocks if block.startswith('# rlx'))
  begin = script.partition('for metrics')[0].replace("'models/small'", repr(TINY))
  names = {'dataset': ROWS}
  exec(begin.replace("'runs/mine'", repr(str(tmp_path))), names)
  assert names['run'].config.rollout.group_size == 8
  section, filtering = (block for block in blocks if block.startswith('algorithm'))
  exec(section, names)
  for change in ('', filtering):
    exec(change, names)
    run = rlx.finetune(TINY, [len_of], ROWS, workdir=tmp_path, algorithm=names['algorithm'])
    assert run.config.algorithm.reduction.name.startswith('reductions.')


def len_of(completions, **kwargs):
  return [float(len(text)) for text in completions]


@pytest.mark.parametrize(
    ('text', 'sections'),
    [
        ('mine.f', {'f': {'name': 'mine.f', 'weight': 1.0}}),
        (
            'math.math_answer:tolerance=1e-6+mine.g:weight=0.5:mode=strict',
            {
                'math_answer': {'name': 'math.math_answer', 'weight': 1.0, 'tolerance': 1e-6},
                'g': {'name': 'mine.g', 'weight': 0.5, 'mode': 'strict'},
            },
        ),
        ('mine.f+yours.f', "'f' twice"), ('mine.f:tolerance', 'is not name=value'), ('', 'no name'),
    ],
)
def test_rewards_of_a_command_line(text, sections):
  if isinstance(sections, dict):
    assert grpo.functions(text) == sections
    return
  with pytest.raises(configs.ConfigError, match=sections):
    grpo.functions(text)
