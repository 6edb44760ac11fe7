"""The mixes of faults in the quorum's simulation."""

import random
from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000
KINDS: Final = ("crash", "early_crash", "cut_off", "one_way", "split", "pause", "stop", "wipe")


@dataclass
class Faults:
    """The mix of one seed: probabilities, and times in microseconds."""

    loss: float = 0.0
    duplicates: float = 0.0
    delay_us: tuple[int, int] = (100, 5_000)
    spike: float = 0.0
    sync_us: tuple[int, int] = (100, 5_000)
    stall: float = 0.0
    every_us: int = 2 * SECOND
    kinds: tuple[str, ...] = ()
    keeps_unsynced: float = 0.5
    snapshot_every: int = 10
    snapshots_kept: int = 2
    sync_failure: float = 0.0

    @classmethod
    def drawn(cls, chance: random.Random) -> "Faults":
        kinds = [each for each in KINDS if chance.random() < 0.6]
        return cls(
            loss=chance.choice((0.0, 0.0, 0.02, 0.2)),
            duplicates=chance.choice((0.0, 0.05)),
            delay_us=(100, chance.choice((1_000, 20_000, 300_000))),
            spike=chance.choice((0.0, 0.05)),
            sync_us=(100, chance.choice((1_000, 50_000, 500_000))),
            stall=chance.choice((0.0, 0.05, 0.2)),
            every_us=chance.choice((SECOND // 2, SECOND, 3 * SECOND)),
            kinds=(*kinds, "crash") if kinds in ([], ["early_crash"]) else tuple(kinds),
            keeps_unsynced=chance.choice((0.0, 0.5)),
            snapshot_every=chance.choice((0, 3, 10, 40)),
            snapshots_kept=chance.choice((1, 2)),
        )


VOTING: Final = Faults(sync_us=(100, 400_000), kinds=("early_crash", "cut_off"), every_us=SECOND // 2)
"""Slow writes of the election state, and crashes during them, for mutants of voting."""

DOWNLOADING: Final = Faults(
    sync_us=(100, 30_000),
    kinds=("wipe", "cut_off", "early_crash"),
    every_us=3 * SECOND,
    snapshot_every=3,
    snapshots_kept=1,
)
"""Nodes that fall far behind, and crash during a download."""

FAILING: Final = Faults(sync_us=(100, 400_000), kinds=("crash", "cut_off"), every_us=SECOND // 2, sync_failure=0.4)
"""Disks that are slow, and often fail to sync the log, which is then opened again."""
