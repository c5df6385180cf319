"""`bench --tune`: what it may choose from, what it keeps, and the log of its trials."""

import json
import re
import shlex
import unittest

from program import FEW_STEPS, SMALL, ProgramTest

CNN = ["bench", *SMALL, "--model", "cnn", "--gpus", "2"]


def candidates(text):
    """The numbered lines that --dry-run shows."""
    return [match[1] for match in re.finditer(r"^ +\d+  (.+)$", text, re.MULTILINE) if "the flags as given" not in match[0]]


class Candidates(ProgramTest):
    def choices(self, *arguments):
        return candidates(self.expect(0, *CNN, "--tune", "30s", "--dry-run", *arguments).stdout)

    def test_they_change_every_flag_that_means_something_and_no_other(self):
        choices = self.choices()
        self.assertEqual(len(choices), len(set(choices)))
        text = " ".join(choices)
        for flag in ["--bucket-mb", "--no-overlap", "--prefetch 0", "--prefetch 4"]:
            self.assertIn(flag, text)
        self.assertNotIn("--allreduce", text)  # replicas of one process have one way only

    def test_overlap_is_left_alone_where_there_is_one_bucket(self):
        for choice in self.choices():
            if "--no-overlap" in choice:
                self.assertIn("--bucket-mb", choice)
        self.assertNotIn("--no-overlap", " ".join(self.choices("--bucket-mb", "25")))

    def test_flags_that_were_given_stay(self):
        self.assertNotIn("--prefetch", " ".join(self.choices("--prefetch", "2")))
        (self.folder / "flags.toml").write_text("prefetch = 2\noverlap = true\n")
        text = " ".join(self.choices("--config", "flags.toml"))
        self.assertNotIn("--prefetch", text)
        self.assertNotIn("overlap", text)
        self.assertIn("--bucket-mb", text)

    def test_the_seed_orders_them(self):
        self.assertEqual(self.choices("--seed", "1"), self.choices("--seed", "1"))
        self.assertNotEqual(self.choices("--seed", "1"), self.choices("--seed", "2"))
        self.assertEqual(sorted(self.choices("--seed", "1")), sorted(self.choices("--seed", "2")))

    def test_workers_choose_an_algorithm_too(self):
        done = self.expect(0, "launch", "--workers", "2", "--", *CNN, "--strategy", "multi-worker", "--tune", "30s", "--dry-run")
        text = re.sub(r"(?m)^\[worker 0\] ?", "", done.stdout)
        for name in ["ring_chunked", "halving_doubling", "bcube"]:
            self.assertIn(f"--allreduce {name}", " ".join(candidates(text)))


class BadUsage(ProgramTest):
    def test_times(self):
        for text in ["0", "-1s", "soon", "5m"]:
            self.expect_error(2, ["--tune", f"'{text}'"], *CNN, f"--tune={text}")

    def test_nothing_to_choose_from(self):
        given = ["--prefetch", "2", "--bucket-mb", "25", "--threads-per-replica", "1"]
        self.expect_error(2, ["--tune", "--prefetch"], *CNN, "--tune", "30s", *given)

    def test_a_budget_that_is_too_short_names_one_that_would_do(self):
        done = self.expect_error(2, ["--tune 0.05s"], *CNN, "--tune", "50ms", "--out", "out")
        self.assertRegex(done.stderr, r"give it --tune \d+s or more")
        self.assertFalse((self.folder / "out" / "result.json").exists())


class Search(ProgramTest):
    def tune(self, *arguments):
        """Searches with a budget that the program itself calls long enough."""
        command = [*SMALL, *FEW_STEPS, "--out", "out", *arguments]
        seconds = 4
        for _ in range(4):
            done = self.run_program("bench", *command, "--tune", f"{seconds}s")
            if done.returncode != 2:
                break
            seconds = int(re.search(r"--tune (\d+)s or more", done.stderr)[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        log = json.loads((self.folder / "out" / "tuning.json").read_text())
        self.check(log, seconds)
        return done, log

    def check(self, log, seconds):
        self.assertEqual(log["schema"], "dtrain.tuning/1")
        self.assertEqual(log["budget_seconds"], seconds)
        self.assertLess(log["seconds"], 1.5 * seconds)
        flags = [candidate["flags"] for candidate in log["candidates"]]
        self.assertEqual(flags[0], "")
        self.assertEqual(log["winner_flags"], flags[log["winner"]])
        self.assertIn(log["winner"], [0, log["final"]["rival"]])
        measured = 1  # the first stretch, for its time
        entered = {candidate["candidate"] for candidate in log["candidates"] if candidate["entered"]}
        for rung in log["rungs"]:
            measured += sum(len(standing["images_per_second"]) for standing in rung["standings"])
            self.assertEqual({standing["candidate"] for standing in rung["standings"]}, entered)
            entered = {standing["candidate"] for standing in rung["standings"] if standing["kept"]}
        self.assertIn(log["final"]["rival"], entered)
        pairs = log["final"]["default_images_per_second"], log["final"]["rival_images_per_second"]
        self.assertEqual(len(pairs[0]), len(pairs[1]))
        self.assertEqual(measured + 2 * len(pairs[0]), log["stretches"])
        gain = log["gain_of_rival"]
        self.assertLessEqual(gain["low"], gain["median"])
        self.assertLessEqual(gain["median"], gain["high"])
        self.assertEqual(log["winner"] != 0, gain["low"] > 0 and len(pairs[0]) >= 6)

    def test_what_won_is_measured_and_can_be_typed(self):
        done, log = self.tune("--gpus", "2")
        result = self.result()
        self.assertEqual(result["config"]["tune"], log["budget_seconds"])
        self.assertIn("tuning.json", json.dumps(result["runs"][-1]["notes"]))
        self.assertIn(log["winner_flags"] or "the flags as given stay", done.stdout)
        self.assertRegex(done.stdout, r"tuned in .* with \d+ stretches of \d+ candidates")
        self.assertRegex(done.stdout, r"[+-]\d+\.\d % \[[+-]\d+\.\d %, [+-]\d+\.\d %\]")
        for candidate in log["candidates"]:  # each of them is something to type
            again = self.bench("--gpus", "2", *shlex.split(candidate["flags"]))
            if candidate["candidate"] == log["winner"]:
                for key in ["bucket_mb", "overlap", "allreduce", "threads_per_replica", "prefetch"]:
                    self.assertEqual(again["config"][key], result["config"][key], key)

    def test_workers_agree_on_what_won(self):
        launched = ["launch", "--workers", "2", "--"]
        hold = ["--prefetch", "2"]
        command = ["bench", *SMALL, *FEW_STEPS, "--strategy", "multi-worker", "--gpus", "2", "--out", "out", *hold]
        seconds = 8
        for _ in range(4):
            done = self.run_program(*launched, *command, "--tune", f"{seconds}s")
            if done.returncode != 2:
                break
            seconds = int(re.search(r"--tune (\d+)s or more", done.stderr)[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        log = json.loads((self.folder / "out" / "tuning.json").read_text())
        self.check(log, seconds)
        self.assertEqual(log["held"], ["--prefetch"])
        result = self.result()
        self.assertTrue(result["complete"])
        algorithm = re.search(r"--allreduce (\w+)", log["winner_flags"])
        self.assertEqual(result["config"]["allreduce"], algorithm[1] if algorithm else "auto")


if __name__ == "__main__":
    unittest.main()
