"""The program on GPUs that a CPU pretends: what it finds, refuses, says and leaves behind. Nothing is timed here."""

import json
import os
import shutil

import program
from program import ProgramTest

USAGE = 2
ENVIRONMENT = 3
SMALL = ["--model", "mlp", "--batch-size", "8", "--data", "synthetic", "--device", "cuda"]
SHORT = ["--rounds", "2", "--steps", "3", "--warmup", "2", "--format=json", "--timeout", "60s"]


class OnGpus(ProgramTest):
    gpus = 2
    driver_tools = True

    def setUp(self):
        super().setUp()
        home = self.folder / "program"
        home.mkdir()
        shutil.copy(program.PROGRAM, home / "dtrain")
        shutil.copy(os.environ["DTRAIN_MODULE"], home / "libdtrain_cuda.so")
        self.addCleanup(setattr, program, "PROGRAM", program.PROGRAM)
        program.PROGRAM = home / "dtrain"

    def run_program(self, *arguments, environment=None, timeout=100):
        there = {"DOUBLE_GPUS": str(self.gpus), "XDG_CACHE_HOME": str(self.folder / "cache")}
        if self.driver_tools:
            there["LD_LIBRARY_PATH"] = os.environ["FAKE_DRIVER"]
        there.update(environment or {})
        return super().run_program(*arguments, environment=there, timeout=timeout)

    def measure(self, *arguments, environment=None):
        self.expect(0, "bench", *SMALL, *SHORT, "--out", "out", *arguments, environment=environment)
        return self.result()

    def cuda(self, environment=None):
        info = json.loads(self.expect(0, "info", "--json", environment=environment).stdout)
        return next(entry for entry in info["backends"] if entry["name"] == "cuda")


class Found(OnGpus):
    def test_info_tells_devices_driver_and_what_they_do(self):
        cuda = self.cuda()
        self.assertEqual(cuda["problem"], "")
        self.assertIn("580.95.05", cuda["driver"])
        self.assertEqual([device["index"] for device in cuda["devices"]], [0, 1])
        device = cuda["devices"][0]
        self.assertEqual(device["name"], "NVIDIA H200")
        self.assertEqual(device["architecture"], "sm_90")
        self.assertAlmostEqual(device["peak_gflops"]["bf16"] / 1e6, 132 * 1.98 * 4096 / 1e6, places=3)
        self.assertAlmostEqual(device["memory_bytes_per_second"] / 1e12, 4.917, places=2)
        self.assertEqual(device["free_memory_bytes"], 23_000_000_000)
        self.assertEqual(cuda["conditions"][1]["celsius"], 41)
        self.assertIn("sm_90", self.expect(0, "info").stdout)

    def test_a_dry_run_shows_the_gpus(self):
        text = self.expect(0, "bench", *SMALL, "--dry-run").stdout
        self.assertIn("found 2 GPUs: NVIDIA H200", text)
        self.assertIn("GPU 0 1", text)


class Refused(OnGpus):
    def test_more_replicas_than_gpus(self):
        self.expect_error(ENVIRONMENT, ["3 replicas", "2 GPUs", "--oversubscribe"], "bench", *SMALL, "--gpus", "3")

    def test_gpus_that_are_too_old(self):
        self.expect_error(
            ENVIRONMENT, ["GPU 0", "7.5", "8.0"], "bench", *SMALL, "--gpus", "1", environment={"DOUBLE_CAPABILITY": "75"}
        )

    def test_no_driver_and_no_gpu(self):
        for environment, words in [
            ({"DOUBLE_DRIVER": "0"}, ["0 GPUs", "driver is not installed", "35"]),
            ({"DOUBLE_GPUS": "0"}, ["0 GPUs", "shows no GPU", "100"]),
        ]:
            self.expect_error(ENVIRONMENT, [*words, "--device cpu"], "bench", *SMALL, environment=environment)

    def test_nccl_where_replicas_share_a_gpu(self):
        self.expect_error(
            ENVIRONMENT, ["--comm nccl", "share", "cuda_local"],
            "bench", *SMALL, "--gpus", "3", "--oversubscribe", "--comm", "nccl",
        )

    def test_the_communicator_of_cores(self):
        self.expect_error(USAGE, ["--comm shared_memory", "GPUs"], "bench", *SMALL, "--comm", "shared_memory")


