"""Does what an event loop must not wait for, in a few threads.

A healthy call never gets here. The threads are started when they are first needed, and only in
programs that use asyncio.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from ._judge import IGNORED
from ._signals import is_of_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ._extension import Permit

    T = TypeVar("T")

# Not the loop's own executor, whose threads may all be waiting for the resource that has failed.
_threads: ThreadPoolExecutor | None = None

# A caller that waits for its turn under a limit occupies a thread. These are no others, so that calls which
# are under way can end.
_queue: ThreadPoolExecutor | None = None
_MOST_WAITING = 256


def _forget_threads() -> None:
    global _threads, _queue
    _threads = _queue = None


os.register_at_fork(after_in_child=_forget_threads)


def hand_over(work: Callable[[], T], waits: bool = False) -> asyncio.Future[T] | None:
    """Let a thread do some work; return None if no thread can, so that the caller has to."""
    global _threads, _queue
    try:
        loop = asyncio.get_running_loop()
        if _threads is None or _queue is None:
            _threads = ThreadPoolExecutor(4, thread_name_prefix="shared_breaker")
            _queue = ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="shared_breaker-queue")
        return loop.run_in_executor(_queue if waits else _threads, work)
    except RuntimeError as error:  # no loop of asyncio, or the interpreter is ending
        if is_of_signal(error):
            raise
        return None


async def in_thread(work: Callable[[], T], waits: bool = False) -> T:
    """Wait for work that a thread does. The thread finishes it even if the waiting is cancelled."""
    future = hand_over(work, waits)
    if future is None:
        return work()
    future.add_done_callback(_retrieve)
    return await asyncio.shield(future)


def _retrieve(future: asyncio.Future[T]) -> None:
    """Retrieve the error of a future, so that asyncio does not complain if nothing awaits it."""
    if not future.cancelled():
        future.exception()


async def enter(permit: Permit) -> None:
    """Ask for a permit; raise Rejected if the breaker rejects the call."""
    # Another thread is inside of nothing.
    permit._look_around()
    try:
        await in_thread(lambda: permit._enter(True), waits=True)
    except asyncio.CancelledError:
        # The thread may have the permit already, or may still get it.
        permit._give_up()
        hand_over(lambda: permit._leave(IGNORED, None, 0, 0, True))
        raise


async def leave(permit: Permit, outcome: int, text: bytes | None, open_for: int) -> str | None:
    """Report how a call went, and return what became of the report."""
    return await in_thread(lambda: permit._leave(outcome, text, open_for, 0, True))
