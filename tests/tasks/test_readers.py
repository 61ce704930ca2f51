"""The files of the field → examples, and what is said about bad ones."""

import gzip
import lzma
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_refused

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.classify import ClassifyConfig, LabelledText, read_jsonl, read_trees, read_tsv
from elmokit.tasks.parts.conll import (
    TaggedSentence,
    read_columns,
    read_conllu,
    read_klue,
    read_tagged,
    token_tags,
)
from elmokit.tasks.parts.lines import ScoredPair, read_pairs
from elmokit.tasks.parts.tags import check_bio, spans
from elmokit.tasks.registry import TASKS
from elmokit.text.reader import Reader
from elmokit.text.tokenize import Token

Write = Callable[..., Path]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def file(tmp_path: Path) -> Write:
    """Writes a text to a file."""

    def write(text: str, name: str = "file.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def tagged(text: str) -> TaggedSentence:
    """A sentence of token/tag pairs."""
    pairs = [pair.rsplit("/", 1) for pair in text.split()]
    return TaggedSentence(tuple(t for t, _ in pairs), tuple(tag for _, tag in pairs))


def characters(text: str) -> str:
    """A KLUE sentence of text/tag chunks: its characters, one a line."""
    rows = []
    for chunk in text.split("|"):
        word, _, label = chunk.partition("/")
        for i, c in enumerate(word):
            tag = f"{'I' if i else 'B'}-{label}" if label else "O"
            rows.append(f"{c}\t{tag}\n")
    return "".join(rows)


def test_columns_parted_by_tabs_or_blanks(file: Write) -> None:
    expected = [tagged("Kim/B-PER Bell/I-PER"), tagged("Hi/O")]
    for text in (
        "Kim\tB-PER\nBell\tI-PER\n\nHi\tO\n",
        "Kim NNP B-PER\nBell NNP I-PER\n\t\nHi UH O",
        "\n\nKim B-PER\r\nBell  I-PER\r\n\r\n \r\nHi O\r\n\r\n",
    ):
        assert read_columns(file(text)) == expected


def test_columns_that_count_have_their_tokens_behind(file: Write) -> None:
    path = file("# text = a b\n1\tSeoul\tB-LOC\n2\t2\tO\n\n1\tx\tO\n")
    assert read_columns(path) == [tagged("Seoul/B-LOC 2/O"), tagged("x/O")]
    assert read_columns(path, token_column=0)[1] == tagged("1/O")
    numbers = file("1\t7\tO\n3\t7\tO\n")
    assert read_columns(numbers) == [tagged("1/O 3/O")]


def test_columns_are_chosen(file: Write) -> None:
    path = file("Seoul NNP B-LOC x\n")
    assert read_columns(path, tag_column=2) == [tagged("Seoul/B-LOC")]
    assert read_columns(path, token_column=-1, tag_column=-2) == [tagged("x/B-LOC")]
    with pytest.raises(ConfigError, match=r"tag_column=7.*4 columns"):
        read_columns(path, tag_column=7)


def test_comments_are_skipped_but_tokens_with_hashes_are_not(file: Write) -> None:
    text = "# text = # O x\n#tag\tO\n# \tO\n\n#\tO\n#nba\tB-group\n\n# id\n#\nx\tO\n"
    assert [s.tokens for s in read_columns(file(text))] == [("#tag", "# "), ("#", "#nba"), ("x",)]
    assert read_columns(file("# O\n#a O\n\n# one comment\n#b O\n")) == [
        tagged("#/O #a/O"),
        tagged("#b/O"),
    ]


def test_document_marks_are_skipped(file: Write) -> None:
    text = "-DOCSTART- -X- -X- O\n\nA DT I-NP O\n\n-DOCSTART- -X- O O\nB DT I-NP O\n"
    assert read_columns(file(text)) == [tagged("A/O"), tagged("B/O")]


def test_iob1_comes_out_as_bio(file: Write) -> None:
    text = "EU I-ORG\nx O\n\nA I-PER\nB B-PER\nC I-PER\nD I-LOC\n"
    assert read_columns(file(text)) == [
        tagged("EU/B-ORG x/O"),
        tagged("A/B-PER B/B-PER C/I-PER D/B-LOC"),
    ]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("a\tO\nb\n", ["line 2", "found 1 of 2 columns"]),
        ("a O\n\nb x y O\n", ["line 3", "found 4 of 2 columns"]),
        ("a O\nb NN\n", ["line 2", "'NN'", "not BIO"]),
        ("a B-X\nb O\nc I-X\n", ["line 3", "I-X", "B-X"]),
        ("a\nb\n", ["line 1", "one column"]),
        ("a\tO\n\tO\n", ["line 2", "token is missing"]),
        ("", ["empty"]),
        (" \n\t\n", ["empty"]),
        ("# only\n", ["only comments"]),
    ],
)
def test_bad_columns_are_refused_with_their_line(
    file: Write, text: str, mentions: list[str]
) -> None:
    path = file(text)
    assert_refused(lambda: read_columns(path), str(path), *mentions)


