"""Readers: files of the field → examples. Bad data is an error with the file and the line."""

from .examples import LabelledText as LabelledText
from .examples import ScoredPair as ScoredPair
from .examples import TaggedSentence as TaggedSentence
from .labelled import read_jsonl as read_jsonl
from .labelled import read_pairs as read_pairs
from .labelled import read_trees as read_trees
from .labelled import read_tsv as read_tsv
from .tagging import read_columns as read_columns
from .tagging import read_conllu as read_conllu
from .tagging import read_klue as read_klue
from .tagging import read_tagged as read_tagged
