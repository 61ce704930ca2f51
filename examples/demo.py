"""`make demo`: what a biLM gives for one word in two sentences.

The models in the box are still being trained, so this makes a tiny biLM of random weights on the
spot. Its vectors depend on the sentence, as those of every ELMo do, but they have learned nothing.
"""

import torch

from elmokit import Elmo, ElmoConfig
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig

SENTENCES = ["He has a gift for music.", "My watch was a birthday gift."]
WORD = "gift"


def make_tiny_elmo() -> Elmo:
    """A biLM of random weights, small enough to be made in a moment."""
    torch.manual_seed(0)
    cnn = CharCnnConfig(filters=((1, 16), (2, 16), (3, 32), (4, 64)))
    lstm = LstmConfig(dim=256, projection_dim=64)
    elmo = Elmo(ElmoConfig(encoder=EncoderConfig(char_cnn=cnn), lstm=lstm)).eval()
    with torch.no_grad():
        for stack in (elmo.bilm.forward_lm, elmo.bilm.backward_lm):
            for layer in stack.layers:
                layer.recurrent_weight.mul_(3)  # random LSTMs forget at once otherwise
    return elmo


def main() -> None:
    elmo = make_tiny_elmo()
    print("A tiny biLM with random weights, made on the spot: it shows how, not how well.\n")
    tokens = elmo.tokenize(SENTENCES)
    vectors = elmo.embed(tokens, layers="all")
    for sentence, words, layers in zip(SENTENCES, tokens, vectors, strict=True):
        print(f"  {sentence:32} {len(words)} tokens → {layers.shape} (layers, tokens, values)")
    first, second = (v[:, words.index(WORD)] for v, words in zip(vectors, tokens, strict=True))
    print(f"\nCosine of '{WORD}' in the first sentence with '{WORD}' in the second:\n")
    for layer in range(elmo.num_layers):
        cosine = elmo.similarity(first[layer], second[layer]).item()
        meaning = "the word alone: the same" if layer == 0 else "the word in its sentence"
        print(f"  layer {layer}   {cosine:6.3f}   {meaning}")


if __name__ == "__main__":
    main()
