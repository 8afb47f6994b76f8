"""Second part of `make bench`: seconds a hand-in of `grader class` and of other autograders.

In one run, in turn, on the same notebooks (tests/peers.py says which): nbgrader and otter as they
come, `jupyter nbconvert --execute`, which runs a notebook and grades nothing, and `grader class`
with two workers. What grades a class by one command gets the whole class; what takes a command a
notebook gets every sixth hand-in. Each grader first grades a right and a wrong hand-in, untimed:
it must give both their points, else what it takes means nothing. That also warms the caches.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from grader.hosts import walled_host
from grader.limits import Limits
from grader.places import Places
from grader.room import open_room
from solutions.lesson import ROOT
from tests.bench import Cost, measure
from tests.cpu_clock import COUNTS_ALL, cpu_s
from tests.peers import (
    MISTAKE,
    OURS,
    SLUG,
    Batch,
    Exam,
    Grader,
    graders,
    hand_in,
    private_home,
    the_mistake,
    write_exam,
    wrong,
)

GOALS = {"nbgrader autograde": 10, "otter run": 25}  # their wall seconds a hand-in over ours
ROOMS, ROOM_WALL_S, ROOM_CPU_S = 60, 0.15, 0.1  # rooms opened, and the goals for each
PART = 6  # of the class, one hand-in goes to a grader that takes a command a notebook
FEW = 2  # hand-ins of a second, small class, to tell what starts a command from what grades


@dataclass(frozen=True)
class Timing:
    """What one grader took in one round."""

    hand_ins: int
    cost: Cost


def room_cost() -> str:
    """Say what a walled room costs beyond a notebook's own cells: opened, and closed at once."""
    places = Places(ROOT / "data", ROOT / "data" / "public_split" / "questions")
    with walled_host() as host:
        walls, before = [], cpu_s()
        for _ in range(ROOMS):
            started = time.perf_counter()
            with open_room(places, Limits(), host=host):
                pass
            walls.append(time.perf_counter() - started)
        cpu_each = (cpu_s() - before) / ROOMS
    wall, most = statistics.median(walls), max(walls)
    kept = "reached" if wall <= ROOM_WALL_S and cpu_each <= ROOM_CPU_S else "missed"
    return (
        f"{wall:.3f} s wall (median of {ROOMS}, at most {most:.3f}) and {cpu_each:.3f} s CPU; goal "
        f"{ROOM_WALL_S} and {ROOM_CPU_S}: {kept}"
    )


def grade(exam: Exam, grader: Grader, folder: Path, hand_ins: dict[str, str]) -> Timing:
    """Time one grader on a batch of right hand-ins, and hold it to their points."""
    batch = laid_out(exam, grader, folder, hand_ins)
    costs = [measure(command, batch.cwd) for command in batch.commands]
    hold_to(grader, batch, dict.fromkeys(hand_ins, exam.points))
    cost = Cost(sum(c.wall_s for c in costs), sum(c.cpu_s for c in costs))
    return Timing(len(hand_ins), cost)


def warm_up(exam: Exam, grader: Grader, folder: Path) -> None:
    """Let a grader grade a right and a wrong hand-in, and hold it to their points."""
    hand_ins = {"right": hand_in(exam, "right"), "wrong": wrong(exam, "wrong")}
    batch = laid_out(exam, grader, folder, hand_ins)
    for command in batch.commands:
        measure(command, batch.cwd)
    hold_to(grader, batch, {"right": exam.points, "wrong": exam.points_with(the_mistake())})


def laid_out(exam: Exam, grader: Grader, folder: Path, hand_ins: dict[str, str]) -> Batch:
    """Return a batch in a new folder."""
    folder.mkdir()
    return grader.lay_out(exam, folder, hand_ins)


def hold_to(grader: Grader, batch: Batch, points: dict[str, float]) -> None:
    """End the comparison if a grader did not give each hand-in the points it is due."""
    given = batch.points()
    if grader.grades and given != points:
        raise SystemExit(f"{grader.name} gave {given}, due are {points}: no comparison")


