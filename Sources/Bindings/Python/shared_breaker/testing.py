"""Breakers in tests: a clock that the test moves by hand, and a store that fails.

The plugin for pytest, ``shared_breaker.pytest_plugin``, makes fixtures of them. With another runner::

    with Host(directory) as host:
        payments = host.store.breaker("payments", max_failures=1, open_for=30)
        ...
        host.clock.advance(30)

If the program that is tested has a store of its own, as that of ``default_store()``, let it lead to the host:
``Host(directory, store=shop.store)``.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct

from ._policy import nanoseconds
from ._shared_store import SharedStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

    from ._policy import Seconds

__all__ = ["Clock", "Host"]

# Midnight of the first day of 2030, in nanoseconds since 1970.
_BEGINNING = 1_893_456_000 * 10**9


class Clock:
    """A time that passes only when a test says so, in all processes that share its file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file of a clock, or create it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size == 0:
                os.write(descriptor, struct.pack("=q", _BEGINNING))
            self._time = mmap.mmap(descriptor, 8)
        finally:
            os.close(descriptor)

    def now(self) -> float:
        """Return the time in seconds since 1970, as ``time.time`` does."""
        return float(self._read() / 10**9)

    def advance(self, duration: Seconds) -> None:
        """Move the time on, by seconds or a timedelta."""
        self._time[:] = struct.pack("=q", self._read() + nanoseconds(duration))

    def _read(self) -> int:
        time: int = struct.unpack("=q", self._time[:])[0]
        return time


class Host:
    """A host of a test: a directory with a store, and a clock for the processes that share them."""

    def __init__(
        self, directory: str | os.PathLike[str], store: SharedStore | None = None
    ) -> None:
        """Use a directory, which other processes of the test may use as well.

        ``store`` is one that the program has made, such as ``default_store()``. Until the host is closed, it
        leads to the host's file and clock, with the breakers that were ever got from it: those that modules
        have made when they were imported, and functions behind them. Reports of blocks and permits that are
        under way at the beginning or the end of that time are lost, so end the program's threads first.
        """
        if store is not None and not isinstance(store, SharedStore):
            raise TypeError(f"{store!r} is not a SharedStore")
        self.path = os.path.join(directory, "breakers.db")
        """The path of the store."""
        self.clock = Clock(os.path.join(directory, "breakers.clock"))
        """The clock of the host."""
        self._own = self.open(**(store._options if store else {}))
        if store is not None:
            store._lead_to(self._own)
        self.store = store or self._own
        """A store of this process: that of the program if you gave one."""

    def open(self, **options: Any) -> SharedStore:
        """Open the store once more, as another process would; ``options`` are those of ``SharedStore``."""
        return SharedStore(self.path, **{"program": "test", **options}, clock=self.clock)

    @contextlib.contextmanager
    def failure(self) -> Iterator[None]:
        """Let the store fail for the time of a block, in all processes."""
        away = f"{self.path}.away"
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        existed = os.path.exists(self.path)
        if existed:
            os.rename(self.path, away)
        os.mkdir(self.path)
        # Processes look once a second whether their file is still in its place.
        self.clock.advance(2)
        try:
            yield
        finally:
            os.rmdir(self.path)
            if existed:
                os.rename(away, self.path)
            self.clock.advance(2)

    def close(self) -> None:
        """Close the store of this process, or let that of the program lead again to where it did."""
        if self.store is not self._own:
            self.store._lead_to(self._own)
            self.store = self._own
        self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
