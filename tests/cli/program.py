"""Runs the built dtrain as its users do, in a folder of its own."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["DTRAIN_PROGRAM"]

LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "TF_CONFIG")
LAUNCHER_PREFIXES = ("OMPI_", "PMI_", "SLURM_")

# Little work: what is tested here is what the program says and leaves behind.
SMALL = ["--model", "mlp", "--batch-size", "8", "--data", "synthetic", "--device", "cpu"]
FEW_STEPS = ["--rounds", "2", "--steps", "3", "--warmup", "1"]
PLAIN = "--format=json"


def clean_environment(extra=None):
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCHER_VARIABLES and not name.startswith(LAUNCHER_PREFIXES)
    }
    kept.update(extra or {})
    return kept


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments, environment=None, timeout=100):
        return subprocess.run(
            [PROGRAM, *map(str, arguments)],
            cwd=self.folder,
            env=clean_environment(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )

    def expect(self, code, *arguments, environment=None):
        """Runs and checks the exit code; returns the finished process."""
        done = self.run_program(*arguments, environment=environment)
        self.assertEqual(done.returncode, code, f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def expect_error(self, code, words, *arguments, environment=None):
        """An error is one line that names the culprit and one that says what to do, on stderr."""
        done = self.expect(code, *arguments, environment=environment)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
        self.assertEqual(len(lines), 2, f"{arguments}: {done.stderr}")
        self.assertTrue(lines[0].startswith("error: "), done.stderr)
        self.assertTrue(lines[1].strip().startswith("->"), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr, f"{arguments}")
        return done

    def bench(self, *arguments, code=0, environment=None):
        """A small benchmark; returns its result file."""
        self.expect(code, "bench", *SMALL, *FEW_STEPS, PLAIN, "--out", "out", *arguments, environment=environment)
        return self.result()

    def result(self, folder="out"):
        def refuse(constant):
            raise ValueError(f"{constant} is not JSON")

        return json.loads((self.folder / folder / "result.json").read_text(), parse_constant=refuse)
