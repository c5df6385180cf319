"""Devices behind a PJRT plugin. XLA's plugin for the processor stands in for TPUs where cmake/fetch_pjrt.sh has fetched it."""

import json
import os
import pathlib
import unittest

from program import FEW_STEPS, PLAIN, ProgramTest

USAGE, ENVIRONMENT = 2, 3
PLUGIN = os.environ.get("DTRAIN_PJRT_PLUGIN", "")
MLP = ["--model", "mlp", "--batch-size", "8", "--data", "synthetic"]
TPU = ["--strategy", "tpu", "--pjrt-plugin", PLUGIN]
# libtpu of this machine's python3 is none of the test's business.
NO_PLUGIN = {"PATH": "/nowhere", "TPU_LIBRARY_PATH": ""}


@unittest.skipUnless(pathlib.Path(PLUGIN).is_file(), "no plugin for the processor: cmake/fetch_pjrt.sh fetches one")
class Plugin(ProgramTest):
    def test_bench_measures_one_program_a_step(self):
        result = self.bench_tpu("--gpus", "2", "--oversubscribe")
        self.assertEqual([run["id"] for run in result["runs"]], ["plain", "tpu-1", "tpu-2"])
        for run in result["runs"]:
            for sample in run["rounds"]:
                self.assertEqual(sample["images"], 3 * 8 * run["replicas"])
                self.assertEqual(len(sample["ranks"]), 1)
                phases = sample["ranks"][0]["phases"]
                self.assertGreater(phases["fused"], 0)
                self.assertEqual([phases["forward"], phases["backward"], phases["communication"]], [0, 0, 0])
        share = self.facts(result["runs"][-1])["xla_share"]
        self.assertGreater(share, 0)
        self.assertLessEqual(share, 1)
        self.assertEqual(result["config"]["device"], "tpu")
        self.assertIn("platform cpu", str(result["build"]["libraries"]))

    def test_it_trains_under_its_other_name(self):
        train = ["train", *MLP, "--batch-size", "500", "--strategy", "TPUStrategy", "--pjrt-plugin", PLUGIN, "--gpus", "1"]
        self.expect(0, *train, "--epochs", "1", PLAIN, "--out", "trained")
        run = self.result("trained")["runs"][-1]
        self.assertEqual(run["id"], "tpu-1")
        self.assertGreater(run["evaluations"][-1]["accuracy"], 0.12)

    def test_a_delay_holds_the_one_loop_up(self):
        delay = ["--inject-delay", "rank=0,phase=input,ms=40"]
        result = self.bench_tpu("--gpus", "2", "--oversubscribe", "--no-bases", *delay)
        self.assertGreater(result["runs"][-1]["rounds"][-1]["seconds"], 3 * 0.04)
        refused = ["bench", *MLP, *TPU, "--gpus", "2", "--oversubscribe", "--inject-delay", "rank=1,phase=input,ms=40"]
        self.expect_error(USAGE, ["rank=1", "one loop", "rank=0"], *refused)

    def test_memory_is_that_of_one_device(self):
        result = self.bench_tpu("--gpus", "2", "--oversubscribe")
        one, two = (run["memory"]["replica_bytes"] for run in result["runs"][1:])
        self.assertEqual(one, two)
        bench = ["bench", *MLP, *TPU, "--gpus", "2", "--oversubscribe", "--dry-run"]
        self.expect(0, *bench, "--memory-limit", "8MB")
        self.expect_error(ENVIRONMENT, ["a replica with 8 images", "--memory-limit"], *bench, "--memory-limit", "2MB")

    def test_flags_of_others_are_refused_or_said_to_have_no_effect(self):
        bench = ["bench", *MLP, *TPU, "--gpus", "1", "--dry-run"]
        for flags in (["--backup-workers", "1"], ["--servers", "2"], ["--staleness", "2"], ["--outer-momentum", "0.5"]):
            self.expect_error(USAGE, [" ".join(flags)], *bench, "--gpus", "2", "--oversubscribe", *flags)
        done = self.expect(0, *bench, "--no-overlap", "--allreduce", "ring", "--memory-growth")
        self.assertIn("--memory-growth has no effect on devices behind a PJRT plugin", done.stderr)
        self.assertIn("--no-overlap, --allreduce ring have no effect under --strategy tpu", done.stderr)
        mirrored = ["bench", *MLP, "--device", "cpu", "--gpus", "1", "--dry-run", "--pjrt-plugin", "/no/such.so"]
        self.assertIn("--pjrt-plugin /no/such.so has no effect on CPU replicas", self.expect(0, *mirrored).stderr)

    def test_it_equals_one_device(self):
        done = self.expect(0, "verify", *MLP, *TPU, "--gpus", "2", "--oversubscribe", "--steps", "5")
        self.assertIn("tpu with 2 replicas", done.stdout)

    def test_accumulation_and_uneven_shares(self):
        flags = ["--gpus", "2", "--oversubscribe", "--global-batch", "15", "--accumulate", "2"]
        self.expect(0, "verify", "--model", "mlp", "--data", "synthetic", *TPU, *flags, "--steps", "3")

    def test_info_shows_plugin_platform_and_devices(self):
        info = json.loads(self.expect(0, "info", "--json", "--pjrt-plugin", PLUGIN).stdout)
        tpu = next(backend for backend in info["backends"] if backend["name"] == "tpu")
        self.assertEqual(tpu["problem"], "")
        self.assertRegex(tpu["libraries"][0], r"PJRT 0\.\d+ \(")
        self.assertIn(PLUGIN, tpu["libraries"][0])
        self.assertRegex(tpu["libraries"][1], "platform cpu: ")
        self.assertGreaterEqual(len(tpu["devices"]), 1)

    def test_more_devices_than_cores_are_no_scaling(self):
        few = ["--gpus", "1000"]
        self.expect_error(ENVIRONMENT, ["1000 replicas", "devices"], "bench", *MLP, *TPU, *few)
        result = self.bench_tpu("--gpus", str(os.cpu_count() + 1), "--oversubscribe", "--no-bases")
        self.assertTrue(result["runs"][-1]["simulated"])

    def test_what_it_cannot_do_is_refused(self):
        bench = ["bench", *MLP, "--pjrt-plugin", PLUGIN]
        self.expect_error(USAGE, ["--strategy mirrored", "--device tpu", "single"], *bench, "--device", "tpu", "--gpus", "1")
        self.expect_error(USAGE, ["--strategy tpu", "--device cpu"], *bench, "--strategy", "tpu", "--device", "cpu")
        self.expect_error(USAGE, ["--precision fp16", "bf16"], *bench, "--strategy", "tpu", "--precision", "fp16")
        self.expect_error(USAGE, ["--compress fp16", "tpu"], *bench, "--strategy", "tpu", "--compress", "fp16")

    def bench_tpu(self, *arguments):
        self.expect(0, "bench", *MLP, *FEW_STEPS, *TPU, PLAIN, "--out", "out", *arguments)
        return self.result()

    @staticmethod
    def facts(run):
        return {fact["name"]: fact["value"] for fact in run["facts"]}


