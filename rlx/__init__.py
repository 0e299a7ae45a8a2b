"""rlx: reinforcement learning as one compiled train step.

These are a dozen names to begin with; everything else is by module.
"""

import importlib

_FACE = {
    'Algorithm': 'rlx.types', 'State': 'rlx.types', 'StatefulRollout': 'rlx.types',
    'make_train_step': 'rlx.step', 'load': 'rlx.config', 'build': 'rlx.run.build', 'train': 'rlx.run.train',
    'LanguageModel': 'rlx.models.language', 'TransformerConfig': 'rlx.models.transformer',
    'Decoding': 'rlx.engine.decoding', 'Speaker': 'rlx.engine.speaker', 'Task': 'rlx.envs.text',
    'Environment': 'rlx.envs.control.environment', 'finetune': 'rlx.experiments.finetune',
}
__all__ = sorted(_FACE)


def __getattr__(name: str):
  """Imported when it is asked for: `import rlx` itself costs nothing."""
  if name == '__version__':  # setup.cfg has it
    return importlib.import_module('importlib.metadata').version('rlx')
  if name not in _FACE:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}; it has {", ".join(__all__)}')
  return getattr(importlib.import_module(_FACE[name]), name)


def __dir__() -> list[str]:
  return __all__
