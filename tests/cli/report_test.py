"""`report` on one result and on folders of many: histories, other tools, and files that are no results."""

import copy
import csv
import io
import json
import pathlib
import random
import unittest

from program import ProgramTest


class ReportTest(ProgramTest):
    """One small benchmark; its file is copied and changed to make others."""

    def setUp(self):
        super().setUp()
        self.one = self.bench("--replicas", "2")

    def days(self, level):
        """A result a day: images/s is a thousand a replica, times level(day), give or take 1 %."""
        noise = random.Random(5)
        for day in range(1, 17):
            result = copy.deepcopy(self.one)
            result["created"] = f"2025-03-{day:02}T10:00:00Z"
            result["build"]["commit"] = f"commit{day:02}"
            for run in result["runs"]:
                for number, round_ in enumerate(run["rounds"]):
                    rate = 1000 * run["replicas"] * level(day) * (1 + 0.01 * noise.gauss(0, 1))
                    round_["seconds"] = round_["images"] / rate
                    round_["calibration_seconds"] = 0.004
            yield result

    def save(self, result, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(result if isinstance(result, str) else json.dumps(result))

    def history(self, *arguments):
        done = self.expect(0, "report", *arguments, "--history", "--format", "json")
        return json.loads(done.stdout), done.stderr

    def peer(self):
        """A file as bench/peers writes it, of the same work as our plain loop."""
        peer = copy.deepcopy(self.one)
        peer["build"] = {"version": "torch 2.1.0", "commit": "unknown", "compiler": "Python", "libraries": ["torch 2.1.0"]}
        peer["dataset"]["checksum"] = ""
        peer["runs"] = [run for run in peer["runs"] if run["base"] == "plain"]
        peer["runs"][0]["id"] = "torch-tuned-single-1"
        return peer

    def test_every_complete_result_is_kept_and_the_second_makes_a_history(self):
        kept = list((self.folder / "out/history").iterdir())
        self.assertEqual(len(kept), 1)
        self.assertEqual(kept[0].read_text(), (self.folder / "out/result.json").read_text())
        self.assertRegex(kept[0].name, r"^\d{4}-\d\d-\d\dT\d{6}Z-[0-9a-f]{8}\.json$")
        self.assertNotIn("History", self.expect(0, "report", "out").stdout)

        self.bench("--replicas", "2")
        self.assertEqual(len(list((self.folder / "out/history").iterdir())), 2)
        shown = self.expect(0, "report", "out").stdout
        self.assertIn("Scaling\n", shown)
        self.assertIn("\nHistory: 2 results, 3 configurations on 1 machine\n", shown)
        self.assertIn(self.one["machine"]["key"], shown)

    def test_training_is_kept_too(self):
        self.expect(0, "data", "generate", "data", "--records", "40", "--test-records", "20")
        self.expect(0, "train", "--model", "mlp", "--data", "data", "--epochs", "1", "--batch-size", "20", "--replicas", "1",
                    "--device", "cpu", "--format", "json", "--out", "trained")
        kept = list((self.folder / "trained/history").iterdir())
        self.assertEqual([file.read_text() for file in kept], [(self.folder / "trained/result.json").read_text()])

    def test_only_what_was_asked_for_is_kept(self):
        self.expect(0, "bench", "--model", "mlp", "--data", "synthetic", "--device", "cpu", "--replicas", "1", "--rounds", "1",
                    "--steps", "2", "--warmup", "1", "--format", "csv", "--out", "no-json")
        self.assertFalse((self.folder / "no-json/history").exists())

    def test_a_change_is_found_where_it_is(self):
        for number, result in enumerate(self.days(lambda day: 1.0 if day < 9 else 0.9)):
            self.save(result, f"results/{number}.json")
        history, _ = self.history("results")
        self.assertEqual(history["schema"], "dtrain.history/1")
        series = history["machines"][0]["series"]
        self.assertEqual([s["label"] for s in series], ["plain", "mirrored-1", "mirrored-2"])
        for one in series:
            self.assertEqual(len(one["points"]), 16)
            self.assertEqual([(c["after_commit"], c["before_commit"]) for c in one["changes"]], [("commit08", "commit09")])
            change = one["changes"][0]
            self.assertAlmostEqual(change["percent"], -10, delta=2)
            self.assertLess(change["percent_low"], change["percent"])
            self.assertLess(change["percent_high"], -2)
        shown = self.expect(0, "report", "results").stdout
        self.assertIn("between commit08 (2025-03-08 10:00) and", " ".join(shown.split()))

    def test_every_key_of_a_history_is_documented(self):
        for number, result in enumerate(self.days(lambda day: 1.0 if day < 9 else 0.9)):
            self.save(result, f"results/{number}.json")
        text = (pathlib.Path(__file__).parents[2] / "results/README.md").read_text()
        text = text[text.index("## `dtrain.history/1`"):text.index("# `dtrain.result/1`")]
        history, _ = self.history("results")
        series = history["machines"][0]["series"][0]
        change, point = series["changes"][0], series["points"][0]
        for key in [*history, *history["machines"][0], *series, *change, *point]:
            if not key.endswith("_reason"):
                self.assertIn(key, text)

    def test_formats_of_a_history(self):
        for number, result in enumerate(self.days(lambda day: 1.0)):
            self.save(result, f"results/{number}.json")
        done = self.expect(0, "report", "results", "--history", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(len(rows), 48)
        self.assertEqual(rows[0]["commit"], "commit01")
        self.assertAlmostEqual(float(rows[32]["images_per_second"]), 2000, delta=100)
        self.assertEqual({row["change_percent"] for row in rows}, {""})

        self.expect(0, "report", "results", "--history", "--format", "json,csv,markdown,html,console", "--out", "shown")
        names = sorted(file.name for file in (self.folder / "shown").iterdir())
        self.assertEqual(names, ["history.csv", "history.html", "history.json", "history.md"])
        self.assertIn("Chart.js", (self.folder / "shown/history.html").read_text())
        self.expect_error(2, ["bencher"], "report", "results", "--history", "--format", "bencher")

    def test_a_result_stays_what_it_is_for_programs(self):
        for number, result in enumerate(self.days(lambda day: 1.0)):
            self.save(result, f"out/history/{number}.json")
        self.assertEqual(json.loads(self.expect(0, "report", "out", "--format", "json").stdout), self.result())
        self.assertTrue(self.expect(0, "report", "out", "--format", "csv").stdout.startswith("run,strategy,base,"))
        self.expect(0, "report", "out", "--format", "html,markdown,bencher", "--out", "shown")
        self.assertIn("Throughput over time", (self.folder / "shown/report.html").read_text())
        self.assertIn("## dtrain: history of 17 results", (self.folder / "shown/result.md").read_text())
        self.assertIn("images-per-second", (self.folder / "shown/bencher.json").read_text())

    def test_a_folder_without_a_result_of_its_own_shows_the_newest(self):
        for number, result in enumerate(self.days(lambda day: 1.0)):
            self.save(result, f"old/{number}.json")
        shown = self.expect(0, "report", "old").stdout
        self.assertIn("Scaling\n", shown)
        self.assertIn("History: 16 results", shown)
        self.assertEqual(json.loads(self.expect(0, "report", "old", "--format", "json").stdout)["schema"], "dtrain.history/1")

    def test_results_named_one_by_one_make_a_history(self):
        names = []
        for number, result in enumerate(self.days(lambda day: 1.0)):
            names.append(f"{number}.json")
            self.save(result, names[-1])
        history, _ = self.history(*names)
        self.assertEqual(history["results"], 16)
        self.assertEqual(self.history(*names, "0.json")[0]["results"], 16, "twice the same counts once")

    def test_another_tool_stands_beside_equal_work_and_is_refused_otherwise(self):
        self.save(self.peer(), "out/peers/torch/result.json")
        other = self.peer()
        other["model"]["parameters"] += 1
        other["runs"][0]["global_batch"] = 16
        self.save(other, "out/peers/torch-16/result.json")
        history, _ = self.history("out")
        labels = [(s["tool"], s["label"]) for s in history["machines"][0]["series"]]
        self.assertEqual(labels[:2], [("dtrain", "plain"), ("torch", "torch-tuned-single-1")])
        self.assertEqual(len(history["refused"]), 1)
        parameters = self.one["model"]["parameters"]
        self.assertIn(f"parameters {parameters + 1} instead of {parameters}, global batch 16 instead of 8", history["refused"][0])

    def test_what_is_no_result_is_named_once_and_costs_nothing(self):
        self.bench("--replicas", "2")
        self.save("{", "out/broken.json")
        self.save('{"schema": "dtrain.result/1", "runs": 3}', "out/foreign.json")
        self.save("[]", "out/list.json")
        done = self.expect(0, "report", "out")
        warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
        self.assertEqual(len(warnings), 1, done.stderr)
        for name in ("broken.json (no result)", "foreign.json (", "list.json (no result)"):
            self.assertIn(name, warnings[0])
        self.assertIn("History: 2 results", done.stdout)

    def test_nothing_left_is_a_data_error(self):
        (self.folder / "empty").mkdir()
        self.expect_error(4, ["empty: holds no result"], "report", "empty")
        self.save("{}", "foreign/x.json")
        self.expect_error(4, ["holds no result", "x.json"], "report", "foreign", "--history")
        cut = copy.deepcopy(self.one)
        cut["complete"] = False
        self.save(cut, "cut/result.json")
        self.expect_error(4, ["no complete result"], "report", "cut", "--history")
        self.assertIn("Incomplete", self.expect(0, "report", "cut").stdout)

    def test_the_key_that_names_caches_is_the_results(self):
        key = self.expect(0, "info", "--machine-key").stdout
        self.assertEqual(key, json.loads(self.expect(0, "info", "--json").stdout)["machine"]["key"] + "\n")
        self.assertEqual(key.strip(), self.one["machine"]["key"])


if __name__ == "__main__":
    unittest.main()
