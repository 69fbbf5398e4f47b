"""Many processes on one breaker: one threshold, one trip, one probe, and exact counts."""

from __future__ import annotations

import collections
import contextlib
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
for _ in range(int(sys.argv[1])):
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

# Each tries once more when it is told to stop, so that all have tried while another has the probe.
PROBE = """
import os, sys, time
from shared_breaker import Rejected, breaker
shared = breaker("shared")
sys.stdin.readline()
probes = 0
stopping = False
while not stopping and not probes:
    stopping = os.path.exists(sys.argv[1])
    try:
        with shared:
            probes += 1
            sys.stdin.readline()
    except Rejected:
        time.sleep(0.001)
print(probes, flush=True)
"""

# A count with Swift inside: exit code 75 of cbctl is a rejection.
COUNT_BY_CBCTL = """
read -r begin
"$CBCTL" run shared -- true && "$CBCTL" run shared -- true || exit
"$CBCTL" run shared -- false
[ $? -eq 1 ] && echo done
"""

TRIP_BY_CBCTL = """
read -r begin
failed=0 rejected=0
for number in $(seq "$1"); do
  "$CBCTL" run shared -- false 2>/dev/null
  case $? in
    1) failed=$((failed + 1)) ;;
    75) rejected=$((rejected + 1)) ;;
  esac
done
echo $failed $rejected
"""

PROBE_BY_CBCTL = """
read -r begin
probes=0 stopping=
while [ -z "$stopping" ] && [ $probes = 0 ]; do
  [ ! -e "$1" ] || stopping=yes
  "$CBCTL" run shared -- sh -c 'read -r end' 2>/dev/null && probes=1
done
echo $probes
"""


class Processes(StoreTestCase):
    def setUp(self):
        super().setUp()
        # Creates the file, so that what this process declares is in force before its first call.
        self.store.snapshot("shared")

    def start(self, program, by_cbctl, *arguments):
        """Start sixteen processes of Python and, if there is a cbctl, sixteen that run it."""
        others = [self.start_python(program, *arguments) for _ in range(16)]
        if os.environ.get("CBCTL"):
            others += [self.start_shell(by_cbctl, *arguments) for _ in range(16)]
        self.give_line(others)
        return others

    def give_line(self, others):
        """Give a line to those that are still there."""
        for other in others:
            with contextlib.suppress(BrokenPipeError):
                os.write(other.stdin.fileno(), b"\n")

    def test_sixteen_processes_count_exactly(self):
        self.store.breaker("shared", max_failures=1_000_000)
        others = self.start(COUNT, COUNT_BY_CBCTL, "500")
        for other in others:
            self.assertEqual(other.stdout.readline(), "done\n")
            other.stdin.close()
            self.assertEqual(other.wait(60), 0)
        swift = len(others) - 16
        totals = self.totals("shared")
        self.assertEqual(
            (totals["successes"], totals["failures"]), (16 * 450 + 2 * swift, 16 * 50 + swift))

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

    def start_shell(self, program, *arguments):
        """Start a shell with a program, with pipes."""
        environment = {**os.environ, "SHARED_BREAKER_STORE": self.path}
        process = subprocess.Popen(
            ["sh", "-c", program, "sh", *arguments], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(stop, process)
        return process

    def test_sixteen_processes_share_one_threshold_and_trip_once(self):
        others = [self.start_python(TRIP, "200") for _ in range(16)]
        self.check_trip(others, threshold=5, calls=200)

    @unittest.skipUnless(os.environ.get("CBCTL"), "there is no cbctl: build it, or set CBCTL")
    def test_python_and_cbctl_together_trip_a_breaker_once_that_neither_could_trip_alone(self):
        others = [self.start_python(TRIP, "2") for _ in range(16)]
        others += [self.start_shell(TRIP_BY_CBCTL, "2") for _ in range(16)]
        self.check_trip(others, threshold=40, calls=2)

    def check_trip(self, others, threshold, calls):
        self.store.breaker("shared", max_failures=threshold, open_for=3600)
        self.give_line(others)
        failed = rejected = 0
        for other in others:
            numbers = [int(word) for word in other.stdout.readline().split()]
            failed += numbers[0]
            rejected += numbers[1]
        self.assertEqual(failed + rejected, len(others) * calls)
        snapshot = self.store.snapshot("shared")
        self.assertEqual((snapshot["state"], snapshot["trips"]), ("open", 1))
        # So many open it; what was under way at that moment may fail too.
        self.assertGreaterEqual(failed, threshold)
        self.assertLess(failed, threshold + len(others))
        self.assertEqual(snapshot["totals"]["failures"], failed)

    def test_sixteen_processes_make_one_probe(self):
        shared = self.store.breaker("shared", max_failures=5, probe_timeout=3600)
        stopped = os.path.join(self.directory, "stopped")
        # Long enough that many of them wait for it.
        shared.trip(0.3)
        others = self.start(PROBE, PROBE_BY_CBCTL, stopped)
        self.printed = collections.defaultdict(str)
        eventually(lambda: self.store.snapshot("shared")["state"] == "half_open")
        for _ in range(100):
            with self.assertRaises(Rejected):
                shared.call(int)
        open(stopped, "x").close()
        finished = eventually(lambda: self.finished(others, len(others) - 1))
        self.assertEqual(finished, ["0"] * (len(others) - 1))
        self.assertEqual(self.store.snapshot("shared")["state"], "half_open")
        self.give_line(others)
        finished = eventually(lambda: self.finished(others, len(others)))
        self.assertEqual(sorted(finished)[-2:], ["0", "1"])
        self.assertEqual(self.store.snapshot("shared")["state"], "closed")

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
