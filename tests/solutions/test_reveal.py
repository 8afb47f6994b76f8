"""A commitment binds an instructor to seed, questions and answers, and tells none of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from grader import __version__
from grader.errors import BadInputError
from grader.split import file_hashes
from solutions import reveal
from solutions.commitment import Content, asked_and_answered, commit, of_content, of_seed
from solutions.exam import write_manifest, write_questions
from solutions.instructor_runs import OwnRuns
from solutions.reveal import UnfaithfulError, _redrawn, main, open_up, publish, read_reveal, verify

SEED = (20_260_902).to_bytes(32, "big")
SMALL = ("m2_kv_bytes", "m7_planner")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hidden split of two milestones: a whole one takes longer and says no more."""
    folder = tmp_path_factory.mktemp("drawn") / "split"
    write_questions(folder, SEED, 0, slugs=SMALL)
    for slug in SMALL:
        (folder / "truth" / slug / "mistakes.json").write_text("[]")
    return certified(folder)


def certified(folder: Path, runs: dict[str, str] | None = None, seed: bytes = SEED) -> Path:
    (folder / "certificate.json").write_text(json.dumps({"runs": runs}))
    write_manifest(folder, "hidden", seed, 0)
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the two milestones alone wherever a split is drawn again."""

    def write(folder: Path, seed: bytes, draw: int, own: OwnRuns | None) -> pd.DataFrame:
        return write_questions(folder, seed, draw, own, slugs=SMALL)

    monkeypatch.setattr(reveal, "write_questions", write)


@pytest.fixture
def split(drawn: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(drawn, tmp_path / "split"))


@pytest.fixture
def opened(drawn: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The reveal and the published commitment of an honest split."""
    publish(drawn, tmp_path / "commitment.json")
    open_up(drawn, SEED, tmp_path / "reveal.json")
    return tmp_path / "reveal.json", tmp_path / "commitment.json"


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_label(folder: Path) -> None:
    labels = pd.read_csv(folder / "truth" / "runs.csv", dtype=str)
    labels.loc[5, "decode_step_ms"] = "1.5"
    labels.to_csv(folder / "truth" / "runs.csv", index=False, lineterminator="\n")


# ---------------------------------------------------------------- honest


def test_an_honest_split_is_published_opened_and_verified_by_the_command(
    drawn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "seed").write_text(SEED.hex())
    published, opening = str(tmp_path / "commitment.json"), str(tmp_path / "reveal.json")
    where = ["--split", str(drawn)]
    assert main([*where, "--publish", published]) == 0
    assert main([*where, "--seed-file", str(tmp_path / "seed"), "--out", opening]) == 0
    assert main(["--verify", opening, "--commitment", published, *where]) == 0
    assert "Its seed draws every one of them." in capsys.readouterr().out
    assert main(["--verify", opening, "--commitment", published]) == 0


def test_what_is_published_tells_neither_seed_nor_the_hash_of_any_file(
    drawn: Path, tmp_path: Path
) -> None:
    publish(drawn, tmp_path / "commitment.json")
    text = (tmp_path / "commitment.json").read_text()
    assert set(json.loads(text)) == {"schema", "generator_version", "seed", "content"}
    assert SEED.hex() not in text
    for digest in file_hashes(drawn).values():
        assert digest not in text


def test_who_guesses_every_file_cannot_tell_that_the_guess_is_right(drawn: Path) -> None:
    files = asked_and_answered(file_hashes(drawn))
    content = Content(__version__, 0, "", files)
    keyed = {of_content(seed, content) for seed in (SEED, SEED[::-1], b"")}
    assert len(keyed) == 3  # the same files under another seed have another hash


def test_hints_are_no_part_of_what_is_committed_to_and_all_else_is(drawn: Path) -> None:
    hashes = file_hashes(drawn)
    kept = asked_and_answered(hashes)
    aside = {"certificate.json", *(f"truth/{slug}/mistakes.json" for slug in SMALL)}
    assert set(hashes) - set(kept) == aside
    for name in kept:
        other = Content(__version__, 0, "", kept | {name: "0" * 64})
        assert of_content(SEED, other) != of_content(SEED, Content(__version__, 0, "", kept)), name


@pytest.mark.parametrize(
    "changed", [{"generator_version": "x"}, {"draw": 1}, {"runs_sha256": "a"}, {"files": {}}]
)
def test_the_content_commitment_binds_how_the_split_was_drawn(changed: dict[str, Any]) -> None:
    plain: dict[str, Any] = {
        "generator_version": "1",
        "draw": 0,
        "runs_sha256": "",
        "files": {"questions/a": "b"},
    }
    assert of_content(SEED, Content(**plain)) != of_content(SEED, Content(**(plain | changed)))


# ---------------------------------------------------------------- not honest


def test_another_seed_does_not_open_it(drawn: Path, tmp_path: Path) -> None:
    with pytest.raises(UnfaithfulError, match="this is not the seed"):
        open_up(drawn, SEED[::-1], tmp_path / "reveal.json")
    assert not (tmp_path / "reveal.json").exists()


def test_a_label_changed_alone_is_found_by_its_manifest(split: Path, tmp_path: Path) -> None:
    change_label(split)
    with pytest.raises(BadInputError, match=r"truth/runs\.csv: has changed since the manifest"):
        open_up(split, SEED, tmp_path / "reveal.json")


def test_a_label_changed_with_its_manifest_is_found_by_the_commitment(
    split: Path, tmp_path: Path
) -> None:
    commitment = json.loads((split / "MANIFEST.json").read_text())["commitment"]
    change_label(split)
    certified(split)
    change(split / "MANIFEST.json", commitment=commitment)
    with pytest.raises(UnfaithfulError, match="the questions or answers are not those"):
        open_up(split, SEED, tmp_path / "reveal.json")


