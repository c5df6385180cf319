"""One model over several devices: dense and convolution layers split by output channels."""

import re

from program import FEW_STEPS, PLAIN, SMALL, ProgramTest

USAGE = 2
TENSOR = ["--strategy", "tensor"]


class Tensor(ProgramTest):
    def facts(self, run):
        return {fact["name"]: fact["value"] for fact in run["facts"]}

    def test_bench_counts_images_once_and_tells_the_traffic(self):
        result = self.bench(*TENSOR, "--gpus", "2")
        self.assertEqual([run["id"] for run in result["runs"]], ["plain", "tensor-1", "tensor-2"])
        for run in result["runs"]:
            for sample in run["rounds"]:
                self.assertEqual(sample["images"], 3 * 8 * run["replicas"])
        alone, both = map(self.facts, result["runs"][1:])
        # mlp: 128 channels read by the second layer, 10 logits; 16 images a step.
        self.assertEqual(both["split_layers"], 2)
        self.assertEqual(both["gathered_bytes"], 4 * 16 * (128 + 10))
        self.assertEqual(both["summed_bytes"], 4 * 16 * 128)
        self.assertEqual(both["expected_bytes"], 4 * 16 * (64 + 5 + 128) + 8)
        self.assertEqual(both["sent_bytes"], both["expected_bytes"])
        self.assertEqual(alone["gathered_bytes"], 0)
        self.assertEqual(alone["whole_layers"], 2)
        self.assertNotIn("batch statistics", str(result["runs"][-1]))

    def test_it_equals_one_device(self):
        for model in ("mlp", "cnn"):
            for gpus in ("2", "3"):
                done = self.expect(0, "verify", *SMALL, "--model", model, *TENSOR, "--gpus", gpus, "--steps", "5")
                self.assertIn(f"tensor with {gpus} replicas", done.stdout)
                self.assertNotIn("not expected", done.stdout)

    def test_it_trains_under_its_other_name(self):
        train = ["train", *SMALL, "--strategy", "ModelParallel", "--gpus", "2", "--epochs", "1", "--batch-size", "500", PLAIN]
        self.expect(0, *train, "--out", "trained")
        run = self.result("trained")["runs"][-1]
        self.assertEqual(run["id"], "tensor-2")
        self.assertGreater(run["evaluations"][-1]["accuracy"], 0.12)

    def test_workers_hold_slices_of_one_model(self):
        launch = ["launch", "--workers", "2", "--"]
        self.expect(0, *launch, "bench", *SMALL, *FEW_STEPS, PLAIN, "--out", "out", *TENSOR)
        run = self.result()["runs"][-1]
        self.assertEqual(run["replicas"], 2)
        self.assertEqual(self.facts(run)["sent_bytes"], self.facts(run)["expected_bytes"])

    def test_every_device_takes_all_images(self):
        cnn = ["--model", "cnn", "--data", "synthetic", "--device", "cpu", *TENSOR, "--gpus", "2", "--dry-run"]
        done = self.expect(0, "bench", *cnn, "--global-batch", "9")
        self.assertNotIn("divide", done.stderr)
        self.assertRegex(done.stdout, r"tensor-2 +2 +9 +9 ")
        self.expect(0, "verify", *cnn, "--global-batch", "1")

    def test_what_does_not_fit_in_memory_says_what_does(self):
        bench = ["bench", "--model", "cnn", "--data", "synthetic", "--device", "cpu", *TENSOR, "--gpus", "2", "--dry-run"]
        bench += ["--memory-limit", "8MB"]
        done = self.expect(3, *bench, "--batch-size", "64")
        fits = int(re.search(r"--batch-size (\d+)", done.stderr)[1])
        self.assertLess(fits, 64)
        self.expect(0, *bench, "--batch-size", fits)
        self.expect(3, *bench, "--batch-size", fits + 1)

    def test_flags_about_buckets_are_said_to_have_no_effect(self):
        done = self.expect(0, "bench", *SMALL, *TENSOR, "--gpus", "2", "--bucket-mb", "1", "--no-overlap", "--dry-run")
        self.assertIn("--bucket-mb 1, --no-overlap have no effect under --strategy tensor", done.stderr)

    def test_what_it_cannot_do_is_refused(self):
        bench = ["bench", *SMALL, *TENSOR]
        self.expect_error(USAGE, ["--compress fp16", "tensor", "mirrored"], *bench, "--gpus", "2", "--compress", "fp16")
        self.expect_error(USAGE, ["--sync-every 4", "tensor"], *bench, "--gpus", "2", "--sync-every", "4")
        self.expect_error(USAGE, ["--staleness 1", "parameter-server"], *bench, "--gpus", "2", "--staleness", "1")
        self.expect_error(USAGE, ["129 devices", "128", "--gpus 128"], *bench, "--gpus", "129")
