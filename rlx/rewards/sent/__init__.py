"""What is sent into a sandbox: files whose functions run in there, where nothing of rlx is.

The code of the functions travels, all of a file and nothing besides (`functions`). So a file here

- holds functions only: a constant, a class or an import at its top stays behind;
- imports the standard library alone, and inside the functions that need it;
- uses no name but Python's own and those of functions that are sent along: what runs the judge calls `judge`
  and `serve`, whoever wrote them;
- gives its functions neither default arguments nor decorators, which are no part of their code.

Outside, nothing in here is called.
"""

from collections.abc import Callable
import types


def functions(module: types.ModuleType) -> tuple[Callable, ...]:
  """The functions of a file of this folder, as `sandbox.run_judged` takes them."""
  return tuple(x for x in vars(module).values() if isinstance(x, types.FunctionType))