def test_a_label_changed_before_it_was_committed_to_is_found_by_drawing_again(
    split: Path, tmp_path: Path
) -> None:
    change_label(split)
    certified(split)
    with pytest.raises(UnfaithfulError, match=r"truth/runs\.csv: is not what the seed draws"):
        open_up(split, SEED, tmp_path / "reveal.json")


@pytest.mark.parametrize("place", ["split", "reveal"])
def test_another_version_is_told_before_anything_is_compared(
    place: str, split: Path, opened: tuple[Path, Path], tmp_path: Path
) -> None:
    if place == "split":
        manifest = json.loads((split / "MANIFEST.json").read_text())
        change(
            split / "MANIFEST.json", commitment=manifest["commitment"] | {"generator_version": "9"}
        )
        with pytest.raises(UnfaithfulError, match=f"version 9 and this is {__version__}"):
            open_up(split, SEED, tmp_path / "other.json")
    else:
        change(opened[0], generator_version="9")
        with pytest.raises(UnfaithfulError, match=f"version 9 and this is {__version__}"):
            verify(*opened, None)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"seed": SEED[::-1].hex()}, "this is not the seed"),
        ({"draw": 1}, "the questions or answers are not those"),
        ({"files": {"truth/runs.csv": "0" * 64}}, "the questions or answers are not those"),
    ],
)
def test_a_changed_reveal_does_not_open_what_was_published(
    changed: dict[str, Any],
    sentence: str,
    opened: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(opened[0], **changed)
    assert main(["--verify", str(opened[0]), "--commitment", str(opened[1])]) == 1
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_a_reveal_of_a_forged_split_is_found_by_anyone_who_draws_it_again(
    opened: tuple[Path, Path],
) -> None:
    reveal_file, published = opened
    files = json.loads(reveal_file.read_text())["files"] | {"truth/runs.csv": "0" * 64}
    change(reveal_file, files=files)
    forged = commit(SEED, Content(__version__, 0, "", files))
    published.write_text(json.dumps(forged))
    with pytest.raises(UnfaithfulError, match=r"truth/runs\.csv: is not what the seed draws"):
        verify(reveal_file, published, None)


def test_a_split_that_was_graded_on_but_not_committed_to_is_found(
    opened: tuple[Path, Path], split: Path
) -> None:
    change_label(split)
    certified(split)
    with pytest.raises(UnfaithfulError, match=r"truth/runs\.csv: is not what was committed to"):
        verify(*opened, split)


def test_a_last_digit_of_another_machine_is_told_and_a_larger_change_is_refused(
    split: Path,
) -> None:
    path = split / "truth" / "m7_planner" / "steps.npz"
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    for factor, honest in ((1 + 1e-13, True), (1 + 1e-6, False)):
        np.savez(path, **(arrays | {"steps": arrays["steps"] * factor}))
        content = Content(__version__, 0, "", asked_and_answered(file_hashes(split)))
        if honest:
            (note,) = _redrawn(SEED, content, None, split)
            assert note.startswith("truth/m7_planner/steps.npz agrees to 1e-09")
        else:
            with pytest.raises(UnfaithfulError, match=r"steps\.npz: is not what the seed draws"):
                _redrawn(SEED, content, None, split)


def test_a_split_of_own_runs_is_opened_with_the_same_file_only(
    split: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified(split, {"file_sha256": "ab"})
    monkeypatch.setattr(reveal, "_opens", lambda *_: None)
    with pytest.raises(BadInputError, match="add --runs FILE"):
        open_up(split, SEED, tmp_path / "reveal.json")
    other = OwnRuns(pd.DataFrame(), file_sha256="cd")
    monkeypatch.setattr(reveal, "read_own", lambda _: other)
    with pytest.raises(UnfaithfulError, match="is not the file of runs"):
        open_up(split, SEED, tmp_path / "reveal.json", tmp_path / "runs.csv")
    with pytest.raises(BadInputError, match="leave out --runs"):
        reveal._own(tmp_path / "runs.csv", Content(__version__, 0, "", {}))


# ---------------------------------------------------------------- what is no reveal


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema": 1}', '{"schema": 1, "seed": "zz", "files": 3}']
)
def test_what_is_no_reveal_or_commitment_is_told(content: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(BadInputError, match=r"is (no|not a) reveal"):
        read_reveal(path)
    with pytest.raises(BadInputError, match="is not a commitment"):
        reveal._read_commitment(path)


def test_nothing_is_overwritten_by_a_commitment_or_a_reveal(
    drawn: Path, opened: tuple[Path, Path]
) -> None:
    before = [path.read_bytes() for path in opened]
    with pytest.raises(BadInputError, match="is there already"):
        publish(drawn, opened[1])
    with pytest.raises(BadInputError, match="is there already"):
        open_up(drawn, SEED, opened[0])
    assert [path.read_bytes() for path in opened] == before


def test_the_public_split_has_nothing_to_reveal(course: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="carries no commitment"):
        publish(course / "data" / "public_split", tmp_path / "commitment.json")


@pytest.mark.parametrize(
    "argv",
    [[], ["--split", "x"], ["--verify", "x"], ["--split", "x", "--publish", "y", "--out", "z"]],
)
def test_half_a_command_is_told_how_it_goes_on(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "reveal: error:" in capsys.readouterr().err


def test_the_seeds_hash_is_the_manifests_own(drawn: Path) -> None:
    manifest = json.loads((drawn / "MANIFEST.json").read_text())
    assert manifest["commitment"]["seed"] == manifest["seed_commitment"] == of_seed(SEED)
    assert manifest["schema"] == 1  # a reader of schema 1 passes over the new key
