"""A lesson: the single text source of one notebook, and the two notebooks made from it.

`solutions/<slug>/lesson.py` is a notebook in the py:percent form. Four kinds of cell:

- markdown, and code without a tag: the same in both notebooks;
- code tagged `given`: the same in both, and part of the namespace that functions live in
  (imports, helpers, constants): run alone, the given and exercise cells must make sense;
- code tagged `exercise`: one function, one dict or one text. The student's copy keeps the signature
  and the docstring and loses the body, or keeps the keys and loses the values, or keeps headings
  and quoted prompts;
- markdown tagged `questions`: the same in both, followed by the milestone's closing questions.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat

from grader.ask import Desk
from grader.places import Places
from grader.trouble import Trouble, problem
from grader.wire import unpack
from milestones.questions import as_markdown
from milestones.spec import Answer, Call
from solutions.mistake import Edit
from solutions.remember import with_fits

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class LessonCell:
    """One cell of a lesson's source: `kind` is markdown, code, given or exercise."""

    kind: str
    source: str

    @property
    def name(self) -> str:
        """The name an exercise cell defines."""
        return _definition(self.source)[0]


def read_lesson(slug: str) -> tuple[LessonCell, ...]:
    """Return the cells of a milestone's lesson."""
    text = (ROOT / "solutions" / slug / "lesson.py").read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    cells = []
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", ()))
        plain = "markdown" if cell.cell_type == "markdown" else "code"
        known = tags & {"given", "exercise", "questions"}
        if tags != known or len(tags) > 1:
            raise ValueError(f"{slug}: a cell has the tags {tags}; see solutions/lesson.py")
        if ("questions" in tags) != (plain == "markdown") and tags:
            # Its text would reach students: what is cut of a cell goes by its tag.
            raise ValueError(f"{slug}: a {plain} cell is tagged {next(iter(tags))}")
        if "questions" in tags:
            cells.append(LessonCell("markdown", f"{cell.source}\n\n{as_markdown(slug)}"))
        else:
            cells.append(LessonCell(next(iter(known), plain), cell.source))
    return tuple(cells)


# ---------------------------------------------------------------- the two notebooks


def solved_notebook(slug: str) -> nbformat.NotebookNode:
    """Return the solved notebook, without outputs."""
    return _notebook(slug, [(cell.kind, cell.source) for cell in read_lesson(slug)])


def student_notebook(slug: str) -> nbformat.NotebookNode:
    """Return the notebook a student starts from."""
    return _notebook(slug, [(cell.kind, for_student(cell)) for cell in read_lesson(slug)])


def notebook_text(notebook: nbformat.NotebookNode) -> str:
    """Return a notebook's file content; the same notebook gives the same bytes."""
    return str(nbformat.writes(notebook)) + "\n"


def _notebook(slug: str, cells: Sequence[tuple[str, str]]) -> nbformat.NotebookNode:
    made = []
    for number, (kind, source) in enumerate(cells):
        cell_id = f"{slug.partition('_')[0]}-{number:02d}"
        if kind == "markdown":
            made.append(nbformat.v4.new_markdown_cell(source, id=cell_id))
        else:
            made.append(nbformat.v4.new_code_cell(source, id=cell_id))
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook: nbformat.NotebookNode = nbformat.v4.new_notebook(cells=made, metadata=metadata)
    return notebook


def for_student(cell: LessonCell) -> str:
    """Return what the student's notebook holds of a cell."""
    return _stub(cell.source) if cell.kind == "exercise" else cell.source


def _prompts(source: str) -> str:
    """Return the headings and the quoted prompts of a text, a blank line after each."""
    blocks = [block.splitlines() for block in source.split("\n\n")]
    kept = [[line for line in lines if line.startswith(("#", ">"))] for lines in blocks]
    return "\n\n".join("\n".join(lines) for lines in kept if lines)


