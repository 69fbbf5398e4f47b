"""Runs work that an event loop must not wait for, in a few threads.

A healthy call never gets here. The threads are started when they are first needed, and only in
programs that use asyncio or trio.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor

from ._bells import bell_of_loop
from ._judge import IGNORED
from ._loops import loop_of_coroutine
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


def _executor() -> ThreadPoolExecutor:
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(4, thread_name_prefix="shared_breaker")
    return _threads


def hand_over(work: Callable[[], T]) -> Future[T] | None:
    """Let a thread do some work; return None if no thread can, so that the caller has to."""
    if loop_of_coroutine() is None:
        return None
    try:
        return _executor().submit(work)
    except RuntimeError as error:  # the interpreter is ending
        if is_of_signal(error):
            raise
        return None


async def in_thread(work: Callable[[], T]) -> T:
    """Wait for work that a thread does. The thread finishes it even if the waiting is cancelled."""
    future = hand_over(work)
    if future is None:
        return work()
    if loop_of_coroutine() == "trio":
        return await _result_in_trio(future)
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(_retrieve)
    return await asyncio.shield(waiting)


async def _result_in_trio(future: Future[T]) -> T:
    """Wait for the result of a thread, which cannot be cancelled."""
    import trio

    token, is_done = trio.lowlevel.current_trio_token(), trio.Event()

    def wake(future: Future[T]) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(is_done.set)

    future.add_done_callback(wake)
    with trio.CancelScope(shield=True):
        await is_done.wait()
    return future.result()


def _retrieve(future: asyncio.Future[T]) -> None:
    """Retrieve the error of a future, so that asyncio does not complain if nothing awaits it."""
    if not future.cancelled():
        future.exception()


async def enter(permit: Permit) -> None:
    """Ask for a permit; raise Rejected if the breaker rejects the call."""
    # Another thread is inside of nothing.
    permit._look_around()
    try:
        with bell_of_loop() as bell:
            waits = permit._queue(False, bell)
            while waits is not None:
                if waits:
                    await bell.wait(permit)
                    waits = permit._queue(False, bell)
                else:
                    # It takes the file, but no thread waits for the turn.
                    waits = await in_thread(lambda: permit._queue(True, bell))
    except Exception:
        raise
    except BaseException:
        # The coroutine is cancelled. A thread may have the permit already, or may still get it.
        permit._give_up()
        permit._leave_queue()
        hand_over(lambda: permit._leave(IGNORED, None, 0, 0, True))
        raise


async def leave(permit: Permit, outcome: int, text: bytes | None, open_for: int) -> str | None:
    """Report how a call went, and return what became of the report."""
    return await in_thread(lambda: permit._leave(outcome, text, open_for, 0, True))
