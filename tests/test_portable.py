"""Nothing hangs on one operating system: encodings, forks, paths, line ends, names on the PATH."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

import milestones
from grader.cold import as_course
from grader.grade import grade
from grader.notebook import read_notebook
from grader.split import Split
from solutions.lesson import read_lesson
from tests.conftest import WriteNotebook

ROOT = Path(__file__).parents[1]
LINUX_ONLY = {"boundary", "linux", "seccomp", "warm", "zygote"}  # a class is graded on Linux
RIGHT = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)


# ---------------------------------------------------------------- every text has its encoding


def without_encoding(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that read or write text in whatever encoding the machine happens to have."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if "encoding" in named or None in named:
            continue
        match node.func:
            case ast.Attribute(attr="read_text" | "write_text"):
                yield node.lineno
            case ast.Name(id="open"):
                if _is_text(node.args[1:], named):
                    yield node.lineno
            case ast.Attribute(attr="open", value=owner) if not _is_module(owner):
                if _is_text(node.args, named):
                    yield node.lineno
            case ast.Attribute(attr="fdopen" | "TextIOWrapper" | "NamedTemporaryFile"):
                if _is_text(node.args[1:], named) and "mode" in named:
                    yield node.lineno
        if any(
            isinstance(value, ast.Constant) and value.value is True
            for name, value in named.items()
            if name in ("text", "universal_newlines")
        ):
            yield node.lineno


def _is_module(owner: ast.expr) -> bool:
    """Tell whether `owner.open` opens no text file: a module's, an archive's, a page's."""
    return isinstance(owner, ast.Name) and owner.id in ("os", "tarfile", "webbrowser", "zipfile")


def _is_text(rest: list[ast.expr], named: dict[str | None, ast.expr]) -> bool:
    mode = named.get("mode", rest[0] if rest else ast.Constant("r"))
    if not (isinstance(mode, ast.Constant) and isinstance(mode.value, str)):
        return False  # a member of an archive, by its name
    return set(mode.value) <= set("rwaxt+")


@pytest.mark.parametrize(
    "code",
    [
        "path.read_text()",
        "path.write_text('a', newline='')",
        "open('a.csv')",
        "open('a.csv', 'w', newline='')",
        "open('a.csv', mode='a')",
        "path.open()",
        "path.open('w')",
        "subprocess.run(command, text=True)",
        "subprocess.Popen(command, universal_newlines=True)",
    ],
)
def test_a_text_without_an_encoding_is_found(code: str) -> None:
    assert list(without_encoding(ast.parse(code))) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "path.read_text(encoding='utf-8')",
        "path.read_bytes()",
        "open('a.csv', 'rb')",
        "path.open('ab+')",
        "webbrowser.open(address)",
        "archive.open(name)",
        "subprocess.run(command, encoding='utf-8')",
        "subprocess.run(command, capture_output=True)",
    ],
)
def test_bytes_and_texts_with_an_encoding_are_not_found(code: str) -> None:
    assert list(without_encoding(ast.parse(code))) == []


@pytest.mark.parametrize("tree", ["milestones", "grader", "solutions"])
def test_every_text_is_read_and_written_in_a_named_encoding(tree: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / tree).rglob("*.py")
        for line in without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_every_cell_of_ours_reads_text_in_a_named_encoding(slug: str) -> None:
    for cell in read_lesson(slug):
        if cell.kind not in ("markdown", "written", "questions"):
            assert list(without_encoding(ast.parse(cell.source))) == [], cell.source


# ---------------------------------------------------------------- without what only POSIX has


