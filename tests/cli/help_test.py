"""What the program says of itself: help, version, completion, info."""

import json
import shutil
import subprocess

from program import PROGRAM, ProgramTest

COMMANDS = ["bench", "train", "verify", "predict", "report", "launch", "allreduce", "data generate", "data fetch", "data inspect", "info", "completion"]


class Help(ProgramTest):
    def test_alone_it_lists_the_commands(self):
        for arguments in [[], ["--help"], ["-h"], ["help"]]:
            text = self.expect(0, *arguments).stdout
            for command in COMMANDS:
                self.assertIn(f"  {command} ", text)
            self.assertIn("dtrain bench --strategy mirrored --gpus 4", text)

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            text = self.expect(0, *command.split(), "--help").stdout
            self.assertIn(f"dtrain {command}", text)
            self.assertEqual(self.expect(0, "help", *command.split()).stdout, text)

    def test_bench_shows_defaults_and_choices(self):
        text = self.expect(0, "bench", "--help").stdout
        for part in ["mlp|cnn|resnet9", "[cnn]", "single|mirrored", "[mirrored]", "[64]", "[adam]", "[0.001]", "10000", "--no-cache", "default|async", "--no-cuda-graphs"]:
            self.assertIn(part, text)
        for group in ["Replicas:", "Batch:", "Training:", "Data:", "Measuring:", "Output:"]:
            self.assertIn(group, text)

    def test_help_wins_over_a_bad_flag_before_any_work(self):
        self.expect(0, "bench", "--config", "none", "--help")

    def test_groups_list_their_commands(self):
        self.assertIn("data fetch", self.expect(0, "data", "--help").stdout)

    def test_version_tells_the_build(self):
        self.assertRegex(self.expect(0, "--version").stdout, r"^dtrain \d+\.\d+\.\d+ \(.+\)\n$")


class Completion(ProgramTest):
    def complete(self, *words):
        """What bash offers after these words."""
        script = self.expect(0, "completion", "bash").stdout
        line = f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; _dtrain"
        shell = f'{script}\n{line}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", shell], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_bash_offers_commands_flags_and_values(self):
        self.assertIn("bench", self.complete("dtrain", "be"))
        self.assertEqual(self.complete("dtrain", "bench", "--strategy", "mi"), ["mirrored"])
        self.assertIn("--batch-size", self.complete("dtrain", "bench", "--ba"))
        self.assertEqual(self.complete("dtrain", "data", "fe"), ["fetch"])
        self.assertIn("--dump", self.complete("dtrain", "data", "inspect", "--du"))

    def test_other_shells_read_their_scripts(self):
        for shell, check in [("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])]:
            script = self.expect(0, "completion", shell).stdout
            self.assertIn("bench", script)
            if shutil.which(shell) is None:
                print(f"not parsed: {shell} is not installed here")
                continue
            subprocess.run(check, input=script, text=True, check=True)


class Info(ProgramTest):
    def test_says_what_is_here_and_why_it_counts(self):
        text = self.expect(0, "info").stdout
        for part in ["device", "oneDNN", "topology", "machine key", "launcher"]:
            self.assertIn(part, text)

    def test_json_is_for_programs(self):
        info = json.loads(self.expect(0, "info", "--json").stdout)
        self.assertEqual(info["backends"][0]["name"], "cpu")
        self.assertGreaterEqual(info["machine"]["cores"], 1)
        self.assertTrue(info["device"]["reason"])

    def test_bytes_of_a_variable_that_are_no_text_do_no_harm(self):
        environment = {"OMP_PROC_BIND": b"\xff".decode(errors="surrogateescape")}
        json.loads(self.expect(0, "info", "--json", environment=environment).stdout)

    def test_a_broken_tf_config_is_reported_not_fatal(self):
        self.assertIn("TF_CONFIG", self.expect(0, "info", environment={"TF_CONFIG": "{"}).stdout)


class Output(ProgramTest):
    def test_a_full_disk_is_no_success(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("standard output", done.stderr)
