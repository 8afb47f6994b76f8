"""A split: drawn from a seed, proved fair, the same bytes for the same seed, never a public row."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import milestones
from grader.errors import BadInputError
from grader.judge import Mistake
from grader.report import CheckReport, Outcome
from grader.split import file_hashes, open_split, read_manifest
from milestones.runs import COLUMNS, LABELS
from milestones.spec import Files
from solutions import __main__ as command
from solutions import split as split_command
from solutions import trial, verify
from solutions.certify import Certificate, repeated_rows, top_rank_correlation
from solutions.commitment import of_seed
from solutions.draft import Source
from solutions.exam import building_beside, public_runs, write_questions
from solutions.instructor_runs import OwnRuns, read_runs, without_public
from solutions.m7_planner import oracle
from solutions.mistake import NamedMistake
from solutions.proof import _mistake_faults, unseen
from solutions.split import main, make, put_in_place, read_seed, write_seed
from solutions.world import command as world
from solutions.world.draw import draw_hidden
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
    for slug in milestones.all_slugs():
        earned = certificate["reference"][slug]
        assert earned["points"] == earned["points_max"]
        assert earned.get("bonus") == earned.get("bonus_max")
        assert certificate["mistakes_caught"][slug]


def test_the_manifest_commits_to_the_seed_and_does_not_tell_it(made: Path) -> None:
    manifest = json.loads((made / "MANIFEST.json").read_text())
    assert manifest["seed_commitment"] == of_seed(SEED)
    assert manifest["seed_commitment"] != of_seed(SEED[::-1])
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
    assert changed == {"runs.csv", *milestones.all_slugs()}


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


def test_a_constant_column_orders_nothing(course: Path) -> None:
    runs = Files(course / "data").table("validation.csv").assign(n_layers=32)
    assert top_rank_correlation(runs)[0] != "n_layers"


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
        ("zero", "line 12: batch_size is 0, expected a positive whole number"),
        ("text", "line 12: batch_size is 'many'"),
        ("unit", "check the units"),
        ("half", "line 12: batch_size is 2.5, expected a positive whole number"),
        ("groups", "line 12: n_heads is [0-9]+, expected a multiple of n_kv_heads, 1000"),
        ("weights", "line 12: weight_bits is 6, expected 16 or 8 or 4"),
        ("cache", "line 12: kv_bits is 4, expected 16 or 8"),
        ("memory", "line 12: weights and cache do not fit into 92%"),
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
        case "half":
            runs.loc[10, "batch_size"] = 2.5
        case "groups":
            runs.loc[10, "n_kv_heads"] = 1000
        case "weights":
            runs.loc[10, "weight_bits"] = 6
        case "cache":
            runs.loc[10, "kv_bits"] = 4
        case "memory":
            runs.loc[10, "params_b"] = 400.0
        case "unit":
            runs["decode_step_ms"] /= 1000
    path = tmp_path / "runs.csv"
    if harm == "empty":
        path.write_text("")
    else:
        runs.to_csv(path, index=False)
    with pytest.raises(BadInputError, match=sentence):
        read_runs(path)


def test_counts_written_as_decimals_are_whole_numbers_once_read(
    course: Path, tmp_path: Path
) -> None:
    path = tmp_path / "runs.csv"
    own_runs(course).astype({"batch_size": float}).to_csv(path, index=False)
    own = read_runs(path)
    assert own.test["batch_size"].dtype == np.int64
    assert len(own.file_sha256) == 64


def test_runs_whose_labels_are_public_are_left_out_and_counted(course: Path) -> None:
    fresh = draw_hidden(np.random.default_rng(0)).head(300)
    public = own_runs(course)
    own = OwnRuns(pd.concat([fresh, public.head(7)], ignore_index=True), fresh)
    kept = without_public(own, public)
    assert kept.dropped == 7
    assert kept.test["run_id"].tolist() == fresh["run_id"].tolist()
    with pytest.raises(BadInputError, match="300 of the 300 runs to test on stand in the public"):
        without_public(OwnRuns(public.head(300), fresh), public)


def test_a_figure_that_own_runs_leave_undefined_is_no_number_in_the_certificate() -> None:
    undefined = replace(certificate(), figures={band.name: np.nan for band in REQUIRED})
    text = json.dumps(undefined.as_json(), allow_nan=False)
    assert json.loads(text)["figures"][REQUIRED[0].name]["value"] is None


def certificate(*faults: str, own: OwnRuns | None = None) -> Certificate:
    figures = {band.name: 1.0 for band in REQUIRED}
    return Certificate(figures, (), 0, ("params_b", "tokens_per_s", 0.5), faults, own)


def test_a_certificate_names_the_file_of_own_runs_and_says_what_was_not_required() -> None:
    assert certificate().as_json()["runs"] is None
    none = pd.DataFrame()
    runs = certificate(own=OwnRuns(none, none, "ab", 3)).as_json()["runs"]
    assert runs == {"file_sha256": "ab", "figures_required": False, "public_rows_dropped": 3}


@pytest.mark.parametrize(("required", "n_faults"), [(True, 2), (False, 1)])
def test_what_figures_tell_of_a_mistake_is_not_required_of_own_runs(
    required: bool, n_faults: int
) -> None:
    mistake = NamedMistake("halved", (), "right", "hint")
    reports = [
        CheckReport("right", "", Outcome.FAILED, 0, 1, hint="hint"),
        CheckReport("mape", "", Outcome.FAILED, 0, 1, figure=0.4, bar=0.1),
    ]
    assert len(_mistake_faults(mistake, reports, required)) == n_faults - 1
    reports.append(CheckReport("exact", "", Outcome.FAILED, 0, 1))
    (fault,) = _mistake_faults(mistake, reports, required)
    assert ("mape" in fault) is required
    assert "exact" in fault


def test_a_mistake_that_its_catcher_cannot_see_is_a_fault_of_the_split() -> None:
    mistake = NamedMistake("m", (), "a", "Hm.", also=("b",))
    for shown, n_faults in ((("a", "b"), 0), (("a",), 0), (("b",), 1), ((), 1)):
        assert len(unseen([mistake], [Mistake("m", shown, "Hm.", {})])) == n_faults


def test_too_large_workloads_are_found_beside_runs_of_one_small_model() -> None:
    train = public_runs("train")
    for model in train.sort_values("params_b")["model"].unique()[[0, -1]]:
        runs = train[train["model"] == model]
        source = Source(np.random.default_rng(0), runs, train, train)
        draft = oracle.draw(source)
        too_large = (draft.truth["steps.npz"]["held"][: oracle.N_WORKLOADS] <= 0).all(axis=1)
        assert too_large.sum() == oracle.N_TOO_LARGE


# ---------------------------------------------------------------- nothing is left half done


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A split of one file, fair at once."""

    def write(folder: Path, *_: object) -> pd.DataFrame:
        folder.mkdir(exist_ok=True)
        (folder / "questions.txt").write_text("?")
        return pd.DataFrame()

    monkeypatch.setattr(split_command, "write_questions", write)
    monkeypatch.setattr(split_command, "certify", lambda *_: certificate())
    return monkeypatch


