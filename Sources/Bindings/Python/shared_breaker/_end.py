"""The end of a process that ends by itself."""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# After the finalizers of multiprocessing itself, which wait for its queues.
_PRIORITY = -100


def at_end(close: Callable[[], None]) -> None:
    """Run a function when the program ends, or the work of a process that ``multiprocessing`` has started.

    A forked process of ``multiprocessing`` ends without ``atexit``. If it still waits for threads when its work
    has ended, the function is not run, because they may need what it closes.
    """
    is_watching = False

    def close_after_work() -> None:
        threading: Any = sys.modules["threading"]
        own = threading.current_thread()
        if all(thread.daemon or thread is own for thread in threading.enumerate()):
            close()

    def watch() -> None:
        nonlocal is_watching
        util: Any = sys.modules.get("multiprocessing.util")
        if util is None or is_watching:
            return
        is_watching = True

        def finalize(_: object) -> None:
            util.Finalize(None, close_after_work, exitpriority=_PRIORITY)

        # A process begins by dropping the finalizers that it has inherited, and then does this.
        util.register_after_fork(close, finalize)
        # One that imports the package in its work has done so before.
        if sys.modules["multiprocessing.process"].parent_process() is not None:
            finalize(close)

    atexit.register(close)
    os.register_at_fork(after_in_child=watch)
    watch()
