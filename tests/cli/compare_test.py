"""The regression gate, as a CI job meets it: exit codes first."""

import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as xml

from program import SMALL, ProgramTest

try:
    import jsonschema
except ModuleNotFoundError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parents[2]

ROUNDS = ["--rounds", "5", "--steps", "10", "--warmup", "2"]


class CompareTest(ProgramTest):
    """A result of the program, its rounds made steady, so that a test says what changed."""

    @classmethod
    def setUpClass(cls):
        case = cls("run_program")
        case.setUp()
        case.expect(0, "bench", *SMALL, *ROUNDS, "--gpus", "2", "--oversubscribe", "--format", "json", "--out", "made")
        cls.made = json.loads((case.folder / "made" / "result.json").read_text())
        case.doCleanups()
        for run in cls.made["runs"]:
            run["noise"] = {}
            for number, round_ in enumerate(run["rounds"]):
                rate = 1000.0 * run["replicas"] * (1.0 + 0.002 * ((number * 3) % 5 - 2))
                round_["seconds"] = round_["images"] / rate
                round_["wall_seconds"] = 0
                round_["calibration_seconds"] = 0.005

    def write(self, name, change=None):
        result = copy.deepcopy(self.made)
        if change:
            change(result)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(result if isinstance(result, str) else json.dumps(result))
        return name

    def compare(self, code, change, *flags):
        base = self.write("base/result.json")
        new = self.write("new/result.json", change)
        return self.expect(code, "compare", base, new, *flags)


def slower(factor, runs=slice(None)):
    def change(result):
        for run in result["runs"][runs]:
            for round_ in run["rounds"]:
                round_["seconds"] *= factor

    return change


class Verdicts(CompareTest):
    def test_exit_codes(self):
        self.assertIn("Same: ", self.compare(0, None).stdout)
        self.assertIn("Worse: ", self.compare(1, slower(1.3)).stdout)
        self.assertIn("Better: ", self.compare(0, slower(0.7)).stdout)
        self.assertIn("Same: ", self.compare(0, slower(1.02), "--max-regress", "10%").stdout)
        self.assertIn("Worse: ", self.compare(1, slower(1.12), "--max-regress", "5%").stdout)
        self.assertIn("Cannot tell: ", self.compare(6, slower(1.053), "--max-regress", "5%").stdout)

    def test_one_slow_configuration_is_enough(self):
        done = self.compare(1, slower(1.3, slice(2, 3)))
        self.assertRegex(done.stdout, r"mirrored-2 .* worse")
        self.assertRegex(done.stdout, r"mirrored-1 .* same")

    def test_folders_and_files_mean_the_same(self):
        self.compare(1, slower(1.3))
        self.expect(1, "compare", "base", "new")
        self.expect(0, "compare", "new", "base")

    def test_a_folder_of_results_is_runs_of_one_command(self):
        for number in range(3):
            self.write(f"base/{number}/result.json", slower(1.0 + 0.01 * number))
            self.write(f"base/{number}/history/copy.json", slower(1.0 + 0.01 * number))
        self.write("new/result.json", slower(1.3))
        done = self.expect(1, "compare", "base", "new", "--format", "json")
        finding = json.loads(done.stdout)["findings"][0]
        self.assertEqual(finding["base"]["runs"], 3)
        self.assertIn("as the means of the runs show", " ".join(finding["arithmetic"]))

    def test_a_slow_machine_is_not_a_slow_program(self):
        def change(result):
            slower(1.3)(result)
            for run in result["runs"]:
                for round_ in run["rounds"]:
                    round_["calibration_seconds"] *= 1.3

        self.compare(0, change)

    def test_explain_walks_through_the_arithmetic(self):
        done = self.compare(1, slower(1.3), "--explain")
        for words in ("mean of logarithms", "degrees of freedom", "Holm's correction", "has to lie above -5.00 %"):
            self.assertIn(words, " ".join(done.stdout.split()))
        shown = re.search(r"new: 5 rounds in 1 run, mean of logarithms (-?[\d.]+)", " ".join(done.stdout.split()))
        self.assertIsNotNone(shown)


