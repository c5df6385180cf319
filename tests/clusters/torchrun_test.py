"""Workers with the variables that torchrun sets, and with flags: what is typed in as many terminals."""

from job import BENCH, JobTest, free_addresses, require_multi_worker


def setUpModule():
    require_multi_worker()


class ByHand(JobTest):
    def expect_job(self, workers):
        for worker in workers:
            self.expect_end(worker, 0, 90)
        result = self.result()
        self.assertTrue(result["complete"])
        self.assertEqual(max(run["replicas"] for run in result["runs"]), len(workers))

    def torchrun(self, rank, port, world=2, **extra):
        variables = {
            "RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **extra,
        }
        return {name: str(value) for name, value in variables.items()}

    def test_variables_of_torchrun(self):
        port = free_addresses(1)[0].split(":")[1]
        self.expect_job(
            [self.start(*BENCH, name=f"rank{rank}", environment=self.torchrun(rank, port)) for rank in range(2)]
        )

    def test_a_rank_beyond_the_world_is_refused(self):
        self.expect_error(2, ["rank 2", "2"], *BENCH, environment=self.torchrun(2, 2222))

    def test_flags(self):
        hosts = ",".join(free_addresses(2))
        self.expect_job(
            [
                self.start(*BENCH, "--worker-hosts", hosts, "--task-index", index, name=f"worker{index}")
                for index in range(2)
            ]
        )
