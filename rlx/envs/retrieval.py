"""Text tasks in which something has to be found before a question can be answered."""

import dataclasses

from rlx.envs.text import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrievalTask(Task):
  """Problems with a query and candidates, of which one holds what is needed.

  Problems have the columns `queries` [N, Q] and `candidates` [N, K, C], tokens without padding in front, and
  `gold` [N], which candidate is needed. Nothing but evaluations asks for `gold`.

  Attributes:
    query_columns: Q.
    candidate_shape: K and C.
  """

  query_columns: int
  candidate_shape: tuple[int, int]