def print_table(timings: dict[Grader, list[Timing]]) -> None:
    """Print seconds a hand-in, and how many times those of `grader class` they are."""
    wall, cpu = {}, {}
    for grader, rounds in timings.items():
        count = sum(timing.hand_ins for timing in rounds)
        wall[grader.name] = sum(timing.cost.wall_s for timing in rounds) / count
        cpu[grader.name] = sum(timing.cost.cpu_s for timing in rounds) / count
    print(
        f"\n{'seconds a hand-in':22}{'version':>9}{'graded':>8}{'wall':>8}{'rounds':>14}{'CPU':>8}"
        f"{'wall / ours':>13}{'CPU / ours':>12}  goal"
    )
    for grader, rounds in timings.items():
        each = sorted(timing.cost.wall_s / timing.hand_ins for timing in rounds)
        line = f"{grader.name:22}{grader.version:>9}{sum(t.hand_ins for t in rounds):>8}"
        line += f"{wall[grader.name]:>8.2f}{f'{each[0]:.2f}-{each[-1]:.2f}':>14}"
        line += f"{cpu[grader.name]:>8.2f}"
        ratio = wall[grader.name] / wall[OURS]
        line += f"{ratio:>13.1f}{cpu[grader.name] / cpu[OURS]:>12.1f}"
        if goal := GOALS.get(grader.name):
            line += f"  at least {goal}: {'reached' if ratio >= goal else 'missed'}"
        print(line)


def print_marginal(few: dict[Grader, list[Timing]], whole: dict[Grader, list[Timing]]) -> None:
    """Print what a hand-in more costs where one command grades them all: a class is larger."""
    print("\nEach hand-in more, once a command has started: wall (CPU)")
    for grader in few:
        more = sum(t.hand_ins for t in whole[grader]) - sum(t.hand_ins for t in few[grader])
        wall, cpu = (
            sum(seconds(t.cost) for t in whole[grader]) - sum(seconds(t.cost) for t in few[grader])
            for seconds in (attrgetter("wall_s"), attrgetter("cpu_s"))
        )
        print(f"{grader.name:22}{wall / more:.3f} ({cpu / more:.3f})")


def main() -> None:
    """Warm up and check every grader, time them in turn, and print the table."""
    parser = argparse.ArgumentParser("python -m tests.bench_class", description=__doc__)
    parser.add_argument("--hand-ins", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        private_home(place / "home")
        exam = write_exam(place / "split")
        compared = graders()
        for grader in compared:
            warm_up(exam, grader, place / f"{grader.name}, warm")
        students = [f"s{number:02d}" for number in range(args.hand_ins)]
        whole = {student: hand_in(exam, student) for student in students}
        part = {student: whole[student] for student in students[::PART]}
        few = {student: whole[student] for student in students[:FEW]}
        timings: dict[Grader, list[Timing]] = {grader: [] for grader in compared}
        of_few: dict[Grader, list[Timing]] = {g: [] for g in compared if not g.one_by_one}
        for number in range(args.rounds):
            for grader in compared:
                folder = place / f"{grader.name}, {number}"
                batch = part if grader.one_by_one else whole
                timings[grader].append(grade(exam, grader, folder, batch))
                if grader in of_few:
                    folder = place / f"{grader.name}, {number}, few"
                    of_few[grader].append(grade(exam, grader, folder, few))
        questions = sum(len(check.questions) for check in exam.checks)
        print(
            f"{args.hand_ins} hand-ins of {SLUG} without its plots, {questions} questions each; "
            f"rounds: {args.rounds}; cores: {len(os.sched_getaffinity(0))}.\n"
            f"Each that grades gave a right hand-in {exam.points} of {exam.points} points and one "
            f"with the mistake {MISTAKE} {exam.points_with(the_mistake())}."
        )
        print_table(timings)
        print_marginal(of_few, timings)
        if not COUNTS_ALL:
            print("CPU without processes that nobody waited for, so that of rooms is too low.")
        print(f"A warm room: {room_cost()}.")


if __name__ == "__main__":
    main()
