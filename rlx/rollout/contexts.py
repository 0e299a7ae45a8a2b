"""What becomes of a context that has no room for another turn: it is rewritten, and the episode goes on.

Each function makes an `engine.turns.Rewriting` for a world. A rewritten context is another row of the same
episode (`trajectories`), with the same prompt; what was kept stands behind it as something that was read. At
most half of the room is kept, the newest part of it; the most turns that an episode can have are then no
matter of the room behind its prompt.
"""


from rlx.engine.turns import WHOLE, Rewriting
from rlx.envs import text
from rlx.envs.turns import TurnTask
from rlx.errors import ConfigError, at_least


def whole(task: TurnTask) -> Rewriting:
  """Nothing is rewritten: an episode that has no room left is over."""
  del task
  return WHOLE


def last_turns(task: TurnTask, *, rows: int, turns: int) -> Rewriting:
  """The last turns are kept, with what was read in them, and all before is forgotten.

  Args:
    task: the world.
    rows: of an episode, at most.
    turns: that are kept.
  """
  del task
  at_least(1, rows=rows, turns=turns)
  return Rewriting(rows=rows, keep=lambda heard, turn, valid, last: valid & (turn > last - turns))


def without_old_observations(task: TurnTask, *, rows: int) -> Rewriting:
  """What the policy said is kept, and what it read only in the last turn.

  Args:
    task: the world.
    rows: of an episode, at most.
  """
  del task
  at_least(1, rows=rows)
  keep = lambda heard, turn, valid, last: valid & (~heard | (turn < 0) | (turn == last))
  return Rewriting(rows=rows, keep=keep)


def summary(task: TurnTask, *, rows: int, marker: str, tokens: int) -> Rewriting:
  """The policy is asked for a summary, a turn of its own: it is trained on, and kept in place of all else.

  The world waits: what it answered to the last action is read behind the summary, in the next row.

  Args:
    task: the world; its alphabet has the marker.
    rows: of an episode, at most.
    marker: one character, that asks.
    tokens: the most tokens of a summary, its end token included.
  Raises:
    ConfigError: the marker is no single character of the world.
  Source: SUPO, https://arxiv.org/abs/2510.06727.
  """
  at_least(1, rows=rows, tokens=tokens)
  if len(marker) != 1 or marker not in task.alphabet:
    raise ConfigError(f'marker={marker!r} is no single character of the world, which are {task.alphabet!r}')
  token = int(text.one_token(task, marker))
  keep = lambda heard, turn, valid, last: valid & ~heard & (turn == last)
  return Rewriting(rows=rows, keep=keep, marker=token, summary_tokens=tokens)
