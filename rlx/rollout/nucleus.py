"""Sampling inside another policy's nucleus: a past policy decides what may be said, the present one says it.

Of each distribution the past policy's likeliest tokens that together reach top_p are kept, and the present
policy is renormalised over them. The temperature and the least length of a row are those of `Decoding`, for
both. `score` computes the log-probs of the same distribution again, for training as for any other sampler;
what is masked has neither probability nor gradient.

Source: NLPO, Ramamurthy et al., 2022, https://arxiv.org/abs/2210.01241. The authors' code keeps at least 100
tokens of some 50,000 (`min_kept`).
"""

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine import stepwise
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.losses import entropy as entropy_control
from rlx.models.language import LanguageModel
from rlx.rollout.prompts import sampled
from rlx.types import Batch, Key, Models, StatefulRollout

MODELS = ('policy', 'past')  # who speaks, and whose nucleus it is


def restrict(
    logits: jax.Array, past_logits: jax.Array, targets: jax.Array | None = None, *, top_p: float,
    min_kept: int,
) -> jax.Array:
  """Logits of the present policy, -inf outside the past policy's nucleus.

  Args:
    logits: [..., V] float32 of the policy that speaks.
    past_logits: [..., V] float32 of the one that decides; -inf for what cannot be drawn.
    targets: [...] int32 tokens that are kept whatever the mask says. The scorer passes what was sampled:
      rounding may put a token at the nucleus's edge on its other side.
    top_p: in (0, 1]; at 1 nothing is masked.
    min_kept: of the likeliest tokens, so many are kept at least.
  """
  keep = entropy_control.nucleus(past_logits, top_p=top_p) if top_p < 1 else past_logits > -jnp.inf
  keep |= past_logits >= jax.lax.top_k(past_logits, min_kept)[0][..., -1:]
  if targets is not None:
    keep |= jax.nn.one_hot(targets, logits.shape[-1], dtype=bool)
  return jnp.where(keep, logits, -jnp.inf)


def score(
    models: Models, policy: Speaker, past: Speaker, batch: Batch, *, top_p: float, min_kept: int
) -> tuple[jax.Array, jax.Array]:
  """Log-probs of the actions, and entropies, of the distributions that `sample` draws from.

  [B, max_tokens, V] is built, for both models.

  Args:
    models: `policy` and `past`.
    policy: as it was sampled with.
    past: as it was sampled with.
    batch: rows of `sample`.
    top_p: as the sampler's, like `min_kept`.
    min_kept: see `restrict`.
  Returns:
    [B, T] float32 each, zero where `action_mask` is False; constant in `past`.
  """
  decoding, decoders = policy.decoding, _decoders(policy, past)
  taken = window(batch['tokens'], batch['prompt_lengths'], decoding.max_tokens)
  logits, past_logits = (
      stepwise.base_logits(models[name], model, batch, decoding=decoding)
      for name, model in decoders.items()
  )
  logprobs = jax.nn.log_softmax(restrict(logits, past_logits, taken, top_p=top_p, min_kept=min_kept))
  picked = jnp.take_along_axis(logprobs, taken[..., None], axis=-1)[..., 0]
  finite = jnp.where(logprobs > -jnp.inf, logprobs, 0)  # or 0 * inf would be in the gradient
  entropy = -jnp.sum(jnp.where(logprobs > -jnp.inf, jnp.exp(finite), 0) * finite, axis=-1)
  spread = lambda x: jnp.where(
      batch['action_mask'], window(x, -batch['prompt_lengths'], batch['tokens'].shape[1]), 0
  )
  return spread(picked), spread(entropy)


def sample(
    models: Models, policy: Speaker, past: Speaker, prompts: jax.Array, prompt_lengths: jax.Array,
    key: jax.Array, *, group_size: int, top_p: float, min_kept: int, greedy: bool,
) -> Batch:
  """`sample.sample` inside the nucleus of `models['past']`; all rows are decoded at once.

  Args:
    models: `policy` and `past`.
    policy: draws, without filters of its own.
    past: whose nucleus it is, under the decoding of `policy`.
    prompts: [P, Tp] int32, contiguous from column 0.
    prompt_lengths: [P] int32, at least 1.
    key: the noise of the whole batch.
    group_size: samples a prompt.
    top_p: in (0, 1], of the past policy.
    min_kept: tokens that are left at least.
    greedy: take the likeliest tokens.
  Returns:
    The batch that `sample.sample` describes; `sampler_logprobs` are of the restricted distribution.
  Raises:
    ValueError: prompt and completion do not fit the context, or there is another filter.
  """
  check(policy, top_p, min_kept)
  decoders = _decoders(policy, past)

  def restricted(models: Models, hidden: dict[str, jax.Array], column: jax.Array) -> jax.Array:
    logits, past_logits = (
        engine.adjusted_logits(models[name], model, policy.decoding, hidden[name], column)
        for name, model in decoders.items()
    )
    return restrict(logits, past_logits, top_p=top_p, min_kept=min_kept)

  return stepwise.together(
      models, decoders, prompts, prompt_lengths, key, restricted, group_size=group_size,
      decoding=policy.decoding, greedy=greedy,
  )


def _decoders(policy: Speaker, past: Speaker) -> dict[str, LanguageModel]:
  return {'policy': policy.model, 'past': past.model}


def check(policy: Speaker, top_p: float, min_kept: int) -> None:
  """Raises `ValueError` where a number is out of range, or where the policy has a filter of its own.

  The likeliest tokens of one policy and the nucleus of another may have none in common.
  """
  if not 0 < top_p <= 1:
    raise ValueError(f'top_p={top_p} of the past policy: need 0 < top_p <= 1')
  if not 1 <= min_kept <= policy.model.vocab_size:
    raise ValueError(f'min_kept={min_kept} is not in 1..{policy.model.vocab_size}, the tokens that there are')
  decoding = policy.decoding
  if decoding.top_k or decoding.top_p < 1 or decoding.min_p:
    raise ValueError(
        f'decoding.top_k={decoding.top_k}, top_p={decoding.top_p}, min_p={decoding.min_p} filter the policy '
        'that the past one filters already; set them to 0, 1 and 0'
    )


def completions(
    task: Task | Dataset, policy: Speaker, past: Speaker, *, batch_size: int, group_size: int, top_p: float,
    min_kept: int,
) -> StatefulRollout:
  """Draws training problems and samples completions of `models['policy']` inside the nucleus of `past`.

  Args:
    task: where problems come from.
    policy: samples, without filters of its own.
    past: whose nucleus it is: `models['past']`.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    top_p: in (0, 1], of the past policy.
    min_kept: tokens that are left at least; 1 for the nucleus alone.
  Returns:
    A `rollout` function; its `sampler_logprobs` are of the restricted distribution.
  Raises:
    ValueError: `group_size` does not divide `batch_size`, or there is another filter.
  """
  check(policy, top_p, min_kept)

  def draw(models: Models, prompts: jax.Array, lengths: jax.Array, key: Key) -> Batch:
    return sample(
        models, policy, past, prompts, lengths, key, group_size=group_size, top_p=top_p, min_kept=min_kept,
        greedy=False,
    )

  return sampled(task, draw, batch_size=batch_size, group_size=group_size)
