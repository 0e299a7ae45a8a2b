"""`rlx replay WORKDIR/nonfinite`: where the first value of a run arises that is infinite or NaN."""

from rlx.experiments.commands import EXIT_DONE, Parser


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  parser = Parser(
      prog='rlx replay',
      description='Takes the steps of a dump again, one at a time, and names the rows, gradients, updates or '
      'metrics that are the first which are not finite.',
  )
  parser.add_argument('dump', metavar='DIR', help='WORKDIR/nonfinite; or a working directory')
  parser.add_argument(
      '--disable_jit', action='store_true', help='name the line too: that part of the step in Python'
  )
  arguments = parser.parse_args(argv)
  from rlx.run.replay import replay

  found = replay(arguments.dump, disable_jit=arguments.disable_jit, say=print)
  print('every value of these steps is finite' if found is None else found)
  return EXIT_DONE
