"""DeepResearcher: trained in a web that fails, more is found in it than after training in a clean one.

    rlx --config=search/noisy_deepresearcher --workdir=runs/deepresearcher

The world is `envs/worlds/noisy_web.py`: a fact is to be found by searches and by having pages read; in the
noisy web calls come back with nothing and pages are about something else. A little imitation, in a web with
little noise, shows what calls look like, and now and then that one is made again; GRPO then has the F1 of the
answer as its reward, and what tools said is in no loss. Both are examined with much noise and without.

Paper: https://arxiv.org/abs/2504.03160. There the web is the real one and a second model reads pages; here
the world's own rule reads them, and an answer in a wrong format gets nothing, and no penalty.

Imitated in a web without noise, a policy never sees a call made again and is sure of what it does (entropy
0.1), and GRPO does not find it: 0.43 of F1 with noise beside 0.38, medians of five seeds, claimed with 0.1
between them; a trial seed came to 0.52, one with a rate of 1e-3 and 2.4 times the steps to 0.51, one of 2e-3
with an entropy bonus fell to 0.23. With the imitation of here, more noise, half of the episodes and half as
many steps more, three trial seeds came to 0.83, 0.75 and 0.57, and trained clean to 0.60, 0.58 and 0.54. On
one trial seed twice the rate is no better for 'trained clean' (0.54, and 0.68 with half of the episodes and
the rate of here). So 0.05 is claimed. Questions about two subjects were tried before, with three times the
rate, and answers were unlearnt.

Result: it shows. Final eval/noisy/f1 after 180 train steps, median of 5 seeds (worst): 0.6875 (0.6686),
'trained clean' 0.5632 (0.5469). Claimed, and got (95 % interval over seeds): above 'trained clean' by 0.05,
got 0.1419 (0.1107 to 0.1801); final eval/noisy/accuracy: above 'trained clean' by 0.05, got 0.1732 (0.1263 to
0.2214). 793 CPU-s on 1 cores of a CPU; `rlx reproduce search/noisy_deepresearcher`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.agents import library_grpo

TURNS = {'turn_tokens': 4, 'max_turns': 8}  # an answer of three characters and the end token
NOISE = {'dropped': 0.3, 'distracting': 0.5}
LITTLE = {'dropped': 0.1, 'distracting': 0.1}  # of the web that is imitated in
CLEAN = {'dropped': 0.0, 'distracting': 0.0}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = library_grpo.get_config(f'smoke={arg.smoke},small=True', steps=100)
  web = {'name': 'worlds.noisy_web.noisy_web', 'subjects': 4, 'digits': 8, 'held_out_share': 0.1}
  config.task, config.sft.task = {**web, **NOISE}, {**web, **LITTLE}
  config.models.policy.context_length = 58  # tokens
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 56  # said and read, behind the prompt
  config.rollout.update(turn_tokens=TURNS['turn_tokens'], num_slots=0)
  config.rollout.max_turns.value = TURNS['max_turns']
  config.sft.rollout.update(TURNS)
  config.sft.stop = ConfigDict()
  config.sft.steps = 4 if arg.smoke else 60
  every = 2 if arg.smoke else 60
  exam = {
      **config.evals.held_out.to_dict(), **TURNS, 'name': 'sampled_turns', 'num_slots': 0, 'every': every
  }
  config.evals = ConfigDict({
      'noisy': {**exam, 'task': {**web, **NOISE}}, 'clean': {**exam, 'task': {**web, **CLEAN}},
  })
  config.optimizer.update(learning_rate=5e-4, decay_steps=0)
  config.log.headline = 'eval/noisy/f1'
  if not arg.smoke:
    config.steps, config.rollout.batch_size = 120, 128
    config.evals.noisy.problems = config.evals.clean.problems = 256
  return config


def claim() -> Claim:
  """The same GRPO on as many episodes in the web without noise; both then answer in the noisy one."""
  return Claim(
      paper='S005',
      says='with noise, who was trained with noise answers better than who was trained without',
      reading=final('eval/noisy/f1'),
      asserts=(
          above('trained clean', by=0.05),
          above('trained clean', by=0.05, reading=final('eval/noisy/accuracy')),
      ),
      controls=(Arm('trained clean', {f'task.{name}': value for name, value in CLEAN.items()}),),
      minutes=7.0,
  )
