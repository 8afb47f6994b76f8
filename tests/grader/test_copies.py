"""Near copies: no disguise helps, what everyone was given does not count, work is linear."""

from __future__ import annotations

import builtins
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from sqlite3 import Connection

import pytest

from grader import scratch
from grader.errors import BadInputError
from grader.html import copies, near_copies
from grader.html.copies import own_runs
from grader.html.tokens import tokens, words
from grader.notebook import Notebook, read_notebook
from solutions.lesson import ROOT
from solutions.render import solved_path
from tests.grader.pages import M2, M4, M7, notebook
from tests.grader.test_scratch import open_files

SOLVED = read_notebook(solved_path(M4))
OWN = [cell.source for cell in SOLVED.cells if "def " in cell.source]


def written(seed: int, n_lines: int = 40) -> str:
    """Code of its own: statements drawn at random, with the names of any student."""
    rng = random.Random(seed)
    parts = ["a.b", "c[1]", "d(2)", "not e", "{}", "[3]", "f(g, h)", "(i, 4)", "k.l.m", "'n'"]
    return "def own():\n" + "\n".join(
        f"    x{rng.randint(0, 9)} {rng.choice(['=', '+=', '*='])} {rng.choice(parts)} "
        f"{rng.choice(['+', '-', '*', '/', '%', '@', 'and', 'or'])} {rng.choice(parts)} "
        f"{rng.choice(['<', '>', '==', 'in'])} {rng.randint(0, 99)}"
        for _ in range(n_lines)
    )


def groups(**notebooks: Notebook) -> list[tuple[str, ...]]:
    handed_in = [(student, M4, book) for student, book in notebooks.items()]
    return [one.students for one in near_copies(handed_in)]


def renamed(code: str) -> str:
    """The same code with another name for everything that is not Python's own."""
    return "".join(
        f"{text}_2" if kind == "name" and not hasattr(builtins, text) else text
        for kind, text in tokens(code)
    )


def reformatted(code: str) -> str:
    return re.sub(r"\n\n+", "\n", re.sub(r"^( +)", r"\1\1", code, flags=re.MULTILINE)) + "\n# mine"


def recommented(code: str) -> str:
    doc = re.sub(r'"""(.|\n)*?"""', '"""Mine."""', code)
    return "\n".join(f"{line}  # what I did" for line in doc.splitlines())


def another_line(code: str) -> str:
    return f"{code}\n    unused = [1, 2, 3]\n"


@pytest.mark.parametrize(
    "disguise", [str, renamed, reformatted, recommented, another_line], ids=lambda f: f.__name__
)
def test_a_disguised_copy_is_found(disguise: Callable[[str], str]) -> None:
    copy = notebook(*map(disguise, OWN))
    assert groups(ann=notebook(*OWN), bob=copy, eve=notebook(written(1))) == [("ann", "bob")]


def test_cells_in_another_order_or_cut_into_two_are_still_a_copy() -> None:
    assert groups(ann=notebook(*OWN), bob=notebook(*reversed(OWN))) == [("ann", "bob")]
    assert groups(ann=notebook(*OWN), bob=notebook("\n".join(OWN))) == [("ann", "bob")]


def test_work_of_ones_own_is_no_copy() -> None:
    books = {f"s{i}": notebook(written(i)) for i in range(60)}
    assert groups(**books) == []


@pytest.mark.parametrize("slug", [M2, M4])
def test_what_everyone_was_given_is_nobodys(slug: str) -> None:
    blank = read_notebook(ROOT / "notebooks" / f"{slug}.ipynb")
    assert len(own_runs(slug, blank)) == 0
    # each adds the same short line to the blank notebook: still nobody's copy
    books = [Notebook(blank.sha256, (*blank.cells, notebook("print(1)").cells[0]))] * 2
    assert near_copies([("ann", slug, books[0]), ("bob", slug, books[1])]) == []


