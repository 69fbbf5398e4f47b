"""What the tests share: a store of their own, other processes, and waiting for what has to come."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from shared_breaker import SharedStore


class Resource(Exception):
    """What work raises when the resource has failed."""


class StoreTestCase(unittest.TestCase):
    """A test with a directory, and with a store in it."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="shared-breaker-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.path = os.path.join(self.directory, "breakers.db")
        self.store = SharedStore(self.path)
        self.addCleanup(self.store.close)

    def let_fail(self, breaker, times=1):
        """Let calls fail."""
        for _ in range(times):
            try:
                with breaker:
                    raise Resource("down")
            except Resource:
                pass

    def totals(self, name):
        """Return what all processes have counted."""
        return self.store.snapshot(name)["totals"]

    def run_python(self, program, *arguments, check=True, **options):
        """Run a program in another process, and return what it has printed."""
        environment = {**os.environ, "SHARED_BREAKER_STORE": self.path}
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], env=environment, text=True,
            stdout=subprocess.PIPE, timeout=120, **options)
        if check:
            self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def start_python(self, program, *arguments, **options):
        """Start a program in another process, with pipes."""
        environment = {**os.environ, "SHARED_BREAKER_STORE": self.path}
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.addCleanup(stop, process)
        return process


def stop(process):
    """End a process for good."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


def eventually(condition, seconds=30):
    """Wait until something holds, and return what it is."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"it does not come: {condition}")
        time.sleep(0.005)


def threads():
    """Return how many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def in_child(work):
    """Fork; return what the work returns in the child, which is a number below 100."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work() or 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