class FailsClosed(CompareTest):
    def test_files_that_are_no_results(self):
        base = self.write("base.json")
        cases = {
            "missing": None,
            "empty": "",
            "truncated": json.dumps(self.made)[:2000],
            "text": "hello",
            "list": "[]",
            "schema": json.dumps({**self.made, "schema": "dtrain.result/2"}),
        }
        for name, text in cases.items():
            if text is not None:
                (self.folder / f"{name}.json").write_text(text)
            for pair in ((base, f"{name}.json"), (f"{name}.json", base)):
                with self.subTest(name):
                    self.expect_error(4, name, "compare", *pair)

    def test_numbers_that_are_none(self):
        for key in ("images", "seconds"):
            for value in (0, -1, None, "NaN"):
                with self.subTest(key=key, value=value):

                    def change(result, key=key, value=value):
                        result["runs"][0]["rounds"][1][key] = value

                    self.compare(4, change)
        self.write("base.json")
        text = json.dumps(self.made).replace('"seconds": ', '"seconds": NaN, "x": ', 1)
        (self.folder / "nan.json").write_text(text)
        self.expect(4, "compare", "base.json", "nan.json")

    def test_a_name_that_two_runs_share(self):
        def change(result):
            result["runs"][1]["id"] = result["runs"][0]["id"]

        self.assertIn("as runs[0].id is", self.compare(4, change).stderr)

    def test_incomplete_empty_and_short_ones(self):
        def incomplete(result):
            result["complete"] = False

        def no_runs(result):
            result["runs"] = []

        def one_round(result):
            for run in result["runs"]:
                del run["rounds"][1:]

        def a_run_less(result):
            del result["runs"][2]

        def failed(result):
            result["runs"][2]["failure"] = "rank 1 was lost"

        for change, words in (
            (incomplete, "incomplete"),
            (no_runs, "holds no run"),
            (one_round, "use more --rounds"),
            (a_run_less, "mirrored-2"),
            (failed, "rank 1 was lost"),
        ):
            with self.subTest(change.__name__):
                self.assertIn(words, self.compare(6, change).stdout)

    def test_other_work_names_the_key_and_both_values(self):
        def other(path, value):
            def change(result):
                node = result
                for key in path[:-1]:
                    node = node[key]
                node[path[-1]] = value

            return change

        for path, value, words in (
            (("machine", "key"), "another", "machine.key"),
            (("model", "parameters"), 7, "model.parameters"),
            (("dataset", "checksum"), "beef", "dataset.checksum"),
            (("config", "precision"), "bf16", "precision"),
            (("config", "batch_size"), 4, "batch_size"),
            (("config", "sync_every"), 8, "sync_every"),
            (("config", "device"), "cuda", "device"),
            (("runs", 1, "losses", 0), 9.75, "losses of the first steps"),
            (("runs", 2, "simulated"), not self.made["runs"][2]["simulated"], "simulated"),
        ):
            with self.subTest(words):
                text = " ".join(self.compare(6, other(path, value)).stdout.split())
                self.assertIn("Cannot compare: not the same work on the same machine: ", text)
                self.assertIn(words, text)
                forced = self.compare(0, other(path, value), "--force").stdout
                self.assertIn("Forced", forced)

    def test_a_loaded_machine(self):
        def change(result):
            slower(1.2)(result)
            for run in result["runs"]:
                run["noise"] = {"foreign_load_cores": 1.0 * result["machine"]["cores"]}
                for round_ in run["rounds"]:
                    round_["images"] *= 1000
                    round_["seconds"] *= 1000

        self.assertIn("disturbed", self.compare(6, change).stdout)


class FoldersOfFiles(CompareTest):
    def test_what_is_no_result_is_said(self):
        self.write("base/a.json")
        self.write("base/b.json", slower(1.001))
        self.write("new/result.json")
        for name, text in (("empty", ""), ("list", "[]"), ("other", '{"schema": "dtrain.comparison/1"}')):
            (self.folder / "base" / f"{name}.json").write_text(text)
        shutil.copy(ROOT / "results" / "schema.json", self.folder / "base")
        for base, new in (("base", "new"), ("new", "base")):
            done = self.expect(0, "compare", base, new, "--format", "json")
            notes = json.loads(done.stdout)["notes"]
            self.assertEqual(notes, ["base: no result, and passed by: base/empty.json, base/list.json"])

    def test_a_result_of_another_version_is_no_other_file(self):
        self.write("base/a.json")
        self.write("base/b.json", lambda result: result.update(schema="dtrain.result/2"))
        self.write("new/result.json")
        self.expect_error(4, "b.json", "compare", "base", "new")


