"""What workers and servers exchange: how much, how old, and with what effect."""

import json

from job import FEW_STEPS, JobTest, tf_config
from program import PLAIN, SMALL

PARAMETER_SERVER = ["--strategy", "parameter-server", *SMALL, PLAIN, "--out", "out", *FEW_STEPS]
MULTI_WORKER = ["--strategy", "multi-worker", *SMALL, PLAIN, "--out", "out", *FEW_STEPS]
MIRRORED = ["--strategy", "mirrored", *SMALL, PLAIN, "--out", "out", *FEW_STEPS]
TRAIN = ["train", "--model", "mlp", "--device", "cpu", "--data", "made", "--batch-size", "20", PLAIN]


class Exchange(JobTest):
    def runs(self, folder="out"):
        result = self.result(folder)
        self.assertTrue(result["complete"])
        return {run["id"]: run for run in result["runs"]}

    def measure(self, *arguments):
        self.expect(0, "bench", *arguments)
        return self.runs()


class ParameterServer(Exchange):
    def test_asynchronous_workers_and_a_server(self):
        job = self.launch(2, "bench", *PARAMETER_SERVER, "--updates", "async", flags=("--ps", "1"))
        self.expect_end(job, 0)
        run = self.runs()["parameter-server-2"]
        gradients = sum(run["staleness_counts"])
        self.assertEqual(gradients, 2 * len(run["losses"]))
        mean = sum(age * count for age, count in enumerate(run["staleness_counts"])) / gradients
        self.assertAlmostEqual(run["staleness"], mean)
        self.assertEqual(run["workers"], [0, 1])

    def test_synchronous_servers_train_as_mirrored_replicas_do(self):
        mirrored = self.measure(*MIRRORED, "--replicas", "2")["mirrored-2"]
        served = self.measure(*PARAMETER_SERVER, "--replicas", "2", "--servers", "3")["parameter-server-2"]
        self.assertIsNone(served["staleness"])
        self.assertTrue(served["weights_agree"])
        for ours, theirs in zip(served["losses"], mirrored["losses"], strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-4 * theirs)

    def test_several_servers_of_a_job_train_alike(self):
        job = self.launch(2, "bench", *PARAMETER_SERVER, flags=("--ps", "2"))
        self.expect_end(job, 0)
        served = self.runs()["parameter-server-2"]
        mirrored = self.measure(*MIRRORED, "--replicas", "2")["mirrored-2"]
        for ours, theirs in zip(served["losses"], mirrored["losses"], strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-4 * theirs)

    def test_an_update_need_not_wait_for_the_last(self):
        self.expect_error(2, ["--backup-workers 2"], "bench", *PARAMETER_SERVER, "--replicas", "2", "--backup-workers", "2")
        run = self.measure(*PARAMETER_SERVER, "--replicas", "3", "--backup-workers", "1")["parameter-server-3"]
        self.assertTrue(run["weights_agree"])
        steps = len(run["losses"])
        self.assertGreater(run["dropped_gradients"], 0)
        self.assertLessEqual(run["dropped_gradients"], steps)

    def test_a_bound_that_needs_asynchronous_updates_is_refused_without(self):
        self.expect_error(2, ["--staleness", "--updates async"], "bench", *PARAMETER_SERVER, "--staleness", "2")


class Fewer(Exchange):
    def test_compression_between_workers_is_held_against_exact_sums(self):
        job = self.launch(2, "bench", *MULTI_WORKER, "--compress", "topk:0.01")
        self.expect_end(job, 0)
        runs = self.runs()
        run, exact = runs["multi-worker-2"], runs["multi-worker-2-exact"]
        self.assertTrue(exact["exact"])
        self.assertEqual(exact["bytes_uncompressed"], exact["bytes_sent"])
        self.assertEqual(run["bytes_uncompressed"], exact["bytes_sent"])
        self.assertAlmostEqual(run["bytes_uncompressed"] / run["bytes_sent"], 50, delta=1)
        self.assertTrue(run["weights_agree"])
        self.assertEqual(run["losses"][0], exact["losses"][0])
        self.assertNotEqual(run["losses"][-1], exact["losses"][-1])

    def test_halves_in_one_process(self):
        runs = self.measure(*MIRRORED, "--replicas", "2", "--compress", "fp16")
        run = runs["mirrored-2"]
        self.assertAlmostEqual(run["bytes_uncompressed"] / run["bytes_sent"], 2, delta=0.01)
        self.assertTrue(run["weights_agree"])

    def test_weights_that_are_averaged_every_third_step(self):
        runs = self.measure(*MIRRORED, "--replicas", "2", "--sync-every", "3", "--rounds", "1", "--steps", "6", "--warmup", "0")
        run, exact = runs["mirrored-2"], runs["mirrored-2-exact"]
        self.assertEqual(run["bytes_sent"] * 3, exact["bytes_sent"])
        self.assertTrue(run["weights_agree"])

    def test_an_algorithm_that_is_not_there_is_refused(self):
        self.expect_error(2, ["'rng'", "'ring'", "bcube"], "bench", *MULTI_WORKER, "--allreduce", "rng")

    def test_a_method_that_is_not_there_is_refused(self):
        self.expect_error(2, ["--compress", "fp8", "fp16"], "bench", *MIRRORED, "--compress", "fp8")


class Roles(Exchange):
    def test_an_evaluator_evaluates_every_checkpoint(self):
        self.expect(0, "data", "generate", "made", "--records", "40", "--test-records", "40", "--quiet")
        cluster = json.loads(tf_config(["127.0.0.1:1"], 0, "evaluator")["TF_CONFIG"])
        evaluator = self.start(
            *TRAIN, "--strategy", "multi-worker", "--epochs", "1", "--checkpoint", "c", "--out", "evaluated",
            name="evaluator", environment={"TF_CONFIG": json.dumps(cluster)},
        )
        self.expect(0, *TRAIN, "--epochs", "1", "--checkpoint", "c", "--out", "out")
        self.expect_end(evaluator, 0)
        evaluation = self.result()["runs"][0]["evaluations"][0]
        self.assertIn(f"accuracy {100 * evaluation['accuracy']:.2f} % of 40 images", evaluator.error)
        self.assertFalse((self.folder / "evaluated").exists())

    def test_an_evaluator_has_no_part_in_a_benchmark(self):
        environment = tf_config(["127.0.0.1:1"], 0, "evaluator")
        evaluator = self.start("bench", *MULTI_WORKER, name="evaluator", environment=environment)
        self.expect_end(evaluator, 0)
        self.assertIn("no use for an evaluator", evaluator.error)
        self.assertFalse((self.folder / "out").exists())

    def test_workers_prove_that_they_train_as_one_does(self):
        job = self.launch(2, "verify", "--strategy", "multi-worker", "--steps", "5", "--device", "cpu")
        self.expect_end(job, 0)
        self.assertEqual(job.out.count("equal"), 4)

    def test_a_dry_run_trains_nothing(self):
        job = self.launch(2, "bench", *MULTI_WORKER, "--dry-run")
        self.expect_end(job, 0)
        self.assertEqual(job.out.count("dry run"), 1)
        self.assertFalse((self.folder / "out" / "result.json").exists())
