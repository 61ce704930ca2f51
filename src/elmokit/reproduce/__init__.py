"""The paper's experiments at a stated size: `reproduce("ner", data, model, out)`.

`run.py` knows the experiments by name. `paper.py` has the paper's figures, `layout.py` the places
of the data; `arms.py` trains what an experiment compares, each arm an ordinary task run;
`comparisons.py`, `probes.py`, `figure1.py` and `figure2.py` are the experiments; `report.py`
writes what they found as Markdown and JSON, `plots.py` draws it.
"""

from .plan import Plan as Plan
from .run import EXPERIMENTS as EXPERIMENTS
from .run import reproduce as reproduce
