"""Workers that Open MPI's mpirun starts."""

import pathlib
import shutil
import subprocess

from job import BENCH, JobTest, require_multi_worker, skip_module
from program import PROGRAM

JOB_FILE = pathlib.Path(__file__).parents[2] / "docs/clusters/openmpi.sh"

# As root, and with more workers than cores.
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def find_mpirun():
    for name in ("mpirun.openmpi", "mpirun"):
        path = shutil.which(name)
        if path and "Open MPI" in subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout:
            return path
    return None


MPIRUN = find_mpirun()


def setUpModule():
    skip_module("" if MPIRUN else "Open MPI's mpirun is not installed (package openmpi-bin)")
    require_multi_worker()


class OpenMpi(JobTest):
    def mpirun(self, count, *arguments):
        # clean_environment() drops OMPI_ variables, for what it is about is what launchers leave behind.
        settings = [f"{name}={value}" for name, value in ALLOWED.items()]
        return self.start(*arguments, program=("env", *settings, MPIRUN, "-np", str(count), PROGRAM))

    def test_ranks_of_mpirun_are_workers(self):
        running = self.mpirun(2, *BENCH)
        self.expect_end(running, 0, 90)
        self.check_result()

    def test_mpi_sums_too(self):
        running = self.mpirun(2, *BENCH, "--comm", "mpi")
        self.expect_end(running, 0, 90)
        self.check_result()

    def test_a_strategy_of_one_machine_is_refused(self):
        running = self.mpirun(2, "bench", "--strategy", "mirrored")
        self.expect_end(running, 2, 60)
        self.assertIn("Open MPI", running.error)

    def test_the_job_file_runs(self):
        settings = [f"{name}={value}" for name, value in ALLOWED.items()]
        command = ("env", *settings, f"MPIRUN={MPIRUN}", f"DTRAIN={PROGRAM}", "WORKERS=2", str(JOB_FILE))
        running = self.start(*BENCH[3:], program=command)
        self.expect_end(running, 0, 90)
        self.check_result()

    def check_result(self):
        result = self.result()
        self.assertTrue(result["complete"])
        self.assertEqual(max(run["replicas"] for run in result["runs"]), 2)
