"""Files of vectors: HDF5 in AllenNLP's layout, npz, Parquet and JSON lines, chosen by suffix.

A writer takes the lines of a text one after the other, so no file needs more memory than a few
of its lines (HDF5 also keeps the text for its index, npz 0.4 kB per line for the archive's).
"""

from .write import Entry as Entry
from .write import Offsets as Offsets
from .write import check_output as check_output
from .write import write_jsonl as write_jsonl
from .write import write_vectors as write_vectors
