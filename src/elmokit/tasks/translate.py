"""Machine translation: pairs of texts in, BLEU and chrF out.

Peters et al. have no recipe for it; ELMo goes to the encoder's input, where Edunov et al. (2019)
found it to pay most. The model is an attention decoder on a biLSTM over subword units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .parts.generation import (
    GenerateConfig,
    GenerateTask,
    SourceText,
    Written,
    best_texts,
    references,
)
from .parts.generation_metrics import bleu
from .results import Result, TranslateResult
from .task import Scores


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateConfig(GenerateConfig):
    """Sizes for few pairs are small on purpose (Sennrich and Zhang 2019)."""


class TranslateTask(GenerateTask[TranslateConfig]):
    """A text in another language: TSV, JSON lines or two parallel files."""

    name: ClassVar[str] = "translate"
    metric: ClassVar[str] = "bleu"
    config_class = TranslateConfig

    def score(self, examples: Sequence[SourceText], predictions: Sequence[Written]) -> Scores:
        """BLEU and chrF of the best hypotheses, with the signatures of sacrebleu."""
        return dict(bleu(best_texts(predictions), references(examples)))

    def result(self, example: SourceText, prediction: Written | None) -> Result:
        """The translation, the n best, and the attention if it was asked for."""
        said: dict[str, Any] = {}
        if prediction is not None:
            said = {
                "translation": prediction.hypotheses[0].text,
                "hypotheses": prediction.hypotheses,
                "alignment": prediction.alignment,
            }
        return TranslateResult(task=self.name, text=example.text, **said)
