"""--strategy sharded: trains as mirrored does, in less memory."""

from program import FEW_STEPS, PLAIN, SMALL, ProgramTest

KINDS = ("weights", "gradients", "optimizer")


def facts(run):
    return {fact["name"]: fact["value"] for fact in run["facts"]}


class Sharded(ProgramTest):
    def stage(self, stage, *arguments):
        result = self.bench("--strategy", "sharded", "--zero-stage", str(stage), "--gpus", "2", "--no-bases", *arguments)
        return result["runs"][0]

    def test_weights_are_those_of_mirrored(self):
        wanted = self.bench("--strategy", "mirrored", "--gpus", "2", "--no-bases")["runs"][0]
        for stage in (1, 2, 3):
            run = self.stage(stage)
            self.assertEqual(run["weights_hash"], wanted["weights_hash"], f"stage {stage}")
            self.assertTrue(run["weights_agree"])
            self.assertEqual(run["losses"], wanted["losses"])

    def test_each_stage_keeps_less_and_says_so(self):
        measured = {}
        for stage in (1, 2, 3):
            run = self.stage(stage, "--model", "cnn")
            self.assertEqual(len(run["rank_memory"]), 2)
            found = facts(run)
            for kind in KINDS:
                theory, held = found[f"{kind}_bytes_theory"], found[f"{kind}_bytes_measured"]
                self.assertEqual(held, max(rank[f"{kind}_bytes"] for rank in run["rank_memory"]))
                self.assertLess(abs(held - theory), 8 * 4096, f"{kind}, stage {stage}")
            measured[stage] = sum(found[f"{kind}_bytes_measured"] for kind in KINDS)
        parameters = 4 * 122570
        self.assertLess(measured[1], 3.2 * parameters)  # of 4: weights, gradients and two states
        self.assertLess(measured[2], measured[1])
        self.assertLess(measured[3], measured[2])

    def test_what_fits_in_parts_only_is_let_through(self):
        limit = ["--model", "mlp", "--memory-limit", "6.7MB", "--dry-run", "--gpus", "4", "--oversubscribe", "--no-bases"]
        self.expect_error(3, ["memory"], "bench", *SMALL, "--strategy", "mirrored", *limit)
        self.expect(0, "bench", *SMALL, "--strategy", "sharded", "--zero-stage", "1", *limit)

    def test_it_trains_as_one_device_does(self):
        for stage in ("1", "2", "3"):
            done = self.expect(
                0, "verify", "--model", "mlp", "--data", "synthetic", "--device", "cpu",
                "--strategy", "sharded", "--zero-stage", stage, "--gpus", "2",
            )
            self.assertIn("equal", done.stdout)

    def test_a_checkpoint_goes_on_under_another_strategy(self):
        self.expect(0, "data", "generate", "made", "--records", "40", "--test-records", "40", "--quiet")
        train = ["train", "--model", "mlp", "--device", "cpu", "--data", "made", "--batch-size", "5", "--gpus", "2", PLAIN]
        sharded = [*train, "--strategy", "sharded", "--zero-stage", "3"]
        self.expect(0, *train, "--epochs", "2", "--out", "whole")
        self.expect(0, *sharded, "--epochs", "1", "--out", "first", "--checkpoint", "c")
        self.expect(0, *train, "--epochs", "2", "--out", "rest", "--resume", "c")
        self.expect(0, *train, "--epochs", "1", "--out", "first", "--checkpoint", "d")
        self.expect(0, *sharded, "--epochs", "2", "--out", "sharded", "--resume", "d")
        whole = self.result("whole")["runs"][0]
        for other in ("rest", "sharded"):
            run = self.result(other)["runs"][0]
            self.assertEqual(run["weights_hash"], whole["weights_hash"], other)
            self.assertEqual(run["losses"], whole["losses"], other)

    def test_over_two_workers(self):
        one = self.stage(3)
        self.expect(
            0, "launch", "--workers", "2", "--", "bench", *SMALL, *FEW_STEPS, PLAIN, "--out", "two",
            "--strategy", "sharded", "--zero-stage", "3", "--gpus", "2", "--no-bases",
        )
        two = self.result("two")["runs"][0]
        self.assertEqual(two["weights_hash"], one["weights_hash"])
        self.assertEqual(len(two["rank_memory"]), 2)
        self.assertEqual(facts(two)["weights_bytes_theory"], facts(one)["weights_bytes_theory"])

    def test_what_does_not_go_together_is_refused(self):
        sharded = ["bench", *SMALL, "--strategy", "sharded", "--gpus", "2"]
        for flags, words in (
            (["--compress", "fp16"], ["--compress fp16", "sharded", "mirrored"]),
            (["--sync-every", "4"], ["--sync-every 4", "sharded", "mirrored"]),
            (["--updates", "async"], ["--updates async", "parameter-server"]),
            (["--zero-stage", "4"], ["--zero-stage"]),
        ):
            self.expect_error(2, words, *sharded, *flags)
