"""Replays answers that name different times: which of them stands?

The case is https://github.com/BerriAI/litellm/issues/40130: eight requests under way at once, the first answered with
Retry-After: 1 and the others without a time, for which a minute is configured. The first and shorter time won.

Eight processes begin a request each, and end them in the order of the answers. Time passes only when the play says so,
on the package's clock for tests. Beside SharedBreaker two gates play that keep a time in a file, as programs do that
have no breaker: in one the first time wins while it lasts, in the other the last one does.
"""

from __future__ import annotations

import argparse
import os

from figures import Figures
from provider import Provider, ask
from scene import Scene
from shared_breaker import Rejected, too_many_requests
from shared_breaker.testing import Clock

CALLERS = 8
LONG, SHORT = 60, 1
LATER = 10


class FileGate:
    """A time in a file, before which no request begins."""

    def __init__(self, scene, last_wins):
        self._path = os.path.join(scene.directory, "until")
        self._clock = Clock(scene.clock_path)
        self._last_wins = last_wins

    def begin(self):
        return None if self._is_held() else self

    def end(self, answer):
        wait = too_many_requests(answer)
        if wait is not None and (self._last_wins or not self._is_held()):
            with open(self._path, "w") as file:
                file.write(str(self._clock.now() + (wait or LONG)))

    def _is_held(self):
        if not os.path.exists(self._path):
            return False
        with open(self._path) as file:
            return self._clock.now() < float(file.read())


class BreakerGate:
    """A breaker, asked in two steps."""

    def __init__(self, scene):
        self._breaker = scene.store_of_play().breaker("the key", hold=too_many_requests, hold_for=LONG)

    def begin(self):
        try:
            self._permit = self._breaker.acquire()
        except Rejected:
            return None
        return self

    def end(self, answer):
        if answer is None:
            del self._permit  # a call that is not made is ignored
        else:
            self._permit.report(result=answer)


GATES = {
    "first wins": lambda scene: FileGate(scene, last_wins=False),
    "last wins": lambda scene: FileGate(scene, last_wins=True),
    "SharedBreaker": BreakerGate,
}


def caller(commands, scene, port, kind):
    """Begin and end requests on command; 'look' begins one that is not made."""
    gate = GATES[kind](scene)
    while True:
        command = commands.recv()
        if command == "end":
            answer = ask(port, "caller")
            gate.end(answer)
            commands.send(answer.status)
            continue
        may_begin = gate.begin() is not None
        if may_begin and command == "look" and kind == "SharedBreaker":
            gate.end(None)
        commands.send(may_begin)


def play(waits, kind, then):
    """Let the answers come in their order, and return what ``then`` finds out."""
    with Scene() as scene:
        words = ("--quota", 0, "--window", 3_600, "--wait", ",".join(map(str, waits)), "--clock", scene.clock_path)
        with Provider(*words) as provider:
            callers = [scene.start(caller, scene, provider.port, kind) for _ in waits]
            assert all(one.do("begin") for one in callers)
            for one in callers:
                one.do("end")
            return then(scene, callers[0], provider)


def time_held(scene, one, provider):
    """Return for how many seconds no request may begin."""
    passed = 0
    while not one.do("look"):
        scene.clock.advance(1)
        passed += 1
    return passed


def later_answers(scene, one, provider):
    """Return how many of ten requests that come a little after the short time get a 429."""
    earlier = len(provider.refused())
    scene.clock.advance(SHORT + 0.75)
    for _ in range(LATER):
        if one.do("begin"):
            one.do("end")
    return len(provider.refused()) - earlier


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    figures = Figures(f"{CALLERS} requests under way, whose answers name different times")
    others = CALLERS - 1
    # With each, what SharedBreaker promises. An answer that names no time holds nothing if its request began before
    # the hold, and the first two that begin after it hold nothing either.
    orders = {
        f"{LONG} s, then {SHORT} s": ([LONG] + [SHORT] * others, LONG, 0),
        f"{SHORT} s, then {LONG} s": ([SHORT] + [LONG] * others, LONG, 0),
        f"{SHORT} s, then no time (the case)": ([SHORT] + ["nothing"] * others, SHORT, 3),
    }
    held = [("held for", *GATES)]
    later = [(f"429s of {LATER} requests after {SHORT + 0.75} s", *GATES)]
    for order, (waits, time, answers) in orders.items():
        times = [play(waits, kind, time_held) for kind in GATES]
        refused = [play(waits, kind, later_answers) for kind in GATES]
        held.append((order, *(f"{time} s" for time in times)))
        later.append((order, *refused))
        figures.claim(f"{order}: SharedBreaker holds for", times[-1], expected=time)
        figures.claim(f"{order}: 429s of later requests", refused[-1], expected=answers)
    figures.table(*held)
    figures.table(*later)
    figures.end()


if __name__ == "__main__":
    main()
