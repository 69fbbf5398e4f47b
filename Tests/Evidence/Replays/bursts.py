"""Replays two bursts of processes that share one key, and counts how many of them get a 429.

The case is https://github.com/anthropics/claude-code/issues/64030: about 25 sessions, one key, and twice a minute in
which each of them got a 429 of its own. Here every process asks once before, in, between and after two bursts, in
which the provider refuses everything: one after the other, or all at once. Requests that are under way when the
first 429 is reported get one as well. All at once that is nearly all of them, unless the policy bounds how many there
are.

Time stands still in a burst, on the package's clock for tests. So no figure depends on how fast the machine is, except
for how many requests are under way at once.
"""

from __future__ import annotations

import argparse
import time

from figures import Figures
from provider import Provider, ask
from scene import Scene
from shared_breaker import Rejected, too_many_requests

# The two bursts of the case were some two hours apart.
WINDOW = 7_200
QUIET, BURST = 1_000_000, 0
PHASES = [QUIET, BURST, QUIET, BURST, QUIET]
LIMIT = 4
ARRIVALS = {
    "one after the other": {},
    "all at once": {},
    f"all at once, max_concurrent={LIMIT}": {"max_concurrent": LIMIT, "queue_timeout": WINDOW / 2, "hold_for": WINDOW},
}
# Two answers that name no time hold nothing, because such an answer often concerns a single request.
TOLERATED = {"seconds": 0, "nothing": 2}


def session(commands, scene, port, who, policy):
    """Ask whenever a command comes; answer when that began, when it was reported, and what came of it."""
    call = ask
    if policy is not None:
        call = scene.store_of_play().breaker("the key", hold=too_many_requests, **policy)(ask)
    while True:
        commands.recv()
        begun = time.monotonic()
        try:
            status = call(port, who).status
        except Rejected as rejected:
            status = rejected.cause
        commands.send((begun, time.monotonic(), status))


def play(sessions, form, at_once, policy=None):
    """Return how the sessions fared in each phase, how often the provider refused, and the breaker in the end.

    Without a policy no breaker takes part.
    """
    quotas = ",".join(map(str, PHASES))
    with Scene() as scene:
        words = ("--quota", quotas, "--window", WINDOW, "--tell", form, "--clock", scene.clock_path)
        with Provider(*words) as provider:
            workers = [scene.start(session, scene, provider.port, who, policy) for who in range(sessions)]
            phases = []
            for phase in PHASES:
                if at_once and phase == BURST:
                    for worker in workers:
                        worker.send("ask")
                    phases.append([worker.answer() for worker in workers])
                else:
                    phases.append([worker.do("ask") for worker in workers])
                scene.clock.advance(WINDOW)
            refused = [one["window"] for one in provider.refused()]
        snapshot = None
        if policy is not None:
            with scene.store_of_play() as store:
                snapshot = store.snapshot("the key")
        return phases, [refused.count(1), refused.count(3)], snapshot


def too_late(phase, form):
    """Return how many requests got a 429 though they began after the answer that holds was reported."""
    refused = [(begun, reported) for begun, reported, status in phase if status == 429]
    reports = sorted(reported for _, reported in refused)
    holding = reports[TOLERATED[form]]
    return sum(begun > holding for begun, _ in refused)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=25)
    sessions = parser.parse_args().sessions
    figures = Figures(f"{sessions} processes, one key, two bursts in which the provider refuses everything")
    rows = [("429s of the two bursts", "without", "SharedBreaker", "begun after the holding report")]
    for form, says in (("seconds", "naming a time"), ("nothing", "naming none")):
        for how, policy in ARRIVALS.items():
            at_once = how != "one after the other"
            what = f"{how}, {says}"
            if not policy:
                _, without, _ = play(sessions, form, at_once)
            phases, refused, breaker = play(sessions, form, at_once, policy)
            late = [too_late(phase, form) for phase in phases[1::2]]
            rows.append((what, *(f"{one} and {two}" for one, two in (without, refused, late))))
            figures.claim(f"{what}: without, each session gets a 429", without, expected=[sessions] * 2)
            figures.claim(f"{what}: none began after the report that holds", late, expected=[0, 0])
            if not at_once or policy:
                most = TOLERATED[form] + (LIMIT if policy else 1)
                figures.claim(f"{what}: at most {most} get a 429", max(refused) <= most)
            for phase in phases[::2]:
                served = sum(status == 200 for *_, status in phase)
                figures.claim(f"{what}: all are served when the burst is over", served, expected=sessions)
            for phase in phases[1::2]:
                others = {status for *_, status in phase} - {429, "held"}
                figures.claim(f"{what}: the others are held", others, expected=set())
            judged = breaker["state"], breaker["totals"]["failures"]
            figures.claim(f"{what}: no failure", judged, expected=("closed", 0))
    figures.table(*rows)
    figures.end()


if __name__ == "__main__":
    main()
