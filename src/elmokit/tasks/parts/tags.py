"""Spans as tags: BIO as files have it, BIOUL as the tagger learns it.

BIO marks the first token of a span with B- and the others with I-. BIOUL also marks the last one
(L-) and a span of a single token (U-), which tells a tagger more about where spans end.
"""

from collections.abc import Sequence

from ...errors import InputError, quoted

Span = tuple[str, int, int]
"""Label, first token, and the token after the last."""


def bio_fault(tags: Sequence[str]) -> tuple[int, str] | None:
    """The first tag that BIO does not allow: its position, and what is wrong with it."""
    previous = "O"
    for i, tag in enumerate(tags):
        if not is_tag(tag, "BI"):
            return i, f"the tag {quoted(tag)} is not BIO; expected O, B-LABEL or I-LABEL"
        if tag[0] == "I" and previous[1:] != tag[1:]:
            return i, f"{tag} continues no span; it stands after {previous}, so write B{tag[1:]}"
        previous = tag
    return None


def check_bio(tags: Sequence[str]) -> None:
    """Nothing if the tags are BIO.

    Raises:
        InputError: They are not; says which tag, counted from 0, and why.
    """
    if fault := bio_fault(tags):
        raise InputError(f"tag {fault[0]}: {fault[1]}")


def spans(bio: Sequence[str]) -> list[Span]:
    """The labelled spans of BIO tags, from left to right.

    An I- that continues nothing begins a span, as the CoNLL scorer has it.

    Example:
        >>> spans(["B-PER", "I-PER", "O", "B-LOC"])
        [('PER', 0, 2), ('LOC', 3, 4)]
    """
    found: list[Span] = []
    previous = "O"
    for i, tag in enumerate(bio):
        if tag != "O":
            begins = tag[0] == "B" or previous[1:] != tag[1:]
            found.append((tag[2:], i, i + 1) if begins else (*found.pop()[:2], i + 1))
        previous = tag
    return found


def iob1_to_bio(tags: Sequence[str]) -> list[str]:
    """BIO of IOB1 (CoNLL-2003 as published), where B- only separates neighbours of one label."""
    bio = ["O"] * len(tags)
    for label, start, end in spans(tags):
        bio[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return bio


def is_iob1(tags: Sequence[str]) -> bool:
    """Whether the tags can be IOB1: every B- stands right after a span of its own label."""
    before = ["O", *tags]
    return all(
        is_tag(tag, "BI") and (tag[0] != "B" or last[1:] == tag[1:])
        for last, tag in zip(before, tags)
    )


def bio_to_bioul(tags: Sequence[str]) -> list[str]:
    """BIOUL of BIO.

    Example:
        >>> bio_to_bioul(["B-PER", "I-PER", "O", "B-LOC"])
        ['B-PER', 'L-PER', 'O', 'U-LOC']
    """
    check_bio(tags)
    following = [*tags, "O"][1:]
    return [
        tag if tag == "O" or after == f"I{tag[1:]}" else {"B": "U", "I": "L"}[tag[0]] + tag[1:]
        for tag, after in zip(tags, following, strict=True)
    ]


def bioul_to_bio(tags: Sequence[str]) -> list[str]:
    """BIO of BIOUL; the inverse of `bio_to_bioul`.

    Raises:
        InputError: The tags are not BIOUL.
    """
    for i, (tag, after) in enumerate(zip(["O", *tags], [*tags, "O"], strict=True)):
        if not is_tag(after, "BILU"):
            raise InputError(
                f"tag {i}: {quoted(after)} is not BIOUL; expected O or B-, I-, L-, U-LABEL"
            )
        if not follows(tag, after):
            where = f"tag {i}: {after}" if i < len(tags) else "the end"
            raise InputError(f"{where} cannot stand after {tag} in BIOUL")
    plain = {"O": "O", "B": "B", "I": "I", "U": "B", "L": "I"}
    return [plain[tag[0]] + tag[1:] for tag in tags]


def is_tag(tag: str, prefixes: str) -> bool:
    """Whether `tag` is O, or a label behind one of the prefixes."""
    return tag == "O" or (len(tag) > 2 and tag[0] in prefixes and tag[1] == "-")


def follows(tag: str, after: str) -> bool:
    """Whether `after` may stand right behind `tag` in BIOUL."""
    if tag[0] in "BI":
        return after[0] in "IL" and after[1:] == tag[1:]
    return after[0] in "OBU"
