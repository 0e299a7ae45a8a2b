"""Small made-up data and a random model, for `:smoke` runs and tests, wherever rlx is installed."""

from pathlib import Path

FOLDER = str(Path(__file__).parent)
