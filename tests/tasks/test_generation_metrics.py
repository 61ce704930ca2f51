"""BLEU, ROUGE and the bootstrap, against published examples, other libraries and worked cases."""

import gzip
import json
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError, MissingExtra
from elmokit.tasks.parts.generation_metrics import (
    ROUGE_TYPES,
    Statistics,
    apart,
    are_in_training,
    bleu,
    bleu_statistics,
    is_korean,
    longest_common_subsequence,
    paired_bootstrap,
    rouge,
    rouge_statistics,
    summary_scores,
    syllables,
    words,
)
from elmokit.tasks.parts.text_pairs import read_text_pairs, with_all_targets

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
HYPOTHESES = ["The cat sat on the mat.", "", "Anna lives in Paris, I think.", "No idea at all"]
REFERENCES = [
    ("A cat sat on the mat.", "The cat was on the mat."),
    ("Nobody came.",),
    ("I think Anna lives in Paris.", "Anna lives in Paris.", "Paris is where Anna lives."),
    ("I have no idea at all.",),
]


def one(hypothesis: str, *references: str) -> dict[str, float]:
    """The ROUGE of a single text, as a fraction."""
    scores = rouge([hypothesis], [references], tokenizer=words)
    return {name: scores[name] / 100 for name in ROUGE_TYPES}


def test_rouge_of_the_sentences_of_lin_2004() -> None:
    reference = "police killed the gunman"
    s2, s3 = "police kill the gunman", "the gunman kill police"
    # Section 3.1: ROUGE-2 finds "the gunman" in both; ROUGE-L is 3/4 and 2/4.
    assert one(s2, reference)["rouge2"] == one(s3, reference)["rouge2"] == pytest.approx(1 / 3)
    assert one(s2, reference)["rougeL"] == pytest.approx(3 / 4)
    assert one(s3, reference)["rougeL"] == pytest.approx(2 / 4)
    # "the gunman police killed": no better by ROUGE-L, which counts one of the two halves alone.
    s4 = one("the gunman police killed", reference)
    assert (s4["rougeL"], s4["rouge2"]) == (pytest.approx(2 / 4), pytest.approx(2 / 3))


def test_rouge_counts_a_repeated_word_as_often_as_the_reference_has_it() -> None:
    # 2 common of 4 and 3 tokens; bigrams: "the cat" once of 3 and 2.
    scores = one("the the the cat", "the black cat")
    assert scores["rouge1"] == pytest.approx(2 * 2 / (4 + 3))
    assert scores["rouge2"] == 0
    assert one("the cat the cat", "the cat")["rouge2"] == pytest.approx(2 * 1 / (3 + 1))


def test_rouge_takes_the_best_reference_of_each_type() -> None:
    references = ("d c b a x", "a b y y y y y y y y")
    scores = rouge(["a b c d"], [references], tokenizer=words)
    alone = [one("a b c d", reference) for reference in references]
    for name in ROUGE_TYPES:
        assert scores[name] == pytest.approx(100 * max(score[name] for score in alone))
        assert scores["first"][name] == pytest.approx(100 * alone[0][name])
    # Which is best depends on the type here.
    assert alone[0]["rouge1"] > alone[1]["rouge1"] and alone[0]["rouge2"] < alone[1]["rouge2"]
    assert "best reference per type" in scores["rule"]


def test_rouge_is_the_mean_over_examples_and_0_for_empty_texts() -> None:
    scores = rouge(["a", "", "b"], [("a",), ("a",), ("!",)], tokenizer=words)
    assert scores["rouge1"] == pytest.approx(100 / 3)
    assert scores["rouge2"] == 0


ascii_text = st.text(st.sampled_from("aab bc-9_. "), max_size=30)


@given(ascii_text, st.lists(ascii_text, min_size=1, max_size=3))
def test_rouge_agrees_with_rouge_score_on_ascii(hypothesis: str, references: list[str]) -> None:
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="needs rouge-score")
    scorer = rouge_scorer.RougeScorer([*ROUGE_TYPES], use_stemmer=False)
    expected = scorer.score_multi(references, hypothesis)
    scores = one(hypothesis, *references)
    assert scores == pytest.approx({name: expected[name].fmeasure for name in ROUGE_TYPES})


