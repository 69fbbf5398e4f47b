"""The running thread, and the task or greenlet in it."""

from __future__ import annotations

import sys
from _thread import get_ident


def running_context() -> tuple[int, object, object]:
    """Return something that equals only what the same thread, task and greenlet gets."""
    asyncio = sys.modules.get("asyncio")
    greenlet = sys.modules.get("greenlet")
    task = None
    if asyncio is not None and asyncio._get_running_loop() is not None:
        task = asyncio.current_task()
    return get_ident(), task, None if greenlet is None else greenlet.getcurrent()
