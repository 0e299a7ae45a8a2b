"""The files that a config names: a run that goes on reads the ones that it began with, or is refused.

Every value of a config that is the path of a file counts, wherever it stands, and of a directory with a
tokenizer the files of that. Frozen models have digests of their own (`train.py`). What is read from the
network by a name, and what Python functions open by themselves, is not seen here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict
import xxhash

from rlx import config as configs
from rlx.errors import ConfigError

_TOKENIZER = ('tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json', 'chat_template.jinja')
_CHUNK_BYTES = 1 << 24


def digests(config: ConfigDict) -> dict[str, str]:
  """Path as the config writes it -> xxh3 of the bytes there."""
  found = {text: _files(Path(text)) for _, value in configs.flat(config) for text in _texts(value)}
  return {text: _digest(files) for text, files in sorted(found.items()) if files}


def check(config: ConfigDict, known: Mapping[str, str]) -> None:
  """Refuses files that are not those which a run began with.

  Args:
    config: of the run.
    known: `digests` as they were then.
  Raises:
    ConfigError: a file has changed, or is gone.
  """
  now = digests(config)
  for path, digest in known.items():
    if path not in now:
      raise ConfigError(f'{path}: the run began with this file, which is gone; put it back, {_OR_ELSE}')
    if now[path] != digest:
      raise ConfigError(
          f'{path}: not the file that the run began with (digest {now[path]}, then {digest}); put that one '
          f'back, {_OR_ELSE}'
      )


_OR_ELSE = 'or begin in another directory'


def _texts(value: Any) -> Iterator[str]:
  """The texts in a value, which may be a list of lists."""
  if isinstance(value, str):
    yield value
  elif isinstance(value, list | tuple):
    for one in value:
      yield from _texts(one)


def _files(path: Path) -> list[Path]:
  """What is there to be read: the file, or the tokenizer's in a directory."""
  try:
    if path.suffix and path.is_file():
      return [path]
    inside = [path / name for name in _TOKENIZER] if str(path) != '.' else []
    return [one for one in inside if one.is_file()]
  except (OSError, ValueError):  # a text that is no path: too long, or with a null byte
    return []


def _digest(files: list[Path]) -> str:
  digest = xxhash.xxh3_64()
  for path in files:
    digest.update(path.name.encode())
    with path.open('rb') as file:
      while part := file.read(_CHUNK_BYTES):
        digest.update(part)
  return digest.hexdigest()
