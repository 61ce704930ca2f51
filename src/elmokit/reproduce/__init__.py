"""The paper's experiments at a stated size: `reproduce("ner", data, model, out)`.

`run.py` knows the experiments by name; `plan.py` says how large one is. `paper.py` has the paper's
figures, `layout.py` says where the data are. `comparisons.py` and `probes.py` are the experiments;
`arms.py` trains what the former compare, each arm an ordinary task run. `report.py` writes what
they found as Markdown and JSON.
"""

from .plan import Plan as Plan
from .run import EXPERIMENTS as EXPERIMENTS
from .run import reproduce as reproduce
