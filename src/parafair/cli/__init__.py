"""The command line: arguments in, library calls out."""

from parafair.cli import auditing, data, fitting, frontiers, predicting, reproducing
from parafair.cli.shell import app

__all__ = ["app", "auditing", "data", "fitting", "frontiers", "predicting", "reproducing"]
