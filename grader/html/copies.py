"""Hand-ins that are near copies of one another: a hint for a person to look at, never a verdict.

Of each notebook the tokens of its code are compared, without what every student was given (the
blank notebook and the code of the handout), without comments and layout, and with every name but
Python's own taken for the same one, so that renaming hides nothing. Runs of tokens are hashed to a
MinHash, and only notebooks that fall together in a locality-sensitive hash are compared, so the
work grows with the hand-ins and not with their pairs. Each is compared with those that share most
of that hash with it, and not with more than a few dozen. What is kept of each lies on disk:
MinHashLSH of the same library takes 10 KB of memory for one.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import milestones
from grader.errors import BadInputError
from grader.html.tokens import words
from grader.notebook import Notebook, read_notebook
from grader.scratch import Scratch

if TYPE_CHECKING:
    from sqlite3 import Connection

    from datasketch import MinHash

RUN = 8  # tokens: shorter runs are Python's idioms, longer ones break at every small change
ALIKE = 0.8  # Jaccard similarity of the runs
FEWEST = 80  # runs of one's own: shorter work is alike by nature
# 21 bands of 6: of pairs that are exactly ALIKE, 998 in 1,000 share a band.
BANDS, ROWS = 21, 6
PERMUTATIONS = BANDS * ROWS
FACTORS = np.array([pow(0x9E3779B97F4A7C15, k, 2**64) for k in range(RUN)], dtype=np.uint64)
MAX_SOURCE = 200_000  # characters of a notebook that are compared
MAX_COMPARED = 50  # candidates that are compared with one notebook, and
MAX_SHARING = 50  # the first notebooks of those that share a band: so the work stays linear
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
OWN_NAMES = frozenset(dir(builtins)) | frozenset(keyword.kwlist)
Runs = NDArray[np.uint64]
"""Hashes of runs of tokens, sorted, each once."""
NONE: Runs = np.empty(0, dtype=np.uint64)
RUN_BYTES = NONE.itemsize


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
    groups = _Groups()
    with closing(groups):
        for student, slug, notebook in handed_in:
            runs = own_runs(slug, notebook)
            if len(runs) >= FEWEST:
                groups.add(student, slug, runs)
        found = list(groups.found())
    return sorted(found, key=lambda one: (-len(one.students), one.slug, one.students))


class _Groups:
    """Notebooks, those alike in one group; all but a few numbers of each lie on disk."""

    TABLES = """
        CREATE TABLE works (  -- every distinct set of runs in the notebooks of a milestone
            number INTEGER PRIMARY KEY, slug TEXT, sha256 BLOB, runs BLOB, root INTEGER,
            UNIQUE (slug, sha256)
        );
        CREATE TABLE authors (number INTEGER, student TEXT);
        CREATE TABLE bands (  -- of the locality-sensitive hash: candidates share one
            hash INTEGER, number INTEGER, PRIMARY KEY (hash, number)
        ) WITHOUT ROWID;
    """

    def __init__(self) -> None:
        self._kept = Scratch(self.TABLES)
        self._parents = array("q")  # of each work; a root is its own
        self._tied = array("q")  # works, and how like another of their group they are
        self._similarities = array("d")

    def close(self) -> None:
        self._kept.close()

    def add(self, student: str, slug: str, runs: Runs) -> None:
        with self._kept.using() as database:
            number = self._number(database, slug, runs)
            database.execute("INSERT INTO authors VALUES (?, ?)", (number, student))

    def _number(self, database: Connection, slug: str, runs: Runs) -> int:
        """Return the number of a work, tied to those that are like it when it is a new one."""
        key = slug, hashlib.sha256(runs.tobytes()).digest()
        known = "SELECT number FROM works WHERE slug = ? AND sha256 = ?"
        if (row := database.execute(known, key).fetchone()) is not None:
            (number,) = row
            return int(number)
        number = len(self._parents)
        self._parents.append(number)
        new = "INSERT INTO works VALUES (?, ?, ?, ?, NULL)"
        database.execute(new, (number, *key, runs.tobytes()))
        bands = _bands(slug, runs)
        compared = 0
        for other in _sharing(database, bands):
            if self._root(other) == self._root(number):
                continue  # another one has tied them already
            compared += 1
            similarity = _jaccard(runs, _runs_of(database, other))
            if similarity >= ALIKE:
                self._parents[self._root(number)] = self._root(other)
                self._tied.append(number)
                self._similarities.append(similarity)
            if compared == MAX_COMPARED:
                break
        room = "(SELECT count(*) FROM bands WHERE hash = ?1) < ?3"
        rows = [(band, number, MAX_SHARING) for band in bands]
        database.executemany(f"INSERT OR IGNORE INTO bands SELECT ?1, ?2 WHERE {room}", rows)
        return number

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def found(self) -> Iterator[NearCopies]:
        least: dict[int, float] = defaultdict(lambda: 1.0)
        for number, similarity in zip(self._tied, self._similarities, strict=True):
            root = self._root(number)
            least[root] = min(least[root], similarity)
        roots = ((self._root(number), number) for number in range(len(self._parents)))
        members = """
            SELECT root, slug, student, length(runs) FROM works JOIN authors USING (number)
            ORDER BY root, student
        """
        with self._kept.using() as database:
            database.executemany("UPDATE works SET root = ? WHERE number = ?", roots)
            for (root, slug), rows in groupby(database.execute(members), itemgetter(0, 1)):
                group = [(student, n_bytes // RUN_BYTES) for _, _, student, n_bytes in rows]
                students = tuple(dict.fromkeys(student for student, _ in group))
                if len(students) > 1:
                    n_runs = min(n_runs for _, n_runs in group)
                    yield NearCopies(slug, students, least[root], n_runs)


def _sharing(database: Connection, bands: Sequence[int]) -> list[int]:
    """Return the works that share bands with one that has these: who shares most comes first.

    The more bands two share, the more alike they are; of as many, the first that was added leads.
    """
    marks = ", ".join("?" * len(bands))
    query = f"""
        SELECT number FROM bands WHERE hash IN ({marks})
        GROUP BY number ORDER BY count(*) DESC, number
    """
    return [number for (number,) in database.execute(query, bands)]


def _runs_of(database: Connection, number: int) -> Runs:
    (runs,) = database.execute("SELECT runs FROM works WHERE number = ?", (number,)).fetchone()
    return np.frombuffer(runs, dtype=np.uint64)


def _bands(slug: str, runs: Runs) -> list[int]:
    """Return a hash of each band of the sketch of some runs, and of which band it is."""
    sketch = _empty().copy()
    sketch.update_batch((runs & np.uint64(0xFFFFFFFF)).tolist())
    rows = sketch.hashvalues.reshape(BANDS, ROWS)
    named = (f"{slug} {band} {row.tolist()}".encode() for band, row in enumerate(rows))
    return [
        int.from_bytes(hashlib.blake2b(one, digest_size=8).digest(), signed=True) for one in named
    ]


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


@lru_cache(maxsize=4_096)  # words of Python, of the libraries and of the lessons
def _hash(word: str) -> int:
    """Return a number for a token; all names but Python's own share one."""
    same = "name" if word.isidentifier() and word not in OWN_NAMES else word
    return int.from_bytes(hashlib.blake2b(same.encode("utf-8", "replace"), digest_size=8).digest())
