"""`rlx report --workdir=DIR`: `report.html` and `curve.png` of a run that is at work, killed or done."""

from rlx.experiments.commands import EXIT_DONE, Parser


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  parser = Parser(
      prog='rlx report',
      description='Writes report.html and curve.png from the files of a run, which goes on undisturbed.',
  )
  parser.add_argument('--workdir', required=True, metavar='DIR', help='of the run')
  workdir = parser.parse_args(argv).workdir
  from rlx.run.report import write_report

  print(write_report(workdir))
  return EXIT_DONE
