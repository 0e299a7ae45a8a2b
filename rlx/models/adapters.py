"""LoRA and partly trained models: a small tree of adapters beside a base that never changes.

    W' = W + α/r A B

Adapters are a nested dict laid out as the base is: for its `layers/query` [L, D, K, H] they hold
`layers/query_lora_a` [L, D, r] and `layers/query_lora_b` [L, r, K, H], which `transformer` multiplies with
where they are attached. Parts that are trained whole (`Lora.full`) stand under their own names. All are
float32, whatever the dtype of the base.

`lora.py` makes a model of them that is found by its name; `peft.py` exchanges them with directories of PEFT.

Source: Hu et al., 2021, https://arxiv.org/abs/2106.09685, eq. 3.
"""

import dataclasses
import math
import re

from flax import traverse_util
import jax
import jax.numpy as jnp

from rlx.models.transformer import Params

Adapters = dict
A, B = '_lora_a', '_lora_b'  # endings of their names
_NUM_IN_OUT = {  # the matrices that `transformer` multiplies with: how many axes go in, and come out
    'query': (1, 2),
    'key': (1, 2),
    'value': (1, 2),
    'attention_out': (2, 1),
    'gate': (1, 1),
    'up': (1, 1),
    'down': (1, 1),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lora:
  """What is trained of a model.

  Attributes:
    rank: r, columns of A; 0 for no adapters, where only `full` is trained.
    alpha: α; the product A B counts α/r times. 0 without adapters.
    targets: regular expression for the whole path of a matrix that gets an adapter, such as
      'layers/(query|value)'; '' without adapters.
    full: the same for what is trained whole beside them, such as 'final_norm/scale' (`modules_to_save` in
      PEFT); '' for nothing.
  """

  rank: int
  alpha: float
  targets: str
  full: str

  def __post_init__(self):
    with_adapters = self.rank > 0 and self.alpha > 0 and self.targets != ''
    if not with_adapters and (self.rank, self.alpha, self.targets) != (0, 0, ''):
      raise ValueError(
          f'lora.rank={self.rank}, alpha={self.alpha}, targets={self.targets!r} do not go together: adapters '
          "need a rank and an alpha above 0 and targets; to train only `full`, set 0, 0 and ''"
      )
    if not self.targets and not self.full:
      raise ValueError("lora.targets='' and full='' train nothing; name a parameter in one of them")
    for field in ('targets', 'full'):
      pattern = getattr(self, field)
      try:
        re.compile(pattern)
      except re.error as error:
        raise ValueError(f'lora.{field}={pattern!r} is no regular expression: {error}') from error

  @property
  def scale(self) -> float:
    """What the product A B is multiplied by."""
    return self.alpha / self.rank


def init(key: jax.Array, base: Params, lora: Lora) -> Adapters:
  """Adapters with which the model is still its base: A is random, B is zero, `full` parts are copies.

  A is uniform in ± 1/sqrt(fan-in), as PEFT's (Kaiming with a = sqrt(5)).

  Args:
    key: consumed.
    base: weights, such as those of `transformer.init`.
    lora: what to train.
  Returns:
    A nested dict of float32 arrays that share no memory with the base.
  Raises:
    ValueError: `targets` or `full` match nothing, match the same parameter, or no adapter fits a target.
  """
  base = flatten(base)
  targets, full = _matches(base, lora, 'targets'), _matches(base, lora, 'full')
  _check_targets(targets, full)
  adapters = {path: jnp.array(base[path], jnp.float32, copy=True) for path in full}
  for path, a_key in zip(targets, jax.random.split(key, len(targets)), strict=True):
    stack, in_shape, out_shape = _split_shape(path, base[path].shape)
    bound = math.prod(in_shape) ** -0.5
    a_shape = (*stack, *in_shape, lora.rank)
    adapters[path + A] = jax.random.uniform(a_key, a_shape, jnp.float32, -bound, bound)
    adapters[path + B] = jnp.zeros((*stack, lora.rank, *out_shape), jnp.float32)
  return unflatten(adapters)


def attach(base: Params, adapters: Adapters, lora: Lora) -> Params:
  """The adapted model as `transformer.forward` and `decode` take it: x W + (x A) (α/r B).

  Args:
    base: weights; the arrays themselves are in the result, but for those that are trained whole.
    adapters: from `init`.
    lora: as given to `init`.
  Raises:
    ValueError: an adapter belongs to nothing in the base.
  """
  base, adapters = flatten(base), flatten(adapters)
  _check_owners(base, adapters)
  scaled = {path: leaf * lora.scale if path.endswith(B) else leaf for path, leaf in adapters.items()}
  return unflatten({**base, **scaled})


def merge(base: Params, adapters: Adapters, lora: Lora) -> Params:
  """The adapted model as plain weights, W + α/r A B, for export.

  Args:
    base: weights.
    adapters: from `init`.
    lora: as given to `init`.
  Returns:
    Weights in the structure and dtypes of the base; computed in float32. What was not trained is the base's.
  Raises:
    ValueError: an adapter belongs to nothing in the base.
  """
  merged, adapters = flatten(base), flatten(adapters)
  _check_owners(merged, adapters)
  for path in [owner(path) for path in adapters if not path.endswith(B)]:
    weights = merged[path]
    if path in adapters:
      trained = adapters[path]
    else:
      product = _product(path, adapters[path + A], adapters[path + B], weights.shape)
      trained = weights.astype(jnp.float32) + lora.scale * product
    merged[path] = trained.astype(weights.dtype)
  return unflatten(merged)


# --- paths and shapes ---------------------------------------------------------------------------------------


def plain(attached: Params) -> Params:
  """Plain weights of a model as `attach` makes it: its adapters added up. Without adapters, a copy."""
  leaves = flatten(attached)
  ends = {path for path in leaves if path.endswith((A, B))}
  weights = {path: jnp.copy(leaf) for path, leaf in leaves.items() if path not in ends}
  for path in {owner(path) for path in ends}:
    product = _product(path, leaves[path + A], leaves[path + B], weights[path].shape)
    weights[path] = (weights[path].astype(jnp.float32) + product).astype(weights[path].dtype)
  return unflatten(weights)


def flatten(tree) -> dict[str, jax.Array]:
  """Path -> array."""
  return traverse_util.flatten_dict(tree, sep='/')


def unflatten(leaves) -> dict:
  """The tree again."""
  return traverse_util.unflatten_dict(leaves, sep='/')


def _matches(base: dict, lora: Lora, field: str) -> list[str]:
  """The paths that one of the expressions matches."""
  pattern = getattr(lora, field)
  matched = [path for path in sorted(base) if re.fullmatch(pattern, path)]
  if pattern and not matched:
    raise ValueError(f'lora.{field}={pattern!r} matches no parameter; there are {", ".join(sorted(base))}')
  return matched


def is_matrix(path: str) -> bool:
  """Whether an adapter fits."""
  return path.rpartition('/')[2] in _NUM_IN_OUT


def _check_targets(targets: list[str], full: list[str]) -> None:
  others = [path for path in targets if not is_matrix(path)]
  if others:
    raise ValueError(
        f'lora.targets matches {", ".join(others)}; adapters fit {", ".join(_NUM_IN_OUT)}: narrow it, and '
        'train other parts through lora.full'
    )
  both = [path for path in targets if path in full]
  if both:
    raise ValueError(f'lora.targets and lora.full both match {", ".join(both)}; narrow one of them')


def owner(path: str) -> str:
  """The parameter that an adapter's array belongs to."""
  return path.removesuffix(A).removesuffix(B)


def _check_owners(base: dict, adapters: dict) -> None:
  strays = [path for path in adapters if owner(path) not in base]
  if strays:
    raise ValueError(
        f'the adapters {", ".join(strays)} belong to nothing in the base; use those of the same model'
    )


def _split_shape(path: str, shape: tuple[int, ...]) -> tuple[tuple, tuple, tuple]:
  """Shape of a matrix as stacked layers, axes that go in, and axes that come out."""
  num_in, num_out = _NUM_IN_OUT[path.rpartition('/')[2]]
  first_in, first_out = len(shape) - num_in - num_out, len(shape) - num_out
  return shape[:first_in], shape[first_in:first_out], shape[first_out:]


def _product(path: str, a: jax.Array, b: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  """A B in the shape of the matrix that it is added to."""
  stack, _, _ = _split_shape(path, shape)
  a, b = a.reshape(*stack, -1, a.shape[-1]), b.reshape(*stack, a.shape[-1], -1)
  return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST).reshape(shape)
