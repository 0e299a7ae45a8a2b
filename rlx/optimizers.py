"""Optimizers by name, for configs: optax chains whose every number is written.

A run puts `finite` around its optimizer, once: it skips an update that is infinite or NaN, and counts how
many it skipped in a row; the train loop stops a run that goes on like this (`optax.apply_if_finite` by itself
would apply the NaN in the end).
"""

from collections.abc import Mapping

import jax.numpy as jnp
import optax

from rlx.errors import at_least, between


def adamw(
    *,
    learning_rate: float,
    warmup_steps: int,
    decay_steps: int,
    final_fraction: float,
    b1: float,
    b2: float,
    eps: float,
    weight_decay: float,
    clip_norm: float,
) -> optax.GradientTransformation:
  """AdamW with warm-up, linear decay and clipping by global norm.

  Args:
    learning_rate: its highest value.
    warmup_steps: updates over which it rises linearly from 0.
    decay_steps: updates after the warm-up over which it falls linearly; 0 keeps it constant.
    final_fraction: of the highest value, where the decay ends.
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the root of the second moment.
    weight_decay: decoupled, times the learning rate.
    clip_norm: the largest global norm of a gradient.
  Raises:
    ValueError: a number is out of its range.
  """
  _check_adam(learning_rate=learning_rate, b1=b1, b2=b2, eps=eps)
  at_least(0, warmup_steps=warmup_steps, decay_steps=decay_steps, weight_decay=weight_decay)
  between(0, 1, final_fraction=final_fraction)
  if not clip_norm > 0:
    raise ValueError(f'clip_norm={clip_norm}: above 0, and large for none')
  schedule = optax.join_schedules(
      [
          optax.linear_schedule(0.0, learning_rate, max(warmup_steps, 1)),
          optax.linear_schedule(learning_rate, learning_rate * final_fraction, decay_steps)
          if decay_steps else optax.constant_schedule(learning_rate),
      ],
      [warmup_steps],
  )
  return optax.chain(
      optax.clip_by_global_norm(clip_norm),
      optax.adamw(schedule, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay),
  )


def adam(*, learning_rate: float, b1: float, b2: float, eps: float) -> optax.GradientTransformation:
  """Adam as it stands.

  Args:
    learning_rate: of all parameters.
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the root of the second moment.
  Raises:
    ValueError: a number is out of its range.
  """
  _check_adam(learning_rate=learning_rate, b1=b1, b2=b2, eps=eps)
  return optax.adam(learning_rate, b1=b1, b2=b2, eps=eps)


def _check_adam(*, b1: float, b2: float, **others: float) -> None:
  at_least(0, **others)
  if not (0 <= b1 < 1 and 0 <= b2 < 1):
    raise ValueError(f'b1={b1}, b2={b2}: from 0 to below 1 each')


def per_model(**models: optax.GradientTransformation) -> optax.GradientTransformation:
  """A whole optimizer for each trained model: its own rate, schedule, clipping and period.

      {'name': 'per_model', 'policy': {'name': 'adamw', ...}, 'value': {'name': 'adam', ...}}

  Args:
    **models: trained model -> its optimizer.
  Raises:
    ValueError: at `init`, a trained model has none.
  """
  return optax.partition(models, lambda params: {name: name for name in params})


def adam_per_model(
    *,
    learning_rates: Mapping[str, float],
    periods: Mapping[str, int],
    b1: float,
    b2: float,
    eps: float,
) -> optax.GradientTransformation:
  """Adam with a learning rate for each trained model, and rests between the updates of some.

  A model of period n moves at every nth update, by the gradient that it then has; at the others it stays as
  it is, and so do its moments.

  Args:
    learning_rates: trained model -> learning rate.
    periods: trained model -> n, 1 for a model that always moves (TD3: 2 for the policy).
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the root of the second moment.
  Raises:
    ValueError: the two do not name the same models, or a period is not positive; at `init`, a trained model
      is named by neither.
  """
  learning_rates, periods = dict(learning_rates), dict(periods)
  if learning_rates.keys() != periods.keys():
    raise ValueError(f'learning_rates has {sorted(learning_rates)}, periods {sorted(periods)}: name the same')
  one = lambda rate: adam(learning_rate=rate, b1=b1, b2=b2, eps=eps)
  return per_model(**{n: every(one(rate), period=periods[n]) for n, rate in learning_rates.items()})


def every(optimizer: optax.GradientTransformation, *, period: int) -> optax.GradientTransformation:
  """The optimizer at every `period`th update, from the one of that number on; nothing moves at the others.

  Args:
    optimizer: in a config, a section of its own.
    period: n, in updates.
  """
  at_least(1, period=period)
  return optax.conditionally_mask(optimizer, lambda count: (count + 1) % period == 0)


def finite(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
  """Skips updates that are infinite or NaN, however many; `optimizer/nonfinite_updates` counts them."""
  return optax.apply_if_finite(optimizer, max_consecutive_errors=jnp.iinfo(jnp.int32).max)
