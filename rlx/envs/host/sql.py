"""SQL as a tool: queries that only read, with the guards of `rewards/sql.py`."""

from rlx.rewards.sql import QueryError, run_query

_TABLES = "SELECT sql FROM sqlite_schema WHERE type IN ('table', 'view') AND sql NOT NULL ORDER BY name"


class Sql:
  """An SQLite file that can be asked; which one is the column `database` of the row."""

  def __init__(self, *, query_seconds: float, max_rows: int):
    """Nothing is opened yet.

    Args:
      query_seconds: wall time of a query.
      max_rows: of its result.
    """
    self._limits = {'timeout_seconds': query_seconds, 'max_rows': max_rows}
    self._database = ''

  def reset(self, database: str, **columns) -> None:
    """Asks this file from now on; raises `ValueError` where there is none."""
    del columns
    self._database = database
    run_query(database, 'SELECT 1', **self._limits)

  def query(self, sql: str) -> str:
    """Runs one SELECT of SQLite, and returns its rows.

    Args:
      sql: the query.
    """
    try:
      rows = run_query(self._database, sql, **self._limits)
    except QueryError as error:
      return f'Error: {error}'
    return '\n'.join(' | '.join('NULL' if x is None else str(x) for x in row) for row in rows) or 'no rows'

  def tables(self) -> str:
    """Returns the tables of the database, as they were created."""
    return '\n'.join(str(row[0]) for row in run_query(self._database, _TABLES, **self._limits)) or 'no tables'
