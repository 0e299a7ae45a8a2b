"""RCSL: supervised learning of the actions that went with a return, and then the best return is asked for.

    L = -mean log π(a | s, R),   R = Σ_{t' >= t} r_t'

What is wanted stands behind the observation: `commanded` is an environment that shows how much of a target
is still to be earned. Nothing is bootstrapped, so nothing diverges; but a return that no episode had from a
state on cannot be asked for there, even if its pieces are in the data (`mbrcsl` puts them together).

Source: Brandfonbrener et al., 2022, https://arxiv.org/abs/2206.01079; Emmons et al., 2021 (RvS),
https://arxiv.org/abs/2112.10751. RvS conditions on the average return of the steps that are left.
"""

from rlx.envs.control.wrappers import with_return
from rlx.models.networks import Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def rcsl(rollout: Rollout, policy: Policy) -> Algorithm:
  """Return-conditioned supervised learning; trains `policy`.

  Args:
    rollout: yields `observations` of a `commanded` environment, `actions` and `returns_to_go` [B], what was
      earned from each row on, undiscounted.
    policy: a distribution of actions, for an observation of a `commanded` environment.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    observations = with_return(batch['observations'], batch['returns_to_go'])
    logprobs, entropy = policy.score(models['policy'], observations, batch['actions'])
    policy_loss = -logprobs.mean()
    return policy_loss, {'loss/policy': policy_loss, 'policy/entropy': entropy.mean()}

  return Algorithm(rollout=rollout, loss=loss)
