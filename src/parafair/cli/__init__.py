"""The command line: arguments in, library calls out."""

# The order of the imports is that of the commands in the help.
# isort: off
from parafair.cli import data as data
from parafair.cli import sorting as sorting
from parafair.cli import fitting as fitting
from parafair.cli import tuning as tuning
from parafair.cli import auditing as auditing
from parafair.cli import frontiers as frontiers
from parafair.cli import limits as limits
from parafair.cli import certifying as certifying
from parafair.cli import predicting as predicting
from parafair.cli import reproducing as reproducing
from parafair.cli.shell import app as app
