"""MOPO: an online algorithm learns in a model of the data, and is paid less where the model may be wrong.

    r̃(s, a) = r̂(s, a) - λ u(s, a),   u = max_i ‖Σ_i(s, a)‖

Dreams branch off from states of the data and are a few steps long; a share of each batch is real. The first
stage (`mopo`) fits the model, the second is an off-policy algorithm as it is, such as `sac`, with
`penalised_dreams` for its rollout. At λ = 0 that is MBPO on a fixed data set.

Source: Yu et al., 2020, https://arxiv.org/abs/2005.13239, algorithm 2 and section 4.3. There dreams are kept
in a store for some epochs; here each batch has fresh ones of the policy as it is, and a dream that ends
goes on from another state of the data.
"""

from rlx.models import dynamics as models_of_the_world
from rlx.models.dynamics import Dynamics
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def mopo(rollout: Rollout, dynamics: Dynamics) -> Algorithm:
  """The first stage; trains `dynamics`.

  Args:
    rollout: yields transitions.
    dynamics: a forward model.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    model_loss = models_of_the_world.forward_loss(dynamics, models['dynamics'], batch).mean()
    return model_loss, {'loss/dynamics': model_loss}

  return Algorithm(rollout=rollout, loss=loss)
