"""Programs outside of this tree, built against an installation: those of bench/ and those of docs/extending.md."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DTRAIN_SOURCE"])
BUILD = pathlib.Path(os.environ["DTRAIN_BUILD"])
PROGRAM = pathlib.Path(os.environ["DTRAIN_PROGRAM"])
SANITIZE = os.environ.get("DTRAIN_SANITIZE", "")
LAUNCHERS = ("RANK", "WORLD_SIZE", "TF_CONFIG")


def environment(folder, **more):
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    kept["PATH"] = f"{folder / 'bin'}:{kept['PATH']}"
    kept.setdefault("CCACHE_DIR", str(pathlib.Path.home() / ".cache" / "ccache"))
    kept["HOME"] = str(folder)
    kept["XDG_DATA_HOME"] = str(folder / "data-home")
    if shutil.which("ccache"):
        kept["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    if SANITIZE:
        kept["CXXFLAGS"] = kept["LDFLAGS"] = f"-fsanitize={SANITIZE}"
    kept.update(more)
    return kept


def code_blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```", document, re.M | re.S)


class Outside(unittest.TestCase):
    """One folder for all: an installation, the programs of bench/, and what docs/extending.md tells to make."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        (cls.folder / "bin").mkdir()
        (cls.folder / "bin" / "dtrain").symlink_to(PROGRAM)
        (cls.folder / "build").mkdir()
        (cls.folder / "build" / "release").symlink_to(BUILD)
        cls.command("dtrain", "data", "generate", "made", "--records", "64", "--test-records", "64", "--quiet")
        cls.command("cmake", "--install", "build/release", "--prefix", ".local")
        for name in ("custom_loop", "custom_strategy"):
            shutil.copytree(SOURCE / "bench" / name, cls.folder / name)
        (cls.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(both LANGUAGES CXX)\n"
            "add_subdirectory(custom_loop)\nadd_subdirectory(custom_strategy)\n"
        )
        cls.command("cmake", "-S", ".", "-B", "out", f"-DCMAKE_PREFIX_PATH={cls.folder}/.local")
        cls.command("cmake", "--build", "out", "-j", "2")
        cls.loop = cls.folder / "out" / "custom_loop" / "custom_loop"
        cls.gossip = cls.folder / "out" / "custom_strategy" / "gossip"

    @classmethod
    def command(cls, *words, code=0, timeout=300, **more):
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cls.folder,
            env=environment(cls.folder, **more),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != code:
            raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    FLAGS = ["--model", "mlp", "--data", "made", "--device", "cpu", "--global-batch", "64", "--optimizer", "sgd"]

    def losses(self, text):
        return [float(loss) for loss in re.findall(r"^step \d+ loss (\S+)$", text, re.M)]

    def loop_losses(self, *flags, **more):
        text = self.command(self.loop, *self.FLAGS, "--epochs", "2", *flags, **more).stdout
        losses = self.losses(text)
        self.assertEqual(len(losses), 10)
        means = [float(loss) for loss in re.findall(r"^epoch \d loss (\S+)", text, re.M)]
        self.assertLess(means[1], means[0])
        return losses

    def assert_equal_losses(self, found, expected, places):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertLessEqual(abs(one - other), places * abs(other))

    def test_strategies_train_alike(self):
        one = self.loop_losses("--strategy", "single", "--gpus", "1")
        two = self.loop_losses("--strategy", "mirrored", "--gpus", "2")
        served = self.loop_losses("--strategy", "parameter-server", "--gpus", "2")
        self.assert_equal_losses(two, one, 1e-4)
        self.assert_equal_losses(served, one, 1e-4)
        accumulated = self.loop_losses("--strategy", "mirrored", "--gpus", "2", "--accumulate", "2")
        self.assert_equal_losses(accumulated, one, 1e-4)

    def test_the_loop_is_that_of_dtrain_train(self):
        flags = ["--strategy", "mirrored", "--gpus", "2"]
        self.command("dtrain", "train", *self.FLAGS, *flags, "--epochs", "2", "--quiet", "--format=json", "--out", "trained")
        run = json.loads((self.folder / "trained" / "result.json").read_text())["runs"][0]
        text = self.command(self.loop, *self.FLAGS, *flags, "--epochs", "2").stdout
        self.assert_equal_losses(self.losses(text), run["losses"], 1e-12)
        test = re.findall(r"test loss (\S+) accuracy (\S+) %", text)
        for (loss, accuracy), evaluation in zip(test, run["evaluations"]):
            self.assertAlmostEqual(float(loss), evaluation["loss"], places=5)
            self.assertAlmostEqual(float(accuracy), 100 * evaluation["accuracy"], places=2)

    def test_workers_run_it_together(self):
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            addresses = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in (one, two)]
        flags = [*self.FLAGS, "--strategy", "multi-worker", "--gpus", "2", "--epochs", "2"]
        workers = []
        for index in range(2):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            workers.append(
                subprocess.Popen(
                    [str(self.loop), *flags],
                    cwd=self.folder,
                    env=environment(self.folder, TF_CONFIG=json.dumps(task)),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        texts = [worker.communicate(timeout=120) for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0, 0], texts)
        alone = self.loop_losses("--strategy", "single", "--gpus", "1")
        for text, _ in texts:
            self.assert_equal_losses(self.losses(text), alone, 1e-4)

    def test_errors_are_those_of_dtrain(self):
        done = self.command(self.loop, *self.FLAGS, "--strategy", "miror", code=2)
        self.assertIn("'mirrored'", done.stderr)
        done = self.command(self.loop, "--modl", "cnn", code=2)
        self.assertIn("--model", done.stderr)

    def test_a_strategy_of_ones_own_is_one_among_others(self):
        self.assertIn("gossip", self.command(self.gossip, "bench", "--help").stdout)
        short = ["--rounds", "2", "--steps", "3", "--warmup", "1", "--quiet", "--format=json"]
        small = ["--model", "mlp", "--data", "made", "--device", "cpu", "--batch-size", "8", "--gpus", "2"]
        self.command(self.gossip, "bench", "--strategy", "gossip", *small, *short, "--out", "gossiped")
        result = json.loads((self.folder / "gossiped" / "result.json").read_text())
        self.assertEqual(result["config"]["strategy"], "gossip")
        self.assertEqual([run["id"] for run in result["runs"]], ["plain", "gossip-1", "gossip-2"])
        self.assertGreater(result["runs"][2]["bytes_sent"], 0)
        done = self.command(self.gossip, "verify", "--strategy", "gossip", *small, "--quiet", code=5)
        self.assertIn("DIFFERENT", done.stdout)
        self.command(self.gossip, "verify", "--strategy", "mirrored", *small, "--quiet")
        done = self.command(self.gossip, "bench", "--strategy", "gosip", *small, code=2)
        self.assertIn("'gossip'", done.stderr)
        done = self.command("dtrain", "bench", "--strategy", "gossip", *small, code=2)
        self.assertIn("unknown strategy 'gossip'", done.stderr)
        self.assertIn("gossip", self.command("dtrain", "report", "gossiped").stdout)

    def test_a_source_tree_will_do(self):
        tree = self.folder / "tree"
        tree.mkdir()
        (tree / "main.cpp").write_text("int main() {}\n")
        (tree / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(outer LANGUAGES CXX)\n"
            f"add_subdirectory({SOURCE} dtrain EXCLUDE_FROM_ALL)\n"
            "add_executable(outer main.cpp)\ntarget_link_libraries(outer PRIVATE dtrain::base)\n"
            "add_executable(loop EXCLUDE_FROM_ALL main.cpp)\ntarget_link_libraries(loop PRIVATE dtrain::dtrain)\n"
        )
        self.command("cmake", "-S", tree, "-B", tree / "out", "-DDTRAIN_CUDA=OFF")
        self.command("cmake", "--build", tree / "out", "-j", "2")
        targets = self.command("cmake", "--build", tree / "out", "--target", "help").stdout
        self.assertIn("dtrain_dtrain", targets)
        self.assertNotIn("tests_", targets)
        self.assertNotIn("bench_", targets)

    def test_the_document_does_as_it_says(self):
        document = (SOURCE / "docs" / "extending.md").read_text()
        named = r"`(\w+\.\w+)`(?: [^\n`]*)?:\n\n```\w+\n(.*?)^```"
        files = dict(re.findall(named, document, re.M | re.S))
        self.assertEqual(set(files), {"tiny.toml", "CMakeLists.txt", "loop.cpp", "solo.cpp"})
        folder = self.folder / "document"
        folder.mkdir()
        (folder / "build").symlink_to(self.folder / "build")
        for name, text in files.items():
            (folder / name).write_text(text)
        for block in code_blocks(document, "sh"):
            for line in block.splitlines():
                if line.startswith("cmake --install"):
                    continue  # done
                expected = int((re.search(r"# exit (\d+)", line) or [0, 0])[1])
                quick = f"cd document && {line.split(' #')[0]}"
                if "dtrain train" in line:
                    quick += f" --data {self.folder}/made --batch-size 32"
                self.command("bash", "-c", quick, code=expected)


if __name__ == "__main__":
    unittest.main()