def test_the_code_of_a_handout_is_nobodys() -> None:
    handout = (ROOT / "milestones" / M7 / "handout.md").read_text(encoding="utf-8")
    (workload, _answer) = copies.FENCE.findall(handout)
    assert '"prompt_tokens"' in workload
    assert len(own_runs(M4, notebook(workload))) > 20
    assert len(own_runs(M7, notebook(workload))) == 0


def test_short_work_is_not_compared() -> None:
    code = "def f(a):\n    return 2 * a"
    assert groups(ann=notebook(code), bob=notebook(code)) == []


def test_milestones_are_compared_apart() -> None:
    book = notebook(written(1))
    assert near_copies([("ann", M2, book), ("bob", M4, book)]) == []


def grown(seed: int, of_own: int, of: int = 60) -> Notebook:
    """Return the work of seed 3 with lines of one's own in place of some."""
    shared = written(3, of).splitlines()[: 1 + of - of_own]
    return notebook("\n".join([*shared, *written(seed, of_own).splitlines()[1:]]))


def test_groups_of_two_milestones_say_each_what_theirs_are() -> None:
    found = near_copies(
        [
            ("ann", M2, grown(1, 2)), ("ann", M4, grown(1, 2)), ("cid", M4, grown(5, 6)),
            ("bob", M2, grown(2, 2)), ("dan", M4, grown(6, 6)),
        ]
    )  # fmt: skip
    assert [(one.slug, one.students) for one in found] == [
        (M4, ("ann", "cid", "dan")),
        (M2, ("ann", "bob")),
    ]
    assert found[0].similarity < found[1].similarity


def test_a_work_is_compared_with_those_of_its_milestone_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies, "_jaccard", lambda *_runs: pytest.fail("another milestone's"))
    assert near_copies([("ann", M2, grown(1, 2)), ("bob", M4, grown(2, 2))]) == []


def test_a_band_is_another_one_where_its_rows_are_the_same() -> None:
    bands = copies._bands(M4, copies.NONE)  # of nothing every row is the same
    assert len(set(bands)) == copies.BANDS
    assert not set(bands) & set(copies._bands(M2, copies.NONE))


def test_groups_with_names_between_one_anothers_stay_whole() -> None:
    one, other = written(11), written(12)
    books = {"a": one, "b": other, "c": one, "d": other, "e": one}
    found = groups(**{name: notebook(code) for name, code in books.items()})
    assert found == [("a", "c", "e"), ("b", "d")]


def test_the_shortest_of_a_group_and_its_loosest_tie_are_told() -> None:
    short, long = notebook(written(3, 60)), notebook(written(3, 66))
    n_short, n_long = (len(own_runs(M4, book)) for book in (short, long))
    twin = notebook(written(3, 66) + "\n    a = 1")
    (found,) = near_copies([("ann", M4, short), ("bob", M4, twin), ("cid", M4, long)])
    assert found.n_runs == n_short < n_long
    first, last = (
        copies._jaccard(own_runs(M4, short), own_runs(M4, other)) for other in (twin, long)
    )
    assert found.similarity == pytest.approx(first)
    assert first < last


def test_a_student_who_hands_in_one_work_twice_is_named_once_and_alone_no_group() -> None:
    book = notebook(written(3))
    assert near_copies([("ann", M4, book), ("ann", M4, book)]) == []
    (found,) = near_copies([("ann", M4, book), ("bob", M4, book), ("ann", M4, book)])
    assert found.students == ("ann", "bob")


def test_a_full_disk_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = "PRAGMA journal_mode = OFF; PRAGMA max_page_count = 12;"
    monkeypatch.setattr(scratch, "SETTINGS", settings)
    with pytest.raises(BadInputError, match="make room"):
        near_copies([(f"s{i}", M4, notebook(written(i))) for i in range(50)])


def test_what_was_kept_on_disk_is_given_back() -> None:
    before = open_files()
    near_copies([(f"s{i}", M4, notebook(written(i))) for i in range(300)])
    assert open_files() <= before


