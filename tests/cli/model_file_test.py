"""Models that users write themselves."""

import json
import os
import pathlib
import socket
import subprocess

from program import PLAIN, PROGRAM, ProgramTest, clean_environment

MODELS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "models"
SMALL = ["--batch-size", "8", "--data", "synthetic", "--device", "cpu", "--quiet"]
FEW_STEPS = ["--rounds", "1", "--steps", "3", "--warmup", "0"]

TINY = """name = "tiny"
[[layer]]
type = "convolution"
name = "conv"
out_channels = 8
[[layer]]
type = "relu"
[[layer]]
type = "max_pool"
size = 8
[[layer]]
type = "dense"
out_features = 10
"""


class ModelFile(ProgramTest):
    def write(self, text, name="mine.toml"):
        (self.folder / name).write_text(text)

    def measured(self, model, out, *arguments):
        self.expect(0, "bench", "--model", model, *SMALL, *FEW_STEPS, PLAIN, "--out", out, *arguments)
        return self.result(out)

    def test_the_written_out_cnn_trains_as_the_zoos(self):
        mine = self.measured(MODELS / "cnn.toml", "mine", "--gpus", "1")
        zoo = self.measured("cnn", "zoo", "--gpus", "1")
        self.assertEqual(mine["config"]["model"], str(MODELS / "cnn.toml"))
        self.assertEqual(mine["model"]["name"], "cnn")
        for key in ("fingerprint", "parameters", "training_flops_per_image", "training_bytes_per_image"):
            self.assertEqual(mine["model"][key], zoo["model"][key])
        for one, other in zip(mine["runs"], zoo["runs"]):
            self.assertEqual(one["losses"], other["losses"])
            self.assertEqual(one["weights_hash"], other["weights_hash"])
        self.assertNotIn("not the same work", self.run_program("compare", "zoo", "mine").stdout)

    def test_examples_train_alike_on_one_and_on_two(self):
        for name in ("wide", "residual"):
            self.expect(0, "verify", "--model", MODELS / f"{name}.toml", *SMALL, "--gpus", "2", "--steps", "5")

    def test_a_dry_run_shows_the_layers(self):
        self.write(TINY)
        text = self.expect(0, "bench", "--model", "mine.toml", *SMALL, "--dry-run").stdout
        self.assertRegex(text, r"conv +convolution 3 x 3 +image +8 x 30 x 30 +224\n")
        self.assertRegex(text, r"dense1 +dense +pool1 +10 +730\n")
        self.assertIn("tiny, 954 parameters", text)

    def test_another_model_under_the_same_path_is_not_compared(self):
        self.write(TINY)
        self.measured("mine.toml", "before", "--gpus", "1")
        self.write(TINY.replace("out_channels = 8", "out_channels = 8\npadding = 1").replace("size = 8", "size = 10"))
        self.measured("mine.toml", "after", "--gpus", "1")
        self.assertEqual(self.result("before")["model"]["parameters"], self.result("after")["model"]["parameters"])
        self.assertIn("model", self.expect(6, "compare", "before", "after").stdout)

    def test_training_goes_on_from_a_checkpoint_of_the_same_layers_only(self):
        train = ["train", *SMALL, "--gpus", "1", "--epochs", "1", "--batch-size", "512", "--format=json", "--out", "out"]
        self.write(TINY)
        self.expect(0, *train, "--model", "mine.toml", "--checkpoint", "state")
        self.expect(0, *train, "--model", "./mine.toml", "--resume", "state", "--epochs", "2")
        self.write(TINY.replace("relu", "add").replace("size", 'inputs = ["add1"]\nsize').replace(
            'type = "add"', 'type = "add"\ninputs = ["conv", "conv"]'))
        self.expect_error(4, ["state"], *train, "--model", "mine.toml", "--resume", "state", "--epochs", "2")

    def test_workers_must_have_the_same_layers_wherever_they_lie(self):
        def ended(texts):
            with socket.socket() as one, socket.socket() as two:
                one.bind(("127.0.0.1", 0))
                two.bind(("127.0.0.1", 0))
                addresses = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in (one, two)]
            workers = []
            for index, text in enumerate(texts):
                self.write(text, f"of-{index}.toml")
                task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                flags = ["--strategy", "multi-worker", "--model", f"of-{index}.toml", *SMALL, *FEW_STEPS, PLAIN]
                workers.append(
                    subprocess.Popen(
                        [PROGRAM, "bench", *flags, "--out", f"out-{index}"],
                        cwd=self.folder,
                        env=clean_environment({"TF_CONFIG": json.dumps(task)}),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                )
            said = [worker.communicate(timeout=100)[1] for worker in workers]
            return [worker.returncode for worker in workers], said

        codes, said = ended([TINY, "# the same\n" + TINY])
        self.assertEqual(codes, [0, 0], said)
        codes, said = ended([TINY, TINY.replace("size = 8", "size = 8\n[[layer]]\ntype = \"relu\"")])
        self.assertEqual(codes[0], 2, said)
        self.assertIn("model tiny of layers", said[0])

    def test_bad_files_are_refused(self):
        bad = {
            "a word that is unknown": (TINY.replace("max_pool", "maxpool"), ["mine.toml:9", "max_pool"]),
            "a key that is unknown": (TINY.replace("out_channels", "out_chanels"), ["mine.toml:5", "out_channels"]),
            "a number in quotes": (TINY.replace("= 8\n[[", '= "8"\n[['), ["mine.toml:5", "whole number"]),
            "no channels": (TINY.replace("out_channels = 8", "out_channels = 0"), ["mine.toml:5", "65536"]),
            "far too many": (TINY.replace("out_features = 10", "out_features = 10000000000"), ["mine.toml:13"]),
            "another width": (TINY.replace("out_features = 10", "out_features = 11"), ["mine.toml:13", "10"]),
            "no such input": (TINY + 'inputs = ["covn"]\n', ["mine.toml:14", "'conv'"]),
            "a window that is too large": (TINY.replace("size = 8", "size = 31"), ["mine.toml:8", "8 x 30 x 30"]),
            "nothing": ("", ["mine.toml", "empty"]),
            "no TOML": ("[[layer\n", ["mine.toml:1", "TOML"]),
            "a zero byte": (TINY + "\0", ["mine.toml:14", "zero"]),
        }
        for what, (text, words) in bad.items():
            with self.subTest(what):
                self.write(text)
                self.expect_error(4, words, "bench", "--model", "mine.toml", *SMALL)
        self.expect_error(4, ["no such file", "gone.toml"], "verify", "--model", "gone.toml", *SMALL)
        self.expect_error(4, ["folder"], "train", "--model", f"{self.folder}/", *SMALL)
        with open(self.folder / "mine.toml", "wb") as file:
            os.truncate(file.fileno(), 100_000_000)
        self.expect_error(4, ["mine.toml", "at most"], "bench", "--model", "mine.toml", *SMALL)
