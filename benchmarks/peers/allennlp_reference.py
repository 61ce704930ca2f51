"""What AllenNLP computes for the cases of `parity.py`; run by the Python that has AllenNLP.

    allennlp_reference.py CASES.json RESULT.npz

`parity.py` runs the same functions with `elmokit.compat.allennlp` in place of AllenNLP, so both
sides do exactly the same, by the same names.
"""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

MASKS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def run(case, library):
    """The arrays of one case by name."""
    return KINDS[case["kind"]](case, library)


def make(case, library):
    elmo = library.Elmo(case["options"], case["weights"], **case["arguments"])
    if case.get("state_dict_in"):
        elmo.load_state_dict(torch.load(case["state_dict_in"], weights_only=True))
    if case.get("state_dict_out"):
        torch.save(elmo.state_dict(), case["state_dict_out"])
    for k in range(case.get("unequal_mixes", 0)):
        mix = getattr(elmo, f"scalar_mix_{k}")
        mix.gamma.data[0] = 0.5 + k
        for j, parameter in enumerate(mix.scalar_parameters):
            parameter.data[0] = 0.3 * j - 0.2 * k
    return elmo.train(case.get("train", False))


def elmo_batches(case, library):
    """All batches in a row: ids, masks, vectors, states, and gradients of every parameter."""
    elmo, arrays = make(case, library), {}
    for i, batch in enumerate(case["batches"]):
        ids = library.batch_to_ids(batch)
        words = case["word_ids"][i] if case.get("word_ids") else None
        torch.manual_seed(i)  # equal dropout
        output = elmo(ids, None if words is None else torch.tensor(words))
        arrays[f"ids/{i}"], arrays[f"mask/{i}"] = ids, output["mask"]
        for k, vectors in enumerate(output["elmo_representations"]):
            arrays[f"vectors/{i}/{k}"] = vectors
        for name, state in zip("hc", elmo._elmo_lstm._elmo_lstm._states):
            # AllenNLP writes into the tensors of an earlier batch.
            arrays[f"states/{i}/{name}"] = state.clone()
        if any(v.requires_grad for v in output["elmo_representations"]):
            elmo.zero_grad()
            sum(v.square().sum() for v in output["elmo_representations"]).backward()
            arrays.update(by_name("gradients", i, elmo, lambda p: p.grad))
    return arrays


def elmo_states(case, library):
    """States that are saved, put back, changed, reset, and not used."""
    elmo, arrays = make(case, library), {}
    lstm = elmo._elmo_lstm._elmo_lstm
    first, second, small = (library.batch_to_ids(batch) for batch in case["batches"])

    def record(name, ids):
        arrays[f"vectors/{name}"] = elmo(ids)["elmo_representations"][0]
        for part, state in zip("hc", lstm._states):
            arrays[f"states/{name}/{part}"] = state.clone()

    record("first", first)
    saved = tuple(state.clone() for state in lstm._states)
    record("second", second)
    record("small", small)
    lstm._states = tuple(state.clone() for state in saved)
    record("put back", second)
    lstm._states = [0.5 * state for state in saved]
    record("halved", first)
    lstm.reset_states(torch.arange(lstm._states[0].shape[1]) % 2 == 0)
    record("every second row reset", first)
    lstm._states = None
    record("set to None", first)
    lstm.stateful = False
    record("stateless", second)
    return arrays


def elmo_training(case, library):
    """Steps of SGD on a loss with the penalty of AllenNLP's SRL and NER configurations."""
    elmo, arrays = make(case, library), {}
    trained = [p for p in elmo.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=0.01, momentum=0.9, weight_decay=0.01)
    for i, batch in enumerate(case["batches"]):
        output = elmo(library.batch_to_ids(batch))
        penalty = library.penalty(elmo, case["regulariser"])
        loss = sum((v - 0.1).square().mean() for v in output["elmo_representations"]) + penalty
        arrays[f"loss/{i}/loss"], arrays[f"loss/{i}/penalty"] = loss, torch.as_tensor(penalty)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        arrays.update(by_name("weights", i, elmo, lambda p: p))
    return arrays


def names(case, library):
    """Names, shapes and values of parameters and of the state dict."""
    elmo = make(case, library)
    arrays = by_name("weights", "parameter", elmo, lambda p: p)
    for name, tensor in elmo.state_dict().items():
        arrays[f"weights/state dict/{name}"] = tensor
    lstm = elmo._elmo_lstm._elmo_lstm
    sizes = [lstm.input_size, lstm.hidden_size, lstm.cell_size, lstm.num_layers]
    more = [elmo._elmo_lstm.num_layers, elmo.get_output_dim(), len(elmo._scalar_mixes)]
    arrays["weights/sizes"] = torch.tensor([*sizes, *more, int(elmo._elmo_lstm._requires_grad)])
    return arrays


