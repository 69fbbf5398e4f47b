"""The store: reading and changing breakers, following, hooks, listeners, and failures of the store."""

from __future__ import annotations

import asyncio
import gc
import grp
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

import shared_breaker
from shared_breaker import (
    Breaker,
    InvalidName,
    InvalidPolicy,
    Rejected,
    SharedStore,
    StoreError,
    pybreaker,
)
from shared_breaker._aio import in_thread
from shared_breaker._extension import Hook
from shared_breaker._judge import Judge
from shared_breaker.testing import Host
from support import HOLD_THE_STORE, Resource, StoreTestCase, eventually, in_child, threads


class Looking(StoreTestCase):
    def test_a_snapshot_is_the_document_of_cbctl(self):
        # A snapshot says how long its states have lasted, so no time passes between two of them.
        with Host(self.directory) as host:
            payments = host.store.breaker("payments", max_failures=3)
            self.let_fail(payments)
            host.clock.advance(5)
            snapshot = payments.snapshot()
            self.assertEqual(snapshot["name"], "payments")
            self.assertEqual(snapshot["consecutive_failures"], 1)
            self.assertEqual(snapshot["last_error"], "Resource: down")
            self.assertEqual(snapshot["time_in_state_ms"]["closed"], 5_000)
            self.assertEqual(host.store.snapshot("payments"), snapshot)
            self.assertIsNone(host.store.snapshot("orders"))

    def test_breakers_are_listed_by_the_beginning_of_their_names(self):
        for name in ("b/2", "a", "b/1"):
            self.store.breaker(name, max_failures=3)
        self.assertEqual([one["name"] for one in self.store.snapshots("b/")], ["b/1", "b/2"])
        self.assertEqual(len(self.store.snapshots()), 3)

    def test_the_history_can_be_read_in_parts(self):
        payments = self.store.breaker("payments", max_failures=1)
        self.let_fail(payments)
        payments.reset("repaired")
        history = self.store.history("payments")
        changes = [(one["from"], one["to"]) for one in history if one["kind"] == "transition"]
        self.assertEqual(changes[0], ("closed", "open"))
        self.assertEqual(history[-1]["reason"], "repaired")
        self.assertEqual(history[-1]["by"]["pid"], os.getpid())
        self.assertEqual(self.store.history("payments", after=history[-1]["id"]), [])
        self.assertEqual(len(self.store.history("payments", limit=1)), 1)

    def test_trip_reset_and_force_hold_for_every_process(self):
        program = """
import sys
from shared_breaker import Rejected, breaker
payments = breaker("payments")
for line in sys.stdin:
    try:
        print(payments.call(lambda: "permitted"), flush=True)
    except Rejected as rejected:
        print(rejected.mode, rejected.reason, flush=True)
"""
        payments = self.store.breaker("payments", max_failures=3)
        other = self.start_python(program)

        def ask():
            other.stdin.write("\n")
            other.stdin.flush()
            return other.stdout.readline().strip()

        self.assertEqual(ask(), "permitted")
        payments.trip(60, "maintenance")
        self.assertEqual(ask(), "automatic maintenance")
        payments.reset()
        self.assertEqual(ask(), "permitted")
        payments.force("forced_open", 60, "maintenance")
        self.assertEqual(ask(), "forced_open maintenance")
        payments.force("automatic")
        self.assertEqual(ask(), "permitted")

    def test_a_hold_is_no_failure_and_holds_for_every_process(self):
        program = """
import sys
from shared_breaker import Rejected, breaker
payments = breaker("payments")
for line in sys.stdin:
    try:
        print(payments.call(lambda: "permitted"), flush=True)
    except Rejected as rejected:
        print(rejected.cause, rejected.state, rejected.reason, flush=True)
"""
        payments = self.store.breaker("payments", max_failures=1)
        other = self.start_python(program)

        def ask():
            other.stdin.write("\n")
            other.stdin.flush()
            return other.stdout.readline().strip()

        self.assertEqual(ask(), "permitted")
        payments.hold(60, "quota used up")
        self.assertEqual(ask(), "held closed quota used up")
        payments.hold(1)
        self.assertGreater(payments.snapshot()["hold"]["ends_in_ms"], 50_000)
        payments.end_hold("quota raised")
        payments.end_hold()
        self.assertEqual(ask(), "permitted")
        self.assertEqual(payments.acquire().report("hold", "HTTP 429", hold_for=30), "counted")
        self.assertEqual(ask(), "held closed None")
        with self.assertRaisesRegex(Rejected, "has asked to be left alone: try again in "):
            payments.call(int)
        self.assertEqual(payments.snapshot()["totals"]["failures"], 0)
        payments.reset()
        token = payments.acquire_token()
        self.assertEqual(self.store.report(token, "hold", hold_for=30), "counted")
        self.assertEqual(ask(), "held closed None")

    def test_a_time_has_to_be_that_of_its_outcome(self):
        payments = self.store.breaker("payments")
        with self.assertRaisesRegex(ValueError, "hold_for"):
            payments.acquire().report("failure", hold_for=30)
        with self.assertRaisesRegex(ValueError, "hold_for"):
            payments.acquire().report("hold", open_for=30)

    def test_an_unknown_mode_is_refused(self):
        with self.assertRaisesRegex(ValueError, "observe"):
            self.store.breaker("payments").force("open")

    def test_the_version_is_that_of_the_library(self):
        self.assertRegex(shared_breaker.__version__, r"^\d+\.\d+\.\d+")


