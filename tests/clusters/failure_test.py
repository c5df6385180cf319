"""Whatever befalls a worker, every other one ends in time, with the right code and the name of the one that was lost."""

import os
import signal
import socket
import threading
import time

from job import BENCH, ENDLESS, MULTI_WORKER, JobTest, free_addresses, require_multi_worker, tf_config
from program import PLAIN

TIMEOUT = 3  # seconds without an answer
GRACE = 12  # for a loaded machine to notice and to end
SHORT = ["--timeout", f"{TIMEOUT}s"]
TRAIN = ["train", *MULTI_WORKER, PLAIN, "--out", "out", "--checkpoint", "state.bin"]


def setUpModule():
    require_multi_worker()


class FailureTest(JobTest):
    def workers(self, addresses, *arguments, leave_out=(), extra=None):
        """One process for each address, as from as many terminals."""
        return {
            index: self.start(
                *arguments, name=f"worker{index}", environment={**tf_config(addresses, index), **(extra or {})}
            )
            for index in range(len(addresses))
            if index not in leave_out
        }

    def expect_all_end(self, workers, codes, seconds, *words):
        """Each with one of `codes`, in time, and in words that name the culprit."""
        end = time.monotonic() + seconds
        for index, worker in workers.items():
            code = worker.wait(max(end - time.monotonic(), 0.1))
            self.assertIn(code, codes, f"worker {index}: {worker.everything()}")
            for word in words:
                self.assertIn(word, worker.error, f"worker {index}: {worker.everything()}")
            self.expect_nothing_left(worker)
        self.expect_no_complete_result()


class Lost(FailureTest):
    """A worker that is lost while the job runs."""

    def lose(self, lost, number, workers=3):
        started = self.workers(free_addresses(workers), *ENDLESS, *SHORT)
        self.wait_for_steps(*started.values())
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
        self.wait_for_steps(*started.values())
        started[1].send(signal.SIGINT)
        self.expect_all_end(started, [130, 5], TIMEOUT + GRACE)


class Missing(FailureTest):
    """A worker that does not come, or that is not what it should be."""

    def test_a_worker_that_comes_late_is_waited_for(self):
        addresses = free_addresses(2)
        early = self.workers(addresses, *BENCH, leave_out=[1])[0]
        time.sleep(5)
        late = self.workers(addresses, *BENCH, leave_out=[0])[1]
        for worker in (early, late):
            self.expect_end(worker, 0, 60)
        self.assertTrue(self.result()["complete"])

    def test_a_chief_that_comes_late_is_waited_for(self):
        addresses = free_addresses(2)
        early = self.workers(addresses, *BENCH, leave_out=[0])[1]
        time.sleep(2)
        late = self.workers(addresses, *BENCH, leave_out=[1])[0]
        for worker in (early, late):
            self.expect_end(worker, 0, 60)

    def test_a_worker_that_never_comes_is_named(self):
        addresses = free_addresses(3)
        started = self.workers(addresses, *BENCH, "--rendezvous-timeout", "3s", leave_out=[2])
        self.expect_all_end(started, [5], 3 + GRACE, "worker 2", addresses[2])

    def test_a_chief_that_never_comes_is_named(self):
        addresses = free_addresses(2)
        started = self.workers(addresses, *BENCH, "--rendezvous-timeout", "3s", leave_out=[0])
        self.expect_all_end(started, [5], 3 + GRACE, addresses[0])

    def test_a_host_that_cannot_be_reached_is_named(self):
        addresses = ["192.0.2.1:2222", *free_addresses(1)]
        started = self.workers(addresses, *BENCH, "--rendezvous-timeout", "3s", leave_out=[0])
        self.expect_all_end(started, [5], 3 + GRACE, "192.0.2.1:2222")

    def test_a_port_in_use_is_named(self):
        addresses = free_addresses(2)
        host, port = addresses[0].split(":")
        with socket.create_server((host, int(port))):
            started = self.workers(addresses, *BENCH, "--rendezvous-timeout", "3s", leave_out=[1])
            self.expect_all_end(started, [3], GRACE, port, "in use")

    def test_one_address_for_two_workers_is_refused(self):
        address = free_addresses(1)[0]
        started = self.workers([address, address], *BENCH)
        self.expect_all_end(started, [2], GRACE, address)

    def test_two_processes_with_one_index(self):
        addresses = free_addresses(2)
        flags = [*BENCH, "--rendezvous-timeout", "4s"]
        chief = self.start(*flags, name="chief", environment=tf_config(addresses, 0))
        twins = [self.start(*flags, name=f"twin{i}", environment=tf_config(addresses, 1)) for i in range(2)]
        codes = sorted(twin.wait(60) for twin in twins)
        self.assertEqual(codes[0], 0, twins[0].everything() + twins[1].everything())
        self.assertIn(codes[1], [3, 5], twins[0].everything() + twins[1].everything())
        self.expect_end(chief, 0)

    def test_a_worker_of_another_job_is_refused(self):
        addresses = free_addresses(2)
        flags = [*BENCH, "--rendezvous-timeout", "3s"]
        chief = self.start(*flags, name="chief", environment={**tf_config(addresses, 0), "DTRAIN_JOB_TOKEN": "ours"})
        other = self.start(*flags, name="other", environment={**tf_config(addresses, 1), "DTRAIN_JOB_TOKEN": "theirs"})
        for process in (chief, other):
            self.expect_end(process, 5, 3 + GRACE)
            self.assertNotIn("theirs", process.error)
            self.assertNotIn("ours", process.error)
        self.assertIn("worker 1", chief.error)


