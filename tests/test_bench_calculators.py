"""The comparison of calculators judges fairly, and asks only what is pinned."""

from __future__ import annotations

import pytest

from tests.bench_calculators import Question, Row, peers, row, table
from tests.calculators import adapters

KV, STATE = 1_000, 300
AT_8 = Question("model", 8, frozenset({KV, KV + STATE}), KV)
AT_16 = Question("model", 16, frozenset({2 * KV, 2 * KV + STATE}), 2 * KV)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (KV, "exact"),
        (KV - 1e-7, "exact"),  # GiB or GB turned back into bytes
        (KV + STATE, "exact"),
        (KV - 1, "too small"),
        (KV + 1, "too large"),
        (0.0, "too small"),
        (None, "refused"),
    ],
)
def test_an_answer_is_exact_to_the_byte_with_or_without_the_state(
    answer: float | None, verdict: str
) -> None:
    assert AT_8.verdict(answer) == verdict


@pytest.mark.parametrize(
    ("answers", "counts"),
    [
        ([KV, 2 * KV], (1, 0, 0, 0)),
        ([KV, KV], (0, 1, 1, 0)),  # right at one length is wrong as a rule
        ([KV + 1, None], (0, 1, 0, 0)),
        ([KV, None], (0, 0, 0, 1)),
    ],
)
def test_a_file_is_exact_only_at_every_length(
    answers: list[float | None], counts: tuple[int, int, int, int]
) -> None:
    made = row("peer", "1", [AT_8, AT_16], answers)
    assert (made.exact, made.wrong, made.too_small, made.refused) == counts


def test_the_table_begins_with_the_most_exact_and_of_those_the_least_wrong() -> None:
    rows = [Row("c", "1", 5, 9, 0, 0), Row("b", "1", 5, 2, 0, 7), Row("a", "1", 4, 0, 0, 10)]
    told = [line.split(" | ")[0] for line in table(rows).splitlines()[2:]]
    assert told == ["| b", "| c", "| a"]


def test_every_calculator_is_pinned_and_has_an_adapter_of_its_own() -> None:
    asked = peers()
    assert all(peer.version and callable(getattr(adapters, peer.adapter)) for peer in asked)
    assert len({peer.adapter for peer in asked}) == len(asked)
    assert all("==" in more for peer in asked for more in peer.more)