@pytest.mark.usefixtures("quick")
def test_a_split_is_put_where_it_was_asked_for_beside_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--out", "new/../new/autumn"]) == 0
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"autumn", "autumn.seed"}
    assert (tmp_path / "new" / "autumn.seed").stat().st_mode & 0o077 == 0
    seed = read_seed(tmp_path / "new" / "autumn.seed")
    assert read_manifest(tmp_path / "new" / "autumn")["seed_commitment"] == of_seed(seed)


@pytest.mark.parametrize("where", ["write_questions", "certify", "write_manifest", "write_seed"])
def test_a_split_that_is_stopped_leaves_nothing(
    where: str, quick: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    quick.setattr(split_command, where, stop)
    quick.setattr(sys, "argv", ["solutions", "split", "--out", str(tmp_path / "new" / "autumn")])
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert command.main() == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == "\nsplit: stopped, nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_a_split_that_cannot_be_moved_in_leaves_no_seed_and_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    with building_beside(out) as building, monkeypatch.context() as patched:
        rename = Path.rename

        def fails(source: Path, target: Path) -> Path:
            assert (tmp_path / "out.seed").exists()
            if source == building:
                raise OSError("no")
            return rename(source, target)

        patched.setattr(Path, "rename", fails)
        building.mkdir()
        with pytest.raises(OSError, match="no"):
            put_in_place(building, out, SEED, tmp_path / "out.seed")
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "old"]


def test_a_seed_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    write_seed(tmp_path / "seed", SEED)
    with pytest.raises(BadInputError, match="is there already"):
        write_seed(tmp_path / "seed", SEED[::-1])
    assert read_seed(tmp_path / "seed") == SEED


def test_two_commands_at_once_build_in_places_of_their_own(tmp_path: Path) -> None:
    with building_beside(tmp_path / "a") as one, building_beside(tmp_path / "a") as other:
        assert one.parent != other.parent
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_told_before_the_work(
    quick: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick.setattr(split_command, "write_questions", lambda *_: pytest.fail("too late"))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="cannot be written to"):
        main(["--out", str(tmp_path / "file" / "autumn")])


def test_own_runs_are_not_drawn_again_for_a_fault_that_lies_in_them(
    quick: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = iter([("m1: a", "m2: b"), ("m2: c", "m1: a")])
    quick.setattr(split_command, "certify", lambda *_: certificate(*next(faults)))
    own = OwnRuns(pd.DataFrame(), pd.DataFrame())
    assert make(tmp_path / "out", "hidden", SEED, own) is None
    assert "It lies in the runs: drawn again, still m1: a" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("run", "argv", "sentence"),
    [
        (main, ["--public", "--seed-file", "seed"], "--public has a seed and runs of its own"),
        (main, ["--public", "--runs", "runs.csv"], "--public has a seed and runs of its own"),
        (verify.main, ["--seeds", "0"], "a whole number from 1 on"),
        (trial.main, ["2", "--seed", "-1"], "a whole number from 0 on"),
        (trial.main, ["2", "--seed", "x"], "a whole number from 0 on"),
        (world.main, ["--seed", "-1"], "--seed one of 0 or more"),
        (world.main, ["--sets", "0"], "--sets and --trials take a number of 1 or more"),
    ],
)
def test_options_that_cannot_be_are_refused(
    run: Callable[[list[str]], int],
    argv: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        status: object = run(argv)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        ("tp,batch\n1,1\n", "has no column source, framework"),
        ("many", "line 3: batch is 'many', expected a positive number"),
        ("0", "line 3: batch is '0', expected a positive number"),
        ("nan", "line 3: batch is 'nan', expected a positive number"),
        (None, "cannot be read"),
    ],
)
def test_measured_steps_that_cannot_be_compared_are_told_by_column_and_line(
    harm: str | None, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "measured.csv"
    header = "source,framework,model,gpu,weight_dtype,kv_dtype,tp,context_len,decode_step_ms,batch"
    if harm is not None:
        rows = [f"s,VLLM,Qwen3-8B,B200,fp16,fp16,1,512,3.5,{batch}" for batch in ("1", harm)]
        path.write_text(
            "a\n1\n" if not harm else harm if "," in harm else "\n".join([header, *rows])
        )
    assert world.main(["--measured", str(path)]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
