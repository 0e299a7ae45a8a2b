"""How tokens are drawn, and from which distribution: what the sampler and the scorer have in common."""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.engine.stops import Stops
from rlx.kernels.sampler import top_k_threshold, top_p_threshold


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decoding:
  """How tokens are drawn.

  Attributes:
    max_tokens: the most actions a row may take, the end-of-sequence token included.
    min_tokens: an end-of-sequence token cannot be drawn before this many others.
    temperature: divides the logits; 0 is greedy (and scores at temperature 1).
    top_k: only the k likeliest tokens; 0 is off.
    top_p: only the likeliest tokens that together reach this probability; 1 is off.
    sampler: 'gumbel' draws as `jax.random.categorical` does, a number a token of the vocabulary;
      'inverse_cdf' from one uniform number a draw (`kernels/sampler.py`). The same distribution, other draws.
    eos_ids: tokens that end a row; they count as actions.
    pad_id: what stands behind the end of a row.
    min_p: only tokens of at least this share of the likeliest one's probability; 0 is off.
      (https://arxiv.org/abs/2407.01082)
    repetition_penalty: logits of tokens that stand in the row, prompt or answer, are divided by it where they
      are above 0 and multiplied where they are below; 1 is off. (CTRL, https://arxiv.org/abs/1909.05858,
      section 4.1, with the sign as in transformers)
    presence_penalty: taken from the logits of tokens that the answer has said already; 0 is off. (as in the
      APIs of OpenAI and vLLM)
    stop: strings that end a row, or a turn, as an end token does, with the token that completes one.
    stops: their automaton over the vocabulary (`stops.py`), made with the task; None without such strings.

  Both penalties are before the temperature. They look at what a row has said, which a scorer does not: with
  one of them rows are drawn all at once (no slots), and are not scored, so not trained on.
  """

  max_tokens: int
  min_tokens: int
  temperature: float
  top_k: int
  top_p: float
  sampler: str
  eos_ids: tuple[int, ...]
  pad_id: int
  min_p: float = 0.0
  repetition_penalty: float = 1.0
  presence_penalty: float = 0.0
  stop: tuple[str, ...] = ()
  stops: Stops | None = None

  def __post_init__(self):
    if self.max_tokens < 1 or not 0 <= self.min_tokens <= self.max_tokens:
      raise ValueError(
          f'min_tokens={self.min_tokens}, max_tokens={self.max_tokens}: need 0 <= min <= max and max >= 1'
      )
    if not 0 <= self.temperature < float('inf') or self.top_k < 0 or not 0 < self.top_p <= 1:
      raise ValueError(
          f'temperature={self.temperature}, top_k={self.top_k}, top_p={self.top_p}: '
          'need temperature >= 0, top_k >= 0 and 0 < top_p <= 1'
      )
    if not abs(self.presence_penalty) < float('inf'):
      raise ValueError(f'presence_penalty={self.presence_penalty}: needs a finite number')
    if not 0 <= self.min_p <= 1 or self.repetition_penalty <= 0:
      raise ValueError(
          f'min_p={self.min_p}, repetition_penalty={self.repetition_penalty}: need 0 <= min_p <= 1 and a '
          'penalty above 0'
      )
    if self.sampler not in ('gumbel', 'inverse_cdf'):
      raise ValueError(f"sampler={self.sampler!r}: need 'gumbel' or 'inverse_cdf'")

  def is_eos(self, tokens: jax.Array) -> jax.Array:
    """[...] bool: which tokens are end tokens."""
    return jnp.isin(tokens, jnp.array(self.eos_ids, jnp.int32))

  def is_end(self, tokens: jax.Array) -> jax.Array:
    """`is_eos`, for who looks at single tokens. Raises `ValueError` where strings end a row too."""
    if self.stops is not None:
      raise ValueError(f'decoding.stop={self.stop!r}: rows are not ended by strings here; set it to ()')
    return self.is_eos(tokens)

  def unsaid(self, num: int) -> jax.Array:
    """[num] int32 what `follow` begins with."""
    return jnp.zeros(num, jnp.int32)

  def follow(self, heard: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What is remembered of the text of rows [N] behind one more token each, and whether that ends them."""
    if self.stops is None:
      return heard, self.is_eos(tokens)
    heard, ended = self.stops.follow(heard, tokens)
    return heard, ended | self.is_eos(tokens)

  def ends(self, tokens: jax.Array) -> jax.Array:
    """[N, T] bool: which tokens end rows that begin with column 0."""
    return self.is_eos(tokens) if self.stops is None else self.is_eos(tokens) | self.stops.completed(tokens)

  @property
  def greedy(self) -> 'Decoding':
    """The same, without chance."""
    return dataclasses.replace(self, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)

  def require_plain(self, why: str) -> None:
    """Raises `ValueError` where a token is drawn from another distribution than the model's own."""
    plain = dataclasses.replace(self, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    if self.looks_back or self != plain:
      raise ValueError(f'{why}; set min_tokens=0, temperature=1, top_p=1 and no other filter or penalty')

  @property
  def looks_back(self) -> bool:
    """Whether what a row has said changes what it says."""
    return self.repetition_penalty != 1 or self.presence_penalty != 0

  def adjust(
      self, logits: jax.Array, targets: jax.Array | None = None, *, may_end: bool | jax.Array = True,
      said: tuple[jax.Array, jax.Array] | None = None,
  ) -> jax.Array:
    """The logits of the distribution that is sampled: scaled, -inf for what is filtered out.

    Args:
      logits: [..., V] float32.
      targets: [...] int32 tokens that are kept whatever the filter says. The scorer passes what was
        sampled: rounding may put a token at the filter's edge on its other side.
      may_end: [] or [..., 1] bool, False where fewer than `min_tokens` were drawn.
      said: [..., V] bool twice, for the penalties: which tokens stand in the prompt, and in the answer.
    Raises:
      ValueError: there is a penalty, and nobody knows what was said.
    """
    if self.looks_back:
      logits = self._penalised(logits, said)
    logits = logits / (self.temperature or 1.0)
    ends = self.is_eos(jnp.arange(logits.shape[-1]))
    keep = ~jnp.broadcast_to(ends, logits.shape) | may_end
    if self.top_k:
      keep &= logits >= top_k_threshold(jnp.where(keep, logits, -jnp.inf), self.top_k)[..., None]
    if self.top_p < 1:
      keep &= logits >= top_p_threshold(jnp.where(keep, logits, -jnp.inf), self.top_p)[..., None]
    if self.min_p:
      allowed = jnp.where(keep, logits, -jnp.inf)
      keep &= logits >= jnp.max(allowed, axis=-1, keepdims=True) + jnp.log(self.min_p)
    if targets is not None:
      keep |= jax.nn.one_hot(targets, logits.shape[-1], dtype=bool)
    return jnp.where(keep, logits, -jnp.inf)

  def _penalised(self, logits, said):
    if said is None:
      raise ValueError(
          f'repetition_penalty={self.repetition_penalty}, presence_penalty={self.presence_penalty}: rows '
          'that look back are drawn without slots, and are not scored; to train, set 1 and 0'
      )
    asked, answered = said
    repeated = jnp.where(logits > 0, logits / self.repetition_penalty, logits * self.repetition_penalty)
    return jnp.where(asked | answered, repeated, logits) - self.presence_penalty * answered
