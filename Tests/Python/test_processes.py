"""Many processes on one breaker: one threshold, one trip, one probe, and exact counts."""

from __future__ import annotations

import collections
import multiprocessing
import os
import signal
import subprocess
import unittest

from shared_breaker import Rejected
from support import StoreTestCase, die_of_system_calls, eventually, fork, stop, wait_for

COUNT = """
import sys
from shared_breaker import breaker
shared = breaker("shared")
sys.stdin.readline()
for number in range(int(sys.argv[1])):
    try:
        with shared:
            if number % 10 == 0:
                raise ValueError
    except ValueError:
        pass
print("done", flush=True)
"""

TRIP = """
import sys
from shared_breaker import Rejected, breaker
shared = breaker("shared")
sys.stdin.readline()
failed = rejected = 0
for _ in range(200):
    try:
        with shared:
            failed += 1
            raise ValueError
    except ValueError:
        pass
    except Rejected:
        rejected += 1
print(failed, rejected, flush=True)
"""

PROBE = """
import sys, time
from shared_breaker import Rejected, breaker
shared = breaker("shared")
sys.stdin.readline()
probes = 0
end = time.monotonic() + 1
while time.monotonic() < end:
    try:
        with shared:
            probes += 1
            sys.stdin.readline()
    except Rejected:
        pass
print(probes, flush=True)
"""


class Processes(StoreTestCase):
    def start(self, program, count, *arguments):
        others = [self.start_python(program, *arguments) for _ in range(count)]
        for other in others:
            other.stdin.write("\n")
        for other in others:
            other.stdin.flush()
        return others

    def test_sixteen_processes_count_exactly(self):
        self.store.breaker("shared", max_failures=1_000_000)
        others = self.start(COUNT, 16, "500")
        swift = self.start_cbctl()
        for other in others:
            self.assertEqual(other.stdout.readline(), "done\n")
            other.stdin.close()
            self.assertEqual(other.wait(60), 0)
        for other in swift:
            self.assertEqual(other.wait(60), 0)
        totals = self.totals("shared")
        self.assertEqual(
            (totals["successes"], totals["failures"]), (16 * 450 + 10 * len(swift), 16 * 50))

    @unittest.skipIf(os.environ.get("PYTHONMALLOC"), "AddressSanitizer asks the system for memory")
    def test_healthy_calls_of_sixteen_processes_neither_write_nor_wait(self):
        calls = 1_000

        def work(fails=False):
            begin.acquire()
            for _ in range(10):
                self.call_in_every_way(guarded)
            if not die_of_system_calls():
                return 77
            for _ in range(calls):
                self.call_in_every_way(guarded)
            if fails:
                self.let_fail(self.shared)
            return 0

        for policy in ("max-failures=3", "failure-rate=50% window=1m", "failure-rate=50% last=100"):
            with self.subTest(policy):
                self.shared = self.store.breaker(f"shared {policy}", policy)
                guarded = self.shared(int)
                self.shared.call(int)
                begin = multiprocessing.Semaphore(0)
                children = [fork(work) for _ in range(16)]
                for _ in children:
                    begin.release()
                codes = {wait_for(child) for child in children}
                if codes == {77}:
                    self.skipTest("the kernel has no seccomp filters")
                self.assertEqual(codes, {0})
                self.shared.acquire().report()
                total = 2 + 16 * 4 * (calls + 10)
                self.assertEqual(self.totals(self.shared.name)["successes"], total)
        # And the kernel would have killed a child that writes.
        begin.release()
        self.assertEqual(wait_for(fork(lambda: work(fails=True))), -signal.SIGSYS)

    def call_in_every_way(self, guarded):
        # Not in a loop, whose calls once a second let a thread look at the file.
        with self.shared:
            pass
        guarded()
        self.shared.call(int)
        self.shared.acquire().report()

    def start_cbctl(self):
        """Start processes with Swift inside, of which each makes ten calls, if there is a cbctl."""
        if not os.environ.get("CBCTL"):
            return []
        environment = {**os.environ, "SHARED_BREAKER_STORE": self.path}
        loop = 'set -e; for n in 1 2 3 4 5 6 7 8 9 10; do "$CBCTL" run shared -- true; done'
        swift = [subprocess.Popen(["sh", "-c", loop], env=environment) for _ in range(4)]
        for process in swift:
            self.addCleanup(stop, process)
        return swift

    def test_sixteen_processes_share_one_threshold_and_trip_once(self):
        self.store.breaker("shared", max_failures=5, open_for=3600)
        others = self.start(TRIP, 16)
        failed = rejected = 0
        for other in others:
            numbers = [int(word) for word in other.stdout.readline().split()]
            failed += numbers[0]
            rejected += numbers[1]
        self.assertEqual(failed + rejected, 16 * 200)
        snapshot = self.store.snapshot("shared")
        self.assertEqual(snapshot["trips"], 1)
        # Five open it; what was under way at that moment may fail too.
        self.assertGreaterEqual(failed, 5)
        self.assertLess(failed, 5 + 16)
        self.assertEqual(snapshot["totals"]["failures"], failed)

    def test_sixteen_processes_make_one_probe(self):
        shared = self.store.breaker("shared", max_failures=5, probe_timeout=3600)
        shared.trip(0.001)
        others = self.start(PROBE, 16)
        self.printed = collections.defaultdict(str)
        eventually(lambda: self.store.snapshot("shared")["state"] == "half_open")
        for _ in range(100):
            with self.assertRaises(Rejected):
                shared.call(int)
        finished = eventually(lambda: self.finished(others, 15))
        self.assertEqual(finished, ["0"] * 15)
        self.assertEqual(self.store.snapshot("shared")["state"], "half_open")

    def finished(self, others, count):
        """Return what those have printed that have no probe, once they have all printed."""
        for other in others:
            descriptor = other.stdout.fileno()
            os.set_blocking(descriptor, False)
            try:
                # Without the file object, which may hand out parts of a line.
                self.printed[other.pid] += os.read(descriptor, 100).decode()
            except BlockingIOError:
                pass
        lines = [text.strip() for text in self.printed.values() if text.endswith("\n")]
        return lines if len(lines) == count else None

    @unittest.skipUnless(os.environ.get("CBCTL"), "there is no cbctl: build it, or set CBCTL")
    def test_cbctl_and_python_use_the_same_breakers(self):
        cbctl = os.environ["CBCTL"]
        environment = {**os.environ, "SHARED_BREAKER_STORE": self.path}

        def run(*words):
            return subprocess.run(
                [cbctl, *words], env=environment, capture_output=True, text=True, timeout=60)

        shared = self.store.breaker("shared", max_failures=3)
        self.let_fail(shared)
        for _ in range(2):
            self.assertEqual(run("run", "shared", "--", "false").returncode, 1)
        with self.assertRaises(Rejected):
            shared.call(int)
        self.assertEqual(run("check", "shared").returncode, 75)
        self.assertEqual(run("reset", "shared").returncode, 0)
        self.assertEqual(shared.call(int), 0)
        token = run("acquire", "shared").stdout.strip()
        self.assertEqual(self.store.report(token, "failure"), "counted")
        self.assertIn("shared", run("status").stdout)


if __name__ == "__main__":
    unittest.main()
