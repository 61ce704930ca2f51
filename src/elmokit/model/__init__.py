"""`Elmo`, what most users import: what it is (`core`), its files (`pretrained`), its vectors."""

from .elmo import Elmo as Elmo
