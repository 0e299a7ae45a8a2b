"""A Python session in the sandbox as a world: what a cell defines lives through the episode, never longer.

Nothing of the machine is in there: no network, no environment, no file but the standard library
(`rewards/sandbox.py`). A grader that runs what the model wrote does so in a fresh sandbox
(`rewards/code.py`), not in here.
"""

from rlx.rewards import sandbox
from rlx.rewards.sandbox_session import Cell, PythonSession


class Python:
  """Cells of Python that remember each other."""

  _gone = 'variables are gone'  # with the session

  def __init__(
      self, *, cell_seconds: float, session_seconds: float, memory_bytes: int, output_bytes: int, tier: str
  ):
    """Nothing is started yet.

    Args:
      cell_seconds: of a cell; the session is ended behind one that takes longer. Below the toolbox's
        `timeout_seconds`, which ends more.
      session_seconds: of all cells and the time between them.
      memory_bytes: of the session.
      output_bytes: of what a cell prints.
      tier: of the sandbox, 'bubblewrap' or 'seccomp'.
    """
    self._cell_seconds, self._tier = cell_seconds, tier
    self._limits = {
        'session_seconds': session_seconds, 'memory_bytes': memory_bytes, 'output_bytes': output_bytes,
        'tier': tier,
    }
    self._session: PythonSession | None = None

  def _trial(self) -> None:
    """Raises where the sandbox does not start here, or does not confine."""
    sandbox.check(self._tier)

  def reset(self, **columns) -> None:
    """A fresh session, which begins with its first cell; columns mean nothing to it."""
    del columns
    if self._session is not None:
      self._session.close()
    self._session = None

  def python(self, code: str) -> str:
    """Runs a cell of Python and returns what it prints, and the value of its last line.

    Variables stay for the next cell. Only the standard library can be imported.

    Args:
      code: the cell.
    """
    return self._run(code).text

  def _start(self) -> PythonSession:
    """A fresh session."""
    return PythonSession(shown=(), **self._limits)

  def _run(self, code: str) -> Cell:
    """What became of a cell. Raises `RuntimeError` where it ended the session."""
    if self._session is None:
      self._session = self._start()
    cell = self._session.run(code, timeout_seconds=self._cell_seconds)
    if not self._session.is_open:
      self._session = None
      raise RuntimeError(f'{cell.text}; {self._gone}')
    return cell