class Measured(OnGpus):
    def test_one_replica_a_gpu(self):
        result = self.measure("--gpus", "2")
        self.assertTrue(result["complete"])
        self.assertEqual(result["config"]["device"], "cuda")
        self.assertEqual(result["config"]["comm"], "nccl")
        self.assertEqual(result["machine"]["devices"], ["NVIDIA H200", "NVIDIA H200"])
        self.assertIn("580.95.05", result["machine"]["driver"])
        largest = result["runs"][-1]
        self.assertEqual(largest["devices"], [0, 1])
        self.assertTrue(largest["weights_agree"])
        self.assertFalse(largest["simulated"])
        self.assertGreater(largest["memory"]["replica_bytes"], 394634 * 4 * 4)
        self.assertGreaterEqual(largest["memory"]["replica_peak_bytes"], largest["memory"]["replica_bytes"])
        self.assertIsNotNone(largest["peak_share"])
        self.assertIsNotNone(largest["bandwidth_share"])
        self.assertEqual([device["clock_mhz"] for device in largest["noise"]["devices"]], [1980, 1980])
        self.assertGreater(largest["rounds"][0]["wall_seconds"], 0.0)
        self.assertEqual(len(result["runs"][0]["noise"]["devices"]), 1, "the plain loop uses one")

    def test_replicas_that_share_a_gpu_are_simulated(self):
        result = self.measure("--gpus", "2", "--oversubscribe", environment={"DOUBLE_GPUS": "1"})
        self.assertEqual(result["config"]["comm"], "cuda_local")
        largest = result["runs"][-1]
        self.assertEqual(largest["devices"], [0, 0])
        self.assertTrue(largest["simulated"])
        self.assertIsNone(largest["efficiency"])
        self.assertIsNone(largest["peak_share"])

    def test_every_way_to_run_trains_the_same(self):
        plain = self.measure("--gpus", "1")["runs"][0]["weights_hash"]
        for flags in [["--allocator", "async"], ["--memory-growth"], ["--no-cuda-graphs"], ["--memory-limit", "500MB"]]:
            with self.subTest(flags=flags):
                result = self.measure("--gpus", "1", *flags)
                self.assertEqual(result["runs"][0]["weights_hash"], plain)
                self.assertEqual([text for text in result["warnings"] if "no effect" in text], [])

    def test_replayed_steps_send_what_others_do(self):
        recorded = self.measure("--gpus", "2")["runs"][-1]
        plain = self.measure("--gpus", "2", "--no-cuda-graphs")["runs"][-1]
        self.assertEqual(recorded["weights_hash"], plain["weights_hash"])
        self.assertEqual(recorded["bytes_sent"], plain["bytes_sent"])
        self.assertGreaterEqual(recorded["bytes_sent"], 394634 * 4)

    def test_a_gpu_that_is_slowed_makes_a_run_unstable(self):
        slow = {"FAKE_NVML_REASONS": "0x20", "FAKE_NVML_CLOCK": "1200"}
        result = self.measure("--gpus", "1", environment=slow)
        run = result["runs"][-1]
        self.assertFalse(run["stable"])
        self.assertIn("GPU 0 was slowed by heat (software limit) to 1200 of 1980 MHz", " ".join(run["unstable_reasons"]))


class Trained(OnGpus):
    def losses(self, *arguments, device="cuda"):
        self.expect(
            0, "bench", "--model", "cnn", "--batch-size", "4", "--data", "synthetic", "--rounds", "1", "--steps", "4",
            "--warmup", "3", "--format=json", "--timeout", "60s", "--out", "out", "--device", device, *arguments,
        )
        return self.result()["runs"][-1]["losses"]

    def assert_close(self, losses, expected, limit):
        self.assertEqual(len(losses), len(expected))
        for loss, want in zip(losses, expected):
            self.assertLess(abs(loss / want - 1.0), limit)

    def test_gpus_train_as_cores_do(self):
        expected = self.losses("--gpus", "1", device="cpu")
        self.assert_close(self.losses("--gpus", "1"), expected, 1e-4)
        self.assert_close(self.losses("--gpus", "1", "--no-cache", "--prefetch", "0"), expected, 1e-4)
        self.assert_close(self.losses("--gpus", "1", "--precision", "bf16"), expected, 0.05)

    def test_two_gpus_train_as_one_with_the_whole_batch(self):
        one = self.losses("--gpus", "1", "--batch-size", "8")
        for flags in [[], ["--no-cuda-graphs"], ["--oversubscribe", "--comm", "cuda_local"]]:
            with self.subTest(flags=flags):
                self.assert_close(self.losses("--gpus", "2", *flags), one, 1e-4)

    def test_micro_steps_train_as_the_whole_batch(self):
        whole = self.losses("--gpus", "1", "--batch-size", "9")
        self.assert_close(self.losses("--gpus", "1", "--batch-size", "3", "--accumulate", "3"), whole, 1e-4)

    def test_verify_agrees(self):
        done = self.expect(0, "verify", *SMALL, "--gpus", "2", "--steps", "5", "--timeout", "60s")
        self.assertIn("equal", done.stdout.lower())

    def test_fp16_scales_its_loss_and_tells(self):
        result = self.measure("--gpus", "2", "--precision", "fp16")
        self.assertTrue(result["runs"][-1]["weights_agree"])
        self.assertIn("dynamic loss scaling", " ".join(result["runs"][-1]["notes"]))


class Failed(OnGpus):
    def fails(self, words, *arguments, environment):
        text = self.expect(5, "bench", *SMALL, *SHORT, *arguments, environment=environment).stderr
        error = next(line for line in text.splitlines() if line.startswith("error: "))
        for word in words:
            self.assertIn(word, error)

    def test_a_collective_that_fails_ends_the_run(self):
        self.fails(
            ["failed: step", "rank 0", "ncclAllReduce"], "--gpus", "2", "--no-cuda-graphs",
            environment={"DOUBLE_FAIL": "ncclAllReduce:5"},
        )

    def test_a_collective_that_hangs_ends_by_the_deadline(self):
        self.fails(
            ["mirrored-2 failed", "the all-reduce did not end within 2 s"], "--gpus", "2", "--timeout", "2s",
            environment={"DOUBLE_HANG_RANK": "1"},
        )

    def test_a_gpu_that_fails_is_named(self):
        self.fails(
            ["step 3, rank 0", "cudaGraphLaunch", "on GPU 0", "cudaErrorLaunchFailure"], "--gpus", "1",
            environment={"DOUBLE_FAIL": "cudaGraphLaunch:2"},
        )


class WithoutDriverTools(OnGpus):
    driver_tools = False

    def test_it_measures_without_them(self):
        run = self.measure("--gpus", "1")["runs"][-1]
        self.assertEqual([device["clock_mhz"] for device in run["noise"]["devices"]], [])
        self.assertEqual(self.cuda()["conditions"], [])
