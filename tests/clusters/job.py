"""Jobs of several processes, as users start them: output in files, and nothing left behind."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import unittest

from program import PLAIN, PROGRAM, SMALL, ProgramTest, clean_environment

FEW_STEPS = ["--rounds", "2", "--steps", "3", "--warmup", "1"]
MULTI_WORKER = ["--strategy", "multi-worker", *SMALL]
BENCH = ["bench", *MULTI_WORKER, *FEW_STEPS, PLAIN, "--out", "out"]
ENDLESS = ["bench", *MULTI_WORKER, PLAIN, "--out", "out", "--rounds", "10000", "--steps", "5", "--warmup", "1"]


def knows_multi_worker():
    done = subprocess.run([PROGRAM, "bench", "--help"], capture_output=True, text=True, check=True)
    return "multi-worker" in done.stdout


def skip_module(reason):
    """Where a whole suite cannot run: prints why, for ctest to see."""
    if reason:
        print(f"SKIPPED: {reason}", flush=True)
        raise unittest.SkipTest(reason)


def require_multi_worker():
    skip_module("" if knows_multi_worker() else "this program does not know the strategy multi-worker")


def free_addresses(count, host="127.0.0.1"):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind((host, 0))
    addresses = [f"{host}:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def tf_config(addresses, index, role="worker"):
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": role, "index": index}})}


def session_of(process):
    """The session that a living process belongs to; none for a zombie."""
    try:
        state, _, _, session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(session)


class Running:
    """A program that was started in a session of its own, with its output in files."""

    def __init__(self, command, folder, name, environment=None):
        self.out_file = folder / f"{name}.out"
        self.error_file = folder / f"{name}.err"
        with open(self.out_file, "w") as out, open(self.error_file, "w") as error:
            self.process = subprocess.Popen(
                command, cwd=folder, env=clean_environment(environment), stdin=subprocess.DEVNULL, stdout=out,
                stderr=error, start_new_session=True,
            )
        self.id = self.process.pid

    @property
    def out(self):
        return self.out_file.read_text(errors="replace")

    @property
    def error(self):
        return self.error_file.read_text(errors="replace")

    def everything(self):
        return f"stdout: {self.out}\nstderr: {self.error}"

    def processes(self):
        """All of its session that live, itself among them."""
        found = [entry for entry in pathlib.Path("/proc").glob("[0-9]*") if session_of(entry) == self.id]
        return sorted(int(entry.name) for entry in found)

    def wait(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"has not ended after {seconds} s\n{self.everything()}") from None

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        for process in self.processes():
            os.kill(process, signal.SIGKILL)
        self.process.wait()


class JobTest(ProgramTest):
    def start(self, *arguments, name="job", environment=None, program=(PROGRAM,)):
        running = Running([*program, *map(str, arguments)], self.folder, name, environment)
        self.addCleanup(running.end)
        return running

    def launch(self, workers, *arguments, flags=(), name="job", environment=None):
        return self.start(
            "launch", "--workers", workers, *flags, "--", *arguments, name=name, environment=environment
        )

    def expect_end(self, running, code, seconds=60):
        self.assertEqual(running.wait(seconds), code, running.everything())
        self.expect_nothing_left(running)

    def expect_nothing_left(self, running, seconds=10):
        self.wait_for("all processes to end", lambda: not running.processes(), seconds, running)

    def wait_for(self, what, there, seconds=60, running=None):
        deadline = time.monotonic() + seconds
        while not there():
            if time.monotonic() > deadline:
                self.fail(f"waited {seconds} s for {what}\n{running.everything() if running else ''}")
            time.sleep(0.02)

    def wait_for_steps(self, replicas, *running, folder="out"):
        """Until the chief has written a round of so many replicas: they are in the middle of it."""
        file = self.folder / folder / "result.json"

        def measured():
            for one in running:
                self.assertIsNone(one.process.poll(), f"ended before its first round\n{one.everything()}")
            return file.exists() and any(
                run["replicas"] == replicas and run["rounds"] for run in json.loads(file.read_text())["runs"]
            )

        self.wait_for("a first round", measured, 60, running[0])

    def expect_no_complete_result(self, folder="out"):
        if (self.folder / folder / "result.json").exists():
            self.assertFalse(self.result(folder)["complete"])