class Following(StoreTestCase):
    def test_a_follower_is_woken_by_another_process(self):
        self.store.breaker("payments", max_failures=3)
        with self.store.follow("payments") as follower:
            self.run_python("from shared_breaker import breaker; breaker('payments').trip()")
            entry = next(entry for entry in follower if entry["kind"] == "transition")
        self.assertEqual((entry["name"], entry["to"]), ("payments", "open"))
        self.assertNotEqual(entry["by"]["pid"], os.getpid())

    def test_a_follower_in_a_loop_is_woken_by_another_process(self):
        payments = self.store.breaker("payments", max_failures=3)

        async def main():
            follower = self.store.follow()
            tripping = asyncio.create_task(asyncio.to_thread(
                self.run_python, "from shared_breaker import breaker; breaker('payments').trip()"))
            async for entry in follower:
                if entry["kind"] == "transition":
                    break
            follower.close()
            await tripping
            return entry

        self.assertEqual(asyncio.run(main())["to"], "open")
        self.assertEqual(payments.state, "open")

    def test_a_follower_can_begin_after_an_entry(self):
        payments = self.store.breaker("payments", max_failures=3)
        payments.trip()
        first = self.store.history("payments")[0]["id"]
        with self.store.follow("payments", after=first - 1) as follower:
            self.assertEqual(next(follower)["id"], first)

    def test_a_closed_follower_ends(self):
        follower = self.store.follow()
        follower.close()
        self.assertEqual(list(follower), [])

    def wait_in_thread(self, follower):
        """Start to follow where nothing happens; return the thread, and what will have come of it."""
        came = []

        def follow():
            try:
                came.append(list(follower))
            except BaseException as error:
                came.append(error)

        thread = threading.Thread(target=follow)
        thread.start()
        eventually(lambda: follower._bell._waiters)
        return thread, came

    def test_closing_a_follower_ends_it_in_a_thread_that_waits(self):
        follower = self.store.follow()
        thread, came = self.wait_in_thread(follower)
        follower.close()
        thread.join()
        self.assertEqual(came, [[]])

    def test_closing_a_follower_ends_it_in_a_task_that_waits_and_mistakes_no_other_file_for_its_own(self):
        async def main():
            follower = self.store.follow()

            async def follow():
                return [entry async for entry in follower]

            task = asyncio.create_task(follow())
            while not follower._bell._waiters:
                await asyncio.sleep(0)
            follower.close()
            # Its ends would get the numbers of descriptors that were closed.
            ours, theirs = socket.socketpair()
            with ours, theirs:
                read = asyncio.Event()
                loop = asyncio.get_running_loop()
                for end in (ours, theirs):
                    end.setblocking(False)
                    loop.add_reader(end, read.set)
                self.assertEqual(await task, [])
                theirs.send(b"news")
                await asyncio.wait_for(read.wait(), 30)
                for end in (ours, theirs):
                    loop.remove_reader(end)

        asyncio.run(main())

    def test_a_closed_follower_holds_no_descriptor(self):
        gc.collect()  # what other tests have left
        before = len(os.listdir("/proc/self/fd"))
        follower = self.store.follow()
        self.assertGreater(len(os.listdir("/proc/self/fd")), before)
        self.store.close()
        follower.close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_closing_the_store_ends_its_followers(self):
        follower = self.store.follow()
        thread, came = self.wait_in_thread(follower)
        self.store.close()
        thread.join()
        self.assertEqual(came, [[]])

        async def main():
            store = SharedStore(self.path)
            follower = store.follow()
            asyncio.get_running_loop().call_later(0.01, store.close)
            return [entry async for entry in follower]

        self.assertEqual(asyncio.run(main()), [])

    def test_a_child_of_a_fork_that_closes_its_follower_leaves_its_parents_alone(self):
        payments = self.store.breaker("payments", max_failures=3)
        follower = self.store.follow("payments")
        self.assertEqual(in_child(follower.close), 0)
        payments.trip()
        self.assertEqual(next(e for e in follower if e["kind"] == "transition")["to"], "open")
        follower.close()

    def test_a_child_of_a_fork_goes_on_following(self):
        payments = self.store.breaker("payments", max_failures=3)
        follower = self.store.follow("payments")

        def child():
            payments.trip()
            return 0 if next(e for e in follower if e["kind"] == "transition") else 1

        self.assertEqual(in_child(child), 0)
        self.assertEqual(next(e for e in follower if e["kind"] == "transition")["to"], "open")
        follower.close()


