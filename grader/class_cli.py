"""The `grader class` command: a folder of hand-ins to grades, overnight or on a cluster."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

import milestones
from grader import __version__
from grader.bait import Bait, leave_bait
from grader.changes import HEADER, Before, changes, gone, open_before
from grader.classroom import Course, Graded, Reason, grade_class
from grader.cluster import connect, pack, remote
from grader.errors import BadInputError
from grader.explain import reader
from grader.handins import HandIn, find_hand_ins
from grader.host import Start
from grader.hosts import IN_ROOMS, walled_host, walled_or_trusted_host
from grader.limits import Limits
from grader.outputs import make_ready, refuse_inputs, table_lines, unnamed, write_class
from grader.paths import course_folder
from grader.perform import Perform, perform
from grader.places import Places
from grader.receipts import Issuer, signing_key
from grader.receipts import verify as verify_receipt
from grader.report import (
    EXIT_BROKEN,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_PASSED,
    shown_points,
    with_bonus,
)
from grader.results import Results, fingerprint, write_whole
from grader.split import Split, open_split, read_manifest, sha256_of
from grader.surroundings import PACKAGES
from grader.view import refuse_to_show

OR_TRUST = ", or grade hand-ins you trust with --trust-submissions"
IN_WALLS = "Each notebook runs in a walled room of {scheduler}, {size} at a time."
IN_TRUST = (
    "No boundary on some workers of {scheduler}.\nAs --trust-submissions says, the notebooks run "
    "there with the workers' own rights, {size} at a time."
)
OUT_DIR = click.Path(file_okay=False, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("class")
@click.argument("submissions", type=click.Path(path_type=Path))
@click.option("--split", "split_folder", type=OUT_DIR, required=True, help="Split to grade on.")
@click.option("--out", type=OUT_DIR, required=True, help="Folder for the grades and reports.")
@click.option("--workers", type=click.IntRange(1, 1_024), help="Hand-ins at a time.")
@click.option("--scheduler", help="Address of a Dask scheduler, whose workers do the work.")
@click.option("--compare", type=OUT_DIR, help="An earlier --out: says who changed, by how much.")
@click.option("--gradebook", help="PostgreSQL URL of a gradebook; default: OUT/gradebook.sqlite.")
@click.option("--key", type=OUT_FILE, help="Key that signs receipts; default: OUT/signing.key.")
@click.option(
    "--trust-submissions",
    is_flag=True,
    help="Where the machine gives no boundary, run the notebooks with your own rights.",
)
def class_command(
    submissions: Path,
    split_folder: Path,
    out: Path,
    workers: int | None,
    scheduler: str | None,
    compare: Path | None,
    gradebook: str | None,
    key: Path | None,
    trust_submissions: bool,
) -> None:
    """Grade a class: SUBMISSIONS/<student>/<milestone>.ipynb, each in a walled room.

    Reads zips and the exports of Canvas, Moodle, Gradescope, GitHub Classroom and nbgrader too.
    Started again, it goes on where it was. Exits 0 when every hand-in was graded, 2 on bad usage
    or input, 3 when the grader itself broke on one.
    """
    data = course_folder() / "data"
    read_manifest(data, skip=("public_split",))
    split = open_split(split_folder)
    refuse_inputs(out, {"the split": split_folder, "the hand-ins": submissions, "the data": data})
    with _told_what_is_kept(out):
        hand_ins = find_hand_ins(submissions, milestones.SLUGS, milestones.BONUS_SLUGS)
        before = None if compare is None else open_before(compare)
        if workers and scheduler:
            raise click.UsageError("--workers is for this machine, --scheduler for a cluster")
        with ExitStack() as stack:
            # What is needed at the end is imported while the warm process does its own imports.
            recorder = stack.enter_context(ThreadPoolExecutor(1)).submit(_recorder)
            team = stack.enter_context(_team(split, data, scheduler, trust_submissions))
            record = recorder.result()
            click.echo(team.said, err=True)
            refuse_to_show((split_folder, submissions, out, PACKAGES / "solutions"), team.shown)
            make_ready(out)
            issuer = Issuer(
                signing_key(key or out / "signing.key"), split.split_id,
                sha256_of(split.folder / "MANIFEST.json"), team.walled,
            )  # fmt: skip
            results = Results(out / "results", _made_with(split, data, team))
            tables = {slug: reader(_places(split, data, slug, None)) for slug in team.perform}
            course = Course(split, team.perform, results, team.bait, tables)
            told = stack.enter_context(_progress(len(hand_ins)))
            graded = grade_class(hand_ins, course, workers or team.size, told, team.cancelled)
        if before is not None:  # read before anything is written: it may be the same folder
            _tell_changes(graded, hand_ins, before, out)
        write_class(graded, split, issuer, out)
        book = gradebook or out / "gradebook.sqlite"
        record(book, graded, split_id=split.split_id, walled=issuer.walled)
        reasons = graded.reasons()
        for reason in Reason:
            click.echo(f"{reasons[reason]:8,} {reason}")
        if lost := unnamed(hand_ins):
            click.echo(
                f"{len(lost):,} students handed in notebooks that bear no milestone's name, not "
                f"graded: {', '.join(list(lost)[:9])}; see {out}/notes.csv"
            )
        click.echo(str(out / "grades.csv"))
        sys.exit(EXIT_BROKEN if reasons[Reason.BROKEN] else EXIT_PASSED)


@contextmanager
def _told_what_is_kept(out: Path) -> Iterator[None]:
    """Say to whoever interrupts that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        if not (out / "results").is_dir():
            raise
        kept = f"in {out} what was graded is kept; the same command goes on from there"
        click.echo(f"\ngrader: interrupted; {kept}", err=True)
        sys.exit(EXIT_INTERRUPTED)


