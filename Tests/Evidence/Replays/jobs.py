"""Replays a job that a timer starts every five minutes, over a Retry-After of 22,688 seconds.

The case is https://github.com/koala73/worldmonitor/pull/6252: about 76 doomed requests in each outage, because no run
knew of the one before. Each run here is a process of its own. The timer is this program, which moves the package's
clock for tests on by five minutes, so six hours take seconds. A run that gets a 429 is killed as soon as it has told
the breaker. The clock for tests cannot play a reboot: reboot.py does, with namespaces of the kernel.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile

from figures import Figures
from provider import Provider, ask
from shared_breaker import Rejected, SharedStore, too_many_requests
from shared_breaker.testing import Clock

OUTAGE = 22_688
HELD = 75


def run(port, directory, is_guarded, clock, crashes):
    """Be one run of the job: return 0 if it was served, and 75 if it was turned away, as cbctl does."""
    call = ask
    if is_guarded:
        store = SharedStore(os.path.join(directory, "breakers.db"), lock_timeout=600, clock=clock and Clock(clock))
        call = store.breaker("feed", hold=too_many_requests)(ask)
    try:
        told = call(port, "job").status == 429
    except Rejected:
        return HELD
    if told and crashes:
        os.kill(os.getpid(), signal.SIGKILL)
    return told


def run_words(port, directory, is_guarded=True):
    """Return the command line of a run."""
    words = [sys.executable, __file__, "--run", str(port), "--directory", directory]
    return words + (["--guarded"] if is_guarded else [])


def play(every, form, is_guarded):
    """Return how often the provider has refused, and how the runs ended, the last of them after the outage."""
    with tempfile.TemporaryDirectory(prefix="shared-breaker-replay-") as directory:
        path = os.path.join(directory, "breakers.clock")
        clock = Clock(path)
        words = ("--quota", "0,1000", "--window", OUTAGE, "--tell", form, "--clock", path)
        with Provider(*words) as provider:
            words = run_words(provider.port, directory, is_guarded) + ["--clock", path, "--crashes"]
            codes = []
            while len(codes) * every < OUTAGE + every:
                codes.append(subprocess.run(words).returncode)
                clock.advance(every)
            return len(provider.refused()), codes


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=300, help="seconds between two runs")
    parser.add_argument("--run", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    parser.add_argument("--guarded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--clock", help=argparse.SUPPRESS)
    parser.add_argument("--crashes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        sys.exit(run(options.run, options.directory, options.guarded, options.clock, options.crashes))
    figures = Figures(f"A job every {options.every} s, over an outage of {OUTAGE} s that its first run is told of")
    runs = -(-OUTAGE // options.every)
    rows = [("", "runs", "told 429", "after the first", "turned away")]
    for what, form, is_guarded, expected in (
            ("without", "seconds", False, runs),
            ("SharedBreaker, Retry-After", "seconds", True, 1),
            ("SharedBreaker, the header of the case", "opensky", True, 1)):
        refused, codes = play(options.every, form, is_guarded)
        rows.append((what, runs, refused, refused - 1, codes.count(HELD)))
        figures.claim(f"{what}: requests in the outage", refused, expected=expected)
        figures.claim(f"{what}: the first run after the outage is served", codes[-1], expected=0)
        figures.claim(f"{what}: runs that were killed", codes.count(-signal.SIGKILL), expected=refused)
    figures.table(*rows)
    figures.end()


if __name__ == "__main__":
    main()
