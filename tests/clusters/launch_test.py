"""`dtrain launch`: what it starts, shows, answers with, and leaves behind."""

import os
import re
import signal
import unittest

from job import BENCH, ENDLESS, FEW_STEPS, JobTest, knows_multi_worker
from program import PLAIN, SMALL

ONE_MACHINE = ["bench", *SMALL, "--replicas", "1", *FEW_STEPS, PLAIN, "--out", "out"]
MULTI = unittest.skipUnless(knows_multi_worker(), "this program does not know the strategy multi-worker")

# (words that the two lines must hold, arguments after `launch`)
BAD = [
    (["--", "launch"], []),
    (["needs `--`"], ["--workers", "2"]),
    (["needs `--`", "bench"], ["--workers", "2", "bench", "--strategy", "multi-worker"]),
    (["no command"], ["--workers", "2", "--"]),
    (["--workers is missing"], ["--", "bench"]),
    (["--workers", "'0'"], ["--workers", "0", "--", "bench"]),
    (["--workers", "'-1'"], ["--workers", "-1", "--", "bench"]),
    (["--workers", "'5000'", "100"], ["--workers", "5000", "--", "bench"]),
    (["--workers", "'two'"], ["--workers", "two", "--", "bench"]),
    (["--ps", "'-1'"], ["--workers", "2", "--ps", "-1", "--", "bench"]),
    (["--restarts", "'-1'"], ["--workers", "2", "--restarts", "-1", "--", "bench"]),
    (["--timeout", "'soon'"], ["--workers", "2", "--timeout", "soon", "--", "bench"]),
    (["'--worker'", "'--workers'"], ["--worker", "2", "--", "bench"]),
    (["`dtrain info` does not run on workers", "bench"], ["--workers", "2", "--", "info"]),
    (["`dtrain data` does not run on workers"], ["--workers", "2", "--", "data", "fetch"]),
    (["`dtrain launch` does not run on workers"], ["--workers", "2", "--", "launch", "--workers", "2", "--", "bench"]),
    (["'bnech'", "did you mean 'bench'"], ["--workers", "2", "--", "bnech"]),
    (["'--stps'", "'--steps'"], ["--workers", "2", "--", "bench", "--stps", "3"]),
    (["--steps", "'0'"], ["--workers", "2", "--", "bench", "--steps", "0"]),
    (["--host", "192.0.2.1", "not an address of this machine"], ["--workers", "2", "--host", "192.0.2.1", "--", "bench"]),
]


class Usage(JobTest):
    def test_bad_input_is_refused_before_anything_is_started(self):
        for words, arguments in BAD:
            with self.subTest(arguments=arguments):
                self.expect_error(2, words, "launch", *arguments)
        self.assertFalse((self.folder / "out").exists())

    def test_logs_that_cannot_be_written_are_found_out_first(self):
        (self.folder / "file").touch()
        self.expect_error(3, ["file", "--log-dir"], "launch", "--workers", "2", "--log-dir", "file/logs", "--", "bench")

    def test_help_of_the_command_behind_it(self):
        direct = self.expect(0, "bench", "--help").stdout
        self.assertEqual(self.expect(0, "launch", "--workers", "2", "--", "bench", "--help").stdout, direct)


class OneProcess(JobTest):
    def test_the_report_comes_as_from_the_command_alone(self):
        shown = [*ONE_MACHINE, "--format", "console,json"]
        alone = self.expect(0, *shown).stdout
        launched = self.expect(0, "launch", "--workers", "1", "--", *shown).stdout
        self.assertTrue(self.result()["complete"])
        self.assertEqual(launched.splitlines()[:8], alone.splitlines()[:8])
        self.assertIn("Scaling", launched)

    def test_says_who_listens_where_and_how_each_ended(self):
        done = self.expect(0, "launch", "--workers", "1", "--", *ONE_MACHINE)
        self.assertRegex(done.stderr, r"(?m)^ +0  worker 0 +127\.0\.0\.1:\d+ +\d+  out/logs/worker-0\.log$")
        self.assertRegex(done.stderr, r"(?m)^worker 0 +ended with exit code 0 after ")
        self.assertIn("-- worker 0 ended with exit code 0", (self.folder / "out/logs/worker-0.log").read_text())

    def test_quiet_leaves_what_the_workers_write(self):
        done = self.expect(0, "launch", "--workers", "1", "--quiet", "--log-dir", "logs", "--", *ONE_MACHINE, "--quiet")
        self.assertEqual([line for line in done.stderr.splitlines() if "warning: " not in line], [])
        self.assertTrue((self.folder / "logs/worker-0.log").exists())

    def test_variables_of_other_launchers_do_not_matter(self):
        others = {"RANK": "1", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "3", "PMI_RANK": "x", "TF_CONFIG": "{"}
        self.expect(0, "launch", "--workers", "1", "--", *ONE_MACHINE, environment=others)

    def test_an_exit_code_comes_through(self):
        missing = [*ONE_MACHINE, "--data", "nowhere"]
        done = self.expect(4, "launch", "--workers", "1", "--", *missing)
        self.assertRegex(done.stderr, r"error: worker 0 ended with exit code 4 \(data or result file\)\n  -> .*worker-0\.log")


