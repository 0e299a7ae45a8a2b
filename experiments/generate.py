"""`rlx generate --model=DIR --prompt=TEXT`: completions of a model in a Hugging Face directory."""

import argparse
import json
import sys

from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, natural, positive, seed


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  from rlx.experiments import talk

  try:
    prompts = arguments.prompt or [_text(line.rstrip('\r\n')) for line in sys.stdin]
    talker = talk.load(
        arguments.model, adapter=arguments.adapter, context_length=arguments.context_length,
        dtype=arguments.dtype,
    )
    encoded = [talker.encode(prompt, chat=arguments.chat, system=arguments.system) for prompt in prompts]
    decoding = talker.decoding(
        max_tokens=arguments.max_tokens, temperature=arguments.temperature, top_k=arguments.top_k,
        top_p=arguments.top_p, chat=arguments.chat, **other_numbers(arguments),
    )
    answers = talker.answer(
        encoded, decoding, num_samples=arguments.samples, seed=arguments.seed, batch_size=len(encoded) or 1
    )
  except ValueError as error:
    raise CommandError(error) from error
  for prompt, samples in zip(prompts, answers, strict=True):
    for tokens in samples:
      text = talker.tokenizer.decode(tokens)
      if arguments.json:
        print(json.dumps({'prompt': prompt, 'completion': text, 'tokens': tokens}, ensure_ascii=False))
      else:
        print(text)
  return EXIT_DONE


def _text(line: str) -> str:
  """A line of standard input; bytes that are no UTF-8 stand in it as lone surrogates."""
  try:
    line.encode()
  except UnicodeEncodeError as error:
    raise ValueError(f'the prompt {line!r} is no UTF-8') from error
  return line


def _parser() -> Parser:
  parser = Parser(prog='rlx generate', description='Completions of prompts, or of the lines of stdin.')
  add_model_options(parser)
  add_sampling_options(parser, max_tokens=128, temperature=0.0)
  parser.add_argument('--prompt', action='append', metavar='TEXT', help='may be repeated')
  parser.add_argument('--samples', type=positive, default=1, help='completions a prompt')
  parser.add_argument('--json', action='store_true', help='a JSON line a completion, with its tokens')
  return parser


def add_model_options(parser: argparse.ArgumentParser) -> None:
  """Which model, and how prompts reach it."""
  parser.add_argument('--model', required=True, metavar='DIR', help='a Hugging Face directory')
  parser.add_argument('--adapter', metavar='DIR', help='a PEFT directory of adapters of this model')
  parser.add_argument('--context_length', type=natural, default=0, help="tokens; 0: the model's own")
  parser.add_argument('--dtype', default='float32', choices=['float32', 'bfloat16'])
  parser.add_argument('--chat', action='store_true', help="put prompts into the model's chat template")
  parser.add_argument('--system', default='', metavar='TEXT', help='system message, with --chat')


def other_numbers(arguments: argparse.Namespace) -> dict[str, float]:
  """Those of the sampling options that are off by default."""
  return {name: getattr(arguments, name) for name in ('min_p', 'repetition_penalty', 'presence_penalty')}


def add_sampling_options(parser: argparse.ArgumentParser, *, max_tokens: int, temperature: float) -> None:
  """How completions are drawn."""
  parser.add_argument('--max_tokens', type=positive, default=max_tokens, help=f'{max_tokens} by default')
  parser.add_argument('--temperature', type=float, default=temperature, help='0 is greedy')
  parser.add_argument('--top_k', type=natural, default=0, help='0 is off')
  parser.add_argument('--top_p', type=float, default=1.0, help='1 is off')
  parser.add_argument('--min_p', type=float, default=0.0, help='0 is off')
  parser.add_argument('--repetition_penalty', type=float, default=1.0, help='1 is off')
  parser.add_argument('--presence_penalty', type=float, default=0.0, help='0 is off')
  parser.add_argument('--seed', type=seed, default=0)
