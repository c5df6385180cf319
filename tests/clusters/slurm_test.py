"""Workers that SLURM starts: srun, and the documented job file through sbatch."""

import pathlib
import unittest

import slurm
from job import BENCH, JobTest, require_multi_worker, skip_module
from program import PROGRAM

JOB_FILE = pathlib.Path(__file__).parents[2] / "docs/clusters/slurm.sbatch"

cluster = None


def setUpModule():
    global cluster
    skip_module(slurm.missing())
    require_multi_worker()
    try:
        cluster = slurm.Slurm()
    except slurm.NotStarted as why:
        skip_module(f"SLURM does not start here: {why}")
    unittest.addModuleCleanup(cluster.stop)


class SlurmTest(JobTest):
    def expect_ran(self, done, code=0):
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}\n{cluster.logs()}")

    def check_result(self, folder):
        result = self.result(folder)
        self.assertTrue(result["complete"])
        self.assertEqual(max(run["replicas"] for run in result["runs"]), 2)

    def test_tasks_of_srun_are_workers(self):
        done = cluster.run("srun", "-N1", "-n2", "--overcommit", PROGRAM, *BENCH, cwd=self.folder, timeout=90)
        self.expect_ran(done)
        self.check_result("out")

    def test_a_strategy_of_one_machine_is_refused(self):
        done = cluster.run("srun", "-N1", "-n2", "--overcommit", PROGRAM, "bench", "--strategy", "mirrored", cwd=self.folder)
        self.expect_ran(done, 2)
        self.assertIn("SLURM", done.stderr)

    def test_the_job_file_runs(self):
        done = cluster.run(
            "sbatch", "--wait", "--nodes=1", "--ntasks-per-node=2", "--overcommit", JOB_FILE, *BENCH[3:-2],
            cwd=self.folder, environment={"DTRAIN": PROGRAM}, timeout=90,
        )
        logs = "\n".join(log.read_text() for log in self.folder.glob("dtrain-*.log"))
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}\n{logs}\n{cluster.logs()}")
        job = done.stdout.split()[-1]
        self.check_result(f"results/{job}")
        self.assertTrue((self.folder / f"dtrain-{job}.log").exists())

    def test_a_batch_script_alone_is_one_process(self):
        done = cluster.run(
            "sbatch", "--wait", "-N1", "-n2", "--overcommit", "--output=alone.log",
            f"--wrap={PROGRAM} bench --strategy mirrored --replicas 1 {' '.join(BENCH[3:])}", cwd=self.folder, timeout=90,
        )
        self.expect_ran(done)
        self.assertTrue(self.result()["complete"])
        self.assertIn("start it with srun", (self.folder / "alone.log").read_text())
