"""Search by a server, as Search-R1 has it: `POST /retrieve` with queries, passages with scores come back."""

import json
import urllib.error
import urllib.request


def retrieve(query: str, *, url: str, results: int, answer_seconds: float) -> str:
  """Searches passages for a question, and returns the best ones.

  Args:
    query: what to look for.
    url: of the server, with its path: `http://127.0.0.1:8000/retrieve`.
    results: how many are returned.
    answer_seconds: in which the server has to answer.
  """
  asked = json.dumps({'queries': [query], 'topk': results, 'return_scores': True}).encode()
  request = urllib.request.Request(url, asked, {'Content-Type': 'application/json'})
  try:
    with urllib.request.urlopen(request, timeout=answer_seconds) as reply:
      [found] = json.loads(reply.read())['result']
    contents = [one['document']['contents'] for one in found]
  except urllib.error.URLError as error:
    raise RuntimeError(f'{url} does not answer: {error.reason}') from error
  except (ValueError, KeyError, TypeError) as error:
    raise RuntimeError(f"{url} says no 'result' with the passages of one query ({error!r})") from error
  titled = (text.partition('\n') for text in contents)  # the first line of a passage is its title
  shown = (f'({place}) {title}: {rest}' if rest else f'({place}) {title}'
           for place, (title, _, rest) in enumerate(titled, start=1))  # fmt: skip
  return '\n'.join(shown) or 'nothing was found'


def _trial(*, url: str, results: int, answer_seconds: float) -> None:
  """Asks once: a run without its server is refused."""
  retrieve('trial', url=url, results=results, answer_seconds=answer_seconds)


retrieve.trial = _trial