CONLLU = """\
# sent_id = 1
1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_
1\tIn\tin\tADP\tAPPR\t_\t0\troot\t_\t_
2\tdem\tder\tDET\tART\t_\t1\tdet\t_\t_
2.1\tx\tx\tX\tX\t_\t_\t_\t_\t_

# sent_id = 2
1\t#\t#\tSYM\t$\t_\t0\troot\t_\t_
"""


def test_conllu_has_words_only(file: Write) -> None:
    path = file(CONLLU)
    assert read_conllu(path) == [tagged("In/ADP dem/DET"), tagged("#/SYM")]
    assert read_conllu(path, tag="xpos")[0] == tagged("In/APPR dem/ART")
    with pytest.raises(ConfigError, match="'pos'"):
        read_conllu(path, tag="pos")  # type: ignore[arg-type]


def test_bad_conllu_is_refused_with_its_line(file: Write) -> None:
    for old, new, *mentions in (
        ("\troot\t_\t_\n2\t", "\troot\t_\n2\t", "line 3", "found 9 of 10"),
        ("DET", "_", "line 4", "'dem' has no upos"),
        ("2.1\t", "two\t", "line 5", "'two'"),
        ("\tIn\t", "\t\t", "line 3", "token is missing"),
    ):
        path = file(CONLLU.replace(old, new, 1), "bad.conllu")
        assert_refused(lambda path=path: read_conllu(path), str(path), *mentions)


def test_klue_tokens_take_the_entity_of_their_first_tagged_character(file: Write) -> None:
    header = "## 주석 : ##\n## id-0\t<김연아:PS>가 ...\n"
    text = header + characters("#|김연아/PS|가| |서울/LC|역| |2 월/DT|에") + "\n## id-1\tx\n#\tO\n"
    expected = [tagged("#김연아가/B-PS 서울역/B-LC 2/B-DT 월에/I-DT"), tagged("#/O")]
    assert read_klue(file(text), Reader("whitespace").spans) == expected
    assert read_tagged(file(text), tokenizer=Reader("whitespace").spans) == expected
    with pytest.raises(ConfigError, match="tokenizer"):
        read_tagged(file(text))


def test_klue_entity_behind_another_one_begins_with_the_next_token() -> None:
    #        a   b    c     d    e
    tags = ["O", "B-X", "B-Y", "I-Y", "O"]
    tokens = [Token("abc", 0, 3), Token("de", 3, 5)]
    assert token_tags(tokens, list("abcde"), tags) == ("B-X", "B-Y")


def test_klue_morphemes_that_share_a_character_are_one_entity() -> None:
    tokens = [Token("하", 0, 1), Token("았", 0, 1), Token("다", 1, 2)]
    assert token_tags(tokens, ["했", "다"], ["B-X", "O"]) == ("B-X", "I-X", "O")


def test_klue_rows_may_hold_several_code_points() -> None:
    tokens = [Token("👩‍👧", 0, 3), Token("a", 3, 4)]
    assert token_tags(tokens, ["👩‍👧", "a"], ["O", "B-X"]) == ("O", "B-X")


@given(st.data())
def test_klue_token_tags_are_always_bio(data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.sampled_from(["O", "A", "B"]), min_size=1, max_size=5))
    tags = [t for x in labels for t in (["O"] if x == "O" else [f"B-{x}", f"I-{x}"])]
    place = st.integers(0, len(tags))
    pairs = data.draw(st.lists(st.tuples(place, place), max_size=6))
    tokens = [Token("x", *sorted(pair)) for pair in sorted(pairs)]
    check_bio(token_tags(tokens, ["c"] * len(tags), tags))


def test_bad_klue_is_refused_with_its_line(file: Write) -> None:
    spaces = Reader("whitespace").spans
    for text, *mentions in (
        ("## x\n김\tB-PS\n연\n", "line 3", "found 1 of 2"),
        ("## x\n김\tB-PS\n연\tO\n아\tI-PS\n", "line 4", "I-PS"),
        ("## x\n \tO\n", "line 2", "without tokens"),
    ):
        path = file(text)
        assert_refused(lambda path=path: read_klue(path, spaces), str(path), *mentions)


