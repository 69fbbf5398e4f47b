"""Waiting for turns in an event loop, with one descriptor for all coroutines of the loop that wait."""

from __future__ import annotations

import contextlib
import os

from ._errors import visible
from ._extension import ready
from ._loops import loop_of_coroutine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from ._extension import Permit


class Bell:
    """Wakes coroutines when their turns have come.

    Its descriptor is made for the first turn, and closed when no turn uses it any more: each permit that waits keeps the
    bell, because a thread may still ask for its turn after the coroutine was cancelled.
    """

    def __init__(self, loop: object) -> None:
        """Make a bell for a loop; None if it is none that the package knows."""
        self._loop = loop
        self._users = 0
        self._descriptor = -1
        self._waiting: dict[Permit, Callable[[], object]] = {}
        self._end: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        self._users += 1
        return self

    def __exit__(self, *exception: object) -> None:
        self._users -= 1
        if not self._users and _bells.get(self._loop) is self:
            del _bells[self._loop]

    def fileno(self) -> int:
        """Return the descriptor."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            except OSError as error:
                raise RuntimeError(f"no descriptor is left to wait for room: {error}") from error
        return self._descriptor

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self._descriptor >= 0:
            close(self._descriptor)

    async def wait(self, permit: Permit) -> None:
        """Wait until it makes sense to ask again for the turn of a permit."""
        if permit._is_ready():
            return
        wait, wake = self._new_wait(permit)
        if self._end is None:
            self._end = self._begin()
        self._waiting[permit] = wake
        try:
            # It may have rung before the coroutine was among those to be woken.
            if not permit._is_ready():
                await wait()
        finally:
            del self._waiting[permit]
            if not self._waiting and self._end is not None:
                end, self._end = self._end, None
                end()

    def ring(self) -> None:
        """Wake the coroutines whose turns have come."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)
        for permit in ready(self._waiting):
            self._waiting[permit]()

    def _new_wait(self, permit: Permit) -> tuple[Callable[[], Any], Callable[[], object]]:
        """Return what a coroutine awaits, and what wakes it."""
        kind = loop_of_coroutine()
        if kind == "trio":
            import trio

            event = trio.Event()
            return event.wait, event.set
        if kind == "asyncio":
            import asyncio

            future = asyncio.get_running_loop().create_future()
            return lambda: future, lambda: None if future.done() else future.set_result(None)
        permit._leave_queue()
        raise RuntimeError(
            f"{visible(permit.breaker.name)} has no room now, and a coroutine can wait for it only in an event loop "
            "of asyncio or trio")

    def _begin(self) -> Callable[[], object]:
        """Let the loop ring; return what ends that."""
        if loop_of_coroutine() == "asyncio":
            import asyncio

            loop, descriptor = asyncio.get_running_loop(), self.fileno()
            loop.add_reader(descriptor, self.ring)
            return lambda: loop.remove_reader(descriptor)
        import trio

        scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._ring_in_trio, scope)
        return scope.cancel

    async def _ring_in_trio(self, scope: Any) -> None:
        import trio

        with scope:
            while True:
                await trio.lowlevel.wait_readable(self._descriptor)
                self.ring()


# The bells that coroutines use now, by their loops.
_bells: dict[object, Bell] = {}
os.register_at_fork(after_in_child=_bells.clear)


def bell_of_loop() -> Bell:
    """Return the bell of the loop that runs the coroutine, which uses it in a ``with`` block."""
    kind = loop_of_coroutine()
    loop: object = None
    if kind == "asyncio":
        import asyncio

        loop = asyncio.get_running_loop()
    elif kind == "trio":
        import trio

        loop = trio.lowlevel.current_trio_token()
    else:
        return Bell(None)
    return _bells.setdefault(loop, Bell(loop))