class Hooks(StoreTestCase):
    PROGRAM = """
import sys, threading
from shared_breaker import default_store
stop = threading.Event()
def handle(entry):
    print(entry["id"], entry["kind"], flush=True)
threading.Thread(target=default_store().handle, args=("pager", handle), daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
"""

    def test_a_hook_handles_each_entry_in_one_process(self):
        payments = self.store.breaker("payments", max_failures=3)
        seen = []
        stop = threading.Event()
        workers = [
            threading.Thread(
                target=self.store.handle, args=("pager", seen.append), kwargs={"stop": stop})
            for _ in range(2)]
        for worker in workers:
            worker.start()
        others = [self.start_python(self.PROGRAM) for _ in range(2)]
        for other in others:
            self.assertEqual(other.stdout.readline(), "ready\n")
        # Handling begins with what happens after a hook has begun.
        eventually(lambda: payments.trip() or seen or self.printed(others))
        for _ in range(20):
            payments.reset()
            payments.trip()
        last = self.store.history("payments")[-1]["id"]
        ids = set()

        def all_are_handled():
            for line in self.printed(others):
                ids.add(int(line.split()[0]))
            return last in ids | {entry["id"] for entry in seen}

        lines = []
        self.lines = lines
        eventually(all_are_handled)
        stop.set()
        for worker in workers:
            worker.join()
        ours = [entry["id"] for entry in seen]
        self.assertEqual(len(ours), len(set(ours)))
        self.assertFalse(set(ours) & ids)

    def printed(self, others):
        lines = []
        for other in others:
            os.set_blocking(other.stdout.fileno(), False)
            while line := other.stdout.readline():
                lines.append(line)
        return lines

    def test_a_hook_that_fails_is_tried_again(self):
        payments = self.store.breaker("payments", max_failures=3)
        stop = threading.Event()
        tries = []

        def handle(entry):
            tries.append(entry["id"])
            if len(tries) > 1:
                stop.set()
                return
            raise Resource("the pager is down")

        with self.assertLogs("shared_breaker", "ERROR"):
            worker = threading.Thread(
                target=self.store.handle, args=("pager", handle), kwargs={"stop": stop})
            worker.start()
            eventually(lambda: payments.reset() or payments.trip() or tries)
            worker.join(30)
        self.assertEqual(tries[0], tries[1])

    def test_hooks_end_when_their_store_is_closed(self):
        def handle(entry):
            self.fail(f"nothing has happened: {entry}")

        closing = threading.Timer(0.01, self.store.close)
        closing.start()
        try:
            self.store.handle("pager", handle)
        except StoreError as error:  # it was closed before the hook had begun
            self.assertEqual(error.code, "closed")
        closing.join()

        async def main():
            store = SharedStore(self.path)
            asyncio.get_running_loop().call_later(0.01, store.close)
            await store.handle_async("pager", handle)

        asyncio.run(main())

    def lose_the_store(self):
        """Put something that is not a store in the place of the file, as an operator might."""
        os.rename(self.path, f"{self.path}.away")
        with open(self.path, "w") as file:
            file.write("not a store\n" * 1_000)

    def test_a_hook_stops_although_it_cannot_write_the_result_of_an_entry(self):
        payments = self.store.breaker("payments", max_failures=3)
        seen, lost, stop = threading.Event(), threading.Event(), threading.Event()

        def handle(entry):
            seen.set()
            lost.wait(60)

        worker = threading.Thread(
            target=self.store.handle, args=("pager", handle), kwargs={"stop": stop}, daemon=True)
        with self.assertLogs("shared_breaker", "WARNING"):
            worker.start()
            eventually(lambda: payments.reset() or payments.trip() or seen.wait(0.01))
            self.lose_the_store()
            lost.set()
            stop.set()
            worker.join(60)
        self.assertFalse(worker.is_alive())

    def test_hooks_in_a_loop_that_wait_for_the_store_leave_its_threads_to_calls(self):
        payments = self.store.breaker("payments", max_failures=3)

        async def main():
            handled, lost = [], asyncio.Event()

            async def handle(entry):
                handled.append(entry)
                await lost.wait()

            tasks = [
                asyncio.create_task(self.store.handle_async(f"pager {number}", handle))
                for number in range(4)]
            while len(handled) < 4:
                await asyncio.to_thread(lambda: payments.reset() or payments.trip())
            self.lose_the_store()
            lost.set()
            # There are four threads for what may wait.
            for _ in range(20):
                await asyncio.wait_for(in_thread(int), 60)
                await asyncio.sleep(0.01)
            self.assertEqual([task for task in tasks if task.done()], [])
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with self.assertLogs("shared_breaker", "WARNING"):
            asyncio.run(main())

    def test_an_exception_of_a_signal_handler_ends_a_hook(self):
        class Shutdown(Exception):
            pass

        def shut_down(number, frame):
            raise Shutdown

        before = signal.signal(signal.SIGUSR1, shut_down)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        payments = self.store.breaker("payments", max_failures=3)
        calls = threading.Event()

        def call():
            while not calls.wait(0.01):
                payments.reset()
                payments.trip()

        caller = threading.Thread(target=call)
        caller.start()
        try:
            with self.assertRaises(Shutdown):
                self.store.handle("pager", lambda entry: signal.raise_signal(signal.SIGUSR1))
        finally:
            calls.set()
            caller.join()

    def test_a_hook_that_is_freed_lets_other_threads_run_while_it_waits_for_the_store(self):
        store = SharedStore(self.path, lock_timeout=30)
        self.addCleanup(store.close)
        payments = store.breaker("payments", max_failures=3)
        hook = Hook(store, "pager", None, 0, 0)
        eventually(lambda: payments.reset() or payments.trip() or hook.take()[0])
        holder = self.start_python(HOLD_THE_STORE, self.path)
        self.assertEqual(holder.stdout.readline(), "held\n")
        freeing = threading.Event()

        def let_go():
            freeing.wait(60)
            time.sleep(0.1)  # so that most likely the hook waits by now
            holder.stdin.close()

        thread = threading.Thread(target=let_go)
        thread.start()
        freeing.set()
        del hook
        thread.join()
        holder.wait()
        # It was given back, so no process has to wait for the end of its minute.
        self.assertIsNotNone(Hook(store, "pager", None, 0, 0).take()[0])

    def test_a_hook_in_a_loop_ends_with_its_task(self):
        payments = self.store.breaker("payments", max_failures=3)

        async def main():
            seen = asyncio.Event()

            async def handle(entry):
                seen.set()

            task = asyncio.create_task(self.store.handle_async("pager", handle))
            while not seen.is_set():
                await asyncio.to_thread(payments.trip)
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())


