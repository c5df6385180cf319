"""What a benchmark leaves behind and says."""

import json
import os
import re
import resource
import subprocess

from program import FEW_STEPS, PROGRAM, SMALL, ProgramTest, clean_environment

CORES = len(os.sched_getaffinity(0))


class ResultFile(ProgramTest):
    def test_every_run_in_order_with_its_rounds(self):
        result = self.bench("--gpus", "2")
        self.assertEqual(result["schema"], "dtrain.result/1")
        self.assertTrue(result["complete"])
        self.assertEqual([run["id"] for run in result["runs"]], ["plain", "mirrored-1", "mirrored-2"])
        self.assertEqual([run["base"] for run in result["runs"]], ["plain", "strategy", None])
        for run in result["runs"]:
            self.assertEqual(len(run["rounds"]), 2)
            for sample in run["rounds"]:
                self.assertEqual(sample["images"], 3 * 8 * run["replicas"])
                self.assertGreater(sample["seconds"], 0.0)
            self.assertIsNotNone(run["images_per_second"]["median"])

    def test_it_holds_options_as_used_and_a_line_that_runs_again(self):
        result = self.bench("--gpus", "1", "--lr", "0.1", "--lr", "0.5")
        self.assertEqual(result["config"]["lr"], 0.5)
        self.assertEqual(result["config"]["batch_size"], 8)
        self.assertEqual(result["config"]["model"], "mlp")
        self.assertIn("--lr 0.5", result["command"])
        self.assertTrue(result["command"].startswith("dtrain bench "))
        self.assertTrue(result["dataset"]["checksum"])

    def test_the_command_is_quoted_for_a_shell(self):
        self.expect(0, "bench", *SMALL, *FEW_STEPS, "--format", "json", "--gpus", "1", "--out", "it's here")
        self.assertIn("--out 'it'\\''s here'", self.result("it's here")["command"])

    def test_oversubscribed_cpu_replicas_are_simulated(self):
        result = self.bench("--gpus", str(2 * CORES))
        largest = result["runs"][-1]
        self.assertTrue(largest["simulated"])
        self.assertIsNone(largest["efficiency"])
        self.assertIn(f"{2 * CORES} replicas share {CORES} core", json.dumps(largest))
        self.assertFalse(result["runs"][0]["simulated"])

    def test_strong_scaling_holds_the_global_batch(self):
        result = self.bench("--gpus", "2", "--batch-size", "10", "--global-batch", "20")
        for run in result["runs"]:
            self.assertEqual([sample["images"] for sample in run["rounds"]], [60, 60])

    def test_secrets_stay_out_of_every_output(self):
        secrets = {"MY_TOKEN": "s3cr3t", "AWS_SECRET_ACCESS_KEY": "s3cr3t", "NCCL_API_KEY": "s3cr3t", "OMP_NUM_THREADS": "1"}
        done = self.expect(0, "bench", *SMALL, *FEW_STEPS, "--gpus", "1", "--out", "out", environment=secrets)
        self.assertNotIn("s3cr3t", done.stdout + done.stderr)
        files = [path for path in (self.folder / "out").rglob("*") if path.is_file()]
        self.assertEqual(len(files), 5)
        for file in files:
            self.assertNotIn("s3cr3t", file.read_text(), file.name)
        self.assertEqual(self.result()["environment"]["OMP_NUM_THREADS"], "1")

    def test_an_injected_delay_is_found_at_the_largest_n_only(self):
        if CORES < 2:
            self.skipTest("needs two cores to tell a straggler from a queue")
        result = self.bench("--gpus", "2", "--inject-delay", "rank=1,phase=input,ms=20", "--steps", "5")
        base, largest = result["runs"][1], result["runs"][2]
        self.assertGreater(largest["rounds"][0]["seconds"], 5 * 0.020)
        self.assertLess(base["rounds"][0]["seconds"], 5 * 0.020)
        self.assertRegex(json.dumps(largest["notes"]) + json.dumps(largest["budget"]), r"rank 1.*input|input.*rank 1")


