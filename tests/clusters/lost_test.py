"""Whatever befalls a worker, every other one ends in time, with the right code and the name of the one that was lost."""

import os
import signal

from failure import GRACE, SHORT, TIMEOUT, FailureTest
from job import BENCH, ENDLESS, MULTI_WORKER, free_addresses, require_multi_worker
from program import PLAIN

TRAIN = ["train", *MULTI_WORKER, PLAIN, "--out", "out", "--checkpoint", "state.bin"]


def setUpModule():
    require_multi_worker()


class Lost(FailureTest):
    """A worker that is lost while the job runs."""

    def lose(self, lost, number, workers=3):
        started = self.workers(free_addresses(workers), *ENDLESS, *SHORT, "--replicas", workers)
        self.wait_for_steps(workers, *started.values())
        started[lost].send(number)
        if number == signal.SIGKILL:
            started[lost].wait(10)
        others = {index: worker for index, worker in started.items() if index != lost}
        self.expect_all_end(others, [5], TIMEOUT + GRACE, "error: ", f"worker {lost}")
        for worker in others.values():
            error = next(line for line in worker.error.splitlines() if line.startswith("error: "))
            self.assertIn(f"worker {lost}", error)
        return started

    def test_a_killed_worker(self):
        self.lose(1, signal.SIGKILL)

    def test_a_killed_chief(self):
        self.lose(0, signal.SIGKILL)

    def test_a_stopped_worker(self):
        stopped = self.lose(2, signal.SIGSTOP)[2]
        stopped.send(signal.SIGCONT)
        self.assertEqual(stopped.wait(TIMEOUT + GRACE), 5, stopped.everything())

    def test_a_worker_that_is_interrupted_takes_the_others_along(self):
        started = self.workers(free_addresses(2), *ENDLESS, *SHORT)
        self.wait_for_steps(2, *started.values())
        started[1].send(signal.SIGINT)
        self.expect_all_end(started, [130, 5], TIMEOUT + GRACE)


class Launched(FailureTest):
    """The same, started by `launch`: its exit code and what it says."""

    @staticmethod
    def processes_of(running):
        """The workers' process numbers, by title, from the table that launch shows."""
        rows = (line.split() for line in running.error.splitlines())
        return {" ".join(row[1:3]): int(row[4]) for row in rows if len(row) == 6 and row[0].isdigit()}

    def test_a_killed_worker_is_named_by_launch_too(self):
        running = self.launch(3, *ENDLESS, *SHORT, "--replicas", "3")
        self.wait_for_steps(3, running)
        os.kill(self.processes_of(running)["worker 1"], signal.SIGKILL)
        self.expect_end(running, 5, TIMEOUT + GRACE)
        self.assertIn("error: worker 1 was ended by signal 9 (Killed)", running.error)
        self.assertRegex(running.error, r"(?m)^\[worker [02]\] error: .*worker 1 \(")
        self.expect_no_complete_result()

    def test_a_stopped_worker_is_ended_by_launch(self):
        running = self.launch(2, *ENDLESS, *SHORT, flags=["--timeout", "1s"])
        self.wait_for_steps(2, running)
        os.kill(self.processes_of(running)["worker 1"], signal.SIGSTOP)
        self.expect_end(running, 5, TIMEOUT + 1 + 2 * 5 + GRACE)
        self.assertRegex(running.error, r"(?m)^worker 1 +was ended by signal 9 \(Killed\) after .*, sent because it did not end$")
        self.assertIn("error: worker 0 ended with exit code 5", running.error)

    def test_what_is_wrong_for_all_is_said_once(self):
        running = self.launch(3, *BENCH, "--data", "nowhere")
        self.expect_end(running, 4)
        errors = [line for line in running.error.splitlines() if "] error: " in line]
        self.assertLessEqual(len(errors), 3, running.error)
        self.assertIn("nowhere", running.error)

    def test_training_goes_on_after_a_loss(self):
        self.expect(0, "data", "generate", "images", "--records", "200", "--test-records", "100", "--quiet")
        epochs = [*TRAIN, "--data", "images", "--epochs", "8", "--seed", "3"]
        self.expect_end(self.launch(2, *epochs, "--out", "whole", "--checkpoint", "whole.bin", name="whole"), 0, 90)
        running = self.launch(2, *epochs, *SHORT, flags=["--restarts", "2"])
        self.wait_for("a checkpoint", (self.folder / "state.bin").exists, 60, running)
        os.kill(self.processes_of(running)["worker 1"], signal.SIGKILL)
        self.expect_end(running, 0, 120)
        self.assertIn("restart 1 of 2: worker 1 was ended by signal 9 (Killed); going on from state.bin", running.error)
        self.assertIn("restart 1 of 2", (self.folder / "out/logs/worker-0.log").read_text())
        whole, continued = (self.result(folder)["runs"][-1] for folder in ("whole", "out"))
        self.assertTrue(self.result()["complete"])
        self.assertEqual(continued["losses"], whole["losses"])
        self.assertEqual(continued["weights_hash"], whole["weights_hash"])

    def test_restarts_come_to_an_end(self):
        running = self.launch(2, *ENDLESS, *SHORT, flags=["--restarts", "1"])
        for _ in range(2):
            (self.folder / "out/result.json").unlink(missing_ok=True)
            self.wait_for_steps(2, running)
            table = self.processes_of(running)
            os.kill(table["worker 1"], signal.SIGKILL)
            self.wait_for("that worker's end", lambda: table != self.processes_of(running) or running.process.poll() is not None, 40, running)
        self.expect_end(running, 5, TIMEOUT + GRACE)
        self.assertEqual(running.error.count("restart 1 of 1: "), 1, running.error)

    def test_a_wrong_input_is_not_tried_again(self):
        running = self.launch(2, *BENCH, "--data", "nowhere", flags=["--restarts", "3"])
        self.expect_end(running, 4)
        self.assertNotIn("restart", running.error)