@given(st.lists(st.sampled_from("abc"), max_size=7), st.lists(st.sampled_from("abc"), max_size=7))
def test_longest_common_subsequence_is_the_longest_of_all(a: list[str], b: list[str]) -> None:
    shared = (
        size
        for size in range(min(len(a), len(b)), -1, -1)
        if set(combinations(a, size)) & set(combinations(b, size))
    )
    assert longest_common_subsequence(a, b) == next(shared)


def test_korean_is_compared_by_morphemes_and_by_syllables() -> None:
    pytest.importorskip("kiwipiepy")
    hypotheses, references = ["친구와 점심약속 시간."], [("친구 점심 약속 시간",)]
    # By eojeol, one word of three is right.
    assert one(hypotheses[0], *references[0])["rouge1"] == pytest.approx(2 / 7)
    scores = summary_scores(hypotheses, references)
    assert scores["tokens"] == "morphemes"
    assert scores["rouge1"] == pytest.approx(100 * 2 * 4 / (5 + 4))
    assert scores["syllables"]["rouge1"] == pytest.approx(100 * 2 * 8 / (9 + 8))


def test_other_languages_are_compared_by_words() -> None:
    scores = summary_scores(["Mañana no."], [("mañana no, 김",)])
    assert scores["tokens"] == "words" and "syllables" not in scores
    assert not is_korean([]) and not is_korean(["Hi 김"]) and is_korean(["안녕 김 OK"])
    assert syllables("A-9 가나") == ["a", "9", "가", "나"]


def test_bleu_and_chrf_are_those_of_sacrebleu_with_signatures() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    one_each = [row[:1] for row in REFERENCES]
    scores = bleu(HYPOTHESES, one_each)
    first = [[row[0] for row in one_each]]
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, first).score)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, first).score)
    assert scores["bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
    assert scores["chrf_signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")
    assert 0 < scores["bleu"] < 100 and 0 < scores["chrf"] < 100


def test_bleu_of_examples_with_different_numbers_of_references() -> None:
    pytest.importorskip("sacrebleu")
    scores = bleu(HYPOTHESES, REFERENCES)
    assert scores["bleu_signature"].startswith("nrefs:var|")
    # More references can only add matches here.
    assert scores["bleu"] > bleu(HYPOTHESES, [row[:1] for row in REFERENCES])["bleu"]
    assert bleu([row[-1] for row in REFERENCES], REFERENCES)["bleu"] == pytest.approx(100)


def test_bleu_without_sacrebleu_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtra, match=r"elmokit\[generate\]"):
        bleu(["a"], [("a",)])


def test_sums_of_statistics_score_like_the_corpus() -> None:
    scores = rouge(HYPOTHESES, REFERENCES, tokenizer=words)
    for name, found in rouge_statistics(HYPOTHESES, REFERENCES, tokenizer=words).items():
        assert found.score(found.rows.sum(axis=0)) == pytest.approx(scores[name])
    pytest.importorskip("sacrebleu")
    found = bleu_statistics(HYPOTHESES, REFERENCES)
    expected = bleu(HYPOTHESES, REFERENCES)["bleu"]
    assert found.score(found.rows.sum(axis=0)) == pytest.approx(expected)


def mean_of(values: list[float]) -> Statistics:
    """The statistics of a plain mean."""
    rows = np.stack([np.array(values), np.ones(len(values))], axis=1)
    return Statistics(rows, lambda row: float(row[0] / row[1]))


def test_bootstrap_interval_is_that_of_the_paired_differences() -> None:
    random = np.random.default_rng(0)
    common = random.normal(50, 20, 400)
    gains = random.normal(1, 2, 400)
    found = paired_bootstrap(mean_of(list(common + gains)), mean_of(list(common)))
    # Normal approximation; unpaired, the interval would be ± 2.8.
    error = 1.96 * gains.std() / np.sqrt(400)
    assert found.difference == pytest.approx(gains.mean())
    assert found.low == pytest.approx(gains.mean() - error, abs=0.05)
    assert found.high == pytest.approx(gains.mean() + error, abs=0.05)
    assert found.is_significant and found.num_groups == 400


