"""Every bad input is refused before any work, with its own exit code and the words that help."""

import json
import os

from program import FEW_STEPS, PLAIN, SMALL, ProgramTest

USAGE = 2
ENVIRONMENT = 3
DATA = 4

BENCH = ["bench", *SMALL, *FEW_STEPS, PLAIN, "--out", "out"]


def cluster(workers, kind="worker", index=0):
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": kind, "index": index}})


# (words that the two lines must hold, arguments after `bench`)
BAD_FLAGS = [
    (["--gpus", "'0'"], ["--gpus", "0"]),
    (["--gpus", "'-1'"], ["--gpus", "-1"]),
    (["--gpus", "'two'"], ["--gpus", "two"]),
    (["--gpus", "'4x'"], ["--gpus", "4x"]),
    (["--gpus", "'1,,2'"], ["--gpus", "1,,2"]),
    (["'4..1'", "1..4"], ["--gpus", "4..1"]),
    (["'1..100000'"], ["--replicas", "1..100000"]),
    (["--gpus", "99999999999999999999"], ["--gpus", "99999999999999999999"]),
    (["--batch-size", "'0'"], ["--batch-size", "0"]),
    (["--batch-size", "'-1'"], ["--batch-size", "-1"]),
    (["--batch-size", "'64.5'"], ["--batch-size", "64.5"]),
    (["--batch-size", "'1e3'"], ["--batch-size=1e3"]),
    (["--global-batch", "'0'"], ["--global-batch", "0"]),
    (["--global-batch 3", "4 replicas", "--global-batch 4"], ["--gpus", "4", "--batch-size", "1", "--global-batch", "3"]),
    (["--batch-size 8", "--global-batch 100", "--global-batch 32"], ["--gpus", "4", "--global-batch", "100"]),
    (["weak", "--global-batch"], ["--scaling", "weak", "--global-batch", "64"]),
    (["--scaling", "'week'", "'weak'"], ["--scaling", "week"]),
    (["--lr", "'nan'"], ["--lr", "nan"]),
    (["--lr", "'-1'"], ["--lr", "-1"]),
    (["--lr", "'0,1'"], ["--lr", "0,1"]),
    (["--momentum", "'1.5'"], ["--momentum", "1.5"]),
    (["--steps", "'0'"], ["--steps", "0"]),
    (["--rounds", "'0'"], ["--rounds", "0"]),
    (["--warmup", "'-1'"], ["--warmup", "-1"]),
    (["--min-time", "'5m'", "250ms"], ["--min-time", "5m"]),
    (["--min-time", "'0'"], ["--min-time", "0"]),
    (["--timeout", "'never'"], ["--timeout", "never"]),
    (["--memory-limit", "'200mb'", "200MB"], ["--memory-limit", "200mb"]),
    (["--allocator", "'asinc'", "'async'"], ["--allocator", "asinc"]),
    (["--bucket-mb", "'0'"], ["--bucket-mb", "0"]),
    (["--seed", "'-1'"], ["--seed", "-1"]),
    (["--accumulate", "'0'"], ["--accumulate", "0"]),
    (["--prefetch", "'-2'"], ["--prefetch", "-2"]),
    (["--shuffle", "'all'"], ["--shuffle", "all"]),
    (["--threads-per-replica", "'0'"], ["--threads-per-replica", "0"]),
    (["--precision", "'fp64'"], ["--precision", "fp64"]),
    (["--last-batch", "'dorp'", "'drop'"], ["--last-batch", "dorp"]),
    (["strategy", "'mirored'", "did you mean 'mirrored'"], ["--strategy", "mirored"]),
    (["single", "4"], ["--strategy", "single", "--gpus", "4"]),
    (["model", "'resnet8'", "'resnet9'"], ["--model", "resnet8"]),
    (["optimizer", "'adamm'", "'adam'"], ["--optimizer", "adamm"]),
    (["schedule", "'cosin'", "'cosine'"], ["--schedule", "cosin"]),
    (["communicator", "'shared_memry'", "'shared_memory'"], ["--comm", "shared_memry"]),
    (["device", "'gpu'"], ["--device", "gpu"]),
    (["report format", "'jsn'", "'json'"], ["--format", "json,jsn"]),
    (["--inject-delay", "rank=1"], ["--inject-delay", "rank=1"]),
    (["--inject-delay phase", "'inptu'", "'input'"], ["--inject-delay", "rank=1,phase=inptu,ms=1"]),
    (["rank=7", "no such rank"], ["--gpus", "2", "--inject-delay", "rank=7,phase=input,ms=1"]),
    (["--inject-delay", "base"], ["--gpus", "1", "--inject-delay", "rank=0,phase=input,ms=1"]),
    (["unknown flag '--batchsize'", "'--batch-size'"], ["--batchsize", "8"]),
    (["unknown flag '--gpu'", "'--gpus'"], ["--gpu=2"]),
    (["unknown flag '-x'"], ["-x"]),
    (["unexpected argument 'extra'"], ["extra"]),
    (["--gpus"], ["--gpus"]),
    (["--data", "''"], ["--data", ""]),
    (["--config", "none.toml"], ["--config", "none.toml"]),
    (["--batch-size", "more than the"], ["--batch-size", "60000", "--gpus", "1", "--memory-limit", "100GB"]),
]


