"""MBRCSL: models of the world and of the data's behaviour dream whole episodes; the best are learnt from.

    1. T̂, r̂ ← maximum likelihood of s' - s, r and the end, and c ‖r̂ - r‖²;  μ ← that of a   (`mbrcsl`)
    2. dreams: s_0 from the data, a_t ~ μ(· | s_t), (s_{t+1}, r_t) ~ T̂, r̂;  those of the highest Σ r̂ are kept
    3. π(a | s, R) on what is kept                                               (`rcsl` over `best_dreams`)

A dream passes from one episode of the data to another wherever they meet, so it can earn what none of them
did: stitching without a Bellman backup. That is why step 3 can ask for it where plain `rcsl` cannot.

Source: Zhou et al., 2023, https://arxiv.org/abs/2310.19308, algorithm 1. There dreams are kept that earn more
than the best episode of the data, and the behaviour is a diffusion policy; here a share is kept (our reading
of the same, without a number to choose anew for each task), and the behaviour is any `Policy`. c is ours: a
Gaussian alone explains a rare reward as noise, and then no dream promises what is paid.
"""

from rlx.envs.control.wrappers import with_return
from rlx.models import dynamics as models_of_the_world
from rlx.models.dynamics import Dynamics
from rlx.models.networks import Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def mbrcsl(rollout: Rollout, behaviour: Policy, dynamics: Dynamics, *, reward_coef: float) -> Algorithm:
  """The first stage; trains `behaviour` and `dynamics`.

  Args:
    rollout: yields transitions of a `commanded` environment.
    behaviour: a distribution of actions that can have several modes where the data do.
    dynamics: a forward model.
    reward_coef: c, of `dynamics.reward_error`; 0 leaves rewards to the likelihood.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    batch = _uncommanded(batch)
    logprobs, _ = behaviour.score(models['behaviour'], batch['observations'], batch['actions'])
    model_loss = models_of_the_world.forward_loss(dynamics, models['dynamics'], batch).mean()
    missed = models_of_the_world.reward_error(dynamics, models['dynamics'], batch).mean()
    metrics = {
        'loss/behaviour': -logprobs.mean(), 'loss/dynamics': model_loss, 'dynamics/reward_error': missed,
    }
    return model_loss + reward_coef * missed - logprobs.mean(), metrics

  return Algorithm(rollout=rollout, loss=loss)


def _uncommanded(batch: Batch) -> Batch:
  """Transitions in which no return is wanted (0): what the world does depends on none."""
  names = ('observations', 'next_observations')
  return {**batch, **{name: with_return(batch[name], 0.0) for name in names}}
