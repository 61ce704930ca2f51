"""What a person sees who types the name of a model or of a result."""

import pytest
import torch
from strategies import make_tiny, tiny_config

from elmokit import Elmo
from elmokit.text.ids import Vocab

WORDS = ["<S>", "</S>", "<UNK>", "the", "gift", "한국어"]


@pytest.fixture
def with_softmax() -> Elmo:
    return make_tiny(tiny_config(num_softmax_words=len(WORDS)), vocab=Vocab(WORDS))


def test_a_model_is_three_lines(with_softmax: Elmo) -> None:
    first, second, third = repr(with_softmax).splitlines()
    parameters = sum(p.numel() for p in with_softmax.bilm.parameters())
    assert first.startswith("<Elmo new model with random weights:")
    assert f"{parameters:,} parameters, softmax of 6 words" in first
    assert second == " 32 values per vector, layers 0..2, tokenizer regex, state zero"
    assert third == f" engine {with_softmax.engine} on cpu, float32>"


@pytest.mark.parametrize("name", ["en", "ko"])
def test_a_loaded_model_shows_its_name(name: str) -> None:
    if name == "ko":
        pytest.importorskip("kiwipiepy")
    elmo = Elmo.from_pretrained(name, device="cpu", engine="torch")
    assert repr(elmo).startswith(f"<Elmo {name}: 2,996,448 parameters")
    assert f"tokenizer {elmo.reader.tokenizer.name}, " in repr(elmo)


def test_a_module_around_a_model_shows_it_indented(tiny: Elmo) -> None:
    assert "(0): <Elmo new model" in repr(torch.nn.Sequential(tiny))


def test_outputs_show_shapes(with_softmax: Elmo) -> None:
    texts = ["the gift of it", "한국어"]
    assert repr(with_softmax(texts)) == (
        "BiLmOutput(layers 3 x 2 x 4 x 32, mask 2 x 4, "
        "state BiLmState(h 2 x 2 x 2 x 16, c 2 x 2 x 2 x 32))"
    )
    score = repr(with_softmax.score(texts[0]))
    assert score.startswith("<SentenceScore: log p -") and "5 predictions, 2 of them <UNK>" in score
    assert "forward_tokens (5,), backward_tokens (5,)" in score
    perplexity = repr(with_softmax.perplexity(texts))
    assert perplexity.startswith("<Perplexity: ") and perplexity.endswith(
        " mean; 7 predictions, 2 of them <UNK>>"
    )
    known = repr(with_softmax.substitutes("the [gift]", k=2))
    assert known.startswith("<Substitutes: ") and "; original 'gift' at rank " in known
    unknown = repr(with_softmax.substitutes("the [zebra]", k=2))
    assert unknown.endswith("; original outside the vocabulary>")