def test_bootstrap_of_equal_systems_has_no_difference() -> None:
    found = paired_bootstrap(mean_of([1, 2, 3]), mean_of([1, 2, 3]))
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert not found.is_significant


def test_bootstrap_by_group_knows_that_paraphrases_are_not_independent() -> None:
    gains = np.random.default_rng(1).normal(0.3, 1, 40).repeat(10)
    groups = [f"group {i // 10}" for i in range(400)]
    system, against = mean_of(list(gains)), mean_of([0.0] * 400)
    alone = paired_bootstrap(system, against)
    together = paired_bootstrap(system, against, groups=groups)
    assert together.num_groups == 40
    # Ten copies of each say no more than one does.
    width = (together.high - together.low) / (alone.high - alone.low)
    assert width == pytest.approx(np.sqrt(10), rel=0.2)


def test_bootstrap_repeats_itself_for_a_seed() -> None:
    values = np.random.default_rng(2).normal(size=(2, 50)).tolist()
    sides = mean_of(values[0]), mean_of(values[1])
    assert paired_bootstrap(*sides, seed=3) == paired_bootstrap(*sides, seed=3)
    assert paired_bootstrap(*sides, seed=3) != paired_bootstrap(*sides, seed=4)


def test_examples_with_targets_of_training_are_scored_apart() -> None:
    references = [("a b", "c"), ("d",), ("e f",)]
    is_seen = are_in_training(references, ["c", "x", "e f"])
    assert is_seen == [True, False, True]

    def score(hypotheses: list[str], rows: list[tuple[str, ...]]) -> dict[str, float]:
        return {"rouge1": rouge(hypotheses, rows, tokenizer=words)["rouge1"]}

    found = apart(score, ["a b", "x", "e"], references, is_seen)
    assert found["unseen"] == {"rouge1": 0, "examples": 1}
    assert found["seen"] == {"rouge1": pytest.approx(100 * (1 + 2 / 3) / 2), "examples": 2}
    assert apart(score, ["d"], [("d",)], [False])["seen"] == {"examples": 0}


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(InputError, match=r"2 texts .* 1 are predicted"):
        rouge(["a"], [("a",), ("b",)], tokenizer=words)
    with pytest.raises(InputError, match="no texts to score"):
        summary_scores([], [])
    with pytest.raises(InputError, match="text 1: expected a list of references"):
        rouge(["a", "b"], [("a",), ()], tokenizer=words)
    with pytest.raises(InputError, match="text 0: expected a list"):
        bleu(["a"], ["a"])
    with pytest.raises(InputError, match=r"3 examples .* 2 are predicted"):
        paired_bootstrap(mean_of([1, 2, 3]), mean_of([1, 2]))
    with pytest.raises(InputError, match=r"2 examples .* 1 are predicted"):
        paired_bootstrap(mean_of([1, 2]), mean_of([1, 2]), groups=["a"])
    with pytest.raises(ConfigError, match=r"confidence=1\.5"):
        paired_bootstrap(mean_of([1]), mean_of([1]), confidence=1.5)


def test_copied_sources_of_sae4k_score_as_measured_before() -> None:
    path = DATA / "summary" / "ko-sae4k" / "dev.tsv.gz"
    if not path.is_file():
        pytest.skip("needs the shared material: summary/ko-sae4k")
    pairs = with_all_targets(read_text_pairs(path))
    sides = [pair.source for pair in pairs], [pair.targets for pair in pairs]
    for tokenizer, expected in ((words, [49.6, 31.8, 49.5]), (syllables, [71.0, 61.6, 70.4])):
        scores = rouge(*sides, tokenizer=tokenizer)
        assert [scores[name] for name in ROUGE_TYPES] == pytest.approx(expected, abs=0.06)


def test_first_sentences_of_scitldr_score_as_measured_before() -> None:
    path = DATA / "summary" / "en-scitldr" / "dev.jsonl.gz"
    if not path.is_file():
        pytest.skip("needs the shared material: summary/en-scitldr")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    scores = summary_scores([r["sentences"][0] for r in rows], [r["targets"] for r in rows])
    assert [scores[name] for name in ROUGE_TYPES] == pytest.approx([27.2, 10.5, 21.8], abs=0.06)