def test_kind_of_a_tagged_file_is_found(file: Write) -> None:
    for name in ("a.conllu", "a.txt"):
        assert read_tagged(file(CONLLU, name), tag="xpos")[0] == tagged("In/APPR dem/ART")
    assert read_tagged(file("##mark\tO\n")) == [tagged("##mark/O")]
    assert read_tagged(file("a B-X\n"), tag_column=1) == [tagged("a/B-X")]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = tmp_path / f"a.conllu{suffix}"
        path.write_bytes(compress(CONLLU.encode()))
        assert len(read_tagged(path)) == 2


def labelled(text: str, label: str) -> LabelledText:
    return LabelledText(tuple(text.split()), label)


def test_trees(file: Write) -> None:
    path = file("(3 (2 It) (4 (2 's) (3 good)))\n\n(1 (2 (2 It) (2 's)) (0 bad))\n(2 It)\n")
    sentences = [labelled("It 's good", "3"), labelled("It 's bad", "1"), labelled("It", "2")]
    assert read_trees(path) == sentences
    assert read_trees(path, phrases=True) == [
        *sentences,
        labelled("'s", "2"),
        labelled("good", "3"),
        labelled("'s good", "4"),
        labelled("It 's", "2"),
        labelled("bad", "0"),
    ]


def test_words_of_trees_come_as_people_write_them(file: Write) -> None:
    path = file(r"(2 (2 (2 -LRB-) (2 ``)) (2 (2 and\/or) (2 (2 '') (2 -RRB-))))")
    assert read_trees(path) == [labelled('( " and/or " )', "2")]


def test_deep_trees_are_read(file: Write) -> None:
    path = file("(2 " * 5000 + "x" + ")" * 5000)
    assert read_trees(path, phrases=True) == [labelled("x", "2")]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("(2 a)\n(3 (2 It)\n", ["line 2", "does not close", "1 `)`"]),
        ("(3 (2 It)))\n", ["line 1", "outside"]),
        ("(3 It) (2 x)\n", ["line 1", "outside"]),
        ("hello\n", ["line 1", "'hello'"]),
        ("(S (NP It))\n", ["line 1", "'S'"]),
        ("(5 It)\n", ["line 1", "'5'"]),
        ("(2 (3 ) x)\n", ["line 1", "without words"]),
        ("(", ["line 1", "label"]),
        ("\n", ["empty"]),
    ],
)
def test_bad_trees_are_refused_with_their_line(file: Write, text: str, mentions: list[str]) -> None:
    path = file(text)
    assert_refused(lambda: read_trees(path), str(path), *mentions)


def test_tables_by_name_and_by_number(file: Write) -> None:
    expected = [labelled('a "b', "pos"), labelled("c", "neg")]
    path = file('label\ttext\npos\ta "b\n\nneg\tc\n')
    assert read_tsv(path, str.split, text="text", label="label") == expected
    assert read_tsv(path, str.split, text="text", label=0) == expected
    path = file('pos\ta "b\r\nneg\tc\r\n')
    assert read_tsv(path, str.split, text=1, label=0) == expected


def test_bad_tables_are_refused_with_their_line(file: Write) -> None:
    for text, *mentions in (
        ("label\ttext\npos\ta\nneg\n", "line 3", "found 1 of 2"),
        ("label\tdocument\npos\ta\n", "line 1", "'text'", "label, document"),
        ("label\ttext\n\ta\n", "line 2", "label is empty"),
        ("label\ttext\n", "header and nothing else"),
        ("", "empty"),
    ):
        path = file(text)
        call = lambda path=path: read_tsv(path, str.split, text="text", label="label")  # noqa: E731
        assert_refused(call, str(path), *mentions)
    with pytest.raises(ConfigError, match=r"column 5.*2 columns"):
        read_tsv(file("a\tb\n"), str.split, text=5, label=0)


def test_json_lines(file: Write) -> None:
    path = file('{"t": "a b", "y": 1, "z": []}\n{"t": "한글", "y": "x"}\n')
    expected = [labelled("a b", "1"), labelled("한글", "x")]
    assert read_jsonl(path, str.split, text="t", label="y") == expected
    for line, *mentions in (
        ("{", "line 2", "not JSON"),
        ("[1]", "line 2", "[1]"),
        ('{"t": "a"}', "line 2", "'y' is missing", "'t'"),
        ('{"t": 3, "y": "x"}', "line 2", "t=3", "str"),
        ('{"t": "a", "y": null}', "line 2", "y=None"),
    ):
        path = file('{"t": "a", "y": "x"}\n' + line)
        call = lambda path=path: read_jsonl(path, str.split, text="t", label="y")  # noqa: E731
        assert_refused(call, str(path), *mentions)


def test_examples_without_a_text_are_left_out_and_counted(
    file: Write, caplog: pytest.LogCaptureFixture
) -> None:
    path = file("label\ttext\npos\t \nneg\ta\npos\t\n")
    assert read_tsv(path, str.split, text="text", label="label") == [labelled("a", "neg")]
    path = file('{"t": " ", "y": "x"}\n{"t": "a", "y": "x"}\n')
    assert read_jsonl(path, str.split, text="t", label="y") == [labelled("a", "x")]
    assert "left out: 2" in caplog.text and "left out: 1" in caplog.text


