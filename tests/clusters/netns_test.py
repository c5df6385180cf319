"""Training over links of a known rate: communication takes what the link must take, and a pulled cable is noticed."""

import statistics

import hosts
from job import ENDLESS, JobTest, require_multi_worker, skip_module
from program import PLAIN, PROGRAM

TIMEOUT = 3
GRACE = 12
BITS = {"100mbit": 100e6, "1gbit": 1e9}
AGREES = 0.15

# Little to compute and much to send, so that the link is waited for and not the processor.
HEAVY = """
name = "heavy"
layer = [
  { type = "dense", name = "hidden", out_features = 256 },
  { type = "relu" },
  { type = "dense", name = "scores", out_features = 10 },
]
"""


def setUpModule():
    skip_module(hosts.missing())
    require_multi_worker()


class NetnsTest(JobTest):
    def setUp(self):
        super().setUp()
        (self.folder / "heavy.toml").write_text(HEAVY)

    def make_hosts(self, count, rate):
        made = hosts.Hosts(count, rate)
        self.addCleanup(made.remove)
        return made

    def workers(self, made, *arguments):
        listed = ",".join(made.addresses())
        return [
            self.start(
                *arguments, "--worker-hosts", listed, "--task-index", index, name=f"worker{index}",
                program=(*made.prefix(index), PROGRAM),
            )
            for index in range(made.count)
        ]

    def measure(self, made, model, *flags):
        """The runs over all hosts, and the bytes of their gradients."""
        bench = ["bench", "--strategy", "multi-worker", "--model", model, "--batch-size", "1", "--data", "synthetic"]
        few = ["--device", "cpu", "--rounds", "5", "--steps", "3", "--warmup", "1", PLAIN, "--out", "out"]
        for worker in self.workers(made, *bench, *few, "--replicas", made.count, *flags):
            self.expect_end(worker, 0, 90)
        result = self.result()
        runs = [run for run in result["runs"] if run["replicas"] == made.count]
        return runs, 4 * result["model"]["parameters"]


def communication_seconds(run):
    """Of a step, without waiting for slower ranks. What else the machine does only adds to it, so the best round counts."""
    return min(
        statistics.mean(rank["phases"]["communication"] - rank["straggler_wait_seconds"] for rank in one["ranks"])
        for one in run["rounds"]
    )


def sent_bytes_a_step(run):
    return run["bytes_sent"] / sum(one["steps"] for one in run["rounds"])


class Rate(NetnsTest):
    def expect_link_time(self, count, rate, model):
        """A rank sends and receives 2 (N - 1) / N of the gradients over one link that takes both ways at once."""
        made = self.make_hosts(count, rate)
        seen = []
        for _ in range(3):  # a machine that is busy with other things takes longer, now and then
            (run,), gradients = self.measure(made, model)
            sent = gradients * 2 * (count - 1) / count
            self.assertAlmostEqual(sent_bytes_a_step(run) / sent, 1, delta=0.01)
            link = sent * 8 / (BITS[rate] * hosts.PAYLOAD)
            seen.append(communication_seconds(run) / link)
            self.assertGreater(seen[-1], 1 - AGREES, "faster than the link")
            if seen[-1] < 1 + AGREES:
                return
        self.fail(f"communication took {seen} of what the link takes")

    def test_two_hosts_at_100_mbit(self):
        self.expect_link_time(2, "100mbit", "heavy.toml")

    def test_four_hosts_at_100_mbit(self):
        self.expect_link_time(4, "100mbit", "heavy.toml")

    def test_two_hosts_at_1_gbit(self):
        self.expect_link_time(2, "1gbit", "resnet9")

    def test_half_the_bytes_take_half_the_time(self):
        made = self.make_hosts(2, "100mbit")
        seen = []
        for _ in range(3):
            (whole, half), _ = self.measure(made, "heavy.toml", "--compress", "fp16")
            self.assertEqual(whole["id"], half["id"] + "-exact")
            self.assertAlmostEqual(sent_bytes_a_step(half) / sent_bytes_a_step(whole), 0.5, delta=0.01)
            seen.append(communication_seconds(half) / communication_seconds(whole))
            if abs(seen[-1] - 0.5) < AGREES:
                return
        self.fail(f"communication took {seen} of what it takes uncompressed")


class Cable(NetnsTest):
    def test_a_pulled_cable_is_noticed_on_both_sides(self):
        made = self.make_hosts(3, "1gbit")
        workers = self.workers(made, *ENDLESS, "--replicas", 3, "--timeout", f"{TIMEOUT}s")
        self.wait_for_steps(3, *workers)
        made.pull_cable(1)
        for index in (0, 2):
            self.expect_end(workers[index], 5, TIMEOUT + GRACE)
            error = next(line for line in workers[index].error.splitlines() if line.startswith("error: "))
            self.assertIn("worker 1", error)
            self.assertIn(made.address(1), error)
        self.expect_end(workers[1], 5, TIMEOUT + GRACE)
        self.assertIn("worker 0", workers[1].error)
        self.expect_no_complete_result()
