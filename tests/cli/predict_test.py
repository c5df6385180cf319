"""dtrain predict: what a measured sweep says of more replicas, and where it says nothing."""

import json

from program import FEW_STEPS, PLAIN, SMALL, ProgramTest


class Predict(ProgramTest):
    def measure(self, replicas="1,2,4", *flags):
        self.expect(0, "bench", *SMALL, *FEW_STEPS, PLAIN, "--out", "out", "--replicas", replicas, "--oversubscribe", *flags)
        return self.result()

    def predict(self, *flags):
        """The prediction as JSON from the screen."""
        return json.loads(self.expect(0, "predict", "out", "--format", "json", *flags).stdout)

    def test_a_sweep_gives_numbers_with_intervals_and_words(self):
        result = self.measure()
        prediction = self.predict("--replicas", "8,512")
        self.assertEqual(prediction["schema"], "dtrain.prediction/1")
        self.assertEqual([e["replicas"] for e in prediction["predictions"]], [8, 512])
        for estimate in prediction["predictions"]:
            rate, step = estimate["images_per_second"], estimate["step_seconds"]
            for value in (rate, step):
                self.assertLess(0, value["low"])
                self.assertLessEqual(value["low"], value["value"])
                self.assertLessEqual(value["value"], value["high"])
            self.assertAlmostEqual(rate["value"] * step["value"], 8 * estimate["replicas"], delta=1e-6 * 8 * estimate["replicas"])
            self.assertAlmostEqual(sum(estimate["parts"].values()), step["value"], delta=1e-9)
            self.assertIn("extrapolated", estimate["how"])
        self.assertIn("far extrapolated: 128 times", prediction["predictions"][1]["how"])
        self.assertEqual([m["replicas"] for m in prediction["measured"]], [1, 2, 4])
        self.assertEqual(
            [m["run"] for m in prediction["measured"]],
            [run["id"] for run in result["runs"] if run["base"] != "plain"],
        )
        text = self.expect(0, "predict", "out", "--replicas", "8,512").stdout
        for part in ["extrapolated", "simulated", "left out and predicted from the others", "What limits first"]:
            self.assertIn(part, text)

    def test_replicas_take_ranges_and_say_what_was_measured(self):
        self.measure("1,2,3")
        estimates = self.predict("--replicas", "2..4")["predictions"]
        self.assertEqual([e["replicas"] for e in estimates], [2, 3, 4])
        self.assertEqual(estimates[1]["how"], "at a measured N")
        measured = {m["replicas"]: m for m in self.predict()["measured"]}
        self.assertEqual(estimates[1]["measured_images_per_second"], measured[3]["images_per_second"])
        self.assertIsNone(estimates[2]["measured_images_per_second"])

    def test_files_are_written_where_asked(self):
        self.measure()
        self.expect(0, "predict", "out/result.json", "--format", "json,markdown,html", "--out", "p")
        self.assertEqual(sorted(p.name for p in (self.folder / "p").iterdir()), ["prediction.html", "prediction.json", "prediction.md"])
        json.loads((self.folder / "p/prediction.json").read_text())
        self.assertIn("Chart", (self.folder / "p/prediction.html").read_text())

    def test_another_link_and_sweeps_are_taken_in(self):
        self.measure("1,2,3")
        self.expect(0, "allreduce", "--replicas", "2", "--min-time", "5ms", "--sizes", "4KB,64KB,1MB", "--json", "two.json", "--quiet")
        prediction = self.predict("--replicas", "16", "--link", "10gbe", "--per-host", "2", "--allreduce", "two.json")
        estimate = prediction["predictions"][0]
        self.assertEqual(estimate["hosts"], 8)
        self.assertIn("10gbe", prediction["collective"]["from"])
        self.assertIn("1 sweep of all-reduces", prediction["collective"]["from"])
        self.assertAlmostEqual(prediction["collective"]["among_workers"]["alpha_seconds"], 50e-6)

    def test_a_sweep_that_cannot_belong_to_the_result_is_refused(self):
        self.measure("1,2,3")
        self.expect(0, "allreduce", "--replicas", "2", "--min-time", "5ms", "--sizes", "64KB,1MB", "--json", "two.json", "--quiet")
        sweep = json.loads((self.folder / "two.json").read_text())
        collective = self.predict("--allreduce", "two.json", "--allreduce", "./two.json")["collective"]
        self.assertIn("1 sweep of", collective["from"])
        for key, value in [("communicator", "carrier pigeon"), ("communicator", "gloo"), ("workers", 2)]:
            (self.folder / "odd.json").write_text(json.dumps({**sweep, key: value}))
            self.expect_error(4, ["odd.json", key], "predict", "out", "--allreduce", "odd.json")
        sweep["sizes"][0]["time_us"]["median"] = 1e300
        (self.folder / "odd.json").write_text(json.dumps(sweep))
        self.expect_error(4, ["odd.json", "sizes[0].time_us.median"], "predict", "out", "--allreduce", "odd.json")

    def test_runs_that_failed_are_named_in_a_refusal(self):
        result = self.measure("1,2,3")
        result["runs"][-1]["failure"] = "rank 1 was lost"
        (self.folder / "failed.json").write_text(json.dumps(result))
        done = self.expect(6, "predict", "failed.json")
        self.assertIn(f"not used: {result['runs'][-1]['id']}: it failed: rank 1 was lost", done.stdout)

    def test_fewer_than_three_n_are_refused(self):
        self.measure("1,2")
        done = self.expect(6, "predict", "out", "--replicas", "8")
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertIn("--replicas 1,2,4", done.stdout)
        done = self.expect(6, "predict", "out", "--format", "json")
        self.assertIn("three are needed", json.loads(done.stdout)["refusal"])
        self.assertIn("no prediction", done.stderr)

    def test_bad_usage_names_the_flag(self):
        self.measure("1,2,3")
        for words, arguments in [
            (["--replicas", "0"], ["--replicas", "0"]),
            (["--replicas", "1000001"], ["--replicas", "1000001"]),
            (["--replicas", "x"], ["--replicas", "4,x"]),
            (["--replicas", "downwards"], ["--replicas", "4..1"]),
            (["--replicas", "64 predictions"], ["--replicas", "1..65"]),
            (["--link", "ib-hrd", "ib-hdr"], ["--link", "ib-hrd"]),
            (["--link", "5us,3"], ["--link", "5us,3"]),
            (["--per-host", "--link"], ["--per-host", "2"]),
            (["vgg", "resnet9"], ["--model", "vgg"]),
            (["--format", "one format"], ["--format", "json,html"]),
            (["csv"], ["--format", "csv"]),
            (["--format console"], ["--out", "p"]),
        ]:
            self.expect_error(2, words, "predict", "out", *arguments)
        self.expect_error(2, ["2 results"], "predict", "out", "out")

    def test_bad_files_are_data_errors(self):
        result = self.measure("1,2,3")
        self.expect_error(4, ["none"], "predict", "none")
        (self.folder / "bad.json").write_text("{}")
        self.expect_error(4, ["bad.json", "schema"], "predict", "bad.json")
        self.expect_error(4, ["bad.json", "schema"], "predict", "out", "--allreduce", "bad.json")
        result["complete"] = False
        (self.folder / "half.json").write_text(json.dumps(result))
        self.expect_error(4, ["half.json", "did not run to its end"], "predict", "half.json")
        result["complete"] = True
        result["runs"][2]["rounds"][0]["seconds"] = None
        (self.folder / "null.json").write_text(json.dumps(result))
        self.expect_error(4, ["null.json", "seconds"], "predict", "null.json")