def test_a_broken_cell_or_a_magic_hides_nothing() -> None:
    odd = notebook("%%time\n!ls\n" + OWN[0], *OWN[1:], "def broken(:\n  'no end\n((((")
    assert groups(ann=notebook(*OWN), bob=odd) == [("ann", "bob")]


def test_a_group_says_how_alike_its_members_are_at_least() -> None:
    twin = notebook(written(3, 60) + "\n" + written(4, 3).partition("\n")[2])
    (found,) = near_copies(
        [("ann", M4, notebook(written(3, 60))), ("bob", M4, twin), ("cid", M4, twin)]
    )
    assert found.students == ("ann", "bob", "cid")
    assert 0.8 <= found.similarity < 1.0
    (same,) = near_copies([("ann", M4, twin), ("bob", M4, twin)])
    assert same.similarity == 1.0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the works that are compared, and those that are looked at for it."""
    seen: Counter[str] = Counter()
    jaccard, sharing = copies._jaccard, copies._sharing

    def compared(one: copies.Runs, other: copies.Runs) -> float:
        seen["compared"] += 1
        return jaccard(one, other)

    def looked_at(database: Connection, bands: Sequence[int]) -> list[int]:
        found = sharing(database, bands)
        seen["looked at"] += len(found)
        return found

    monkeypatch.setattr(copies, "_jaccard", compared)
    monkeypatch.setattr(copies, "_sharing", looked_at)
    return seen


def test_the_work_grows_with_the_class_and_not_with_its_pairs(
    counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MAX_SHARING", 5)
    n = 300
    one = written(7, 80)
    near = [(f"near{i}", M4, notebook(f"{one}\n    z = {i} + {i}.5")) for i in range(n)]
    far = [(f"far{i}", M4, notebook(written(i))) for i in range(n)]
    (found,) = near_copies(near + far)
    assert len(found.students) == n
    assert counted["compared"] < 3 * n, "pairs would be 45,000"
    assert counted["looked at"] < 30 * n, "pairs would be 45,000"


def test_a_work_is_compared_with_so_many_and_no_more(
    counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MAX_COMPARED", 3)
    monkeypatch.setattr(copies, "ALIKE", 1.1)  # none is: every candidate is compared
    n = 40
    near_copies([(f"s{i}", M4, grown(100 + i, 2)) for i in range(n)])
    assert counted["looked at"] > 10 * n
    assert counted["compared"] <= 3 * n


def test_twins_are_found_among_many_that_are_half_alike() -> None:
    # Compared with those that came first, a late one never meets its twin.
    lookalikes = {f"s{i:03}": grown(1_000 + i, 12) for i in range(100)}
    first, second = list(lookalikes.values())[:2]
    alike = copies._jaccard(own_runs(M4, first), own_runs(M4, second))
    assert 0.5 < alike < copies.ALIKE - 0.1
    (twin,) = (cell.source for cell in grown(9_999, 12).cells)
    twins = {"y": notebook(twin), "z": notebook(twin + "\n    a = 1")}
    assert groups(**lookalikes, **twins) == [("y", "z")]


def test_those_who_copied_a_late_member_of_a_large_group_belong_to_it() -> None:
    # What is copied with changes from one of them is too unlike the others to be tied to them.
    near = {f"s{i:03}": grown(2_000 + i, 3) for i in range(80)}
    (late,) = (cell.source for cell in near["s075"].cells)
    kept = "\n".join(["def own():", *late.splitlines()[7:]])
    copied = {
        f"t{i:02}": notebook(kept + "\n" + written(3_000 + i, 5).partition("\n")[2])
        for i in range(20)
    }
    assert groups(**near, **copied) == [(*near, *copied)]


def test_words_are_names_numbers_signs_and_one_sign_for_any_text() -> None:
    code = "x = f'a b' + r\"c\" # d\ny = '''e\n#f''' * 1.5e-3"
    text = words("''")[0]
    assert words(code) == ["x", "=", text, "+", text, "y", "=", text, "*", "1.5e-3"]
