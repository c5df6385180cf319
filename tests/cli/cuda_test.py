"""GPUs as a machine without any sees them: nothing is hidden, nothing is loaded that is not needed."""

import json
import os
import pathlib
import shutil
import subprocess

from program import FEW_STEPS, PLAIN, PROGRAM, SMALL, ProgramTest, clean_environment

USAGE = 2
ENVIRONMENT = 3
MODULE = pathlib.Path(PROGRAM).with_name("libdtrain_cuda.so")

DRY = ["bench", "--model", "mlp", "--data", "synthetic", "--dry-run"]


def gpu_is_here():
    return os.path.exists("/dev/nvidiactl")


class WithoutGpu(ProgramTest):
    def setUp(self):
        super().setUp()
        if gpu_is_here():
            self.skipTest("this machine has a GPU")

    def test_auto_takes_the_cpu_and_says_so(self):
        done = self.expect(0, *DRY, "--gpus", "1")
        self.assertIn("no GPU found: CPU replicas", done.stderr)

    def test_cuda_never_falls_back(self):
        self.expect_error(ENVIRONMENT, ["--device cuda", "0 GPUs", "--device cpu"], *DRY, "--device", "cuda")

    def test_hidden_gpus_are_said_to_be_hidden(self):
        self.expect_error(
            ENVIRONMENT, ["CUDA_VISIBLE_DEVICES is empty", "--device cpu"],
            *DRY, "--device", "cuda", "--gpus", "1", environment={"CUDA_VISIBLE_DEVICES": ""},
        )


class TheModule(ProgramTest):
    def setUp(self):
        super().setUp()
        if not MODULE.exists():
            self.skipTest("this build has no CUDA module")

    def alone(self, module=None):
        """A copy of the program, with this beside it as its module."""
        copy = self.folder / "bin"
        copy.mkdir()
        shutil.copy(PROGRAM, copy)
        if module is not None:
            (copy / MODULE.name).write_bytes(module)
        return copy / pathlib.Path(PROGRAM).name

    def cuda(self, path=PROGRAM, environment=None):
        """What `info` knows of the CUDA backend."""
        done = subprocess.run(
            [path, "info", "--json"], env=clean_environment(environment), capture_output=True, text=True, check=True
        )
        info = json.loads(done.stdout)
        return info["cuda_module"], next(entry for entry in info["backends"] if entry["name"] == "cuda")

    def test_it_is_loaded_and_tells_its_libraries(self):
        module, cuda = self.cuda()
        self.assertTrue(module["loaded"], cuda["problem"])
        self.assertEqual(module["file"], str(MODULE))
        text = " ".join(cuda["libraries"])
        for library in ["CUDA runtime", "cuDNN 9.", "NCCL 2."]:
            self.assertIn(library, text)
        if not gpu_is_here():
            self.assertIn("driver", cuda["problem"])
            self.assertEqual(cuda["devices"], [])

    def test_it_is_found_in_an_installed_tree(self):
        path = self.alone()
        library = self.folder / "lib" / "dtrain"
        library.mkdir(parents=True)
        shutil.copy(MODULE, library)
        module, cuda = self.cuda(path)
        self.assertTrue(module["loaded"], cuda["problem"])
        self.assertEqual(module["file"], str(library / MODULE.name))

    def test_without_it_the_program_works_and_says_what_is_missing(self):
        path = self.alone()
        module, cuda = self.cuda(path)
        self.assertFalse(module["loaded"])
        self.assertIn("has no CUDA module", cuda["problem"])
        self.assertIn("docs/cuda.md", cuda["advice"])

    def test_one_that_cannot_be_loaded_keeps_the_linkers_words(self):
        _, cuda = self.cuda(self.alone(b"no library"))
        self.assertIn("cannot be loaded", cuda["problem"])
        self.assertIn(MODULE.name, cuda["problem"])

    def test_its_libraries_are_named_where_they_are_missing(self):
        module = MODULE.read_bytes()
        self.assertIn(b"libcudnn.so.9\0", module)
        _, cuda = self.cuda(self.alone(module.replace(b"libcudnn.so.9\0", b"libcudnn.so.0\0")))
        self.assertIn("libcudnn.so.0", cuda["problem"])

    def test_cpu_runs_never_load_it(self):
        log = self.folder / "linker"
        environment = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(log)}
        self.expect(0, "bench", *SMALL, *FEW_STEPS, PLAIN, "--gpus", "1", "--out", "out", environment=environment)
        opened = "".join(file.read_text(errors="replace") for file in self.folder.glob("linker*"))
        self.assertIn("libstdc++", opened)
        for name in ["libdtrain_cuda", "libcudnn", "libnccl", "libcuda"]:
            self.assertNotIn(name, opened)


class Flags(ProgramTest):
    def test_communicators_of_gpus_are_refused_on_cores(self):
        for name in ["nccl", "cuda_local"]:
            self.expect_error(
                USAGE, [f"--comm {name}", "CPU cores", "--comm shared_memory"], *DRY, "--device", "cpu", "--comm", name
            )

    def test_flags_of_gpus_do_nothing_on_cores_and_say_so(self):
        result = self.bench("--gpus", "1", "--allocator", "async", "--memory-growth", "--no-cuda-graphs")
        self.assertIn(
            "--allocator async, --memory-growth, --no-cuda-graphs have no effect on CPU replicas", result["warnings"]
        )
        config = result["config"]
        self.assertEqual([config[key] for key in ["allocator", "memory_growth", "cuda_graphs"]], ["async", True, False])

    def test_defaults_are_recorded_without_a_word(self):
        result = self.bench("--gpus", "1")
        config = result["config"]
        self.assertEqual([config[key] for key in ["allocator", "memory_growth", "cuda_graphs"]], ["default", False, True])
        self.assertEqual(config["comm"], "shared_memory")
        self.assertEqual([text for text in result["warnings"] if "effect" in text], [])
