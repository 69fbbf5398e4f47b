"""Helpers of the tests: a store of their own, other processes, and waiting for what has to come."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from shared_breaker import SharedStore

# Without a handler, each opening would be printed among the results.
logging.getLogger("shared_breaker").addHandler(logging.NullHandler())

# Another process that holds the store until a line comes.
HOLD_THE_STORE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
"""


class Resource(Exception):
    """The error of work whose resource has failed."""


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


class Instruction(ctypes.Structure):
    """An instruction of a filter: struct sock_filter."""

    _fields_ = [
        ("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32)]


class Filter(ctypes.Structure):
    """A filter of system calls: struct sock_fprog."""

    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


# System calls that look at a file's identity or at the time without a vDSO, and the one that ends a process.
HARMLESS_CALLS = {
    # stat, fstat, lstat, newfstatat, statx, clock_gettime, exit_group
    "x86_64": (4, 5, 6, 262, 332, 228, 231),
    "aarch64": (80, 79, 291, 113, 94),
}.get(os.uname().machine)


def die_of_system_calls():
    """Let the kernel kill this process for any system call that might read, write or wait.

    Return whether the kernel will; see seccomp(2).
    """
    if HARMLESS_CALLS is None:
        return False
    load_number, jump_if_equal, answer = 0x20, 0x15, 0x06
    permit, kill = 0x7FFF0000, 0x80000000
    count = len(HARMLESS_CALLS)
    program = [Instruction(load_number, 0, 0, 0)]
    program += [
        Instruction(jump_if_equal, count - index, 0, number)
        for index, number in enumerate(HARMLESS_CALLS)]
    program += [Instruction(answer, 0, 0, kill), Instruction(answer, 0, 0, permit)]
    instructions = (Instruction * len(program))(*program)
    set_seccomp, set_no_new_privileges, filter_mode = 22, 38, 2
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]
    if prctl(set_no_new_privileges, 1, 0, 0, 0) != 0:
        return False
    rules = Filter(len(program), instructions)
    return prctl(set_seccomp, filter_mode, ctypes.addressof(rules), 0, 0) == 0


def in_child(work):
    """Fork; return what the work returns in the child, which is a number below 100."""
    return wait_for(fork(work))


def wait_for(pid):
    """Return how a child has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork(work):
    """Fork; the child ends with the number that the work returns."""
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
    return pid
