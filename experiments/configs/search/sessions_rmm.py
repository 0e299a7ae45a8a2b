"""RMM: a memory by topic, and a reranker that learns from the citations of a frozen answerer alone.

    rlx --config=search/sessions_rmm --workdir=runs/sessions

The world is `envs/sessions.py`. A small decoder first learns to answer from entries of a bank and to cite
(`write`), and is frozen. The reranker reads a question and each entry apart, takes two, and is paid for each
that the answer cites. Nobody tells it which entry is needed: `recall` and `accuracy` are the evaluation's
alone. What a topic comes to is merged by the world's rule, where a language model writes it there.
Of a topic three things are said on average, so that entries by turn are both fragments and old news, and of
sessions two are three times as much to read. One seed with an answerer of four times the parameters was
looked at before; nothing was changed but that.

Paper: https://arxiv.org/abs/2503.08026

Result: it shows. Mean of the last 3 eval/held_out/recall after 400 train steps, median of 5 seeds (worst): 1
(0.9993), 'an answerer that has learnt nothing' 0.3517 (0.2623), 'a fixed reranker' 0.324 (0.211), 'by turn'
0.3873 (0.358), 'by session' 0.661 (0.331). Claimed, and got (95 % interval over seeds): above 0.8, got 1
(0.9996 to 1); mean of the last 3 eval/held_out/accuracy: above 'by turn' by 0.1, got 0.5678 (0.5467 to
0.5972). 300 CPU-s on 1 cores of a CPU; `rlx reproduce search/sessions_rmm`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
from rlx.experiments.configs.quickstart import arithmetic

ANSWERER = {'policy': 'answerer'}  # role -> model


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=100)
  config.stages = ('write', 'main')
  config.task = {
      'name': 'sessions.by_topic',
      'topics': 6,
      'sessions': 6,
      'turns': 3,
      'values': 8,
      'num_read': 2,
      'held_out_share': 0.2,
  }
  config.models = ConfigDict({
      'answerer': {  # 20 thousand parameters
          **config.models.policy.to_dict(), 'width': 32, 'mlp_size': 64, 'context_length': 20
      },
      'reranker': {'name': 'retriever', 'width': 16, 'hidden': (64,), 'size': 32},
  })
  config.trained = ('reranker',)
  config.slow = {'answerer': 'answerer'}  # frozen
  config.decoding.max_tokens = 3  # a place, a value and the end token
  config.rollout = {'name': 'sessions.cited_entries', 'batch_size': 256}
  del config['reward']
  config.algorithm = {'name': 'rmm'}
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=3e-3, decay_steps=0)
  config.write = {
      'steps': 300,
      'stop': ConfigDict(),
      'trained': ('answerer',),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {'name': 'solutions', 'names': ANSWERER, 'batch_size': 128},
      'algorithm': {'name': 'sft', 'names': ANSWERER},
      'updates': config.updates.to_dict(),
      'optimizer': {**config.optimizer.to_dict(), 'learning_rate': 3e-3},
  }
  del config.sft
  config.evals = ConfigDict({'held_out': {'name': 'sessions.recalled', 'every': 20, 'problems': 1000}})
  config.log.headline = 'eval/held_out/recall'
  if arg.smoke:
    config.steps = config.write.steps = 4
    config.rollout.batch_size = config.write.rollout.batch_size = 16
    config.evals.held_out.update(every=2, problems=16)
    config.checkpoint = {'every': 2, 'keep': 2}
    config.log.update(steps_per_dispatch=2, samples=2)
  return config


def claim() -> Claim:
  """Controls: an answerer that has not learnt to cite, and a reranker that stays as it began.

  Beside: entries that are what was said in a turn, and in a session, of which as many are read.
  """
  bank = lambda name: {'task.name': f'sessions.{name}'}
  accuracy = mean('eval/held_out/accuracy', last=3)
  return Claim(
      paper='S239',
      says='from citations alone a reranker takes what is needed, and entries by topic answer more than '
      'entries by turn',
      reading=mean('eval/held_out/recall', last=3),
      asserts=(
          reaches(0.8),
          above('by turn', by=0.1, reading=accuracy),
      ),
      controls=(
          Arm('an answerer that has learnt nothing', {'write.optimizer.learning_rate': 1e-9}),
          Arm('a fixed reranker', {'optimizer.learning_rate': 1e-9}),
      ),
      beside=(Arm('by turn', bank('by_turn')), Arm('by session', bank('by_session'))),
      minutes=5.0,
  )
