"""What of the facts a policy states, against the truth, which nobody learns from: sums, without chance."""

import jax
import jax.numpy as jnp

from rlx.envs import facts, gold
from rlx.evaluation.evaluation import Evaluation
from rlx.types import Models, World


def factuality(world: gold.Worlds, policy: facts.Stating, *, known: float) -> Evaluation:
  """Recall and hallucination of reports, in expectation.

  The metrics: `recall`, the share of the true claims of the checklist that are stated; `hallucinated`, the
  share of stated claims that are false; `stated`, of all claims; `net`, how many known facts are stated less
  how many false claims are, for each known fact.

  Args:
    world: of facts.
    policy: what is measured.
    known: see `facts.checklist`.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, chance = models['world'], jax.nn.sigmoid(policy.odds(models['policy']))
    facts_known = facts.checklist(there, known=known) & there.truth
    stated = lambda which: jnp.sum(jnp.where(which, chance, 0))
    right, wrong = stated(facts_known), stated(~there.truth)
    return {
        'recall': right / facts_known.sum(), 'hallucinated': wrong / chance.sum(), 'stated': jnp.mean(chance),
        'net': (right - wrong) / facts_known.sum(),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))
