"""The command line: one file per verb, each of which parses, calls the library and prints.

Nothing here imports torch before a command runs, so that `elmokit --help` is quick.
"""

from .app import app as app
from .app import main as main
