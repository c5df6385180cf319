"""Workers that do not come, that are not what they should be, and strangers that come instead."""

import socket
import threading
import time

from failure import GRACE, FailureTest
from job import BENCH, free_addresses, require_multi_worker, tf_config


def setUpModule():
    require_multi_worker()


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