class Overtaken(Breaker):
    """A breaker of which other threads do something while this one looks at its state."""

    def __new__(cls, *arguments):
        self = super().__new__(cls, *arguments)
        self.meanwhile = []
        return self

    @property
    def state(self):
        state = super().state
        if self.meanwhile:
            thread = threading.Thread(target=self.meanwhile.pop())
            thread.start()
            thread.join()
        return state


class Listening(StoreTestCase):
    def test_a_listener_is_told_of_changes_by_its_own_calls(self):
        payments = self.store.breaker("payments", max_failures=1, open_for=0.001)
        events = []
        payments.listen(events.append)
        self.let_fail(payments)
        eventually(lambda: self.succeeds(payments))
        changes = [(event.before, event.after) for event in events]
        self.assertEqual(
            changes, [("closed", "open"), ("open", "half_open"), ("half_open", "closed")])
        self.assertEqual({event.name for event in events}, {"payments"})

    def succeeds(self, breaker):
        try:
            breaker.call(int)
            return True
        except Rejected:
            return False

    def test_the_next_call_tells_a_listener_of_changes_by_other_processes(self):
        payments = self.store.breaker("payments", max_failures=3)
        events = []
        end = self.store.listen(events.append)
        self.run_python("from shared_breaker import breaker; breaker('payments').trip()")
        with self.assertRaises(Rejected):
            payments.call(int)
        self.assertEqual([event.after for event in events], ["open"])
        end()
        payments.reset()
        self.assertEqual(len(events), 1)

    def test_listeners_hear_of_a_change_once_if_several_threads_find_it(self):
        for is_stale in (False, True):
            with self.subTest(is_stale=is_stale):
                name = f"payments-{is_stale}"
                other = self.store.breaker(name, max_failures=3)
                payments = Overtaken(self.store, name, None, 0, Judge())
                events = []
                payments.listen(events.append)

                def overtake(payments=payments, other=other, is_stale=is_stale):
                    if is_stale:
                        other.trip()
                    self.assertRaises(Rejected, payments.call, int)

                if not is_stale:
                    other.trip()
                payments.meanwhile.append(overtake)
                payments._tell()
                payments._tell()
                self.assertEqual(
                    [(event.before, event.after) for event in events], [("closed", "open")])

    def test_an_error_of_a_listener_is_logged_and_changes_nothing(self):
        payments = self.store.breaker("payments", max_failures=1)

        def broken(event):
            raise RuntimeError("no")

        payments.listen(broken)
        with self.assertLogs("shared_breaker", "ERROR"):
            self.let_fail(payments)
        self.assertEqual(payments.state, "open")

    def test_listeners_in_a_loop_run_in_its_thread(self):
        payments = self.store.breaker("payments", max_failures=1)
        idents = []
        payments.listen(lambda event: idents.append(threading.get_ident()))

        async def main():
            async with payments:
                raise Resource("down")

        with self.assertRaises(Resource):
            asyncio.run(main())
        self.assertEqual(idents, [threading.get_ident()])