class BadFlags(ProgramTest):
    def test_every_one_is_refused_by_name(self):
        for words, arguments in BAD_FLAGS:
            with self.subTest(arguments=arguments):
                self.expect_error(USAGE, words, *BENCH, *arguments)
        self.assertFalse((self.folder / "out" / "result.json").exists())

    def test_commands(self):
        self.expect_error(USAGE, ["unknown command 'bnech'", "'bench'"], "bnech")
        self.expect_error(USAGE, ["unknown command 'data fetsh'"], "data", "fetsh")
        self.expect_error(USAGE, ["data", "generate"], "data")
        self.expect_error(USAGE, ["'--gpus'", "command"], "--gpus", "4", "bench")
        self.expect_error(USAGE, ["unknown shell 'bsh'", "'bash'"], "completion", "bsh")
        self.expect_error(USAGE, ["RESULT"], "report")
        self.expect_error(USAGE, ["--steps", "'0'"], "verify", "--steps", "0")
        self.expect_error(USAGE, ["--epochs", "'0'"], "train", "--epochs", "0")
        self.expect_error(USAGE, ["--target-accuracy", "'94'", "94%"], "train", "--target-accuracy", "94")
        self.expect_error(USAGE, ["--target-accuracy", "'0%'"], "train", "--target-accuracy", "0%")
        self.expect_error(USAGE, ["--records", "'0'"], "data", "generate", "made", "--records", "0")


