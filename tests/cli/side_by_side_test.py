"""`bench --strategy all`: every strategy that can, on the same work, and which one fits."""

import json
import unittest

from program import FEW_STEPS, SMALL, ProgramTest

BENCH = ["bench", "--strategy", "all", *SMALL, "--gpus", "2", *FEW_STEPS]


class SideBySide(ProgramTest):
    def result(self, *arguments):
        done = self.expect(0, *BENCH, "--out", "out", *arguments)
        return done, json.loads((self.folder / "out" / "result.json").read_text())

    def test_all_that_can_are_measured_on_the_same_work(self):
        done, result = self.result("--format", "console,json,markdown,html", "--optimizer", "sgd")
        runs = {run["id"]: run for run in result["runs"]}
        self.assertEqual(
            set(runs), {"plain", "mirrored-2", "parameter-server-2", "pipeline-2", "sharded-2", "tensor-2"})
        self.assertEqual({run["global_batch"] for name, run in runs.items() if name != "plain"}, {runs["mirrored-2"]["global_batch"]})
        steps = min(len(run["losses"]) for run in runs.values() if run["id"] != "plain")
        for run in runs.values():
            if run["id"] == "plain":
                continue
            for mine, theirs in zip(run["losses"][:steps], runs["mirrored-2"]["losses"]):
                self.assertAlmostEqual(mine, theirs, delta=2e-3 * theirs, msg=run["id"])
            self.assertTrue(run["weights_agree"], run["id"])
        self.assertIn("Strategies side by side", done.stdout)
        self.assertIn("fits this model and machine best", result["verdict"])
        self.assertIn("left out of --strategy all: tpu", " ".join(result["warnings"]))
        for name in ["result.md", "report.html"]:
            self.assertIn("Strategies side by side", (self.folder / "out" / name).read_text())
        again = self.expect(0, "report", "out/result.json")
        self.assertIn("Strategies side by side", again.stdout)

    def test_a_strategy_that_cannot_is_left_out_and_named(self):
        done, result = self.result("--format", "json", "--sync-every", "2")
        self.assertEqual([run["id"] for run in result["runs"] if run["base"] is None], ["mirrored-2"])
        for name in ["parameter-server", "sharded", "pipeline", "tensor"]:
            self.assertIn(f"left out of --strategy all: {name}: ", " ".join(result["warnings"]))

    def test_dry_run_lists_them(self):
        done = self.expect(0, *BENCH, "--dry-run")
        for name in ["mirrored-2", "sharded-2", "tensor-2", "pipeline-2", "parameter-server-2"]:
            self.assertIn(name, done.stdout)


class BadUsage(ProgramTest):
    def test_only_bench_sets_them_side_by_side(self):
        for command in ["train", "verify"]:
            self.expect_error(2, ["--strategy all", "bench"], command, "--strategy", "all", *SMALL, "--gpus", "2")

    def test_nothing_to_tune(self):
        self.expect_error(2, ["--tune", "--strategy all"], *BENCH, "--tune", "5s")


if __name__ == "__main__":
    unittest.main()