def _definition(source: str) -> tuple[str, ast.FunctionDef | ast.Dict | ast.Constant]:
    """Return the name an exercise cell defines, and its function, its dict or its text."""
    body = ast.parse(source).body
    match body:
        case [ast.FunctionDef(name=name) as function]:
            return name, function
        case [ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict() as values)]:
            return name, values
        case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as values)]:
            return name, values
        case [ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str()) as text)]:
            return name, text
    raise ValueError(f"an exercise cell is one function, dict or text: {source[:60]!r}")


def _stub(source: str) -> str:
    """Return an exercise cell without its solution, cut by the syntax tree."""
    name, node = _definition(source)
    if isinstance(node, ast.Dict):
        keys = [ast.literal_eval(key) for key in node.keys if key is not None]
        return "\n".join([f"{name}: dict = {{", *(f'    "{key}": None,' for key in keys), "}"])
    if isinstance(node, ast.Constant):
        return f'{name}: str = r"""\n{_prompts(str(node.value))}\n"""'
    docstring = node.body[0]
    if ast.get_docstring(node) is None or docstring.end_lineno is None:
        raise ValueError(f"the exercise {name} has no docstring")
    kept = source.splitlines()[: docstring.end_lineno]
    indent = " " * docstring.col_offset
    return "\n".join([*kept, f'{indent}raise NotImplementedError("{name} is yours to write")'])


# ---------------------------------------------------------------- the functions, in process


class Reference:
    """The lesson's functions in this process, to answer the same calls a student's would."""

    def __init__(self, slug: str) -> None:
        """Run the given and exercise cells of the lesson, as a notebook in `notebooks/` would."""
        self._cells = [c for c in read_lesson(slug) if c.kind in ("given", "exercise")]
        self.namespace: dict[str, Any] = {"__name__": f"lesson_{slug}"}
        with _working_in(ROOT / "notebooks"):
            for cell in self._cells:
                exec(compile(cell.source, f"<{slug}>", "exec"), self.namespace)

    @contextmanager
    def with_edits(self, edits: Sequence[Edit]) -> Iterator[dict[str, Any]]:
        """Give the namespace with some of its functions edited; they are restored after."""
        originals = {c.name: c.source for c in self._cells if c.kind == "exercise"}
        try:
            edited: dict[str, str] = {}
            for edit in edits:  # several may change one function
                edited[edit.function] = edit.apply(
                    edited.get(edit.function, originals[edit.function])
                )
            for name, source in edited.items():
                exec(compile(source, f"<{name}, edited>", "exec"), self.namespace)
            yield self.namespace
        finally:
            for edit in edits:
                exec(originals[edit.function], self.namespace)

    def changed_alone(self, edits: Sequence[Edit], closing: Sequence[str] = ()) -> frozenset[str]:
        """Return the names that edits change, where no other answer than theirs can change.

        That is so if no other cell reads them, and each is a plain value or one of the `closing`
        questions' functions, which keep nothing between calls. Empty when it is not so.
        """
        names = frozenset(edit.function for edit in edits)
        for cell in self._cells:
            if cell.kind == "exercise" and cell.name in names:
                is_function = isinstance(_definition(cell.source)[1], ast.FunctionDef)
                if is_function and cell.name not in closing:
                    return frozenset()
            elif names & {
                n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name)
            }:
                return frozenset()
        return names

    def blank(self) -> dict[str, Any]:
        """Return the namespace of the student's notebook: the same cells, unsolved."""
        namespace: dict[str, Any] = {}
        for cell in self._cells:
            if cell.kind == "exercise":
                exec(_stub(cell.source), namespace)
        return namespace


def answer_all(
    namespace: dict[str, Any], calls: Sequence[Call], questions: Path, slug: str
) -> dict[str, Answer]:
    """Put calls to a namespace of trusted functions, through the same packing as in a room."""
    places = Places(ROOT / "data", questions, overlay=questions / slug / "data")
    desk = Desk(places)
    answers = {}
    for call in calls:
        packed = desk.ask(with_fits(namespace, call, places), call)
        if isinstance(packed, Trouble):
            answers[call.id] = Answer(call, problem=problem(call, packed))
        else:
            answers[call.id] = Answer(call, unpack(*packed))
    return answers


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
