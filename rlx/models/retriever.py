"""A retriever of two readers: a query and a candidate are read apart, and meet in a scalar product."""

import math

import jax
import jax.numpy as jnp

from rlx.envs.retrieval import RetrievalTask
from rlx.models import mlp
from rlx.models.networks import Network
from rlx.types import Key


def retriever(task: RetrievalTask, *, width: int, hidden: tuple[int, ...], size: int) -> Network:
  """`apply(params, queries [..., Q], candidates [..., K, C]) -> [..., K]`, log-odds of taking a candidate.

      s(q, c) = e_q(q) · e_c(c) / √size

  An empty candidate, padding alone, is read as any other: how much it is worth is learnt with the rest.

  Args:
    task: whose tokens it knows, and how long queries and candidates are.
    width: of the embedding of a token, which both readers share.
    hidden: sizes of the hidden layers of both.
    size: of what is compared.
  """

  def init(key: Key):
    token_key, query_key, candidate_key = jax.random.split(key, 3)
    reader = lambda key, columns: mlp.init(
        key, (columns * width, *hidden, size), scale=math.sqrt(2), final_scale=1.0, layer_norm=False
    )
    return {
        'tokens': jax.random.normal(token_key, (task.vocab_size, width)),
        'query': reader(query_key, task.query_columns),
        'candidate': reader(candidate_key, task.candidate_shape[1]),
    }

  def apply(params, queries: jax.Array, candidates: jax.Array) -> jax.Array:
    read = lambda reader, x: mlp.apply(
        reader, params['tokens'][x].reshape(*x.shape[:-1], -1), jax.nn.relu
    )
    query, candidate = read(params['query'], queries), read(params['candidate'], candidates)
    return jnp.einsum('...d,...kd->...k', query, candidate) / math.sqrt(size)

  return Network(init=init, apply=apply)