def test_pairs(file: Write) -> None:
    header = "genre\tscore\tsentence1\tsentence2\n"
    path = file(header + "x\t4.250\ta b\tc\n")
    assert read_pairs(path, str.split) == [ScoredPair(("a", "b"), ("c",), 4.25)]
    for line, mention in (("x\thigh\ta\tb", "'high'"), ("x\tnan\ta\tb", "'nan'"), ("x\t1\ta", "3")):
        path = file(header + line)
        assert_refused(lambda path=path: read_pairs(path, str.split), "line 2", mention)
    path = file("score\tsentence1\n1\ta\n")
    assert_refused(lambda: read_pairs(path, str.split), "line 1", "'sentence2'")


def shared(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"there is no {path}")
    return path


@pytest.mark.parametrize(
    ("name", "num_sentences", "num_tokens", "num_tags"),
    [
        ("ner/en-ewt/train.iob2.gz", 12543, 204579, 7),
        ("ner/en-ewt/dev.iob2.gz", 2001, 25149, 7),
        ("ner/wnut17/train.conll.gz", 3394, 62730, 13),
        ("ner/wnut17/dev.conll", 1009, 15733, 13),
        ("pos/en-ewt/train.conllu.gz", 12544, 204577, 17),
        ("pos/en-ewt/dev.conllu.gz", 2001, 25147, 17),
        ("pos/ko-kaist/train.conllu.gz", 23003, 296432, 17),
        ("pos/ko-kaist/dev.conllu.gz", 2066, 25278, 17),
    ],
)
def test_real_tagged_files(name: str, num_sentences: int, num_tokens: int, num_tags: int) -> None:
    sentences = read_tagged(shared(name))
    assert len(sentences) == num_sentences
    assert sum(len(s.tokens) for s in sentences) == num_tokens
    assert len({tag for s in sentences for tag in s.tags}) == num_tags
    assert all(len(s.tokens) == len(s.tags) for s in sentences)


def test_real_klue() -> None:
    sentences = read_tagged(
        shared("ner/ko-klue/klue-ner-v1.1_dev.tsv.gz"), tokenizer=Reader("regex").spans
    )
    assert len(sentences) == 5000
    for sentence in sentences:
        check_bio(sentence.tags)
    # Of 14,257 entities; the others share a token with an earlier one.
    assert sum(len(spans(s.tags)) for s in sentences) > 14000


def test_real_trees() -> None:
    dev = read_trees(shared("sst5/dev.txt"))
    assert Counter(e.label for e in dev) == {"0": 139, "1": 289, "2": 229, "3": 279, "4": 165}
    train = shared("sst5/train.txt.gz")
    assert len(read_trees(train)) == 8544
    assert len(read_trees(train, phrases=True)) > 150_000


def test_real_tables() -> None:
    words = Reader("regex").tokens
    for name, size in (("nsmc/train.tsv.gz", 40000), ("nsmc/dev.tsv.gz", 5000)):
        reviews = read_tsv(shared(name), words, text="text", label="label")
        assert Counter(e.label for e in reviews) == {"positive": size // 2, "negative": size // 2}
    intents = read_tsv(shared("ko-3i4k/train.txt.gz"), words, text=1, label=0)
    assert {e.label for e in intents} == set("0123456") and len(intents) == 55134
    assert not any("\r" in token for e in intents for token in e.tokens)
    for name, size in (("korsts/train.tsv.gz", 5749), ("korsts/dev.tsv.gz", 1500)):
        pairs = read_pairs(shared(name), words)
        assert len(pairs) == size and all(0 <= pair.score <= 5 for pair in pairs)


def test_empty_files_are_input_errors(file: Write) -> None:
    path = file("")
    for read in (read_tagged, read_columns, read_conllu, read_trees):
        with pytest.raises(InputError, match="empty"):
            read(path)


def test_a_text_to_predict_may_be_in_a_json_object() -> None:
    task, reader, config = TASKS["classify"], Reader("regex"), ClassifyConfig()
    for line in ('{"text": "a film", "label": "x"}', "a film"):
        assert task.example(line, reader, config) == labelled("a film", "")
    assert task.example("{ a film", reader, config).tokens == ("{", "a", "film")
    assert_refused(lambda: task.example('{"review": 1}', reader, config), "'text'", "'review'")
    named = replace(config, text="review")
    assert task.example('{"review": "a film"}', reader, named) == labelled("a film", "")
    assert_refused(lambda: task.example('{"text": "a film"}', reader, named), "'review'")
