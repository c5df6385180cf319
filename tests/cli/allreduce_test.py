"""Timing all-reduces: figures that fit together, values that are checked, workers that meet."""

import json
import os
import shutil
import socket
import subprocess
import unittest

from program import PROGRAM, ProgramTest, clean_environment

QUICK = ["--min-time", "5ms", "--sizes", "4KB,64KB"]


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class Allreduce(ProgramTest):
    def figures(self, name="f.json"):
        return json.loads((self.folder / name).read_text())

    def check_figures(self, figures, ranks):
        self.assertEqual(figures["schema"], "dtrain.allreduce/1")
        self.assertEqual(figures["ranks"], ranks)
        self.assertEqual([row["bytes"] for row in figures["sizes"]], [4000, 64000])
        for row in figures["sizes"]:
            time = row["time_us"]
            self.assertTrue(row["values_ok"])
            self.assertGreaterEqual(row["repetitions"], 10)
            self.assertTrue(0 < time["low"] <= time["median"] <= time["high"], time)
            self.assertAlmostEqual(row["algbw_gb_per_s"], row["bytes"] / time["median"] / 1e3, delta=1e-6)
            if ranks > 1:
                self.assertAlmostEqual(row["busbw_gb_per_s"], row["algbw_gb_per_s"] * 2 * (ranks - 1) / ranks)
            else:
                self.assertIsNone(row["busbw_gb_per_s"])

    def workers(self, count, *arguments):
        ports = free_ports(count)
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        running = []
        for index in range(count):
            place = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            running.append(
                subprocess.Popen(
                    [PROGRAM, "allreduce", *QUICK, *arguments],
                    cwd=self.folder,
                    env=clean_environment({"TF_CONFIG": place}),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return [(process.communicate(timeout=100), process.returncode) for process in running]

    def test_ranks_of_one_process(self):
        done = self.expect(0, "allreduce", *QUICK, "--replicas", "3", "--json", "f.json")
        self.check_figures(self.figures(), 3)
        self.assertIn("busbw", done.stdout)
        widths = {len(line.rstrip().split("  shares")[0]) for line in done.stdout.splitlines()[2:]}
        self.assertEqual(len(widths), 1, done.stdout)

    def test_bus_bandwidth_of_one_rank_is_not_a_number(self):
        done = self.expect(0, "allreduce", *QUICK, "--replicas", "1", "--json", "f.json")
        self.check_figures(self.figures(), 1)
        self.assertIn("n/a", done.stdout)

    def test_compressed(self):
        done = self.expect(0, "allreduce", *QUICK, "--replicas", "2", "--compress", "fp16", "--json", "f.json")
        self.check_figures(self.figures(), 2)
        self.assertIn("fp16", done.stdout)

    def test_bad_requests_are_refused(self):
        self.expect_error(2, ["gluu", "gloo"], "allreduce", "--comm", "gluu")
        self.expect_error(2, ["gloo", "one process"], "allreduce", "--comm", "gloo")
        self.expect_error(2, ["--sizes", "64KB..4KB"], "allreduce", "--sizes", "64KB..4KB")
        self.expect_error(2, ["--compress"], "allreduce", "--compress", "zip")
        self.expect_error(3, ["/proc/x"], "allreduce", *QUICK, "--json", "/proc/x/f.json")

    def test_workers_over_gloo(self):
        ended = self.workers(2, "--json", "f.json", "--replicas", "1")
        for (_, errors), code in ended:
            self.assertEqual(code, 0, errors)
        self.check_figures(self.figures(), 2)
        self.assertEqual(self.figures()["communicator"], "gloo")
        self.assertEqual(self.figures()["workers"], 2)
        self.assertIn("over TCP", ended[0][0][0])
        self.assertEqual(ended[1][0][0], "")  # only the chief tells

    def test_workers_of_several_replicas(self):
        ended = self.workers(2, "--json", "f.json", "--replicas", "2")
        for (_, errors), code in ended:
            self.assertEqual(code, 0, errors)
        self.check_figures(self.figures(), 4)

    def test_an_unknown_algorithm_is_refused_on_all_workers(self):
        for (_, errors), code in self.workers(2, "--allreduce", "rign"):
            self.assertIn(code, (2, 5), errors)
            self.assertIn("rign", errors)

    @unittest.skipUnless(
        shutil.which("mpirun") and os.path.exists(os.path.join(os.path.dirname(PROGRAM), "libdtrain_mpi.so")),
        "no mpirun, or no MPI module",
    )
    def test_workers_that_mpirun_started(self):
        environment = clean_environment(
            {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        )
        done = subprocess.run(
            ["mpirun", "--oversubscribe", "-np", "2", PROGRAM, "allreduce", *QUICK, "--json", "f.json"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.check_figures(self.figures(), 2)
        self.assertEqual(self.figures()["communicator"], "mpi")