def parts(case, library):
    """The token embedder, and boundaries removed under masks of several types."""
    bilm, arrays = library.ElmoBiLm(case["options"], case["weights"]), {}
    alone = library.ElmoCharacterEncoder(case["options"], case["weights"])
    for i, batch in enumerate(case["batches"]):
        ids = library.batch_to_ids(batch)
        for name, encoder in (("of the biLM", bilm._token_embedder), ("alone", alone)):
            output = encoder(ids)
            arrays[f"vectors/{i}/{name}"] = output["token_embedding"]
            arrays[f"mask/{i}/{name}"] = output["mask"]
        output = bilm(ids)
        for dtype in ("bool", "int64"):
            mask = output["mask"].to(getattr(torch, dtype))
            for j, layer in enumerate(output["activations"]):
                inner, arrays[f"mask/{i}/{dtype}"] = library.remove_boundaries(layer, mask)
                arrays[f"vectors/{i}/{dtype}/{j}"] = inner
    return arrays


def mixes(case, library):
    """`ScalarMix` alone: every type of mask, gradients of its inputs and its parameters."""
    arrays = {}
    for dtype in case["masks"]:
        mix = library.ScalarMix(3, do_layer_norm=case["layer_norm"])
        mix.gamma.data[0] = 0.7
        for j, parameter in enumerate(mix.scalar_parameters):
            parameter.data[0] = 0.4 * j
        generator = torch.Generator().manual_seed(5)
        layers = [torch.randn(4, 6, 8, generator=generator) * (j + 1) + j for j in range(3)]
        layers = [layer.to(getattr(torch, case["layers"])).requires_grad_() for layer in layers]
        lengths = torch.tensor([6, 1, 4, 2])
        mask = (torch.arange(6) < lengths[:, None]).to(getattr(torch, dtype))
        mixed = mix(layers, mask)
        mixed.square().sum().backward()
        arrays[f"vectors/{dtype}"] = mixed
        arrays.update(by_name("gradients", dtype, mix, lambda p: p.grad))
        for j, layer in enumerate(layers):
            arrays[f"gradients/{dtype}/layer {j}"] = layer.grad
    return arrays


KINDS = {
    function.__name__: function
    for function in (elmo_batches, elmo_states, elmo_training, names, parts, mixes)
}


def by_name(kind, place, module, take):
    """Something of each parameter, with both halves of a highway layer joined as in AllenNLP."""
    arrays = {}
    for name, parameter in module.named_parameters():
        if (value := take(parameter)) is not None:
            arrays[f"{kind}/{place}/{name}"] = value.detach().clone()
    for name in [name for name in arrays if ".transform." in name]:
        carry = arrays.pop(name.replace(".transform.", ".carry."))
        arrays[name.replace(".transform.", ".")] = torch.cat([arrays.pop(name), -carry])
    return arrays


def library():
    """AllenNLP."""
    from allennlp.modules.elmo import Elmo, _ElmoBiLm, _ElmoCharacterEncoder, batch_to_ids
    from allennlp.modules.scalar_mix import ScalarMix
    from allennlp.nn.regularizers import L2Regularizer, RegularizerApplicator
    from allennlp.nn.util import remove_sentence_boundaries

    def penalty(module, pattern):
        return RegularizerApplicator([(pattern, L2Regularizer(alpha=0.001))])(module)

    return SimpleNamespace(
        Elmo=Elmo,
        ElmoBiLm=_ElmoBiLm,
        ElmoCharacterEncoder=_ElmoCharacterEncoder,
        ScalarMix=ScalarMix,
        batch_to_ids=batch_to_ids,
        remove_boundaries=remove_sentence_boundaries,
        penalty=penalty,
    )


def l2_penalty(module, pattern):
    """What AllenNLP's L2 regulariser adds to a loss."""
    found = [p for name, p in module.named_parameters() if re.search(pattern, name)]
    return sum(0.001 * p.pow(2).sum() for p in found if p.requires_grad)


def main(cases, result):
    """Run every case and write the arrays."""
    allennlp, arrays = library(), {}
    for name, case in json.loads(cases.read_text()).items():
        for key, tensor in run(case, allennlp).items():
            arrays[f"{name}|{key}"] = tensor.detach().numpy()
    np.savez(result, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