def _recorder() -> Callable[..., None]:
    """Return what writes the gradebook.

    Raises:
        BadInputError: the packages for it are not installed; better told before hours are spent.
    """
    try:
        import datasketch  # noqa: F401 - of the class's page: it takes as long as the gradebook

        from grader.gradebook.book import record_class
    except ImportError as error:
        raise BadInputError(
            f'a gradebook needs {error.name}: pip install -c constraints.txt -e ".[class]"'
        ) from None
    return record_class


def _tell_changes(
    graded: Sequence[Graded], hand_ins: Sequence[HandIn], before: Before, out: Path
) -> None:
    of_student: Counter[str] = Counter()

    def counted() -> Iterator[tuple[str, ...]]:
        for row in changes(graded, before):
            of_student[row[0]] += 1
            yield row

    write_whole(out / "changes.csv", table_lines(HEADER, counted(), numbers={"change"}))
    told = f"{of_student.total():,} hand-ins of {len(of_student):,} students changed"
    click.echo(f"{told}: {out}/changes.csv")
    if left := gone(hand_ins, before):
        click.echo(f"{len(left):,} students are in {before.folder} alone: {', '.join(left[:9])}")


@click.command()
@click.argument("receipt", type=OUT_FILE)
@click.option("--key", type=OUT_FILE, help="The course's public key, receipts/public.pem.")
@click.option("--notebooks", type=OUT_DIR, help="Folder of notebooks: are they the ones graded?")
def verify(receipt: Path, key: Path | None, notebooks: Path | None) -> None:
    """Check a receipt of `grader class`: unchanged, and signed by the course.

    Exits 0 when it holds, 1 when a notebook is another one, 2 when the receipt does not hold.
    """
    verified = verify_receipt(receipt, key)
    body = verified.body
    click.echo(f"{body['student']}: {len(body['hand_ins'])} hand-ins on split {body['split_id']}")
    others = []
    for one in body["hand_ins"]:
        points = "not graded" if one["points"] is None else shown_points(one["points"])
        told = f"{points} of {shown_points(one['points_max'])}"
        told = with_bonus(told, one["points_max"], one.get("bonus"), one.get("bonus_max", 0))
        line = f"  {one['milestone']}  {told}"
        path = None if notebooks is None else notebooks / f"{one['milestone']}.ipynb"
        if path is not None and path.is_file() and sha256_of(path) != one["notebook_sha256"]:
            others.append(path)
            line += f"  ({path} is not the notebook that was graded)"
        click.echo(f"{line}  {one['reason']}")
    if verified.known_key:
        click.echo("Unchanged since it was signed, by the key you named.")
    else:
        click.echo(
            f"Unchanged since it was signed by key {verified.fingerprint}. Compare that with your "
            "course's, or name its public key with --key: anyone can sign with a key of their own."
        )
    sys.exit(EXIT_FAILED if others else EXIT_PASSED)


@dataclass(frozen=True)
class Team:
    """Who runs the notebooks: how many at a time, how, and what each milestone's job is done by."""

    perform: Mapping[str, Perform]
    size: int
    said: str
    walled: bool
    shown: tuple[str, ...]
    bait: Bait | None
    cancelled: threading.Event


@contextmanager
def _team(split: Split, data: Path, scheduler: str | None, trust: bool) -> Iterator[Team]:
    from joblib import cpu_count  # a slow import: only this command needs it

    limits, cancelled = Limits(), threading.Event()
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="kv-capacity-"))
        bait = leave_bait(split, data, Path(folder))
        slugs = milestones.all_slugs()
        places = {slug: _places(split, data, slug, bait) for slug in slugs}
        if scheduler is not None:
            client, size, walled = stack.enter_context(connect(scheduler, trust=trust))
            sent = {  # most milestones have the same places
                at: remote(client, pack(at), limits, trust=trust) for at in set(places.values())
            }
            there = {slug: sent[at] for slug, at in places.items()}
            said = (IN_WALLS if walled else IN_TRUST).format(scheduler=scheduler, size=size)
            yield Team(there, size, said, walled, (), bait, cancelled)
            return
        if trust:
            host, said = stack.enter_context(walled_or_trusted_host())
        else:
            host, said = stack.enter_context(walled_host(OR_TRUST)), IN_ROOMS
        here = {
            slug: partial(perform, start=Start(at, limits), host=host, cancelled=cancelled)
            for slug, at in places.items()
        }
        yield Team(here, cpu_count(), said, host.walled, host.shown, bait, cancelled)


def _places(split: Split, data: Path, slug: str, bait: Bait | None) -> Places:
    baited = None if bait is None else bait.folder
    return Places(data, split.folder / "questions", split.overlay(slug), baited)


def _made_with(split: Split, data: Path, team: Team) -> dict[str, object]:
    """Return all that decides a result but the notebook."""
    return {
        "split": sha256_of(split.folder / "MANIFEST.json"),
        "data": sha256_of(data / "MANIFEST.json"),
        "grader": __version__,
        "code": fingerprint(),
        "limits": asdict(Limits()),
        "walled": team.walled,
    }


@contextmanager
def _progress(total: int) -> Iterator[Callable[[HandIn], None]]:
    """Show a bar with the time left on a terminal, and a plain line now and then elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        done = itertools.count(1)
        lines = 20

        def plain(_hand_in: HandIn) -> None:
            if (count := next(done)) % max(1, total // lines) == 0 or count == total:
                click.echo(f"graded {count:,} of {total:,}", err=True)

        yield plain
        return
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("grading", total=total)
        yield lambda hand_in: bar.update(
            task, advance=1, description=f"{hand_in.student} {hand_in.slug}"
        )