class Disagreement(CompareTest):
    def test_copies_count_once(self):
        for name in ("a", "b", "c"):
            self.write(f"base/{name}.json")
        self.write("new/result.json", slower(1.01))
        done = self.expect(0, "compare", "base", "new", "--format", "json")
        comparison = json.loads(done.stdout)
        self.assertEqual(comparison["findings"][0]["base"]["runs"], 1)
        self.assertIn("each counts once", " ".join(comparison["notes"]))

    def test_two_runs_that_disagree_are_no_proof(self):
        self.write("base/a.json", slower(1.0))
        self.write("base/b.json", slower(1.0001))
        self.write("new/a.json", slower(1.0))
        self.write("new/b.json", slower(1.43))
        self.expect(6, "compare", "base", "new")

    def test_scattered_calibration_is_no_change(self):
        def change(result):
            slower(1.0001)(result)
            for run in result["runs"]:
                for number, round_ in enumerate(run["rounds"]):
                    round_["calibration_seconds"] *= 0.9 if number % 5 < 3 else 1.0

        self.compare(6, change)

    def test_what_calibration_took_out_is_said(self):
        def change(result):
            slower(1.15)(result)
            for run in result["runs"]:
                for round_ in run["rounds"]:
                    round_["calibration_seconds"] *= 1.15

        text = " ".join(self.compare(0, change).stdout.split())
        self.assertIn("as measured -13.0 %, but the machine itself was 13.0 % slower beside the new side", text)

    def test_a_machine_at_half_its_speed_tells_nothing(self):
        def change(result):
            slower(2.2)(result)
            for run in result["runs"]:
                for round_ in run["rounds"]:
                    round_["calibration_seconds"] *= 2.2

        self.compare(6, change)

    def test_ranks_with_different_weights_never_pass(self):
        def change(result):
            slower(0.9)(result)
            result["runs"][2]["weights_agree"] = False

        self.assertIn("different weights", self.compare(6, change).stdout)


