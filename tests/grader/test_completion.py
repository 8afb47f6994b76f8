"""Shell completion: commands, options and milestones, without importing what grades."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete, get_completion_class

import milestones
from grader.cli import ELSEWHERE, cli
from grader.completion_cli import HOW, PROGRAM, VARIABLE
from solutions.lesson import ROOT


def completed(*args: str) -> list[str]:
    """Return what a shell offers for the last of the words."""
    made = ShellComplete(cli, {}, PROGRAM, VARIABLE)
    return [item.value for item in made.get_completions(list(args[:-1]), args[-1])]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ch",), ["check"]),
        (("sta",), ["status"]),
        (("check", "m2"), ["m2_kv_bytes"]),
        (("check", "M2_k"), ["m2_kv_bytes"]),
        (("check", "--jso"), ["--json"]),
        (("check", "--wa"), ["--watch"]),
        (("check", "m9"), []),
        (("reset", "m6"), ["m6_memory_traffic"]),
        (("pack", "m7"), ["m7_planner"]),
        (("completion", ""), ["bash", "fish", "zsh"]),
    ],
)
def test_a_word_is_completed(words: tuple[str, ...], offered: list[str]) -> None:
    assert sorted(completed(*words)) == sorted(offered)


def test_every_command_is_offered_and_exists() -> None:
    names = [name for name in completed("") if not name.startswith("-")]
    assert set(ELSEWHERE) < set(names)
    for name in names:
        context = cli.make_context(PROGRAM, ["--help"], resilient_parsing=True)
        assert cli.get_command(context, name) is not None


def test_a_milestone_on_the_line_is_not_offered_again() -> None:
    offered = completed("check", "m2", "m3_concurrency", "m")
    assert offered == [s for s in milestones.SLUGS if s not in ("m2_kv_bytes", "m3_concurrency")]


def test_completing_a_milestones_name_imports_no_library_that_grades() -> None:
    probe = (
        "import sys; from click.shell_completion import ShellComplete; from grader.cli import cli; "
        "found = ShellComplete(cli, {}, 'grader', '').get_completions(['reset'], 'm2'); "
        "assert [item.value for item in found] == ['m2_kv_bytes']; "
        "print(sorted({'numpy', 'pandas', 'IPython', 'sqlalchemy'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("shell", sorted(HOW))
def test_the_script_of_a_shell_says_where_to_put_it_and_is_clicks(shell: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "grader", "completion", shell],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    first, _, script = run.stdout.partition("\n")
    assert first.startswith("#")
    assert f"grader completion {shell} >" in first
    assert f"{VARIABLE}={shell}_complete" in script
    assert get_completion_class(shell) is not None


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    command = tmp_path / "grader"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grader "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    line = (
        "source <(grader completion bash); COMP_WORDS=(grader check m2); COMP_CWORD=2; "
        '_grader_completion grader; echo "${COMPREPLY[@]}"'
    )
    run = subprocess.run(
        [bash, "--norc", "-c", line],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout == "m2_kv_bytes\n"
