"""Functions of no module that a worker could import, such as those of a notebook, sent as they are."""

from collections.abc import Callable
import functools
import pickle

INSTALL = "pip install 'rlx[notebook]'"


class ByValue:
  """A function that is pickled with its code, and with what it names of the notebook or script around it."""

  def __init__(self, function: Callable):
    """Pickles the function as it is now.

    Raises:
      ValueError: it holds something that cannot be sent, or cloudpickle is missing.
    """
    try:
      import cloudpickle
    except ImportError as error:
      raise ValueError(
          f'{function!r} goes to its processes by cloudpickle, which is missing: {INSTALL}, or put the '
          "function into a module and give its name, 'yours.rewards.f'"
      ) from error
    functools.update_wrapper(self, function, updated=())  # its signature
    try:
      self._pickled = cloudpickle.dumps(function)
    except Exception as error:
      raise ValueError(
          f'{function!r} cannot be sent to another process ({type(error).__name__}: {error}); make what it '
          'holds inside it, when it is called'
      ) from error

  def __call__(self, *args, **kwargs):
    return self.__wrapped__(*args, **kwargs)

  def __reduce__(self):
    return pickle.loads, (self._pickled,)
