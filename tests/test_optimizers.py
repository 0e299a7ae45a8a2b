"""Optimizers that treat the models of a run differently."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import optimizers

ADAM = dict(b1=0.9, b2=0.999, eps=1e-8)
PARAMS = {'policy': {'w': jnp.zeros(2)}, 'critic': jnp.zeros(3)}


def per_model(**periods):
  return optimizers.adam_per_model(
      learning_rates={'policy': 0.1, 'critic': 0.01}, periods={'policy': 1, 'critic': 1, **periods}, **ADAM
  )


def moves(optimizer, gradients):
  """Updates of both models, one after the other."""
  state, seen = optimizer.init(PARAMS), []
  for size in gradients:
    grads = {'policy': {'w': jnp.full(2, size)}, 'critic': jnp.full(3, size)}
    updates, state = optimizer.update(grads, state, PARAMS)
    seen.append((float(updates['policy']['w'][0]), float(updates['critic'][0])))
  return np.array(seen)


def test_each_model_has_its_learning_rate():
  np.testing.assert_allclose(moves(per_model(), [3.0]), [[-0.1, -0.01]], rtol=1e-5)


def test_a_model_rests_between_its_updates_and_forgets_nothing():
  gradients = [5.0, 1.0, -7.0, 2.0]
  seen = moves(per_model(policy=2), gradients)
  adam = optax.adam(0.1, **ADAM)
  state, alone = adam.init(jnp.zeros(())), []
  for size in gradients[1::2]:  # it never hears of the others
    update, state = adam.update(jnp.float32(size), state)
    alone.append(float(update))
  np.testing.assert_allclose(seen[:, 0], [0, alone[0], 0, alone[1]], rtol=1e-5)
  assert (seen[:, 1] != 0).all()


def test_what_is_not_named_is_an_error():
  with pytest.raises(ValueError, match='name the same'):
    optimizers.adam_per_model(learning_rates={'policy': 0.1}, periods={'critic': 1}, **ADAM)
  with pytest.raises(ValueError, match='at least 1'):
    per_model(critic=0)
  with pytest.raises(ValueError, match='value'):
    per_model().init({**PARAMS, 'value': jnp.zeros(1)})