class Strangers(FailureTest):
    """Whatever else may come to the port of a chief, or listen where one should."""

    NOISE = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        bytes(range(256)) * 64,
        # HTTP/2, and then a call of a service that is none, in a frame that promises more than it holds.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\xff\xff\xff\x01\x04\x00\x00\x00\x01garbage",
    ]

    def test_noise_at_the_chiefs_port_does_no_harm(self):
        addresses = free_addresses(2)
        chief = self.workers(addresses, *BENCH, leave_out=[1])[0]
        host, port = addresses[0].split(":")
        self.wait_for("the chief to listen", lambda: self.connects(host, int(port)), 20, chief)
        for noise in self.NOISE:
            with socket.create_connection((host, int(port)), 5) as stranger:
                stranger.sendall(noise)
        idle = socket.create_connection((host, int(port)), 5)
        self.addCleanup(idle.close)
        worker = self.workers(addresses, *BENCH, leave_out=[0])[1]
        for process in (chief, worker):
            self.expect_end(process, 0)

    @staticmethod
    def connects(host, port):
        try:
            socket.create_connection((host, port), 1).close()
            return True
        except OSError:
            return False

    def test_a_chief_that_talks_nonsense_is_named(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def babble():
            while True:
                try:
                    connection, _ = server.accept()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")
                    connection.close()
                except OSError:
                    return

        threading.Thread(target=babble, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        started = self.workers([address, *free_addresses(1)], *BENCH, "--rendezvous-timeout", "3s", leave_out=[0])
        self.expect_all_end(started, [5], 3 + GRACE, address)


class Different(FailureTest):
    """Workers that were not started alike."""

    def start_two(self, first, second):
        addresses = free_addresses(2)
        return {
            index: self.start(*flags, "--rendezvous-timeout", "5s", name=f"worker{index}", environment=tf_config(addresses, index))
            for index, flags in enumerate([first, second])
        }

    def test_other_flags_are_refused_and_named(self):
        started = self.start_two([*BENCH, "--seed", "1"], [*BENCH, "--seed", "2"])
        self.expect_all_end(started, [2, 5], 5 + GRACE, "seed")
        self.assertIn(2, [worker.process.returncode for worker in started.values()])

    def test_other_data_is_a_failure_of_the_one_that_lacks_it(self):
        started = self.start_two(BENCH, [*BENCH, "--data", "nowhere"])
        self.expect_all_end(started, [4, 5], 5 + GRACE)
        self.assertEqual(started[1].process.returncode, 4, started[1].everything())
        self.assertIn("worker 1", started[0].error)


class Launched(FailureTest):
    """The same, started by `launch`: its exit code and what it says."""

    @staticmethod
    def processes_of(running):
        """The workers' process numbers, by title, from the table that launch shows."""
        rows = (line.split() for line in running.error.splitlines())
        return {" ".join(row[1:3]): int(row[4]) for row in rows if len(row) == 6 and row[0].isdigit()}

    def test_a_killed_worker_is_named_by_launch_too(self):
        running = self.launch(3, *ENDLESS, *SHORT)
        self.wait_for_steps(running)
        os.kill(self.processes_of(running)["worker 1"], signal.SIGKILL)
        self.expect_end(running, 5, TIMEOUT + GRACE)
        self.assertIn("error: worker 1 was ended by signal 9 (Killed)", running.error)
        self.assertRegex(running.error, r"(?m)^\[worker [02]\] error: worker 1 ")
        self.expect_no_complete_result()

    def test_a_stopped_worker_is_ended_by_launch(self):
        running = self.launch(2, *ENDLESS, *SHORT)
        self.wait_for_steps(running)
        os.kill(self.processes_of(running)["worker 1"], signal.SIGSTOP)
        self.expect_end(running, 5, 2 * TIMEOUT + 2 * 5 + GRACE)
        self.assertRegex(running.error, r"(?m)^worker 1 +was ended by signal 9 \(Killed\) after .*, sent because it did not end$")
        self.assertIn("error: worker 0 ended with exit code 5", running.error)

    def test_what_is_wrong_for_all_is_said_once(self):
        running = self.launch(3, *BENCH, "--data", "nowhere")
        self.expect_end(running, 4)
        errors = [line for line in running.error.splitlines() if "] error: " in line]
        self.assertLessEqual(len(errors), 3, running.error)
        self.assertIn("nowhere", running.error)

    def test_training_goes_on_after_a_loss(self):
        epochs = [*TRAIN, "--data", "synthetic", "--epochs", "4", "--seed", "3"]
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
            self.wait_for_steps(running)
            table = self.processes_of(running)
            os.kill(table["worker 1"], signal.SIGKILL)
            self.wait_for("that worker's end", lambda: table != self.processes_of(running) or running.process.poll() is not None, 40, running)
        self.expect_end(running, 5, TIMEOUT + GRACE)
        self.assertEqual(running.error.count("restart 1 of 1: "), 1, running.error)

    def test_a_wrong_input_is_not_tried_again(self):
        running = self.launch(2, *BENCH, "--data", "nowhere", flags=["--restarts", "3"])
        self.expect_end(running, 4)
        self.assertNotIn("restart", running.error)
