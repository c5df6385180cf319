"""Workers that are started by hand, and how all of them must end."""

import time

from job import JobTest, tf_config

TIMEOUT = 3  # seconds without an answer
GRACE = 12  # for a loaded machine to notice and to end
SHORT = ["--timeout", f"{TIMEOUT}s"]


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
