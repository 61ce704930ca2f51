"""KLUE-NER: tags of characters, made tags of tokens."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ...errors import FormatError
from ...text.token import Token
from ..tags import spans
from .examples import TaggedSentence
from .rows import Line, as_bio, read_rows


def klue_sentences(
    lines: Sequence[Line], path: Path | str, tokenizer: Callable[[str], list[Token]]
) -> list[TaggedSentence]:
    """The sentences of the lines of a file; see `read_klue`."""
    rows = read_rows(
        lines,
        path,
        # A comment has two marks: a sentence may begin with the character itself.
        is_comment=lambda line: line.startswith("##"),
        split=lambda line: line.split("\t"),
        num_columns=2,
    )
    tags = as_bio([sentence.column(1) for sentence in rows], rows, path)
    sentences = []
    for sentence, of_sentence in zip(rows, tags, strict=True):
        characters = sentence.column(0)
        tokens = tokenizer("".join(characters))
        if not tokens:
            raise FormatError(f"{path}, line {sentence.lines[0]}: a sentence without tokens")
        texts = tuple(token.text for token in tokens)
        sentences.append(TaggedSentence(texts, token_tags(tokens, characters, of_sentence)))
    return sentences


def token_tags(
    tokens: Sequence[Token], characters: Sequence[str], tags: Sequence[str]
) -> tuple[str, ...]:
    """BIO tags of tokens, each of which belongs to the entity of its first tagged character.

    Args:
        tokens: Tokens with offsets into the joined characters; they may overlap.
        characters: What the tags stand for, of one or more code points each.
        tags: BIO tags of the characters.
    """
    entities = spans(tags)
    entity_of: list[int | None] = [None] * len(characters)
    for number, (_, start, end) in enumerate(entities):
        entity_of[start:end] = [number] * (end - start)
    of_code_point = [n for c, n in zip(characters, entity_of, strict=True) for _ in c]
    found: list[str] = []
    previous: int | None = None
    for token in tokens:
        inside = of_code_point[token.start : token.end]
        entity = next((n for n in inside if n is not None), None)
        if entity is None:
            found.append("O")
        else:
            found.append(f"{'I' if entity == previous else 'B'}-{entities[entity][0]}")
        previous = entity
    return tuple(found)
