"""Replays the job of jobs.py over a reboot, as far as a process can see one.

The store is on the host's own clocks. When the first run has ended, so has its boot: the runs after it find another
boot id, and a boot clock that has begun again. Hours later they find that clock hours later. This takes namespaces of
Linux for the time and for mounts (unshare of util-linux), and is left out where they cannot be had.

A run finds no more in /proc than that boot id, because the library would find out by the rest of /proc that its time
is that of a namespace, and use the host's.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
import uuid

from figures import Figures
from jobs import HELD, OUTAGE, run_words
from provider import Provider

SEE_A_BOOT = """
mount -t tmpfs none /proc && mkdir -p /proc/sys/kernel/random && echo "$0" >/proc/sys/kernel/random/boot_id && exec "$@"
"""
NAMESPACES = ["--mount", "--time", "--fork", "--kill-child"]


class Boot:
    """A boot of the host, with an id of its own."""

    def __init__(self, rights):
        self._id = str(uuid.uuid4())
        self._rights = rights

    def run(self, words, age):
        """Run a program when this boot is ``age`` seconds old, and return its code."""
        ahead = str(int(age - time.clock_gettime(time.CLOCK_BOOTTIME)))
        return subprocess.run(
            ["unshare", *self._rights, *NAMESPACES, "--boottime", ahead, "--monotonic", ahead, "sh", "-c",
             SEE_A_BOOT, self._id, *words], stderr=subprocess.DEVNULL if words == ["true"] else None).returncode


def rights():
    """Return the words with which unshare makes namespaces here; None if it cannot."""
    for words in ([], ["--user", "--map-root-user"]):
        try:
            if Boot(words).run(["true"], age=60) == 0:
                return words
        except FileNotFoundError:
            pass
    return None


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    figures = Figures(f"A job over a Retry-After of {OUTAGE} s and two reboots")
    words = rights()
    if words is None:
        print("left out: no namespaces for the time and for mounts can be made here")
        figures.end()
    first, second, third = Boot(words), Boot(words), Boot(words)
    rows = [("", "age of the boot", "the run", "429s until then")]
    with tempfile.TemporaryDirectory(prefix="shared-breaker-replay-") as directory:
        with Provider("--quota", 0, "--wait", OUTAGE) as provider:
            job = run_words(provider.port, directory)
            for when, boot, age, told, refused in (
                    ("before the reboot", first, 86_400, True, 1),
                    ("after the reboot", second, 60, False, 1),
                    ("three hours later", second, 3 * 3_600, False, 1),
                    ("after another reboot", third, 60, False, 1),
                    ("when the time is over", third, OUTAGE + 120, True, 2)):
                code = boot.run(job, age)
                outcome = {1: "is told 429", HELD: "is turned away"}.get(code, f"ends with {code}")
                rows.append((when, f"{age} s", outcome, len(provider.refused())))
                figures.claim(f"{when}, the run ends with", code, expected=1 if told else HELD)
                figures.claim(f"{when}, the provider has refused", len(provider.refused()), expected=refused)
    figures.table(*rows)
    figures.end()


if __name__ == "__main__":
    main()
