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


def _forget_threads() -> None:
    global _threads
    _threads = None


os.register_at_fork(after_in_child=_forget_threads)


def hand_over(work: Callable[[], T]) -> asyncio.Future[T] | None:
    """Let a thread do some work; return None if no thread can, so that the caller has to."""
    global _threads
    try:
        loop = asyncio.get_running_loop()
        if _threads is None:
            _threads = ThreadPoolExecutor(4, thread_name_prefix="shared_breaker")
        return loop.run_in_executor(_threads, work)
    except RuntimeError as error:  # no loop of asyncio, or the interpreter is ending
        if is_of_signal(error):
            raise
        return None


async def in_thread(work: Callable[[], T]) -> T:
    """Wait for work that a thread does. The thread finishes it even if the waiting is cancelled."""
    future = hand_over(work)
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
    if not _has_loop():
        permit._enter(True)
        return
    try:
        descriptor = permit._queue(False)
        while descriptor is not None:
            if descriptor < 0:
                # It takes the file, but no thread waits for the turn.
                descriptor = await in_thread(lambda: permit._queue(True))
            else:
                await _readable(descriptor)
                descriptor = permit._queue(False)
    except asyncio.CancelledError:
        # A thread may have the permit already, or may still get it.
        permit._give_up()
        permit._leave_queue()
        hand_over(lambda: permit._leave(IGNORED, None, 0, 0, True))
        raise


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        if is_of_signal(error):
            raise
        return False
    return True


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.add_reader(descriptor, _resolve, future)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def leave(permit: Permit, outcome: int, text: bytes | None, open_for: int) -> str | None:
    """Report how a call went, and return what became of the report."""
    return await in_thread(lambda: permit._leave(outcome, text, open_for, 0, True))
