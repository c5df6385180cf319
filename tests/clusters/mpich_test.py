"""Workers that MPICH's mpirun (Hydra) starts."""

import shutil

from job import BENCH, JobTest, free_addresses, require_multi_worker, skip_module
from program import PROGRAM

MPIRUN = shutil.which("mpirun.mpich") or shutil.which("mpiexec.hydra")


def setUpModule():
    skip_module("" if MPIRUN else "MPICH's mpirun is not installed (package mpich)")
    require_multi_worker()


class Mpich(JobTest):
    def test_ranks_of_mpirun_are_workers(self):
        rendezvous = free_addresses(1)[0]
        running = self.start(*BENCH, "--rendezvous", rendezvous, program=(MPIRUN, "-np", "2", PROGRAM))
        self.expect_end(running, 0, 90)
        result = self.result()
        self.assertTrue(result["complete"])
        self.assertEqual(max(run["replicas"] for run in result["runs"]), 2)

    def test_without_a_rendezvous_it_says_what_is_missing(self):
        running = self.start(*BENCH, "--rendezvous-timeout", "5s", program=(MPIRUN, "-np", "2", PROGRAM))
        self.assertNotEqual(running.wait(60), 0, running.everything())
        self.assertIn("--rendezvous host:port", running.everything())

    def test_a_strategy_of_one_machine_is_refused(self):
        running = self.start("bench", "--strategy", "mirrored", program=(MPIRUN, "-np", "2", PROGRAM))
        self.expect_end(running, 2, 60)
        self.assertIn("PMI", running.everything())
