"""Makes calls whose instructions scripts/budgets counts.

    count.py STORE NUMBER CALLS
"""

from __future__ import annotations

import gc
import sys

from floor import Empty, counted

from shared_breaker import Rejected, SharedStore

# How often calls are counted, because now and then one of them does what has to be done once a second.
ROUNDS = 3


def nothing():
    pass


def block(manager, number):
    for _ in range(number):
        with manager:
            pass


def call(function, number):
    for _ in range(number):
        function()


def rejected(manager, number):
    for _ in range(number):
        try:
            with manager:
                pass
        except Rejected:
            pass


def count(calls, subject, number):
    """Count some calls, and then twice as many, several times over; the first of all are not counted."""
    calls(subject, 2 * number)
    for _ in range(ROUNDS):
        counted(lambda: calls(subject, number))
        counted(lambda: calls(subject, 2 * number))


def main(path, number, calls):
    store = SharedStore(path)
    payments = store.breaker("payments", max_failures=3)
    gpu = store.breaker("gpu", max_failures=3, max_concurrent=4)
    down = store.breaker("down", max_failures=3)
    down.trip(86_400)
    gc.disable()
    loop, subject = {
        "bare-block": (block, Empty()), "block": (block, payments), "limited-block": (block, gpu),
        "bare-call": (call, nothing), "decorated": (call, payments(nothing)),
        "rejected": (rejected, down)}[calls]
    count(loop, subject, number)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
