"""The model cut into stages that micro-batches pass one by one."""

import re

from program import FEW_STEPS, PLAIN, SMALL, ProgramTest

USAGE = 2
PIPELINE = ["--strategy", "pipeline"]
CNN = ["--model", "cnn", "--batch-size", "8", "--data", "synthetic", "--device", "cpu"]


class Pipeline(ProgramTest):
    def facts(self, run):
        return {fact["name"]: fact for fact in run["facts"]}

    def value(self, run, name):
        return self.facts(run)[name]["value"]

    def test_bench_counts_images_once_and_tells_of_stages(self):
        result = self.bench(*PIPELINE, "--gpus", "2")
        self.assertEqual([run["id"] for run in result["runs"]], ["plain", "pipeline-1", "pipeline-2"])
        for run in result["runs"]:
            for sample in run["rounds"]:
                self.assertEqual(sample["images"], 3 * 8 * run["replicas"])
        alone, both = result["runs"][1:]
        self.assertEqual(self.value(alone, "stages"), 1)
        self.assertEqual(self.value(alone, "bubble_share_theory"), 0)
        self.assertEqual(self.value(both, "stages"), 2)
        self.assertEqual(self.value(both, "pipelines"), 1)
        self.assertEqual(self.value(both, "micro_batches"), 16)
        self.assertAlmostEqual(self.value(both, "bubble_share_theory"), 1 / 17)
        self.assertGreater(self.value(both, "bubble_share_measured"), 0)
        self.assertLess(self.value(both, "bubble_share_measured"), 1)
        self.assertIn("stage 1 begins at dense2", self.facts(both)["stage_1_share"]["meaning"])
        self.assertEqual(len(both["rank_memory"]), 2)
        for rank, memory in enumerate(both["rank_memory"]):
            self.assertEqual(self.value(both, f"stage_{rank}_activation_bytes"), memory["activations_bytes"])
        # The first layer of mlp holds nearly all of its weights.
        self.assertGreater(both["rank_memory"][0]["weights_bytes"], 50 * both["rank_memory"][1]["weights_bytes"])
        self.assertEqual(len(result["config"]["layer_costs"]), 3)

    def test_pipelines_side_by_side(self):
        flags = ["--gpus", "4", "--pipeline-stages", "2", "--micro-batches", "3", "--pipeline-schedule", "gpipe"]
        run = self.bench(*PIPELINE, *flags)["runs"][-1]
        self.assertEqual(self.value(run, "pipelines"), 2)
        self.assertEqual(self.value(run, "micro_batches"), 3)
        self.assertTrue(run["weights_agree"])

    def test_it_equals_one_device(self):
        for flags in (["--gpus", "2"], ["--gpus", "2", "--cut", "conv2:48"], ["--gpus", "4", "--pipeline-stages", "2"],
                      ["--gpus", "4", "--pipeline-schedule", "gpipe"]):
            done = self.expect(0, "verify", *CNN, *PIPELINE, *flags, "--steps", "5")
            self.assertEqual(done.stdout.count("  equal"), 4, done.stdout)
        self.expect(0, "verify", *SMALL, *PIPELINE, "--gpus", "2", "--steps", "5")

    def test_it_trains_and_others_go_on_from_its_checkpoint(self):
        train = ["train", *SMALL, "--batch-size", "500", PLAIN, "--gpus", "2"]
        self.expect(0, *train, *PIPELINE, "--epochs", "1", "--checkpoint", "c", "--out", "first")
        first = self.result("first")["runs"][-1]["evaluations"][-1]["accuracy"]
        self.assertGreater(first, 0.12)
        self.expect(0, *train, "--strategy", "mirrored", "--epochs", "2", "--resume", "c", "--out", "second")
        second = self.result("second")["runs"][-1]["evaluations"][-1]
        self.assertEqual(second["epoch"], 2)
        self.assertGreater(second["accuracy"], first - 0.02)

    def test_dry_run_says_the_cut(self):
        done = self.expect(0, "bench", *CNN, *PIPELINE, "--gpus", "2", "--cut", "conv3", "--dry-run")
        self.assertIn("stage 1 begins at conv3", done.stdout)
        self.assertIn("bubble_share_theory", done.stdout)

    def test_workers_hold_stages(self):
        for flags in (["--gpus", "2"], ["--gpus", "4", "--pipeline-stages", "2"]):
            done = self.expect(0, "launch", "--workers", "2", "--", "verify", *CNN, *PIPELINE, *flags, "--steps", "3")
            self.assertEqual(done.stdout.count("  equal"), 4, done.stdout)

    def test_a_pipeline_takes_one_share_of_a_step(self):
        cnn = ["bench", "--model", "cnn", "--data", "synthetic", "--device", "cpu", *PIPELINE, "--dry-run"]
        self.expect(0, *cnn, "--gpus", "4", "--global-batch", "3")
        done = self.expect(0, *cnn, "--gpus", "2", "--global-batch", "9")
        self.assertNotIn("divide", done.stderr)
        done = self.expect(0, *cnn, "--gpus", "4", "--pipeline-stages", "2", "--global-batch", "9")
        self.assertIn("2 groups of replicas do not divide the global batch of 9, so they take 5 or 4", done.stderr)

    def test_what_does_not_fit_in_memory_says_what_does(self):
        cnn = ["bench", "--model", "cnn", "--data", "synthetic", "--device", "cpu", *PIPELINE, "--gpus", "2", "--dry-run"]
        cnn += ["--no-bases", "--micro-batches", "2", "--memory-limit", "5MB"]
        done = self.expect(3, *cnn, "--batch-size", "128")
        fits = int(re.search(r"--batch-size (\d+)", done.stderr)[1])
        micro = re.search(r"--micro-batches (\d+)", done.stderr)[1]
        self.expect(0, *cnn, "--batch-size", fits)
        self.expect(3, *cnn, "--batch-size", fits + 1)
        self.expect(0, *cnn, "--batch-size", "128", "--micro-batches", micro)

    def test_what_it_cannot_do_is_refused(self):
        bench = ["bench", *CNN, *PIPELINE, "--gpus", "2"]
        for flags in (["--compress", "fp16"], ["--sync-every", "4"], ["--staleness", "1"], ["--backup-workers", "1"]):
            self.expect_error(USAGE, [" ".join(flags), "pipeline"], *bench, *flags)
        self.expect_error(USAGE, ["--cut conv9", "conv2, conv3, dense1, dense2"], *bench, "--cut", "conv9")
        self.expect_error(USAGE, ["--cut relu1", "no stage can begin"], *bench, "--cut", "relu1")
        self.expect_error(USAGE, ["--cut conv2:8", "multiples of 16"], *bench, "--cut", "conv2:8")
        self.expect_error(USAGE, ["3 stages", "asks for 2", "use --pipeline-stages 3"], *bench, "--cut", "conv2,conv3", "--pipeline-stages", "2")
        three = ["bench", *CNN, *PIPELINE, "--gpus", "3", "--pipeline-stages", "2"]
        self.expect_error(USAGE, ["pipeline-3", "--gpus 2 or 4"], *three)
        self.expect_error(USAGE, ["--pipeline-stages 4", "2 devices", "--gpus 4"], *bench, "--pipeline-stages", "4")
        train = ["train", *CNN, *PIPELINE, "--gpus", "2", "--cut", "conv2,conv3"]
        self.expect_error(USAGE, ["--cut conv2,conv3", "3 stages", "2 devices"], *train)
        mlp = ["bench", *SMALL, *PIPELINE, "--gpus", "3"]
        self.expect_error(USAGE, ["mlp can be cut into 2 stages at most"], *mlp)
        self.expect_error(USAGE, ["pipeline", "gpipe"], *bench, "--pipeline-schedule", "zero")
