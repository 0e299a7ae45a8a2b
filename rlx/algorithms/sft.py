"""SFT: maximum likelihood of the actions of demonstrations, each token weighing the same."""

from rlx import reductions
from rlx.engine.speaker import Speaker
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def sft(rollout: Rollout, policy: Speaker) -> Algorithm:
  """Minimises -log π(a|s) over the tokens of demonstrations.

  Args:
    rollout: yields rows whose actions are the demonstrated tokens.
    policy: scores rows; its parameters are trained.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    return {**batch, 'weights': reductions.token_mean(batch['action_mask'])}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    nll = reductions.weighted_mean(-logprobs, batch['weights'])
    return nll, {'loss/nll': nll, 'policy/entropy': reductions.weighted_mean(entropy, batch['weights'])}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
