"""What would run, without running it."""

import os

from program import SMALL, ProgramTest


class DryRun(ProgramTest):
    def plan(self, *arguments, environment=None):
        done = self.expect(
            0, "bench", "--model", "mlp", "--data", "synthetic", "--device", "cpu", "--dry-run", *arguments,
            environment=environment,
        )
        self.assertEqual(list(self.folder.iterdir()), self.files_before(), "a dry run writes nothing")
        return done.stdout

    def files_before(self):
        return [self.folder / name for name in getattr(self, "made", [])]

    def runs(self, *arguments, environment=None):
        """{run: (replicas, replica batch, global batch)}"""
        found = {}
        for line in self.plan(*arguments, environment=environment).splitlines():
            words = line.split()
            if words and (words[0] == "plain" or words[0].startswith("mirrored-")):
                found[words[0]] = (int(words[1]), words[2], words[-1] if "or" in words else int(words[3]))
        return found

    def test_one_count_measures_powers_of_two_below_it(self):
        self.assertEqual(
            self.runs("--gpus", "4"),
            {"plain": (1, "64", 64), "mirrored-1": (1, "64", 64), "mirrored-2": (2, "64", 128), "mirrored-4": (4, "64", 256)},
        )

    def test_lists_and_ranges_measure_exactly_those_and_one(self):
        self.assertEqual(list(self.runs("--gpus", "3,5")), ["plain", "mirrored-1", "mirrored-3", "mirrored-5"])
        self.assertEqual(list(self.runs("--replicas", "2..3")), ["plain", "mirrored-1", "mirrored-2", "mirrored-3"])

    def test_a_global_batch_means_strong_scaling(self):
        self.assertIn("strong", self.plan("--gpus", "4", "--global-batch", "128"))
        self.assertEqual(self.runs("--gpus", "4", "--global-batch", "128")["mirrored-4"], (4, "32", 128))
        self.assertEqual(self.runs("--gpus", "4", "--global-batch", "128")["plain"], (1, "128", 128))

    def test_an_uneven_global_batch_is_dealt_out(self):
        self.assertIn("3 or 2", self.plan("--gpus", "4", "--global-batch", "10"))

    def test_the_last_flag_counts(self):
        self.assertEqual(self.runs("--gpus", "4", "--replicas", "1", "--batch-size", "2", "--batch-size=3"),
                         {"plain": (1, "3", 3), "mirrored-1": (1, "3", 3)})

    def test_tensorflows_names_work(self):
        self.assertIn("mirrored-2", self.plan("--strategy", "MirroredStrategy", "--gpus", "2"))
        self.assertIn("plain", self.plan("--strategy", "OneDeviceStrategy"))

    def test_more_replicas_than_cores_are_simulated(self):
        many = str(len(os.sched_getaffinity(0)) + 1)
        text = self.plan("--gpus", many)
        self.assertIn("simulated", text)
        self.assertIn("not pinned", text)

    def test_it_says_device_memory_and_data(self):
        text = self.plan("--gpus", "1")
        for part in ["cpu (", "iB", "synthetic", "dry run"]:
            self.assertIn(part, text)

    def test_a_step_less_slurm_allocation_is_one_process(self):
        done = self.expect(
            0, "bench", *SMALL, "--dry-run", environment={"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1"}
        )
        self.assertEqual(done.stderr.count("SLURM"), done.stderr.count("SLURM variables") + done.stderr.count("SLURM_STEP_ID"))
        self.assertEqual(done.stderr.count("single process"), 1)

    def test_a_single_worker_tf_config_is_fine(self):
        text = self.plan(environment={"TF_CONFIG": '{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}}'})
        self.assertIn("TF_CONFIG", text)


class ConfigFile(DryRun):
    def write(self, text):
        (self.folder / "c.toml").write_text(text)
        self.made = ["c.toml"]

    def test_its_values_count(self):
        self.write("# a comment\nbatch-size = 16\ngpus = [1, 3]\n\n[bench]\nglobal_batch = 48\n")
        self.assertEqual(self.runs("--config", "c.toml"), {"plain": (1, "48", 48), "mirrored-1": (1, "48", 48), "mirrored-3": (3, "16", 48)})

    def test_the_command_line_wins(self):
        self.write("batch-size = 16\nreplicas = 4\naugment = true\n")
        self.assertEqual(self.runs("--config", "c.toml", "--gpus", "1"), {"plain": (1, "16", 16), "mirrored-1": (1, "16", 16)})

    def test_lists_may_be_written_plainly(self):
        self.write("gpus = 1,3\n")
        self.assertEqual(list(self.runs("--config", "c.toml")), ["plain", "mirrored-1", "mirrored-3"])
