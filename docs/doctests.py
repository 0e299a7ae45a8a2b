"""Examples in docstrings are shown as code: a `>>>` in plain Markdown would be a quotation."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r'^>>> .*\n(?:.*\S.*(?:\n|\Z))*', re.MULTILINE)


class Doctests(griffe.Extension):
  """Puts every example, with what it prints, between fences."""

  def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
    """What griffe calls for each module, class and function."""
    if obj.docstring is not None:
      obj.docstring.value = EXAMPLE.sub(
          lambda found: f'```pycon\n{found[0].rstrip()}\n```\n', obj.docstring.value
      )
