"""A rank that is slowed on purpose is named, with its phase and what it costs; nobody is where nobody is slow."""

import json
import os
import unittest

from program import SMALL, ProgramTest

CORES = len(os.sched_getaffinity(0))
DELAY_MS = 25
PHASES = ["input", "forward", "backward", "communication", "update"]

# The first step of a round does not show a delay in the update of the step before it, so that some are needed.
ROUNDS = ["--rounds", "2", "--steps", "16", "--warmup", "2"]

# (replicas, arguments of bench, arguments of launch, slow rank, phase)
CASES = [
    *((2, [], None, place % 2, phase) for place, phase in enumerate(PHASES)),
    (4, [], None, 0, "update"),
    (4, [], None, 2, "communication"),
    (4, [], None, 3, "input"),
    (2, ["--no-overlap"], None, 1, "communication"),
    (2, ["--sync-every", "2"], None, 1, "communication"),
    (2, ["--strategy", "parameter-server"], None, 1, "communication"),
    (2, ["--strategy", "parameter-server"], None, 1, "update"),
    (2, ["--strategy", "parameter-server", "--updates", "async"], None, 1, "input"),
    (2, ["--strategy", "multi-worker"], ["--workers", "2"], 0, "update"),
    (4, ["--strategy", "multi-worker"], ["--workers", "2"], 3, "communication"),
    (2, ["--strategy", "parameter-server"], ["--workers", "2", "--ps", "1"], 0, "input"),
]


@unittest.skipIf(CORES < 2, "needs two cores to tell a straggler from a queue")
class Stragglers(ProgramTest):
    def measure(self, replicas, *arguments, launch=None, rounds=ROUNDS, formats=("--format", "json")):
        """The largest run of a small benchmark."""
        bench = ["bench", *SMALL, *rounds, *formats, "--gpus", str(replicas), "--out", "out", *arguments]
        prefix = ["launch", *launch, "--"] if launch else []
        self.done = self.expect(0, *prefix, *bench)
        return self.result()["runs"][-1]

    def test_rank_phase_and_loss_of_a_delay_are_found(self):
        for replicas, arguments, launch, rank, phase in CASES:
            with self.subTest(replicas=replicas, arguments=arguments, launch=launch, rank=rank, phase=phase):
                delay = ["--inject-delay", f"rank={rank},phase={phase},ms={DELAY_MS}"]
                run = self.measure(replicas, *arguments, *delay, launch=launch)
                found = run["budget"]["straggler"]
                self.assertIsNotNone(found, json.dumps(run["rounds"]))
                self.assertEqual((found["rank"], found["phase"]), (f"rank {rank}", phase), json.dumps(run["rounds"]))
                lost = found["seconds_late"] * 1000 / DELAY_MS
                self.assertGreater(lost, 0.5)
                self.assertLess(lost, 4.0)

    def test_every_output_names_it(self):
        self.measure(2, "--inject-delay", f"rank=1,phase=backward,ms={DELAY_MS}", formats=())
        texts = {file.name: file.read_text() for file in (self.folder / "out").iterdir() if file.is_file()}
        for name, text in {"console": self.done.stdout, **texts}.items():
            if name == "result.csv":
                continue  # holds the numbers of every rank
            words = " ".join(text.split())
            self.assertRegex(words, r"mirrored-2: rank 1 arrives last in|\"rank\": \"rank 1\", \"phase\": \"backward\"", name)
            self.assertRegex(words, r"loses it in backward|\"phase\": \"backward\"", name)

    def test_bases_are_not_delayed(self):
        self.measure(2, "--inject-delay", f"rank=0,phase=input,ms={DELAY_MS}")
        for run in self.result()["runs"][:2]:
            for sample in run["rounds"]:
                self.assertLess(sample["ranks"][0]["phases"]["input"] * 1000, DELAY_MS / 2, run["id"])

    def test_nobody_is_named_where_nobody_is_slow(self):
        named = []
        for _ in range(3):
            run = self.measure(2, rounds=["--rounds", "5", "--steps", "15", "--warmup", "2"])
            named.append(run["budget"]["straggler"])
        # Others may keep one of the cores busy for once.
        self.assertGreaterEqual(named.count(None), 2, named)