@unittest.skipUnless(PLUGIN, "this build has no TPU backend: cmake/fetch_pjrt.sh fetches what it needs")
class NoPlugin(ProgramTest):
    def refuse(self, words, *arguments, environment=None):
        self.expect_error(ENVIRONMENT, words, "bench", *MLP, "--strategy", "tpu", *arguments, environment=environment)

    def test_none_is_found(self):
        self.refuse(["no PJRT plugin found", "pip install libtpu"], environment=NO_PLUGIN)
        self.refuse(["TPU_LIBRARY_PATH /no/such.so"], environment={"TPU_LIBRARY_PATH": "/no/such.so"})

    def test_libtpu_without_a_tpu(self):
        if any(pathlib.Path("/dev").glob("accel*")) or pathlib.Path("/dev/vfio").is_dir():
            self.skipTest("there may be a TPU here")
        package = self.folder / "libtpu"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "libtpu.so").touch()  # not looked into
        self.refuse(["no TPU here: ", str(package), "TPU machine"], environment={"PYTHONPATH": str(self.folder), "TPU_LIBRARY_PATH": ""})

    def test_no_such_file(self):
        self.refuse(["--pjrt-plugin /no/such.so", "docs/tpu.md"], "--pjrt-plugin", "/no/such.so")

    def test_no_plugin_in_the_file(self):
        other = self.folder / "text.so"
        other.write_text("no library")
        self.refuse(["cannot be loaded"], "--pjrt-plugin", other)

    def test_no_tpu_here(self):
        self.refuse(["finds no device here: the fake is broken", "TPU machine"], "--pjrt-plugin", os.environ["DTRAIN_FAKE_TPU"])

    def test_too_old(self):
        self.refuse(["version 0.40", "0.54", "--upgrade"], "--pjrt-plugin", os.environ["DTRAIN_OLD_PLUGIN"])

    def test_info_says_what_is_missing(self):
        done = self.expect(0, "info", environment=NO_PLUGIN)
        self.assertIn("no PJRT plugin found", done.stdout)
        self.assertIn("pip install libtpu", done.stdout)


if __name__ == "__main__":
    unittest.main()
