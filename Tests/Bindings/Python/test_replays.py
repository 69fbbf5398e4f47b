"""The replays of Tests/Evidence/Replays in a short form, and the provider that they play against."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from shared_breaker import too_many_requests

REPLAYS = Path(__file__).parents[2] / "Evidence/Replays"


class Replays(unittest.TestCase):
    def play(self, *words):
        """Run a program of the replays to its end, and return its code and what it has printed."""
        process = subprocess.Popen(
            [sys.executable, *words], cwd=REPLAYS, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        try:
            printed, _ = process.communicate(timeout=600)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return process.returncode, printed

    def check(self, *words):
        code, printed = self.play(*words)
        self.assertEqual(code, 0, printed)
        if "left out: " in printed:
            self.skipTest(printed.partition("left out: ")[2].strip())

    def test_a_burst_costs_one_answer_and_those_of_requests_under_way(self):
        self.check("bursts.py", "--sessions", "10")

    def test_a_job_that_is_told_to_wait_for_hours_asks_no_more_meanwhile(self):
        self.check("jobs.py", "--every", "7200")

    @unittest.skipIf(os.environ.get("PYTHONMALLOC"), "AddressSanitizer needs all of /proc")
    def test_a_job_asks_no_more_after_a_reboot_either(self):
        self.check("reboot.py")

    def test_the_longest_time_that_an_answer_names_stands(self):
        self.check("deadlines.py")

    def test_in_a_blackout_only_probes_begin_once_one_process_was_turned_away(self):
        kinds = ["--kind", "one for all", "--kind", "one for all, 1 s"]
        self.check("outages.py", "--processes", "12", "--rate", "200", *kinds)

    def test_a_claim_that_does_not_hold_ends_a_replay_with_1(self):
        program = "from figures import Figures\nit = Figures('it')\nit.claim('one', 1, expected={})\nit.end()"
        for found, code in ((1, 0), (2, 1)):
            with self.subTest(found):
                self.assertEqual(self.play("-c", program.format(found))[0], code)


class Providers(unittest.TestCase):
    def setUp(self):
        sys.path.insert(0, str(REPLAYS))
        self.addCleanup(sys.path.remove, str(REPLAYS))

    def test_the_provider_serves_its_quota_and_counts_what_it_refuses(self):
        from provider import Provider, ask

        with Provider("--quota", 2, "--window", 86_400) as provider:
            statuses = [ask(provider.port, who).status for who in range(4)]
            self.assertEqual(statuses, [200, 200, 429, 429])
            self.assertEqual([one["who"] for one in provider.refused()], ["2", "3"])

    def test_the_provider_names_a_time_in_forms_that_are_understood(self):
        from provider import FORMS, Provider, ask

        found = {}
        for form in FORMS:
            with Provider("--quota", 0, "--wait", "20,nothing", "--tell", form) as provider:
                found[form] = [too_many_requests(ask(provider.port, "caller")) for _ in range(2)]
        # A date has whole seconds, and may be told late.
        self.assertTrue(0 < found["date"][0] <= 21, found["date"])
        for form in ("seconds", "milliseconds", "reset"):
            self.assertEqual(found[form], [20, 0], form)
        self.assertEqual(found["nothing"], [0, 0])
