"""Ctrl-C keeps what was measured; a kill leaves a file that is valid and marked incomplete."""

import json
import signal
import subprocess
import time

from program import PROGRAM, SMALL, ProgramTest, clean_environment

LONG = ["bench", *SMALL, "--gpus", "1", "--rounds", "1000", "--steps", "5", "--warmup", "1", "--out", "out"]


class Interrupt(ProgramTest):
    def start(self, *arguments):
        process = subprocess.Popen(
            [PROGRAM, *LONG, *arguments], cwd=self.folder, env=clean_environment(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while not (self.folder / "out" / "result.json").exists():
            self.assertIsNone(process.poll(), "ended before its first round")
            self.assertLess(time.monotonic(), deadline, "no round was measured")
            time.sleep(0.01)
        return process

    def check_partial_result(self):
        result = self.result()
        self.assertFalse(result["complete"])
        rounds = [len(run["rounds"]) for run in result["runs"]]
        self.assertGreaterEqual(sum(rounds), 1)
        self.assertLess(max(rounds), 1000)

    def test_the_first_signal_keeps_what_was_measured(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            with self.subTest(signal=number.name):
                (self.folder / "out" / "result.json").unlink(missing_ok=True)
                process = self.start()
                process.send_signal(number)
                stdout, stderr = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, stderr)
                self.check_partial_result()
                self.assertIn("interrupted", stderr)
                self.assertTrue((self.folder / "out" / "report.html").exists())
                self.assertIn("incomplete", stdout.lower())

    def test_the_second_signal_ends_at_once(self):
        process = self.start("--inject-delay", "rank=1,phase=input,ms=60000", "--gpus", "2", "--format", "json")
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.check_partial_result()

    def test_a_kill_leaves_a_valid_file(self):
        process = self.start("--trace", "trace.json", "--format", "json")
        process.kill()
        process.communicate(timeout=20)
        self.check_partial_result()
        self.assertEqual([file.name for file in (self.folder / "out").iterdir() if ".tmp" not in file.name], ["result.json"])
        json.loads((self.folder / "trace.json").read_text())
        self.assertIn("incomplete", self.expect(0, "report", "out").stdout.lower())
