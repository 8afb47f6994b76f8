"""Hand-ins that are near copies of one another: a hint for a person to look at, never a verdict.

Of each notebook the tokens of its code are compared, without what every student was given (the
blank notebook and the code of the handout), without comments and layout, and with every name but
Python's own taken for the same one, so that renaming hides nothing. Runs of tokens are hashed to a
MinHash, and only notebooks that fall together in a locality-sensitive hash are compared, so the
work grows with the hand-ins and not with their pairs.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import milestones
from grader.errors import BadInputError
from grader.html.tokens import words
from grader.notebook import Notebook, read_notebook

if TYPE_CHECKING:
    from datasketch import MinHash

RUN = 8  # tokens: shorter runs are Python's idioms, longer ones break at every small change
ALIKE = 0.8  # Jaccard similarity of the runs
FEWEST = 80  # runs of one's own: shorter work is alike by nature
# 21 bands of 6: of pairs that are exactly ALIKE, 998 in 1,000 share a band.
BANDS, ROWS = 21, 6
PERMUTATIONS = BANDS * ROWS
FACTORS = np.array([pow(0x9E3779B97F4A7C15, k, 2**64) for k in range(RUN)], dtype=np.uint64)
MAX_SOURCE = 200_000  # characters of a notebook that are compared
MAX_COMPARED = 50  # candidates looked at for one notebook: keeps the work linear in any class
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
OWN_NAMES = frozenset(dir(builtins)) | frozenset(keyword.kwlist)
Runs = NDArray[np.uint64]
"""Hashes of runs of tokens, sorted, each once."""
NONE: Runs = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class NearCopies:
    """Students whose notebooks for one milestone are alike, and how much at least."""

    slug: str
    students: tuple[str, ...]
    similarity: float  # the least of those that tie them together
    n_runs: int  # of tokens, in the shortest of them


def near_copies(handed_in: Iterable[tuple[str, str, Notebook]]) -> list[NearCopies]:
    """Return the groups of near copies among (student, milestone, notebook), the largest first.

    Notebooks are looked at one at a time and not kept.
    """
    by_slug: dict[str, _Groups] = defaultdict(_Groups)
    for student, slug, notebook in handed_in:
        runs = own_runs(slug, notebook)
        if len(runs) >= FEWEST:
            by_slug[slug].add(student, runs)
    found = [copies for slug, groups in by_slug.items() for copies in groups.found(slug)]
    return sorted(found, key=lambda one: (-len(one.students), one.slug, one.students))


class _Groups:
    """The notebooks of one milestone, those alike in one group."""

    def __init__(self) -> None:
        from datasketch import MinHashLSH  # a slow import, and only a class needs it

        self._lsh = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
        self._ids: dict[bytes, int] = {}  # of every distinct set of runs
        self._runs: list[Runs] = []
        self._students: list[list[str]] = []
        self._parents: list[int] = []
        self._ties: list[tuple[int, float]] = []

    def add(self, student: str, runs: Runs) -> None:
        key = hashlib.sha256(runs.tobytes()).digest()
        if key in self._ids:
            self._students[self._ids[key]].append(student)
            return
        number = self._ids[key] = len(self._runs)
        self._runs.append(runs)
        self._students.append([student])
        self._parents.append(number)
        sketch = _empty().copy()
        sketch.update_batch((runs & np.uint64(0xFFFFFFFF)).tolist())
        compared = 0
        for other in sorted(self._lsh.query(sketch)):
            if self._root(other) == self._root(number):
                continue  # another one has tied them already
            compared += 1
            similarity = _jaccard(runs, self._runs[other])
            if similarity >= ALIKE:
                self._parents[self._root(number)] = self._root(other)
                self._ties.append((number, similarity))
            if compared == MAX_COMPARED:
                break
        self._lsh.insert(number, sketch)

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def found(self, slug: str) -> Iterator[NearCopies]:
        least: dict[int, float] = defaultdict(lambda: 1.0)
        for number, similarity in self._ties:
            root = self._root(number)
            least[root] = min(least[root], similarity)
        members: dict[int, list[int]] = defaultdict(list)
        for number in range(len(self._runs)):
            members[self._root(number)].append(number)
        for root, numbers in members.items():
            students = sorted({name for number in numbers for name in self._students[number]})
            if len(students) > 1:
                n_runs = min(len(self._runs[number]) for number in numbers)
                yield NearCopies(slug, tuple(students), least[root], n_runs)


@cache
def _empty() -> MinHash:
    """Return a sketch of nothing; what it hashes with is made once, as it is the same for all."""
    from datasketch import MinHash

    return MinHash(num_perm=PERMUTATIONS, hashfunc=int)


def _jaccard(a: Runs, b: Runs) -> float:
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)


def own_runs(slug: str, notebook: Notebook) -> Runs:
    """Return the runs of tokens in a notebook that its student was not given."""
    given, given_cells = _given(slug)
    found, left = [], MAX_SOURCE
    for cell in notebook.cells:
        if left <= 0:
            break
        source = cell.source[:left]
        left -= len(source)
        if source.strip() not in given_cells:
            found.append(_runs(source))
    return np.setdiff1d(np.concatenate([NONE, *found]), given)


@lru_cache
def _given(slug: str) -> tuple[Runs, frozenset[str]]:
    """Return the runs of all that students were given, and the blank notebook's cells."""
    folder = Path(milestones.__file__).parent / slug
    try:
        cells = [cell.source for cell in read_notebook(folder / "blank.ipynb").cells]
    except BadInputError:
        cells = []
    handout = folder / "handout.md"
    taught = FENCE.findall(handout.read_text(encoding="utf-8")) if handout.is_file() else []
    runs = np.unique(np.concatenate([NONE, *map(_runs, (*cells, *taught))]))
    return runs, frozenset(source.strip() for source in cells)


def _runs(source: str) -> Runs:
    """Return a hash of every run of tokens, in order: a polynomial of theirs, modulo 2^64."""
    found = np.array([_hash(word) for word in words(source)], dtype=np.uint64)
    if len(found) < RUN:
        return NONE
    windows = np.lib.stride_tricks.sliding_window_view(found, RUN)
    return np.asarray((windows * FACTORS).sum(axis=1, dtype=np.uint64))


@lru_cache(maxsize=100_000)
def _hash(word: str) -> int:
    """Return a number for a token; all names but Python's own share one."""
    same = "name" if word.isidentifier() and word not in OWN_NAMES else word
    return int.from_bytes(hashlib.blake2b(same.encode("utf-8", "replace"), digest_size=8).digest())
