"""DeepResearcher: trained in a web that fails, more is found in it than after training in a clean one.

    rlx --config=search/noisy_deepresearcher --workdir=runs/deepresearcher

The world is `envs/worlds/noisy_web.py`: a fact is to be found by searches and by having pages read; in the
noisy web calls come back with nothing and pages are about something else. A little imitation, in a web
without noise, shows what calls look like; GRPO then has the F1 of the answer as its reward, and what tools
said is in no loss. Both are examined with noise and without.

Paper: https://arxiv.org/abs/2504.03160. There the web is the real one and a second model reads pages; here
the world's own rule reads them, and an answer in a wrong format gets nothing, and no penalty.

In a first trial of one seed, questions were about two subjects and the learning rate three times as high:
GRPO raised the F1 with noise from 0.30 to 0.33, no answer was wholly right any more, and without noise it
fell from 0.77 to 0.50. So a question is about one subject now, and steps are smaller.

Result: it does not show. Final eval/noisy/f1 after 160 train steps, median of 5 seeds (worst): 0.4323
(0.3802), 'trained clean' 0.3828 (0.3711). Claimed, and got (95 % interval over seeds): above 'trained clean'
by 0.1, got 0.02908 (-0.02691 to 0.09115), the run fails it; final eval/noisy/accuracy: above 'trained clean'
by 0.1, got 0.00521 (-0.02084 to 0.02604), the run fails it. 554 CPU-s on 2 cores of a CPU;
`rlx reproduce search/noisy_deepresearcher`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.agents import library_grpo

TURNS = {'turn_tokens': 4, 'max_turns': 8}  # an answer of three characters and the end token
NOISE = {'dropped': 0.2, 'distracting': 0.4}
CLEAN = {'dropped': 0.0, 'distracting': 0.0}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = library_grpo.get_config(f'smoke={arg.smoke},small=True', steps=100)
  web = {'name': 'worlds.noisy_web.noisy_web', 'subjects': 4, 'digits': 8, 'held_out_share': 0.1}
  config.task, config.sft.task = {**web, **NOISE}, {**web, **CLEAN}
  config.models.policy.context_length = 58  # tokens
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 56  # said and read, behind the prompt
  config.rollout.update(turn_tokens=TURNS['turn_tokens'], num_slots=0)
  config.rollout.max_turns.value = TURNS['max_turns']
  config.sft.rollout.update(TURNS)
  config.sft.stop = ConfigDict()
  config.sft.steps = 4 if arg.smoke else 60
  exam = {**config.evals.held_out.to_dict(), **TURNS, 'name': 'sampled_turns', 'num_slots': 0}
  config.evals = ConfigDict({
      'noisy': {**exam, 'task': {**web, **NOISE}}, 'clean': {**exam, 'task': {**web, **CLEAN}},
  })
  config.optimizer.update(learning_rate=5e-4, decay_steps=0)
  config.log.headline = 'eval/noisy/f1'
  if not arg.smoke:
    config.steps = 100
    config.evals.noisy.problems = config.evals.clean.problems = 128
  return config


def claim() -> Claim:
  """The same GRPO on as many episodes in the web without noise; both then answer in the noisy one."""
  return Claim(
      paper='S005',
      says='with noise, who was trained with noise answers better than who was trained without',
      reading=final('eval/noisy/f1'),
      asserts=(
          above('trained clean', by=0.1),
          above('trained clean', by=0.1, reading=final('eval/noisy/accuracy')),
      ),
      controls=(Arm('trained clean', {f'task.{name}': value for name, value in CLEAN.items()}),),
      minutes=6.0,
  )
