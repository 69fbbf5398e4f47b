"""A place for one play: a store, a clock that only the play moves, and processes."""

from __future__ import annotations

import os
import shutil
import tempfile

import children
from shared_breaker import SharedStore
from shared_breaker.testing import Clock


class Scene:
    """A directory of the play, which goes away with the block."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="shared-breaker-replay-")
        self.clock_path = os.path.join(self.directory, "breakers.clock")
        self.clock = Clock(self.clock_path)
        self._children = []

    def store(self, clock: Clock | None = None) -> SharedStore:
        """Open the store; each process has to do so itself.

        A process would go on alone if the file were locked for longer than ``lock_timeout``, which a busy machine
        must not decide here.
        """
        return SharedStore(os.path.join(self.directory, "breakers.db"), lock_timeout=600, clock=clock)

    def store_of_play(self) -> SharedStore:
        """Open the store on the clock of the play."""
        return self.store(Clock(self.clock_path))

    def start(self, work: object, *arguments: object) -> children.Child:
        """Start a process that does ``work(commands, ...)``, and ends with the block."""
        child = children.start(work, *arguments)
        self._children.append(child)
        return child

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *exception: object) -> None:
        for child in self._children:
            child.end()
        shutil.rmtree(self.directory, ignore_errors=True)