class Formats(CompareTest):
    def test_files(self):
        self.compare(1, slower(1.3), "--format", "markdown,json,junit", "--out", "verdict")
        verdict = json.loads((self.folder / "verdict" / "comparison.json").read_text())
        self.assertEqual(verdict["outcome"], "regression")
        self.assertEqual(verdict["exit_code"], 1)
        self.assertEqual([finding["verdict"] for finding in verdict["findings"]], ["worse"] * 3)
        self.assertAlmostEqual(verdict["findings"][0]["change"], 1 / 1.3 - 1, delta=0.01)
        suite = xml.parse(self.folder / "verdict" / "comparison.xml").getroot()
        self.assertEqual(suite.get("failures"), "3")
        self.assertEqual(len(suite.findall(".//failure")), 3)
        markdown = (self.folder / "verdict" / "comparison.md").read_text()
        self.assertIn("## dtrain: regression", markdown)
        self.assertIn("| mirrored-2 |", markdown)

    def outcomes(self):
        """A comparison of every outcome, in files."""

        def other(result):
            result["model"]["parameters"] = 7

        for code, change in ((0, None), (1, slower(1.3)), (6, slower(1.053)), (6, other)):
            self.compare(code, change, "--format", "json,junit", "--out", "verdict")
            yield self.folder / "verdict"

    @unittest.skipUnless(jsonschema, "Python's module jsonschema is not installed (package python3-jsonschema)")
    def test_json_keeps_to_its_schema(self):
        schema = json.loads((ROOT / "results" / "comparison.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        for folder in self.outcomes():
            verdict = json.loads((folder / "comparison.json").read_text())
            jsonschema.Draft202012Validator(schema).validate(verdict)
        verdict["findings"] = [{"configuration": "plain"}]
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema).validate(verdict)

    @unittest.skipUnless(shutil.which("xmllint"), "xmllint is not installed (package libxml2-utils)")
    def test_junit_keeps_to_its_schema(self):
        schema = ROOT / "tests" / "compare" / "schemas" / "junit.xsd"
        check = ["xmllint", "--noout", "--schema", str(schema)]
        for folder in self.outcomes():
            done = subprocess.run([*check, folder / "comparison.xml"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        (folder / "comparison.xml").write_text("<testsuites><testsuite/></testsuites>")
        self.assertNotEqual(subprocess.run([*check, folder / "comparison.xml"], capture_output=True, check=False).returncode, 0)

    def test_junit_of_a_name_that_is_no_text(self):
        base = self.write("base.json")
        new = self.write("new.json", lambda result: result.update(complete=False))
        odd = os.fsencode(self.folder / "bad") + b"\xff.json"
        os.rename(os.fsencode(self.folder / new), odd)
        self.expect(6, "compare", base, os.fsdecode(odd), "--format", "junit", "--out", "verdict")
        suite = xml.parse(self.folder / "verdict" / "comparison.xml").getroot()
        self.assertIn("bad\ufffd.json is incomplete", suite.find(".//error").get("message"))

    def test_github_annotations_on_the_screen(self):
        lines = self.compare(1, slower(1.3), "--format", "github").stdout.splitlines()
        self.assertTrue(all(line.startswith("::error title=dtrain::") for line in lines), lines)

    def test_all_metrics(self):
        done = self.compare(1, slower(1.3), "--metric", "all", "--format", "json")
        findings = json.loads(done.stdout)["findings"]
        ways = {finding["metric"]: finding["better"] for finding in findings}
        self.assertEqual(ways["images_per_second"], "more")
        self.assertEqual(ways["step_ms"], "less")
        step = next(finding for finding in findings if finding["metric"] == "step_ms")
        self.assertAlmostEqual(step["change"], 0.3, delta=0.01)
        self.assertEqual(step["verdict"], "worse")


class BadInput(CompareTest):
    def test_usage(self):
        self.write("a.json")
        self.expect_error(2, "two results are needed", "compare", "a.json")
        self.expect_error(2, "two results are needed", "compare", "a.json", "a.json", "a.json")
        self.expect_error(2, "--max-regress", "compare", "a.json", "a.json", "--max-regress", "500%")
        self.expect_error(2, "unknown metric", "compare", "a.json", "a.json", "--metric", "speed")
        self.expect_error(2, "unknown comparison format", "compare", "a.json", "a.json", "--format", "pdf")
        self.expect_error(2, "one format at a time", "compare", "a.json", "a.json", "--format", "json,junit")
        self.expect_error(3, "out", "compare", "a.json", "a.json", "--format", "json", "--out", "/proc/out")

    def test_a_folder_of_nothing(self):
        self.write("a.json")
        (self.folder / "nothing").mkdir()
        self.expect_error(4, "holds no result file", "compare", "a.json", "nothing")


class Baseline(CompareTest):
    SOME = ["bench", *SMALL, "--gpus", "1", "--rounds", "3", "--steps", "5", "--warmup", "1"]

    def test_bench_is_held_against_it(self):
        # Rounds long enough that one that got no core for a moment is not all there is to it.
        some = [*self.SOME, "--rounds", "5", "--steps", "60"]
        self.expect(0, *some, "--format", "json", "--out", "before")
        path = self.folder / "before" / "result.json"
        before = json.loads(path.read_text())
        slower(50.0)(before)  # so much slower that no noise of this machine makes up for it
        path.write_text(json.dumps(before))
        done = self.expect(0, *some, "--format", "json,console", "--out", "after", "--baseline", "before")
        self.assertIn("Better: ", done.stdout)
        self.assertEqual(json.loads((self.folder / "after" / "comparison.json").read_text())["exit_code"], 0)
        slower(1.0 / 2500.0)(before)
        path.write_text(json.dumps(before))
        done = self.run_program(*some, "--format", "json,console", "--out", "after", "--baseline", "before")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_one_that_is_none_costs_no_time(self):
        self.expect_error(2, "no baseline", *self.SOME, "--out", "after", "--max-regress", "3%")
        self.expect_error(4, "absent.json", *self.SOME, "--out", "after", "--baseline", "absent.json")
        self.assertFalse((self.folder / "after" / "result.json").exists())

    def test_one_that_would_be_replaced_is_refused(self):
        self.expect(0, *self.SOME, "--format", "json", "--out", "kept")
        for name in ("kept", "kept/result.json", "./kept/"):
            self.expect_error(2, "would replace it", *self.SOME, "--out", "kept", "--baseline", name)
        self.expect_error(2, "would replace it", *self.SOME, "--out", "kept", "--baseline", "kept", "--dry-run")

    def test_one_that_would_take_the_result_in_is_refused(self):
        self.expect(0, *self.SOME, "--format", "json", "--out", "all/kept")
        for name in ("all/kept/history", "all/kept/history/", "all", ".", str(self.folder)):
            self.expect_error(2, "added to it", *self.SOME, "--out", "all/kept", "--baseline", name)
        self.expect_error(2, "added to it", *self.SOME, "--out", "all/new", "--baseline", "all", "--dry-run")
        # A copy in the history stays as it is, and other folders are others.
        (copy_,) = (self.folder / "all" / "kept" / "history").iterdir()
        for out, name in (("all/kept", copy_), ("all/kept2", "all/kept/history"), ("all/kept/new", "all/kept")):
            self.expect(0, *self.SOME, "--out", out, "--baseline", name, "--dry-run")

    def test_files_and_a_line_without_console(self):
        self.expect(0, *self.SOME, "--format", "json", "--out", "before")
        done = self.expect(6, *self.SOME, "--seed", "4", "--format", "markdown", "--out", "after", "--baseline", "before")
        self.assertIn("will not do for a comparison, because these differ: seed", done.stderr)
        self.assertIn("Cannot compare: ", done.stderr)
        self.assertTrue((self.folder / "after" / "comparison.md").exists())

    def test_unequal_work_is_six(self):
        self.expect(0, *self.SOME, "--format", "json", "--out", "before")
        self.expect(6, *self.SOME, "--seed", "4", "--format", "json", "--out", "after", "--baseline", "before")