class BadEnvironments(ProgramTest):
    def refused(self, words, environment):
        self.expect_error(USAGE, words, *BENCH, environment=environment)

    def test_malformed_tf_config(self):
        for words, text in [
            (["TF_CONFIG", "empty"], ""),
            (["TF_CONFIG", "character"], "{oops"),
            (["TF_CONFIG", "array"], "[]"),
            (["TF_CONFIG", "'cluster'"], "{}"),
            (["TF_CONFIG", "'task'"], '{"cluster":{"worker":["a:1"]}}'),
            (["'wroker'", "'worker'"], cluster(["a:1"], "wroker")),
            (["task.index is 2"], cluster(["a:1", "b:1"], index=2)),
            (["worker 0", "'localhost:0000'"], cluster(["localhost:0000"])),
            (["'host'"], cluster(["host"])),
            (["'http://a:1'"], cluster(["http://a:1"])),
            (["worker 0 and worker 1"], cluster(["a:1", "a:1"])),
        ]:
            with self.subTest(text=text):
                self.refused(words, {"TF_CONFIG": text})

    def test_several_workers_under_a_one_machine_strategy(self):
        self.refused(["TF_CONFIG", "2 workers"], {"TF_CONFIG": cluster(["a:1", "b:1"])})
        self.refused(["torchrun", "WORLD_SIZE=2"], {"RANK": "0", "WORLD_SIZE": "2"})

    def test_launchers_that_disagree(self):
        self.refused(
            ["torchrun", "Open MPI"],
            {"RANK": "0", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"},
        )

    def test_a_rank_outside_the_world(self):
        self.refused(["RANK=2", "WORLD_SIZE=2"], {"RANK": "2", "WORLD_SIZE": "2"})


class BadMachines(ProgramTest):
    def test_a_gpu_is_never_replaced_silently(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a GPU")
        self.expect_error(ENVIRONMENT, ["cuda", "--device cpu"], "bench", "--device", "cuda", "--out", "out")

    def test_a_replica_larger_than_the_machine(self):
        self.expect_error(
            ENVIRONMENT, ["--threads-per-replica 4096", "found"], *BENCH, "--threads-per-replica", "4096"
        )

    def test_a_batch_that_does_not_fit_in_memory(self):
        self.expect_error(
            ENVIRONMENT,
            ["10000000", "--memory-limit", "--batch-size"],
            *BENCH, "--gpus", "1", "--batch-size", "10000000", "--memory-limit", "200MB",
        )

    def test_outputs_are_tried_before_the_first_step(self):
        (self.folder / "file").write_text("")
        (self.folder / "taken" / "result.json").mkdir(parents=True)
        for words, arguments in [
            (["/proc/x"], ["--out", "/proc/x"]),
            (["file"], ["--out", "file"]),
            (["file/below"], ["--out", "file/below"]),
            (["result.json"], ["--out", "taken"]),
            (["--trace", "/proc/x/t.json"], ["--trace", "/proc/x/t.json"]),
            (["--trace", "taken"], ["--trace", "taken"]),
        ]:
            with self.subTest(arguments=arguments):
                done = self.expect_error(ENVIRONMENT, words, *BENCH, *arguments)
                self.assertEqual(done.stdout, "")
        self.expect_error(
            ENVIRONMENT, ["--checkpoint", "file/c"], "train", *SMALL, "--epochs", "1", "--checkpoint", "file/c"
        )


class BadData(ProgramTest):
    def test_paths_and_files(self):
        (self.folder / "empty.bin").write_bytes(b"")
        (self.folder / "short.bin").write_bytes(bytes(3072))
        (self.folder / "label.bin").write_bytes(bytes(3073) + b"\x0a" + bytes(3072))
        (self.folder / "folder").mkdir()
        for words, path in [
            (["missing"], "missing"),
            (["empty.bin"], "empty.bin"),
            (["short.bin", "3072"], "short.bin"),
            (["label.bin", "10", "3073"], "label.bin"),
            (["folder"], "folder"),
            (["*.none"], "*.none"),
        ]:
            with self.subTest(path=path):
                self.expect_error(DATA, words, *BENCH, "--data", path)

    def test_result_files(self):
        (self.folder / "text.json").write_text("hello")
        (self.folder / "other.json").write_text('{"schema": "dtrain.result/9"}')
        for words, path in [
            (["missing.json"], "missing.json"),
            (["text.json"], "text.json"),
            (["other.json", "schema"], "other.json"),
        ]:
            with self.subTest(path=path):
                self.expect_error(DATA, words, "report", path)

    def test_checkpoints(self):
        (self.folder / "broken").write_bytes(b"not a checkpoint")
        for path in ["missing", "broken"]:
            with self.subTest(path=path):
                self.expect_error(
                    DATA, [path], "train", *SMALL, PLAIN, "--out", "out", "--epochs", "1", "--resume", path
                )


class BadConfigFiles(ProgramTest):
    def refused(self, words, text):
        (self.folder / "c.toml").write_text(text)
        self.expect_error(USAGE, ["c.toml", *words], *BENCH, "--config", "c.toml")

    def test_they_are_refused(self):
        self.refused(["'batchsize'", "'batch-size'"], "batchsize = 8\n")
        self.refused(["[train]"], "[train]\nbatch-size = 8\n")
        self.refused(["empty"], "")

    def test_bad_values_name_the_flag(self):
        (self.folder / "c.toml").write_text('batch-size = "many"\n')
        self.expect_error(
            USAGE, ["--batch-size", "'many'"], "bench", "--model", "mlp", "--config", "c.toml", "--dry-run"
        )


class FlagsOfOtherStrategies(ProgramTest):
    def test_they_are_refused_with_their_owner(self):
        for flag, value, owner in [("--zero-stage", "3", "sharded"), ("--cut", "dense2", "pipeline"),
                                   ("--micro-batches", "4", "pipeline"), ("--pipeline-stages", "2", "pipeline"),
                                   ("--pipeline-schedule", "gpipe", "pipeline")]:
            for command in ["bench", "train", "verify"]:
                with self.subTest(flag=flag, command=command):
                    self.expect_error(2, [flag, f"--strategy {owner}", "mirrored"], command, "--gpus", "2",
                                      "--model", "mlp", flag, value)
