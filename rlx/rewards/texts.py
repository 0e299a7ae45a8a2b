"""The text of a completion, however the data set writes it. Workers import this module: no jax."""


def text_of(completion: str | list[dict]) -> str:
  """The text of a completion, or of the last message of a conversational one.

  Args:
    completion: a string, or messages such as `[{'role': 'assistant', 'content': 'It is 42.'}]`. A content
      that is None (a message that only calls tools) is the empty text.
  Raises:
    ValueError: it is neither.
  """
  if isinstance(completion, str):
    return completion
  if isinstance(completion, list) and completion and isinstance(completion[-1], dict):
    content = completion[-1].get('content')
    if content is None or isinstance(content, str):
      return content or ''
  raise ValueError(
      f'a completion is a string or a list of messages with a text as content, not {str(completion)[:100]!r}'
  )
