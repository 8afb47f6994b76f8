"""The queue of lab x4 played through for truth: every block has a number of its own.

The lesson counts tokens. Here a request holds a list of numbered blocks that it took from the free
ones and gives back: blocks of one token where memory is cut in pieces, of `block_size` where it is
paged. So the two share no line to be wrong in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Job:
    """A request on its way: its sizes in tokens, what it has made, and the blocks it holds."""

    prompt: int
    output: int
    made: int = 0
    blocks: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens that it holds."""
        return self.prompt + self.made


@dataclass(frozen=True)
class Played:
    """What a run did: batch and tokens of each step, and how often somebody had to go back."""

    steps: tuple[tuple[int, int], ...]
    put_back: int
    overtaken: bool
    """Whether some waiting request would have fitted while the head of the queue did not."""


def blocks_needed(
    policy: str, prompt: int, made: int, output: int, max_len: int, block_size: int
) -> int:
    """Return the blocks of a request: of one token each, but for `paged`, of `block_size`."""
    match policy:
        case "longest":
            return max_len
        case "exact":
            return prompt + output
        case "power_of_two":
            return min(max_len, prompt + (1 << (output - 1).bit_length()))
        case "paged":
            return len(range(0, prompt + made, block_size))
    raise ValueError(f"no policy {policy!r}")


def play(
    policy: str,
    requests: Sequence[Sequence[int]],
    capacity_tokens: int,
    max_len: int,
    block_size: int,
) -> Played:
    """Play a queue through until its last request has ended."""
    unit = block_size if policy == "paged" else 1
    free = list(range(capacity_tokens // unit))
    queue = [Job(prompt, output) for prompt, output in requests]
    running: list[Job] = []
    steps: list[tuple[int, int]] = []
    n_put_back, overtaken = 0, False

    def grown(job: Job) -> int:
        """Blocks that it needs beyond those it holds, for the token it makes next."""
        needed = blocks_needed(policy, job.prompt, job.made + 1, job.output, max_len, block_size)
        return needed - len(job.blocks)

    def take(job: Job) -> None:
        job.blocks += [free.pop() for _ in range(grown(job))]

    def give(job: Job) -> None:
        free.extend(job.blocks)
        job.blocks = []

    while queue or running:
        while sum(grown(job) for job in running) > len(free):
            newest = running.pop()
            give(newest)
            queue.insert(0, newest)
            n_put_back += 1
        for job in running:
            take(job)
        while queue and grown(queue[0]) <= len(free):
            take(queue[0])
            running.append(queue.pop(0))
        overtaken |= any(grown(job) <= len(free) for job in queue)
        for job in running:
            job.made += 1
        steps.append((len(running), sum(job.tokens for job in running)))
        for job in running:
            if job.made == job.output:
                give(job)
        running = [job for job in running if job.made < job.output]
    return Played(tuple(steps), n_put_back, overtaken)