class Losing(StoreTestCase):
    """The lines of the log about a store that this process can no longer use."""

    NOBODY = 65_534

    def become_nobody(self):
        os.setgroups([])
        os.setgid(self.NOBODY)
        os.setuid(self.NOBODY)

    def test_the_log_gets_one_line_when_the_store_is_lost_and_one_when_it_is_back(self):
        payments = self.store.breaker("payments", max_failures=1_000_000)
        payments.call(int)
        with self.assertLogs("shared_breaker", "INFO") as logs:
            os.rename(self.path, f"{self.path}.away")
            with open(self.path, "w") as file:
                file.write("not a store\n" * 1_000)
            eventually(lambda: self.let_fail(payments) or logs.records)
            self.let_fail(payments, times=100)
            os.replace(f"{self.path}.away", self.path)
            eventually(lambda: self.let_fail(payments) or len(logs.records) > 1)
            self.let_fail(payments, times=100)
        self.assertEqual([record.levelname for record in logs.records], ["WARNING", "INFO"])
        for record in logs.records:
            self.assertIn(self.path, record.getMessage())

    def test_a_loss_that_an_event_loop_finds_is_logged_too(self):
        store = SharedStore("/proc/no/such/directory/breakers.db")
        self.addCleanup(store.close)
        payments = store.breaker("payments", max_failures=1_000)

        async def main():
            for _ in range(10):
                async with payments:
                    await asyncio.sleep(0)
                await (await payments.acquire_async()).report_async("failure")

        with self.assertLogs("shared_breaker", "INFO") as logs:
            asyncio.run(main())
        self.assertEqual([record.levelname for record in logs.records], ["WARNING"])

    def test_each_process_of_a_fork_logs_the_loss_itself(self):
        store = SharedStore("/proc/no/such/directory/breakers.db")
        self.addCleanup(store.close)
        payments = store.breaker("payments", max_failures=1_000)

        def lose():
            with self.assertLogs("shared_breaker", "INFO") as logs:
                # Once a second a call tries the store.
                eventually(lambda: payments.call(int) or logs.records)
                self.let_fail(payments, times=100)
            self.assertEqual([record.levelname for record in logs.records], ["WARNING"])

        lose()
        self.assertEqual(in_child(lose), 0)

    def test_a_log_that_fails_leaves_calls_alone(self):
        def fail(record):
            raise Resource("the disk of the log is full")

        log = logging.getLogger("shared_breaker")
        log.addFilter(fail)
        self.addCleanup(log.removeFilter, fail)
        store = SharedStore("/proc/no/such/directory/breakers.db")
        self.addCleanup(store.close)
        self.assertEqual(store.breaker("payments").call(int), 0)

    def test_a_closed_store_is_not_a_lost_one(self):
        payments = self.store.breaker("payments", max_failures=3)
        payments.call(int)
        self.store.close()
        with self.assertNoLogs("shared_breaker"):
            self.let_fail(payments, times=5)

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_workers_of_another_user_share_a_breaker_that_their_master_declares(self):
        os.chmod(self.directory, 0o777)
        payments = self.store.breaker("payments", max_failures=5)
        self.assertEqual(os.listdir(self.directory), [])

        def work(failures):
            self.become_nobody()
            with self.assertNoLogs("shared_breaker"):
                self.let_fail(payments, times=failures)
            return 7 if self.store.snapshot("payments")["totals"]["failures"] == 4 else 0

        self.assertEqual([in_child(lambda: work(times)) for times in (3, 1)], [0, 7])
        self.assertEqual(os.stat(self.path).st_uid, self.NOBODY)
        self.let_fail(payments)
        self.assertEqual(payments.state, "open")
        self.assertEqual(self.store.snapshot("payments")["policy"]["max-failures"], 5)

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_users_of_one_group_share_a_store_that_is_open_to_the_group(self):
        os.chmod(self.directory, 0o770)
        with SharedStore(self.path, group=grp.getgrgid(0).gr_name, mode=0o660) as store:
            payments = store.breaker("payments", max_failures=2)
            self.let_fail(payments)

            def work():
                os.setgroups([0])
                os.setgid(self.NOBODY)
                os.setuid(self.NOBODY)
                self.let_fail(payments)
                return 7 if store.health == "available" else 0

            self.assertEqual(in_child(work), 7)
            self.assertEqual(payments.state, "open")

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_a_worker_that_may_not_use_the_store_logs_the_reason(self):
        os.chmod(self.directory, 0o755)
        payments = self.store.breaker("payments", max_failures=5)
        payments.call(int)  # as root, whose file no other user can use

        def work():
            self.become_nobody()
            with self.assertLogs("shared_breaker", "WARNING") as logs:
                self.let_fail(payments, times=3)
            self.assertEqual(len(logs.records), 1)
            self.assertIn(self.path, logs.records[0].getMessage())

        self.assertEqual(in_child(work), 0)

    def test_declaring_creates_no_file_but_checks_the_policy(self):
        payments = self.store.breaker("payments", max_failures=3)
        payments.listen(print)
        pybreaker.CircuitBreaker(name="database", store=self.store)
        with self.assertRaises(InvalidPolicy):
            self.store.breaker("payments", "max-failures=3 failure-rate=200%")
        self.assertFalse(os.path.exists(self.path))
        self.store.close()
        self.assertFalse(os.path.exists(self.path))

    def test_the_first_call_declares_what_was_declared_without_a_file(self):
        payments = self.store.breaker("payments", max_failures=7)
        payments.call(int)
        with SharedStore(self.path) as other:
            self.assertEqual(other.snapshot("payments")["policy"]["max-failures"], 7)
        # With a file it is declared at once.
        self.store.breaker("orders", max_failures=8)
        with SharedStore(self.path) as other:
            self.assertEqual(other.snapshot("orders")["policy"]["max-failures"], 8)


