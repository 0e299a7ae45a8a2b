"""A model from a Hugging Face directory, ready to be asked: shared by `rlx generate` and `rlx evaluate`."""

from collections.abc import Sequence
import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data.tokenizer import Tokenizer
from rlx.data.tokenizer import load as load_tokenizer
from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.models import adapters, hf, peft
from rlx.models.language import LanguageModel

_COLUMNS = 32  # prompts are padded to a multiple, so that few programs are compiled


@dataclasses.dataclass(frozen=True, kw_only=True)
class Talker:
  """A policy with its tokenizer.

  Attributes:
    model: functions of the decoder.
    params: of the decoder, adapters attached.
    tokenizer: its words.
  """

  model: LanguageModel
  params: Any
  tokenizer: Tokenizer

  def decoding(
      self, *, max_tokens: int, temperature: float, top_k: int, top_p: float, chat: bool, **others: float
  ) -> Decoding:
    """How to draw; rows end at any of the model's end tokens, in a chat at the end of a turn as well.

    `others` are numbers of `Decoding` that are off unless they are given: `min_p`, penalties.
    """
    return Decoding(
        max_tokens=max_tokens, min_tokens=0, temperature=temperature, top_k=top_k, top_p=top_p,
        sampler='gumbel',
        eos_ids=self.tokenizer.turn_eos_ids if chat else self.tokenizer.eos_ids,
        pad_id=self.tokenizer.pad_id, **others,
    )

  def encode(self, prompt: str | list[dict], *, chat: bool, system: str = '') -> list[int]:
    """Tokens of a prompt: as it stands, or as a user's message in the model's chat template.

    Raises:
      ValueError: there are none.
    """
    if system and not chat:
      raise ValueError(f'the system message {system!r} has no place but in a chat; add --chat')
    if isinstance(prompt, str) and not chat:
      if tokens := self.tokenizer.encode(prompt, special=True):
        return tokens
      raise ValueError(f'the prompt {prompt!r} has no tokens, and something has to come first')
    messages = [{'role': 'user', 'content': prompt}] if isinstance(prompt, str) else list(prompt)
    if system:
      messages.insert(0, {'role': 'system', 'content': system})
    return self.tokenizer.encode_chat(messages, generation_prompt=True)[0]

  def answer(
      self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, num_samples: int, seed: int,
      batch_size: int,
  ) -> list[list[list[int]]]:
    """`num_samples` completions of each prompt, as tokens (the end token included, where there is one).

    Args:
      prompts: tokens of each.
      decoding: how to draw.
      num_samples: completions a prompt.
      seed: of the noise; what a prompt is answered does not depend on the other prompts.
      batch_size: prompts in one program.
    Raises:
      ValueError: a prompt with its completion does not fit the context.
    """
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # little padding in a batch
    answers = [None] * len(prompts)
    for start in range(0, len(order), batch_size):
      numbers = order[start : start + batch_size]
      batch = self._batch([prompts[i] for i in numbers], numbers, batch_size, num_samples, decoding)
      key = jax.random.key(seed)
      out = jax.device_get(_sample(self.params, *batch, key, self.model, decoding, num_samples))
      rows = [tokens[mask].tolist() for tokens, mask in zip(out['tokens'], out['action_mask'], strict=True)]
      for row, i in enumerate(numbers):
        answers[i] = rows[row * num_samples : (row + 1) * num_samples]
    return answers

  def _batch(self, prompts, numbers, batch_size, num_samples, decoding):
    """Padded prompts [batch_size, T], their lengths, and the names of their sequences."""
    longest = max(map(len, prompts))
    context_length = self.model.context_length
    if longest + decoding.max_tokens > context_length:
      raise ValueError(
          f'a prompt of {longest} tokens and max_tokens={decoding.max_tokens} do not fit the context of '
          f'{context_length}; shorten the prompt or lower max_tokens'
      )
    columns = min(-(-longest // _COLUMNS) * _COLUMNS, context_length - decoding.max_tokens)
    tokens = np.full((batch_size, columns), self.tokenizer.pad_id, np.int32)
    for row, prompt in enumerate(prompts):
      tokens[row, : len(prompt)] = prompt
    lengths = np.array([len(p) for p in prompts] + [1] * (batch_size - len(prompts)), np.int32)
    numbers = np.array([*numbers, *[0] * (batch_size - len(prompts))], np.int32)
    ids = (numbers[:, None] * num_samples + np.arange(num_samples, dtype=np.int32)).reshape(-1)
    return jnp.asarray(tokens), jnp.asarray(lengths), jnp.asarray(ids)


@functools.partial(jax.jit, static_argnums=(5, 6, 7))
def _sample(params, prompts, lengths, sequence_ids, key, model, decoding, num_samples):
  return engine.sample(
      params, model, prompts, lengths, key,
      group_size=num_samples, decoding=decoding, sequence_ids=sequence_ids,
  )


def load(model: str | Path, *, adapter: str | Path | None, context_length: int, dtype: str) -> Talker:
  """The model of a Hugging Face directory, with PEFT adapters where given.

  Args:
    model: the directory.
    adapter: a PEFT directory of adapters of this model, or None.
    context_length: in tokens; 0 for the directory's own.
    dtype: of weights and activations.
  Raises:
    ValueError: a directory cannot be read.
  """
  shape = hf.shape_of(
      directory=str(model), context_length=context_length, dtype=dtype, param_dtype=dtype, remat=False,
      attention='auto', decode_attention='auto',
  )
  params = hf.load(model, shape)
  if adapter is not None:
    params = adapters.attach(params, *peft.load(adapter, shape, family=hf.family_of(model)))
  return Talker(model=LanguageModel(shape), params=params, tokenizer=load_tokenizer(model))