def on_windows(code: str, *args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code, and any interpreter that it starts by `sys.executable`, as on Windows."""
    python = cwd / "python.sh"
    become = f"import runpy; runpy.run_path({str(ROOT / 'tests' / 'windows.py')!r})"
    become += "['become_windows'](); "
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -P ] && [ "$2" = -c ] || exit 97\ncode=$3; shift 3\n'
        f'exec "{sys.executable}" -P -c "{become}$code" "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    before = f"{become}import sys; sys.executable = {str(python)!r}; "
    return subprocess.run(
        [sys.executable, "-c", before + code, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


needs_sh = pytest.mark.skipif(shutil.which("sh") is None, reason="simulates Windows with sh")


@needs_sh
def test_the_simulated_windows_has_no_fork_and_its_rooms_have_none_either(tmp_path: Path) -> None:
    code = (
        "import os, subprocess\n"
        "assert not hasattr(os, 'fork') and sys.platform == 'win32'\n"
        'inner = \'import os, sys; sys.exit(hasattr(os, "fork") or sys.platform != "win32")\'\n'
        "subprocess.run([sys.executable, '-P', '-c', inner], check=True)\n"
        "try:\n    import fcntl\nexcept ImportError:\n    print('as it should be')\n"
    )
    run = on_windows(code, cwd=tmp_path)
    assert run.stdout == "as it should be\n", run.stderr


@needs_sh
def test_everything_but_the_walled_rooms_can_be_imported_on_windows(tmp_path: Path) -> None:
    names = sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "grader").rglob("*.py")
        if path.stem not in (*LINUX_ONLY, "__main__") and "templates" not in path.parts
    )
    assert len(names) > 50
    code = (
        "import importlib\n"
        f"for name in {names!r}:\n    importlib.import_module(name)\n"
        f"walled = {{'grader.' + name for name in {LINUX_ONLY!r}}} & set(sys.modules)\n"
        "print('imported them too:', sorted(walled))\n"
    )
    run = on_windows(code, cwd=tmp_path)
    assert run.stdout == "imported them too: []\n", run.stderr


@needs_sh
def test_a_whole_check_passes_on_windows(
    m2_split: Split, write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    folder = write_notebook(RIGHT, "%load_ext grader", "%check", "open('größe.txt').read()").parent
    report = tmp_path / "report of mine.json"
    code = "from grader.cli import main; main()"
    run = on_windows(
        code, "check", "2", "--split", m2_split.folder, "--notebooks", folder, "--json", report,
        cwd=tmp_path,
    )  # fmt: skip
    assert "Traceback" not in run.stdout + run.stderr
    assert run.returncode == 1, run.stderr + run.stdout
    (milestone,) = json.loads(report.read_text(encoding="utf-8"))["milestones"]
    passed = {check["name"] for check in milestone["checks"] if check["outcome"] == "PASSED"}
    assert {"known_shapes", "other_shapes"} <= passed
    assert "BROKEN" not in {check["outcome"] for check in milestone["checks"]}
    assert [cell["cell"] for cell in milestone["cells"]] == [3]


@needs_sh
@pytest.mark.parametrize("args", [("check", "2", "--room"), ("class", "in", "--out", "out")])
def test_what_needs_linux_says_so_on_windows(
    args: tuple[str, ...], m2_split: Split, write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    (tmp_path / "in" / "ann").mkdir(parents=True)
    shutil.copy(write_notebook(RIGHT), tmp_path / "in" / "ann")
    code = "from grader.cli import main; main()"
    run = on_windows(code, *args, "--split", m2_split.folder, cwd=tmp_path)
    assert run.returncode == 2
    assert "it needs Linux namespaces, and this is win32" in run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_a_room_is_told_as_course_however_its_path_is_quoted() -> None:
    folder = r"C:\Users\Ann Lee\Temp\kv-capacity-1"
    message = str(FileNotFoundError(2, "No such file", rf"{folder}\notebooks\a.csv"))
    for path, name in as_course(folder):
        message = message.replace(path, name)
    assert "Ann" not in message
    assert message.startswith("[Errno 2] No such file: '/course")


# ---------------------------------------------------------------- files as other systems write them


def as_saved_elsewhere(path: Path, how: str) -> None:
    """Write a notebook again as another system or editor would."""
    raw = path.read_bytes()
    content = json.loads(raw)
    if how == "crlf file":
        path.write_bytes(raw.replace(b"\n", b"\r\n"))
    if how == "byte order mark":
        path.write_bytes(b"\xef\xbb\xbf" + raw)
    if how == "crlf cells":
        for cell in content["cells"]:
            cell["source"] = "".join(cell["source"]).replace("\n", "\r\n").splitlines(keepends=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    if how == "ascii escapes":
        path.write_text(json.dumps(content, ensure_ascii=True), encoding="utf-8")


@pytest.mark.parametrize("how", ["crlf file", "byte order mark", "crlf cells", "ascii escapes"])
def test_a_notebook_saved_on_another_system_earns_the_same(
    how: str, m2_split: Split, write_notebook: WriteNotebook, course: Path
) -> None:
    path = write_notebook('TEXT = """größe\nzwei"""\nassert len(TEXT) == 10', RIGHT)
    as_saved_elsewhere(path, how)
    assert len(read_notebook(path).cells) == 2
    report = grade(milestones.load("m2_kv_bytes"), path, m2_split, course / "data")
    assert report.cells == ()
    passed = {check.name for check in report.checks if check.outcome == "PASSED"}
    assert {"known_shapes", "other_shapes"} <= passed


def test_line_ends_of_a_checkout_are_those_that_the_manifests_hash(course: Path) -> None:
    # Git for Windows turns line ends into its own unless a repository says otherwise.
    lines = (course / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert "* text=auto eol=lf" in lines
    for manifest in (course / "data").rglob("MANIFEST.json"):
        for name in json.loads(manifest.read_text(encoding="utf-8"))["files"]:
            raw = (manifest.parent / name).read_bytes()
            if b"\0" not in raw:
                assert b"\r" not in raw, name


@pytest.mark.parametrize(
    "name", ["kv capacity", "größe 日本", 'a\'b "c" (1)', r"back\slash", "-dash", "%TEMP% $HOME"]
)
def test_a_course_may_lie_in_a_folder_of_any_name(
    name: str, course: Path, m2_split: Split, tmp_path: Path
) -> None:
    home = tmp_path / name
    (home / "notebooks").mkdir(parents=True)
    shutil.copytree(course / "data", home / "data", ignore=shutil.ignore_patterns("public_split"))
    shutil.copytree(m2_split.folder, home / "data" / "public_split")
    cells = [
        nbformat.v4.new_code_cell(RIGHT, id="a"),
        nbformat.v4.new_code_cell(
            "from pathlib import Path\n"
            "DATA = next(p / 'data' for p in [Path.cwd(), *Path.cwd().parents]"
            " if (p / 'data/train.csv').exists())",
            id="b",
        ),
    ]
    text = nbformat.writes(nbformat.v4.new_notebook(cells=cells))
    (home / "notebooks" / "m2_kv_bytes.ipynb").write_text(text, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "grader", "check", "2", "--json", "report.json"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(course), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 1, run.stderr + run.stdout
    (milestone,) = json.loads((home / "report.json").read_text(encoding="utf-8"))["milestones"]
    assert milestone["points"] > 0
    assert milestone["cells"] == []


def test_the_module_is_the_command_where_scripts_are_not_on_the_path(course: Path) -> None:
    def told(*command: str) -> str:
        run = subprocess.run(
            [*command, "check", "--help"], cwd=course, capture_output=True, check=True
        )
        return run.stdout.decode("utf-8").partition("\n")[2]

    script = shutil.which("grader", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("the command `grader` is not installed beside this Python")
    assert told(sys.executable, "-m", "grader") == told(script)
