"""What AllenNLP computes for the cases of `parity.py`; run by the Python that has AllenNLP.

allennlp_reference.py CASES.json RESULT.npz
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from allennlp.modules.elmo import Elmo, batch_to_ids


def main(cases: Path, result: Path) -> None:
    """Run every case, all its batches in a row, and write the arrays."""
    arrays = {}
    for name, case in json.loads(cases.read_text()).items():
        torch.manual_seed(0)
        elmo = Elmo(case["options"], case["weights"], dropout=0.5, **case["arguments"]).eval()
        if case.get("state_dict_in"):
            elmo.load_state_dict(torch.load(case["state_dict_in"], weights_only=True))
        if case.get("state_dict_out"):
            torch.save(elmo.state_dict(), case["state_dict_out"])
        for i, batch in enumerate(case["batches"]):
            ids = batch_to_ids(batch)
            words = case["word_ids"][i] if case.get("word_ids") else None
            output = elmo(ids, None if words is None else torch.tensor(words))
            arrays[f"{name}/{i}/ids"] = ids.numpy()
            arrays[f"{name}/{i}/mask"] = output["mask"].numpy()
            for k, vectors in enumerate(output["elmo_representations"]):
                arrays[f"{name}/{i}/elmo_{k}"] = vectors.detach().numpy()
            if case["arguments"].get("requires_grad"):
                elmo.zero_grad()
                sum(v.square().sum() for v in output["elmo_representations"]).backward()
                lstm = elmo._elmo_lstm._elmo_lstm.backward_layer_1.input_linearity.weight.grad
                gamma = elmo.scalar_mix_0.gamma.grad
                arrays[f"{name}/{i}/gradients"] = torch.cat([lstm.flatten(), gamma]).numpy()
    np.savez(result, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
