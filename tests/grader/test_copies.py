"""Near copies: no disguise helps, what everyone was given does not count, work is linear."""

from __future__ import annotations

import builtins
import random
import re
from collections.abc import Callable

import pytest

from grader.html import copies, near_copies
from grader.html.copies import own_runs
from grader.html.tokens import tokens, words
from grader.notebook import Notebook, read_notebook
from solutions.lesson import ROOT
from solutions.render import solved_path
from tests.grader.pages import M2, M4, M7, notebook

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


def test_the_work_grows_with_the_class_and_not_with_its_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    jaccard = copies._jaccard

    def counted(one: copies.Runs, other: copies.Runs) -> float:
        compared.append(1)
        return jaccard(one, other)

    monkeypatch.setattr(copies, "_jaccard", counted)
    n = 300
    one = written(7, 80)
    near = [(f"near{i}", M4, notebook(f"{one}\n    z = {i} + {i}.5")) for i in range(n)]
    far = [(f"far{i}", M4, notebook(written(i))) for i in range(n)]
    (found,) = near_copies(near + far)
    assert len(found.students) == n
    assert len(compared) < 3 * n, "pairs would be 45,000"


def test_words_are_names_numbers_signs_and_one_sign_for_any_text() -> None:
    code = "x = f'a b' + r\"c\" # d\ny = '''e\n#f''' * 1.5e-3"
    text = words("''")[0]
    assert words(code) == ["x", "=", text, "+", text, "y", "=", text, "*", "1.5e-3"]
