"""Links between spans → clusters, and clusters for people."""

from collections import defaultdict
from collections.abc import Sequence

from .data import Cluster, Span


def make_clusters(
    spans: Sequence[Span], antecedents: Sequence[int | None], alone: Sequence[bool] | None = None
) -> list[Cluster]:
    """The clusters of spans that are linked, directly or through others.

    Args:
        spans: In the order of the text.
        antecedents: Of each span, the number of one before it, or None.
        alone: Which spans are clusters even without a link; by default none is.
    """
    cluster_of: list[int] = []
    members: defaultdict[int, list[int]] = defaultdict(list)
    for i, antecedent in enumerate(antecedents):
        cluster_of.append(i if antecedent is None else cluster_of[antecedent])
        members[cluster_of[i]].append(i)
    return [
        tuple(spans[i] for i in cluster)
        for first, cluster in members.items()
        if len(cluster) > 1 or (alone is not None and alone[first])
    ]


def bracketed(sentences: Sequence[Sequence[str]], clusters: Sequence[Cluster]) -> list[str]:
    """The sentences with each mention in brackets and the number of its cluster, from 1.

    Example:
        >>> bracketed([["His", "dog", "barks"]], [((0, 1),), ((0, 2),)])
        ['[[His]1 dog]2 barks']
    """
    begins: defaultdict[int, str] = defaultdict(str)
    ends: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, cluster in enumerate(clusters, start=1):
        for start, end in cluster:
            begins[start] += "["
            ends[end - 1].append((start, number))
    lines, place = [], 0
    for sentence in sentences:
        words = []
        for word in sentence:
            # What began last ends first.
            closing = "".join(f"]{number}" for _, number in sorted(ends[place], reverse=True))
            words.append(f"{begins[place]}{word}{closing}")
            place += 1
        lines.append(" ".join(words))
    return lines
