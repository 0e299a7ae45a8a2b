"""Fine-tuning from Python: `rlx.finetune(model, rewards=[f], data=rows)`, a run that one iterates over.

    run = rlx.finetune('models/small', [correct, brief], rows, workdir='runs/mine')
    for metrics in run:  # of each train step
      print(metrics['step'], metrics['reward/mean'], metrics['rewards/correct'])
    run.generate(['What is 2 plus 3?'])

It makes the config of `configs/llm/grpo.py` (or `sft.py`) and runs it as the launcher would: the working
directory has `config.json`, `metrics.jsonl`, checkpoints, the report, and in the end the model. What is an
object (rows, functions of a notebook) is handed to the builder, and the config keeps its digest.
"""

import atexit
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import functools
import numbers
from pathlib import Path
import signal
import threading
import time
from types import MappingProxyType
from typing import Any
import weakref

import jax
from ml_collections import ConfigDict

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.experiments import talk
from rlx.experiments.configs.llm import grpo, sft
from rlx.experiments.launch import use_compilation_cache
from rlx.run import export, states, train
from rlx.run.build import build
from rlx.run.given import digests

Reward = Callable | str | Mapping[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def finetune(
    model: str | Path,
    rewards: Reward | Sequence[Reward] = (),
    data: str | Path | Mapping[str, float] | Sequence[Mapping] = (),
    *,
    workdir: str | Path,
    algorithm: str | Mapping[str, Any] = 'grpo',
    held_out: str | Path | Sequence[Mapping] | None = (),
    weights: Sequence[float] = (),
    steps: int | None = None,
    chat: bool = False,
    kl_coef: float = 0.0,
    lora_rank: int = 0,
    sft_steps: int = 0,
    window_rows: int = 0,
    overrides: Mapping[str, Any] = NOTHING,
    quiet: bool = True,
) -> 'Finetuning':
  """A run that fine-tunes a language model; it begins, or goes on, when it is iterated over.

  Args:
    model: a Hugging Face directory.
    rewards: functions in TRL's signature, `f(prompts, completions, **columns) -> list[float | None]`, from
      anywhere; or names of such functions (`'yours.rewards.f'`), or sections with `name` and the function's
      own numbers (`{'name': 'math.math_answer', 'tolerance': 1e-6}`). They are added up.
    data: rows (dicts, or a `datasets.Dataset`), a file, or several files with their shares.
    workdir: what the run writes, and goes on from.
    algorithm: 'grpo', 'sft', or a section that takes GRPO's place: `{'name': 'gspo', ..}`.
    held_out: rows or a file that are not trained on; without them nothing is evaluated.
    weights: of the rewards, in their order; 1 each where there are none.
    steps: train steps; None for those of the config.
    chat: prompts that are strings are what a user says.
    kl_coef: of the divergence from the model as it began, in the loss.
    lora_rank: of adapters that are trained in place of the weights; 0 for none.
    sft_steps: of a stage before.
    window_rows: of files larger than memory, rows at hand, at least as many as a step draws; 0 reads files
      whole.
    overrides: any other value of the config, by its dotted name: `{'optimizer.learning_rate': 1e-5}`.
    quiet: no live line.
  Raises:
    ConfigError: something of this cannot be; in one line.
  """
  if not isinstance(overrides, Mapping) or not all(isinstance(path, str) for path in overrides):
    raise ConfigError(f"overrides={overrides!r}: a dictionary, {{'optimizer.learning_rate': 1e-6, ..}}")
  _check_counts(lora_rank=lora_rank, sft_steps=sft_steps, window_rows=window_rows)
  held_out = () if held_out is None else held_out
  if not isinstance(chat, bool):
    raise ConfigError(f'chat={chat!r}: True or False')
  given: dict[str, Any] = {}
  files = {'train': _file(data), 'held_out': _file(held_out)}
  in_memory = files['train'] is None
  _check_held_out(held_out, files['held_out'], in_memory)
  arguments = {
      'model': str(model), 'train': files['train'] or 'the train rows', 'chat': chat, 'lora_rank': lora_rank,
      'window_rows': window_rows,
      'held_out': files['held_out'] or ('the held_out rows' if in_memory and len(held_out) else ''),
  }
  if algorithm == 'sft':
    _refuse("algorithm='sft' learns from demonstrations and takes no", rewards=rewards,
            weights=weights, kl_coef=kl_coef, sft_steps=sft_steps)
    config = sft.get_config(**arguments)
  else:
    config = grpo.get_config(**arguments, kl_coef=kl_coef, sft_steps=sft_steps)
    _set_rewards(config, rewards, weights, given)
    if isinstance(algorithm, Mapping):
      _refuse('a section as algorithm says itself what holds it, and takes no', kl_coef=kl_coef)
      config.algorithm = dict(algorithm)
    elif algorithm != 'grpo':
      raise ConfigError(f"algorithm={algorithm!r} is neither 'grpo' nor 'sft' nor a section with a name")
  if in_memory:
    _refuse('rows in memory take no', window_rows=window_rows)
    _set_rows(config, data, held_out, given)
  if given:
    config.given = digests(given)
  for path, value in {**({} if steps is None else {'steps': steps}), **overrides}.items():
    configs.assign(config, path, value)
  return Finetuning(config.lock(), given, workdir, quiet=quiet)


def _check_counts(**counts: Any) -> None:
  if wrong := [f'{name}={x!r}' for name, x in counts.items() if not isinstance(x, numbers.Integral) or x < 0]:
    raise ConfigError(f'{", ".join(wrong)}: a whole number of at least 0')


def _refuse(why: str, **values: Any) -> None:
  if unused := [name for name, value in values.items() if value]:
    raise ConfigError(f'{why} {", ".join(unused)}')


def _file(data: Any) -> str | tuple[tuple[str, float], ...] | None:
  """The file of some data, or the files with their shares; None for rows in memory."""
  if isinstance(data, Mapping):
    if not all(isinstance(share, numbers.Real) for share in data.values()):
      raise ConfigError(f'data has {sorted(map(str, data))}: files with their shares, or a list of rows')
    return tuple((str(path), float(share)) for path, share in data.items())
  return str(data) if isinstance(data, str | Path) else None


def _check_held_out(held_out, file: str | None, in_memory: bool) -> None:
  """Rows that are held out are where the others are: in memory, or in files."""
  if file is None and not hasattr(held_out, '__len__'):
    kind = type(held_out).__name__
    raise ConfigError(f'held_out, {kind}, has no rows that can be counted; give a list or a file')
  if in_memory and file:
    raise ConfigError(f'held_out={file!r} is a file and data are rows; make both the same')
  if not in_memory and file is None and len(held_out):
    raise ConfigError('data is a file and held_out are rows; make both the same')


def _set_rows(config: ConfigDict, train, held_out, given: dict[str, Any]) -> None:
  """Lets a config read rows that are in memory."""
  if not hasattr(train, '__len__') or not len(train):
    raise ConfigError(f'data, {type(train).__name__}, has no rows that can be counted; give a list or a file')
  given['rows'] = {'train': train, 'held_out': held_out}
  fields = {name: x for name, x in config.task.items() if name not in ('name', 'train', 'held_out')}
  config.task = {**fields, 'name': 'of_rows'}
  if 'sft' in config:
    config.sft.task = config.task
  if len(held_out):
    config.evals.held_out.problems = min(config.evals.held_out.problems, len(held_out))


def _set_rewards(config: ConfigDict, rewards, weights: Sequence[float], given: dict[str, Any]) -> None:
  """Lets a config ask reward functions, by name or as they are."""
  rewards = [rewards] if _is_reward(rewards) else rewards
  if not isinstance(rewards, Sequence) or not all(map(_is_reward, rewards)):
    raise ConfigError(f'rewards={rewards!r}: functions, names, sections with a name; one, or a list of them')
  if not isinstance(weights, Sequence) or not all(isinstance(x, numbers.Real) for x in weights):
    raise ConfigError(f'weights={weights!r}: a list of numbers, one for each reward')
  if not rewards or len(weights) not in (0, len(rewards)):
    raise ConfigError(f'{len(weights)} weights of {len(rewards)} rewards; at least one reward, a weight each')
  weighted = list(zip(rewards, weights or [1.0] * len(rewards), strict=True))
  names = [_name_of(reward) for reward in rewards]
  if len(set(names)) < len(names) or 'name' in names:
    raise ConfigError(f"rewards are called {names}: each needs a name of its own, and none is called 'name'")
  named = zip(names, weighted, strict=True)
  sections, functions = {}, {}
  for name, (reward, weight) in named:
    if callable(reward):
      functions[name] = (reward, float(weight))
    else:
      section = {'name': reward} if isinstance(reward, str) else dict(reward)
      _refuse(f'{name!r} as a section leaves its weight to weights, and takes no', weight='weight' in section)
      sections[name] = {**section, 'weight': float(weight)}
  config.reward.functions = sections
  if functions:
    given['functions'] = {name: function for name, (function, _) in functions.items()}
    how = {name: x for name, x in config.reward.items() if name not in ('name', 'functions')}
    weights = {name: weight for name, (_, weight) in functions.items()}
    config.reward = {**how, 'name': 'host_given', 'weights': weights, 'named': sections}
  if 'held_out' in config.evals:
    config.evals.held_out.accuracy = names[0]


def _is_reward(x: Any) -> bool:
  return callable(x) or isinstance(x, str) or (isinstance(x, Mapping) and 'name' in x)


def _name_of(reward: Reward) -> str:
  """What a reward is called in the metrics, `rewards/<name>`."""
  if isinstance(reward, functools.partial):
    return _name_of(reward.func)
  if callable(reward):
    return getattr(reward, '__name__', type(reward).__name__)
  return (reward if isinstance(reward, str) else reward['name']).rpartition('.')[2]


def _leave(reference: weakref.ref) -> None:
  """Ends what a run has begun that a script left in the middle: at the end of Python no thread ends."""
  if run := reference():
    run.close()


class Finetuning:
  """A run as an iterator over the metrics of its train steps.

  It can be left at any step and gone on with: by `next`, by another loop, or, after `stop` or in another
  process, from its last checkpoint, by the same call. An interrupt (Ctrl-C) saves it first; who leaves the
  loop for good calls `stop`, or goes on from the checkpoint before.

  Attributes:
    config: of the run; `run.config.to_json()` is what `config.json` holds.
    workdir: where it writes.
    outcome: how it ended, `rlx.run.train.Outcome`; None while it has not.
  """

  def __init__(self, config: ConfigDict, given: Mapping[str, Any], workdir: str | Path, *, quiet: bool):
    self.config, self.workdir = config, Path(workdir)
    self.outcome: train.Outcome | None = None
    self._run = build(config, given)
    self._quiet, self._stopping = quiet, []
    self._pieces: Iterator[list[dict]] | None = None  # None: nothing is under way
    self._rows: deque[dict] = deque()
    atexit.register(_leave, weakref.ref(self))

  def __iter__(self) -> Iterator[dict]:
    return self

  def __next__(self) -> dict:
    """The metrics of the next train step, with `step` and `stage`."""
    if not self._rows and not (self.outcome and self.outcome.finished):
      self._advance()
      if signal.SIGINT in self._stopping:
        self.stop()
        raise KeyboardInterrupt
    if not self._rows:
      raise StopIteration
    return self._rows.popleft()

  def stop(self) -> None:
    """Saves the run where it is. Iterating goes on from there, here or by the same call elsewhere."""
    if self._pieces:
      self._stopping.append(None)
    while self._pieces:
      self._advance()

  def close(self) -> None:
    """Ends what is under way and saves nothing."""
    if self._pieces:
      self._pieces.close()
      self._pieces = None

  @property
  def model(self) -> Path:
    """The Hugging Face directory of the trained model: of the end, or of the newest checkpoint before it."""
    finished = self.outcome and self.outcome.finished
    return (self.outcome.exported if finished else self.export(self.workdir))[0]

  def export(self, directory: str | Path) -> tuple[Path, ...]:
    """Writes the model of the newest checkpoint (`stop` makes one) into `directory/model`.

    Raises:
      ConfigError: there is no checkpoint.
    """
    with jax.set_mesh(self._run.mesh):
      state, position = train.restore(self._run, self.workdir)
      models = {**states.load_frozen(self._run, position.stage, {}), **state.models}
      return export.export(self._run, models, position.stage, Path(directory))

  def generate(
      self, prompts: Sequence[str | list[dict]], *, max_tokens: int = 128, temperature: float = 0.0,
      seed: int = 0,
  ) -> list[str]:
    """A completion of each prompt by `model`; prompts of a run on messages are what a user says.

    Args:
      prompts: strings, or lists of messages.
      max_tokens: of a completion.
      temperature: 0 is greedy.
      seed: of the noise.
    Raises:
      ConfigError: there is no prompt, or it is not in a list.
    """
    if isinstance(prompts, str) or not (prompts := list(prompts)):
      raise ConfigError(f'prompts={prompts!r}: a list of at least one prompt')
    chat = self._run.task.conversational
    talker = talk.load(self.model, adapter=None, context_length=0, dtype='float32')
    decoding = talker.decoding(max_tokens=max_tokens, temperature=temperature, top_k=0, top_p=1.0, chat=chat)
    asked = [talker.encode(prompt, chat=chat) for prompt in prompts]
    answers = talker.answer(asked, decoding, num_samples=1, seed=seed, batch_size=len(asked))
    return [talker.tokenizer.decode(tokens) for (tokens,) in answers]

  def _advance(self) -> None:
    """One piece of the run: a dispatch, or its end."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    signals = train.stop_signals(self._stopping) if in_main_thread else contextlib.nullcontext()
    with jax.set_mesh(self._run.mesh), signals:
      if self._pieces is None:
        use_compilation_cache()
        self._pieces = train.progress(
            self._run, self.workdir, self._stopping, quiet=self._quiet, command='rlx.finetune(..)',
            began=time.monotonic(),
        )
      pieces, self._pieces = self._pieces, None  # gone where it raises
      try:
        self._rows.extend(next(pieces))
        self._pieces = pieces
      except StopIteration as end:
        self.outcome = end.value
        self._stopping.clear()
