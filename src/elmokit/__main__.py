"""`python -m elmokit` is `elmokit`."""

from .cli import main

main()
