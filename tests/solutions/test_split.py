"""A split: drawn from a seed, proved fair, the same bytes for the same seed, never a public row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import milestones
from grader.errors import BadInputError
from grader.split import file_hashes, open_split, read_manifest
from milestones.runs import COLUMNS, LABELS
from milestones.spec import Files
from solutions.certify import repeated_rows, top_rank_correlation
from solutions.exam import commitment, write_questions
from solutions.instructor_runs import read_runs
from solutions.split import main, read_seed
from solutions.world.figures import REQUIRED

SEED = (20_260_901).to_bytes(32, "big")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hidden split made by the command from a seed file."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "seed").write_text(SEED.hex())
    assert main(["--out", str(folder / "split"), "--seed-file", str(folder / "seed")]) == 0
    return folder / "split"


def test_a_split_opens_and_has_the_shape_of_the_public_one(made: Path, course: Path) -> None:
    split = open_split(made)
    assert not split.public
    public = course / "data" / "public_split"
    assert file_hashes(made).keys() == file_hashes(public).keys()


def test_its_certificate_holds_every_figure_inside_its_band(made: Path) -> None:
    certificate = json.loads((made / "certificate.json").read_text())
    assert certificate["fair"] is True
    assert certificate["faults"] == []
    for band in REQUIRED:
        assert band.holds(certificate["figures"][band.name]["value"]), band.name
    assert certificate["questions_that_repeat_a_public_row"] == 0
    assert certificate["top_rank_correlation"]["value"] <= 0.95
    for slug in milestones.SLUGS:
        earned = certificate["reference"][slug]
        assert earned["points"] == earned["points_max"]
        assert certificate["mistakes_caught"][slug]


def test_the_manifest_commits_to_the_seed_and_does_not_tell_it(made: Path) -> None:
    manifest = json.loads((made / "MANIFEST.json").read_text())
    assert manifest["seed_commitment"] == commitment(SEED)
    assert manifest["seed_commitment"] != commitment(SEED[::-1])
    for path in made.rglob("*"):
        if path.is_file():
            assert SEED.hex().encode() not in path.read_bytes()


def test_the_same_seed_gives_the_same_questions_and_another_seed_others(
    made: Path, tmp_path: Path
) -> None:
    attempt = json.loads((made / "MANIFEST.json").read_text())["draws_refused"]
    for name, seed in (("same", SEED), ("other", SEED[::-1])):
        write_questions(tmp_path / name, seed, attempt)
    asked = file_hashes(made / "questions")
    assert file_hashes(tmp_path / "same" / "questions") == asked
    other = file_hashes(tmp_path / "other" / "questions")
    assert other.keys() == asked.keys()
    changed = {name.partition("/")[0] for name in asked if other[name] != asked[name]}
    assert changed == {"runs.csv", *milestones.SLUGS}


def test_questions_hold_no_label_of_the_truth(made: Path) -> None:
    questions = Files(made / "questions")
    truth = Files(made / "truth").table("runs.csv")
    assert not set(LABELS) & set(questions.table("runs.csv").columns)
    steps = set(truth["decode_step_ms"])
    for path in (made / "questions").rglob("*.csv"):
        table = pd.read_csv(path)
        if "decode_step_ms" in table:
            asked = list(COLUMNS[1:-2])
            both = table.merge(questions.table("runs.csv")[asked].drop_duplicates(), on=asked)
            assert len(both) == 0, f"{path.name} labels a row that the split asks about"
    assert len(steps) > 3_500  # six digits tell nearly all rows apart


def test_a_row_taken_from_the_public_data_is_found(
    made: Path, tmp_path: Path, course: Path
) -> None:
    questions = tmp_path / "questions"
    questions.mkdir()
    table = Files(made / "questions").table("runs.csv")
    for name in ("train", "validation"):
        public = Files(course / "data").table(f"{name}.csv")[table.columns]
        pd.concat([table, public.head(3)]).to_csv(questions / "runs.csv", index=False)
        assert repeated_rows(tmp_path, table) == 3


def test_a_column_that_orders_the_labels_is_found(course: Path) -> None:
    runs = Files(course / "data").table("validation.csv")
    assert top_rank_correlation(runs)[2] < 0.95
    shortcut = runs.assign(params_b=np.sqrt(runs["decode_step_ms"]))
    assert top_rank_correlation(shortcut)[0] == "params_b"
    assert top_rank_correlation(shortcut)[2] > 0.95


def test_nothing_is_overwritten(made: Path) -> None:
    before = file_hashes(made)
    with pytest.raises(BadInputError, match="is there already"):
        main(["--out", str(made)])
    assert file_hashes(made) == before


@pytest.mark.parametrize("content", ["", "abc", "00" * 31, "zz" * 32])
def test_what_is_no_seed_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "seed"
    path.write_text(content)
    with pytest.raises(BadInputError, match="64 hexadecimal digits"):
        read_seed(path)


def test_the_public_data_is_as_its_manifest_says(course: Path) -> None:
    read_manifest(course / "data", skip=("public_split",))
    assert open_split(course / "data" / "public_split").public


# ---------------------------------------------------------------- an instructor's own runs


def own_runs(course: Path) -> pd.DataFrame:
    return Files(course / "data").table("validation.csv")


def test_own_runs_are_parted_with_whole_models_held_out(course: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    own_runs(course).to_csv(path, index=False)
    own = read_runs(path)
    assert own.train is not None
    unseen = ~own.test["model"].isin(own.train["model"])
    assert 0.2 < unseen.mean() <= 0.5
    assert len(own.train) + len(own.test) == 4_000
    assert not set(own.train["run_id"]) & set(own.test["run_id"])


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        ("no column", "has no column kv_bits"),
        ("few", "at least 400"),
        ("twice", "stands there twice"),
        ("zero", "line 12: batch_size is 0, expected a positive number"),
        ("text", "line 12: batch_size is 'many'"),
        ("unit", "check the units"),
        ("empty", "cannot be read"),
    ],
)
def test_own_runs_that_do_not_fit_the_schema_are_refused_by_place(
    harm: str, sentence: str, course: Path, tmp_path: Path
) -> None:
    runs = own_runs(course).astype({"batch_size": object})
    match harm:
        case "no column":
            runs = runs.drop(columns="kv_bits")
        case "few":
            runs = runs.head(100)
        case "twice":
            runs["run_id"] = runs["run_id"].replace(runs["run_id"].iloc[5], runs["run_id"].iloc[6])
        case "zero":
            runs.loc[10, "batch_size"] = 0
        case "text":
            runs.loc[10, "batch_size"] = "many"
        case "unit":
            runs["decode_step_ms"] /= 1000
    path = tmp_path / "runs.csv"
    if harm == "empty":
        path.write_text("")
    else:
        runs.to_csv(path, index=False)
    with pytest.raises(BadInputError, match=sentence):
        read_runs(path)