class SaidOnce(JobTest):
    def test_a_strategy_of_one_machine_is_refused_once(self):
        done = self.expect(2, "launch", "--workers", "3", "--ps", "1", "--", *ONE_MACHINE)
        errors = [line for line in done.stderr.splitlines() if re.match(r"\[\w+ \d\] error: ", line)]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn("strategy", errors[0])
        self.assertIn("said by 3 more", done.stderr)
        for log in ["worker-0", "worker-1", "worker-2", "ps-0"]:
            self.assertIn("error: ", (self.folder / f"out/logs/{log}.log").read_text())


@MULTI
class Workers(JobTest):
    def test_two_workers_measure_together(self):
        running = self.launch(2, *BENCH)
        self.expect_end(running, 0)
        result = self.result()
        self.assertTrue(result["complete"])
        self.assertEqual(max(run["replicas"] for run in result["runs"]), 2)
        self.assertNotIn("[worker", running.out)

    def test_a_chief_is_a_worker_too(self):
        running = self.launch(2, *BENCH, flags=["--chief"])
        self.expect_end(running, 0)
        self.assertRegex(running.error, r"(?m)^ +0  chief 0 .*chief-0\.log$")
        self.assertRegex(running.error, r"(?m)^ +1  worker 0 .*worker-0\.log$")
        self.assertEqual(max(run["replicas"] for run in self.result()["runs"]), 2)

    def test_two_jobs_at_once_do_not_meet(self):
        jobs = [self.launch(2, *BENCH, "--out", f"out{i}", name=f"job{i}") for i in range(2)]
        for i, job in enumerate(jobs):
            self.expect_end(job, 0, 90)
            self.assertTrue(self.result(f"out{i}")["complete"])

    def test_a_proxy_does_not_come_between_workers(self):
        proxy = {name: "http://127.0.0.1:9" for name in ["http_proxy", "https_proxy", "grpc_proxy"]}
        self.expect_end(self.launch(2, *BENCH, environment=proxy), 0)

    def test_the_token_is_told_to_nobody(self):
        running = self.launch(2, *ENDLESS)
        self.wait_for_steps(2, running)
        worker = next(process for process in running.processes() if process != running.id)
        with open(f"/proc/{worker}/environ", "rb") as variables:
            token = dict(one.split(b"=", 1) for one in variables.read().split(b"\0") if b"=" in one)[b"DTRAIN_JOB_TOKEN"]
        running.send(signal.SIGINT)
        self.expect_end(running, 130)
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        self.assertGreaterEqual(len(files), 5)
        for file in files:
            self.assertNotIn(token, file.read_bytes(), file)

    def test_an_interruption_keeps_what_was_measured(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            with self.subTest(signal=number.name):
                (self.folder / "out/result.json").unlink(missing_ok=True)
                running = self.launch(2, *ENDLESS)
                self.wait_for_steps(2, running)
                running.send(number)
                self.expect_end(running, 130)
                self.assertFalse(self.result()["complete"])
                self.assertIn("interrupted", running.error)

    def test_a_second_signal_ends_at_once(self):
        running = self.launch(2, *ENDLESS, "--inject-delay", "rank=1,phase=input,ms=60000")
        self.wait_for_steps(1, running)
        running.send(signal.SIGINT)
        self.wait_for("the first signal to be seen", lambda: self.sees_signal(running), 20, running)
        running.send(signal.SIGINT)
        self.expect_end(running, 130, 20)

    @staticmethod
    def sees_signal(running):
        with open(f"/proc/{running.id}/status") as status:
            pending = next(line for line in status if line.startswith("ShdPnd:"))
        return int(pending.split()[1], 16) == 0

    def test_workers_die_with_a_launch_that_is_killed(self):
        running = self.launch(3, *ENDLESS, "--replicas", "3")
        self.wait_for_steps(3, running)
        self.assertEqual(len(running.processes()), 4)
        os.kill(running.id, signal.SIGKILL)
        running.wait(10)
        self.expect_nothing_left(running)


if __name__ == "__main__":
    unittest.main()
