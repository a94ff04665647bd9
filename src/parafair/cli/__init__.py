"""The command line: arguments in, library calls out."""

from parafair.cli.shell import app as app
