"""Deep-DxSearch: a search that hits the disease is paid, beside format, structure and the diagnosis.

    rlx --config=search/clinic_dxsearch --workdir=runs/clinic_dxsearch

The world is `envs/worlds/clinic.py`: past cases and guidelines of a corpus, in which what is typical of a
disease is looked up. An expert, who searches with any two of a patient's symptoms, is imitated a little. GRPO
then learns from a weighted sum of four terms: turns are understood and diseases are named; searches have
shown the right ones; what is named was shown by a search, and its guideline read; all is right. A patient has
two diseases, each with a symptom that says nothing, and there is time for one search more than is needed.
Corpora are held out whole.

In trials of one seed patients had one disease. It was right in 19 % of the episodes after imitation, and a
right diagnosis taught what to search for: with the term of retrieval and without it GRPO came to 60 and 70 %.
With two diseases, 140 steps without the term ended at 25 % hits and no right diagnosis, and with every step
of the structure there. The diagnosis alone, without the other terms as well, was not tried.

How much is shown before decides. Of 64 patients, shown again and again, it is not learnt to read what a
search has found: after 100 steps of GRPO hits differed by 0.13, and 0.05 and 0.04 of the diagnoses were
right, where chance names both diseases in 0.03. Of a thousand patients, on three trial seeds: after 60 steps
of imitation (6 % right) the term alone is learnt, by searching until no turn is left for a diagnosis, and
without it one search is made; after 300 steps (28 % right) GRPO with the term comes to 1 in 80 steps.

Paper: https://arxiv.org/abs/2508.15746 (End-to-End Agentic RAG System Training for Traceable Diagnostic
Reasoning). There the format is a gate and not a term, cases are matched by any number of symptoms, a search
costs a little, and a third tool searches literature.

Result: it shows. Mean of the last 2 eval/held_out/accuracy after 240 train steps, median of 5 seeds (worst):
0.2812 (0.02734), 'without retrieval' 0.01172 (0.003906). Claimed, and got (95 % interval over seeds): above
'without retrieval' by 0.03, got 0.2148 (0.0638 to 0.5404); mean of the last 2 eval/held_out/hit_rate: above
'without retrieval' by 0.03, got 0.2865 (0.1497 to 0.4232). 608 CPU-s on 2 cores of a CPU;
`rlx reproduce search/clinic_dxsearch`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_grpo

TURNS = {'turn_tokens': 4, 'max_turns': 6}  # a search is three characters and the end token
SHOWN = 1000  # patients that the expert shows: of 64 it is not learnt to read what was found
WEIGHTS = {'success': 1.0, 'hit_rate': 1.0, 'structure': 0.2, 'format': 0.1}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = rooms_grpo.get_config(f'smoke={arg.smoke}', steps=140)
  config.seed = 40  # the first ones had been looked at
  config.task = config.sft.task = {
      'name': 'clinic',
      'complaints': 2,
      'diseases': 6,
      'typical': 5,
      'common': 3,
      'noise': 1,
      'corpora': 40 if arg.smoke else 500,  # so many that they have to be read
      'held_out_share': 0.2,
  }
  config.models.policy.update(width=32, mlp_size=64, context_length=72)  # 20 thousand parameters
  config.decoding.max_tokens = 39  # six turns of four, and what is read behind the first five
  config.sft.decoding.max_tokens = 60  # of the expert, who may need six searches
  config.rollout.update(
      batch_size=16 if arg.smoke else 64, num_slots=0, turn_tokens=TURNS['turn_tokens'],
      max_turns={'name': 'controllers.schedules.constant', 'value': TURNS['max_turns']},
  )
  config.reward = {'name': 'of_world.of_parts', 'weights': WEIGHTS}
  config.optimizer.learning_rate = 1e-3
  config.sft.rollout.update(TURNS, max_turns=9, batch_size=config.rollout.batch_size, num_problems=SHOWN)
  config.sft.stop = ConfigDict()  # none: all arms are shown as much
  config.evals.held_out.update(TURNS, num_slots=0)
  config.log.headline = 'eval/held_out/accuracy'
  if not arg.smoke:
    config.sft.steps, config.evals.held_out.problems = 100, 128
  return config


def claim() -> Claim:
  """Beside the same terms without that of retrieval, on as many episodes."""
  hits = mean('eval/held_out/hit_rate', last=2)
  without = 'without retrieval'
  return Claim(
      paper='S008',
      says='without the term of retrieval, fewer searches show the disease and fewer diagnoses are right',
      reading=mean('eval/held_out/accuracy', last=2),
      asserts=(above(without, by=0.03), above(without, by=0.03, reading=hits)),
      controls=(Arm(without, {'reward.weights.hit_rate': 0.0}),),
      minutes=8.0,
  )
