"""Which loop runs the code that is running, and how that code waits for a descriptor.

Modules of loops are only asked where the program has imported them.
"""

from __future__ import annotations

import os
import sys
from _thread import get_native_id
from importlib import import_module

from ._errors import visible
from ._signals import is_of_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    # Waits until a descriptor is readable, for the breaker with a name.
    Way = Callable[[str, int], object]


def way_of_waiting() -> Way | None:
    """Return how synchronous code waits for room; None if its thread may simply wait.

    A greenlet waits with the loop that runs it. A coroutine cannot wait in synchronous code.
    """
    return _way_of_greenlet() or (_refuse if loop_of_coroutine() else None)


def loop_of_coroutine() -> Literal["asyncio", "trio"] | None:
    """Return the loop that runs this thread's coroutines, if it is one that the package knows."""
    asyncio = sys.modules.get("asyncio")
    get_loop = getattr(asyncio, "_get_running_loop", None)
    is_asyncio = get_loop is not None and get_loop() is not None
    # Trio may be the guest of asyncio, whose loop is running then, but none of whose tasks is.
    if _is_trio() and not (is_asyncio and asyncio is not None and asyncio.current_task() is not None):
        return "trio"
    return "asyncio" if is_asyncio else None


def _is_trio() -> bool:
    trio: Any = sys.modules.get("trio")
    current_task = getattr(getattr(trio, "lowlevel", None), "current_task", None)
    if current_task is None:
        return False
    try:
        current_task()
    except RuntimeError as error:
        if is_of_signal(error):
            raise
        return False
    return True


def _refuse(name: str, descriptor: int) -> None:
    raise RuntimeError(
        f"{visible(name)} has no room now, and waiting for it here would stop the event loop: use 'async with', a "
        "coroutine function or acquire_async()")


def _way_of_greenlet() -> Way | None:
    greenlet: Any = sys.modules.get("greenlet")
    if greenlet is None:
        return None
    current = greenlet.getcurrent()
    for is_run_by, wait in ((_is_of_gevent, _wait_in_gevent), (_is_of_eventlet, _wait_in_eventlet)):
        if is_run_by(current):
            return wait
    return None


def _ancestors(greenlet: Any) -> list[Any]:
    """Return a greenlet with those that it goes back to when it ends."""
    found = []
    while greenlet is not None:
        found.append(greenlet)
        greenlet = greenlet.parent
    return found


def _is_first_of_process(greenlet: Any) -> bool:
    """Return whether a greenlet is the one that every thread has, in the main thread."""
    return greenlet.parent is None and get_native_id() == os.getpid()


def _is_of_gevent(greenlet: Any) -> bool:
    hub: Any = sys.modules.get("gevent.hub")
    if hub is None:
        return False
    if any(isinstance(one, hub.Hub) for one in _ancestors(greenlet)):
        return True
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey is not None and _is_first_of_process(greenlet) and monkey.is_module_patched("socket")


def _wait_in_gevent(name: str, descriptor: int) -> None:
    import_module("gevent.socket").wait_read(descriptor)


def _is_of_eventlet(greenlet: Any) -> bool:
    patcher: Any = sys.modules.get("eventlet.patcher")
    hubs: Any = sys.modules.get("eventlet.hubs")
    if patcher is None or hubs is None:
        return False
    if greenlet.parent is not None:
        return hubs.get_hub().greenlet in _ancestors(greenlet)
    return _is_first_of_process(greenlet) and patcher.is_monkey_patched("socket")


def _wait_in_eventlet(name: str, descriptor: int) -> None:
    import_module("eventlet.hubs").trampoline(descriptor, read=True)