class Failures(ProgramTest):
    def test_a_run_that_fails_does_not_take_the_others_with_it(self):
        delay = ["--inject-delay", "rank=1,phase=input,ms=2000", "--timeout", "100ms"]
        result = self.bench("--gpus", "2", *delay, code=5)
        plain, base, failed = result["runs"]
        self.assertEqual([len(plain["rounds"]), len(base["rounds"])], [2, 2])
        self.assertEqual(failed["rounds"], [])
        self.assertIn("rank 1", json.dumps(failed))
        self.assertIsNone(failed["efficiency"])

    def test_a_loss_that_is_not_finite_stops_the_run(self):
        done = self.expect(
            5, "bench", *SMALL, *FEW_STEPS, "--gpus", "1", "--optimizer", "sgd", "--lr", "1e6", "--steps", "40",
            "--out", "out",
        )
        self.assertRegex(done.stderr, r"step \d+")
        self.assertIn("rank 0", done.stderr)
        self.result()

    def test_a_disk_that_fills_up_costs_the_files_but_not_the_report(self):
        def limit_file_size():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # Python ignores the signal, and so do children

        done = subprocess.run(
            [PROGRAM, "bench", *SMALL, *FEW_STEPS, "--gpus", "1", "--out", "out"],
            cwd=self.folder, env=clean_environment(), capture_output=True, text=True, check=False,
            preexec_fn=limit_file_size, restore_signals=False,
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("Verdict", done.stdout)
        self.assertIn("measuring goes on", done.stderr)
        self.assertEqual(list((self.folder / "out").iterdir()), [], "no half-written file is left")


class Files(ProgramTest):
    def test_all_formats_by_default(self):
        self.expect(0, "bench", *SMALL, *FEW_STEPS, "--gpus", "1")
        names = sorted(file.name for file in (self.folder / "results").iterdir())
        self.assertEqual(names, ["history", "report.html", "result.csv", "result.json", "result.md"])

    def test_only_the_formats_asked_for(self):
        done = self.expect(0, "bench", *SMALL, *FEW_STEPS, "--gpus", "1", "--format", "csv", "--out", "out")
        self.assertEqual([file.name for file in (self.folder / "out").iterdir()], ["result.csv"])
        self.assertEqual(done.stdout, "")

    def test_a_trace_is_valid_json(self):
        self.bench("--gpus", "1", "--trace", "trace.json")
        events = json.loads((self.folder / "trace.json").read_text())
        self.assertGreater(len(events), 3)

    def test_saved_results_are_rendered_again(self):
        self.bench("--gpus", "1")
        self.assertIn("mirrored-1", self.expect(0, "report", "out").stdout)
        self.assertIn("mirrored-1", self.expect(0, "report", "out/result.json", "--format", "csv").stdout)
        self.assertEqual(json.loads(self.expect(0, "report", "out", "--format", "json").stdout), self.result())
        self.expect(0, "report", "out", "--format", "html,markdown", "--out", "again")
        self.assertEqual(sorted(file.name for file in (self.folder / "again").iterdir()), ["report.html", "result.md"])
        self.expect_error(2, ["--format csv,json"], "report", "out", "--format", "csv,json")


class Screen(ProgramTest):
    def test_results_on_stdout_and_progress_on_stderr(self):
        done = self.expect(0, "bench", *SMALL, *FEW_STEPS, "--gpus", "2", "--out", "out")
        for part in ["global", "weak", "mirrored-2", "images/s", "Verdict", "result.json"]:
            self.assertIn(part, done.stdout)
        self.assertIsNone(re.search(r"\x1b|\r", done.stdout + done.stderr), "plain lines where there is no terminal")

    def test_a_cpu_chosen_by_default_is_said_loudly(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a GPU")
        arguments = [*SMALL, *FEW_STEPS, "--gpus", "1", "--out", "out", "--device", "auto"]
        done = self.expect(0, "bench", *arguments)
        self.assertIn("no GPU found", done.stderr)
        self.assertIn("CPU", done.stdout)
        self.assertIn("no GPU found", (self.folder / "out" / "result.json").read_text())

    def test_quiet_leaves_warnings_only(self):
        done = self.expect(0, "bench", *SMALL, *FEW_STEPS, "--gpus", "1", "--out", "out", "--quiet")
        for line in done.stderr.splitlines():
            self.assertTrue(line.startswith("warning: "), line)


class Verify(ProgramTest):
    def test_replicas_train_as_one_does(self):
        text = self.expect(0, "verify", *SMALL, "--gpus", "2", "--steps", "5").stdout
        self.assertIn("equal", text)
        self.assertNotIn("DIFFERENT", text)

    def test_it_never_compares_one_with_itself(self):
        self.assertIn("mirrored-2", self.expect(0, "verify", *SMALL, "--threads-per-replica", str(CORES), "--dry-run").stdout)