class Failing(StoreTestCase):
    def test_without_the_store_the_process_goes_on_alone(self):
        store = SharedStore("/proc/no/such/directory/breakers.db")
        self.addCleanup(store.close)
        payments = store.breaker("payments", max_failures=2)
        events = []
        store.listen(events.append)
        self.assertEqual(payments.call(int), 0)
        self.let_fail(payments, times=2)
        with self.assertRaises(Rejected):
            payments.call(int)
        self.assertNotIn(store.health, ("available", "untried"))
        self.assertIn("unavailable", [event.after for event in events])

    def test_the_action_of_calls_without_the_store_can_be_chosen(self):
        path = "/proc/no/such/directory/breakers.db"
        store = SharedStore(path, on_store_failure="raise")
        self.addCleanup(store.close)
        with self.assertRaises(StoreError) as caught:
            store.breaker("payments").call(int)
        self.assertNotEqual(caught.exception.code, "")
        self.assertEqual(store.breaker("other", on_store_failure="permit").call(int), 0)
        with self.assertRaises(Rejected) as rejected:
            store.breaker("third", on_store_failure="reject").call(int)
        self.assertRegex(str(rejected.exception), "^third is rejecting calls: the store cannot be used: try again in")

    def test_connect_says_what_is_wrong(self):
        with self.assertRaises(StoreError) as caught:
            self.store.connect(existing=True)
        self.assertEqual(caught.exception.code, "missing")
        self.store.connect()
        self.assertEqual(self.store.health, "available")
        self.assertEqual(self.store.breaker("payments").health, "shared")

    def test_a_store_is_closed_by_its_block_and_then_says_so(self):
        with SharedStore(self.path) as store:
            store.breaker("payments", max_failures=3)
        with self.assertRaises(StoreError) as caught:
            store.snapshot("payments")
        self.assertEqual(caught.exception.code, "closed")

    def test_a_closed_store_says_so_whatever_went_wrong_before(self):
        store = SharedStore(self.path)
        payments = store.breaker("payments")
        store.close()
        with self.assertRaises(InvalidName):
            self.store.breaker("")
        for closed in (store, payments):
            self.assertIn("closed", closed.health)
        with self.assertRaisesRegex(StoreError, "closed"):
            store.flush()

    def test_calls_after_the_store_was_closed_are_permitted_and_not_recorded(self):
        store = SharedStore(self.path)
        payments = store.breaker("payments", max_failures=1)
        payments.call(int)
        store.close()
        store.close()
        self.let_fail(payments, times=2)
        self.assertEqual(payments.call(int), 0)
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"]), (1, 0))
        with self.assertRaises(StoreError) as caught:
            store.flush()
        self.assertEqual(caught.exception.code, "closed")

    def test_permits_of_a_closed_store_are_granted_and_their_reports_refused_with_listeners_too(self):
        store = SharedStore(self.path)
        payments = store.breaker("payments", max_failures=1)
        payments.listen(self.fail)
        store.close()
        self.assertEqual(payments.acquire().report("failure"), "refused")

        async def main():
            return await (await payments.acquire_async()).report_async("failure")

        self.assertEqual(asyncio.run(main()), "refused")

    def test_a_flush_writes_what_a_process_has_counted_and_goes_on(self):
        # In the place of the shared counters, so that each process counts for itself.
        os.mkdir(f"{self.path}-counters")
        payments = self.store.breaker("payments", max_failures=3)

        def child():
            for _ in range(4):
                payments.call(int)
            self.store.flush()

        for _ in range(3):
            payments.call(int)
        self.assertEqual(in_child(child), 0)
        self.store.flush()
        payments.call(int)
        # Another handle knows only what was written.
        with SharedStore(self.path) as other:
            self.assertEqual(other.snapshot("payments")["totals"]["successes"], 7)
        self.store.flush()
        with SharedStore(self.path) as other:
            self.assertEqual(other.snapshot("payments")["totals"]["successes"], 8)

    def test_the_sqlite_of_the_interpreter_makes_no_difference(self):
        payments = self.store.breaker("payments", max_failures=3)
        other = sqlite3.connect(os.path.join(self.directory, "other.db"))
        other.execute("CREATE TABLE t (x)")
        self.let_fail(payments)
        other.close()
        self.assertEqual(self.totals("payments")["failures"], 1)
        self.assertRegex(shared_breaker._extension.sqlite_version(), r"^3\.")

    def test_calls_start_no_thread(self):
        before = threads()
        payments = self.store.breaker("payments", max_failures=2)
        payments.call(int)
        self.let_fail(payments, times=2)
        self.store.history()
        follower = self.store.follow()
        self.assertEqual(threads(), before)
        follower.close()

    def test_a_program_without_a_file_is_called_python(self):
        program = 'from shared_breaker import breaker; breaker("mail").trip()'
        for words in (["-c", program], ["-"]):
            with self.subTest(words[0]):
                subprocess.run(
                    [sys.executable, *words], input=program, text=True, check=True, timeout=120,
                    env={**os.environ, "SHARED_BREAKER_STORE": self.path})
                self.assertRegex(self.store.history("mail")[-1]["by"]["program"], "^python")

    def test_counts_of_a_program_are_written_when_it_ends(self):
        program = """
from shared_breaker import breaker
payments = breaker("payments", max_failures=3)
for _ in range(1_000):
    with payments:
        pass
"""
        self.run_python(program)
        self.assertEqual(self.totals("payments")["successes"], 1_000)


if __name__ == "__main__":
    unittest.main()
