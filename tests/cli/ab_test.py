"""Two builds, or two configurations, run in turns."""

import json
import signal
import subprocess
import time

from program import PROGRAM, SMALL, ProgramTest, clean_environment

BENCH = ["bench", *SMALL, "--gpus", "1", "--steps", "4", "--warmup", "1"]
SLOW = ["--inject-delay", "rank=0,phase=forward,ms=150"]


class Ab(ProgramTest):
    def ab(self, code, *words, flags=("--budget", "60s")):
        return self.expect(code, "ab", *flags, *words)

    def test_a_slow_configuration_is_found(self):
        # The delay is at the largest N, which the plain base is not.
        bench = ["bench", *SMALL, "--gpus", "2", "--oversubscribe", "--steps", "4", "--warmup", "1"]
        done = self.ab(1, "--max-regress", "20%", "--", *bench, "--", *bench, *SLOW)
        self.assertIn("Worse: images_per_second of mirrored-2", done.stdout)
        self.assertIn("inject_delay", done.stdout)
        self.assertRegex(done.stderr, r"8 pairs, .*")

    def test_two_programs(self):
        # So little work scatters widely on a busy machine: it may be too little to tell, but is never worse.
        done = self.run_program("ab", "--budget", "30s", PROGRAM, PROGRAM, "--max-regress", "90%", "--", *BENCH)
        self.assertIn(done.returncode, (0, 6), done.stdout)
        self.assertIn(PROGRAM, done.stdout)

    def test_files(self):
        flags = ["--budget", "30s", "--max-regress", "90%", "--format", "json,junit,markdown", "--out", "verdict"]
        done = self.run_program("ab", PROGRAM, *flags, "--", *BENCH)
        self.assertIn(done.returncode, (0, 6), done.stdout)
        verdict = json.loads((self.folder / "verdict" / "comparison.json").read_text())
        self.assertTrue(verdict["paired"])
        self.assertGreaterEqual(verdict["findings"][0]["base"]["runs"], 4)
        self.assertEqual(verdict["findings"][0]["base"]["runs"], verdict["findings"][0]["new"]["runs"])
        kept = sorted(path.name for path in (self.folder / "verdict" / "runs").iterdir())
        self.assertIn("base-001", kept)
        self.assertIn("new-004", kept)

    def test_a_program_that_fails_says_why(self):
        broken = self.folder / "broken"
        broken.write_text("#!/bin/sh\necho 'error: no luck' >&2\nexit 3\n")
        broken.chmod(0o755)
        self.expect_error(3, "no luck", "ab", broken, "--", *BENCH)
        crashing = self.folder / "crashing"
        crashing.write_text("#!/bin/sh\nkill -SEGV $$\n")
        crashing.chmod(0o755)
        self.expect_error(5, "signal 11", "ab", crashing, "--", *BENCH)
        silent = self.folder / "silent"
        silent.write_text("#!/bin/sh\nexit 0\n")
        silent.chmod(0o755)
        self.expect_error(5, "left no result", "ab", silent, "--", *BENCH)

    def test_a_program_that_hangs_is_ended(self):
        hanging = self.folder / "hanging"
        hanging.write_text("#!/bin/sh\nsleep 1000\n")
        hanging.chmod(0o755)
        self.expect_error(5, "did not end within", "ab", hanging, "--run-timeout", "1s", "--", *BENCH)

    def test_a_budget_without_time_for_a_pair(self):
        done = self.ab(6, PROGRAM, "--budget", "1ms", "--", *BENCH)
        text = " ".join(done.stdout.split())
        self.assertIn("0 pairs in", text)
        self.assertRegex(text, r"give a --budget of \S+ m?s or more")
        said = " ".join(done.stderr.split())
        self.assertIn("some 0 of them, and 1 look", said)
        self.assertRegex(said, r"warning: fewer than 8 pairs .* give a --budget of \S+ m?s or more")

    def test_usage(self):
        self.expect_error(2, "compared with itself", "ab", "--", *BENCH)
        self.expect_error(2, "needs `--`", "ab", PROGRAM)
        self.expect_error(2, "runs `bench`", "ab", PROGRAM, "--", "train")
        self.expect_error(2, "stands 'nothing'", "ab", PROGRAM, "--")
        self.expect_error(2, "more than two commands", "ab", PROGRAM, "--", "bench", "--", "bench", "--", "bench")
        self.expect_error(2, "two programs", "ab", PROGRAM, PROGRAM, PROGRAM, "--", *BENCH)
        self.expect_error(3, "no program that can be run", "ab", "no/such/program", "--", *BENCH)
        self.expect_error(2, "--budget", "ab", PROGRAM, "--budget", "never", "--", *BENCH)
        self.expect_error(2, "--no-such-flag", "ab", PROGRAM, "--", *BENCH, "--no-such-flag")

    def test_unequal_work_ends_at_once(self):
        wrapper = self.folder / "other"
        wrapper.write_text(f'#!/bin/sh\nexec {PROGRAM} "$@" --seed 5\n')
        wrapper.chmod(0o755)
        done = self.ab(6, wrapper, "--", *BENCH)
        self.assertIn("not the same work on the same machine: dataset.checksum, seed", " ".join(done.stdout.split()))

    def test_interrupted_it_judges_what_is_there(self):
        process = subprocess.Popen(
            [PROGRAM, "ab", PROGRAM, "--max-regress", "0%", "--budget", "300s", "--", *BENCH, "--steps", "40"],
            cwd=self.folder,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in process.stderr:
            if "a pair takes" in line:
                break
        time.sleep(8.0)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        if out:  # a pair was done by then
            self.assertIn("interrupted: more pairs were to come", out)
