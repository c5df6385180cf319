"""The files for CI services in docs/ci: they fit the services' schemas, their scripts do what docs/ci.md says, and what
docs/ci.md quotes of them is what they say."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from program import PROGRAM, ProgramTest, clean_environment

try:
    import yaml
except ImportError:
    yaml = None

FOLDER = pathlib.Path(__file__).parents[2] / "docs/ci"
GITHUB, GITLAB = FOLDER / "github.yml", FOLDER / "gitlab.yml"
CHECKER = "check-jsonschema==0.39.0"  # holds the schemas of both services
SMALL = "bench --replicas 2 --model mlp --batch-size 8 --data synthetic --device cpu --rounds 3 --steps 20 --warmup 2"

needs_yaml = unittest.skipIf(yaml is None, "Python's module yaml is not installed (package python3-yaml)")


class Schemas(unittest.TestCase):
    """By the schemas that SchemaStore and GitLab publish, which a package on PyPI brings along."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(os.environ.get("DTRAIN_CI_SCHEMAS", "/tmp/dtrain-ci-schemas"))
        if (cls.folder / "check_jsonschema").is_dir():
            return
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
             "--target", cls.folder, CHECKER],
            capture_output=True, text=True, timeout=250, check=False,
        )
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            print(f"SKIPPED: {CHECKER} cannot be had: {reason}")
            raise unittest.SkipTest(reason)

    def check(self, path, *options):
        return subprocess.run(
            [sys.executable, "-m", "check_jsonschema", *options, path],
            env={**os.environ, "PYTHONPATH": str(self.folder)}, capture_output=True, text=True, timeout=60, check=False,
        )

    def expect_fit(self, path, *options):
        done = self.check(path, *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        broken = self.folder / f"broken-{path.name}"
        broken.write_text(re.sub(r"(?m)^( *)(runs-on|when): .*$", r"\1\2: [[7]]", path.read_text()))
        self.assertEqual(self.check(broken, *options).returncode, 1, "the schema refuses what is wrong")

    def test_github(self):
        self.expect_fit(GITHUB, "--builtin-schema", "vendor.github-workflows")

    def test_gitlab(self):
        self.expect_fit(GITLAB, "--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")


class Document(unittest.TestCase):
    def test_every_quotation_stands_in_the_file_it_is_from(self):
        text = (FOLDER.parent / "ci.md").read_text()
        quotations = re.findall(r"\(ci/(\w+\.yml)\):\n\n```yaml\n(.*?)```", text, re.S)
        self.assertGreaterEqual(len(quotations), 2)
        self.assertEqual(len(quotations), text.count("```yaml"), "each quotation names its file")
        for name, quotation in quotations:
            self.assertIn(quotation, (FOLDER / name).read_text(), f"quoted from {name}")

    def test_links_lead_somewhere(self):
        text = (FOLDER.parent / "ci.md").read_text()
        for target in re.findall(r"\]\(([^)#:]+)", text):
            self.assertTrue((FOLDER.parent / target).exists(), target)


@needs_yaml
class Scripts(ProgramTest):
    """Runs the files' own scripts with the built program: first with nothing to compare with, then against that."""

    def setUp(self):
        super().setUp()
        (self.folder / "dtrain").symlink_to(PROGRAM)
        self.summary = self.folder / "summary.md"
        self.output = self.folder / "output"

    def script(self, script, fails=None, **variables):
        """Runs as the services do: bash -e. `fails`: bench ends with that code in place of its own."""
        if fails is not None:
            script = re.sub(r"(\./dtrain \$BENCH --baseline [^|\n]*)\|\|", rf"{{ \1; (exit {fails}); }} ||", script)
        environment = clean_environment({
            "BENCH": SMALL, "GITHUB_OUTPUT": str(self.output), "GITHUB_STEP_SUMMARY": str(self.summary), **variables})
        return subprocess.run(["bash", "-e", "-c", script], cwd=self.folder, env=environment, capture_output=True, text=True,
                              timeout=120, check=False)

    def github_step(self, name, job="baseline"):
        steps = yaml.safe_load(GITHUB.read_text())["jobs"][job]["steps"]
        return next(step["run"] for step in steps if step.get("name") == name)

    def github_gate(self, fails=None):
        self.output.unlink(missing_ok=True)
        done = self.script(self.github_step("Measure, and compare"), fails)
        return done, self.output.read_text().split("code=")[-1].strip()

    def test_github(self):
        self.assertEqual(self.script(self.github_step("Build, and ask for the machine's key")).returncode, 0)
        self.assertRegex(self.output.read_text(), r"^key=[0-9a-f]{16}\n$")
        done, code = self.github_gate()
        self.assertEqual((done.returncode, code), (0, "0"), done.stderr)
        self.assertIn("::notice title=dtrain::no result of main on this machine yet", done.stdout)
        self.assertEqual(self.script(self.github_step("Take it into the history of main")).returncode, 0)
        self.assertEqual(len(list((self.folder / "history").iterdir())), 1)
        self.assertIn("history of 1 result, 3 configurations on 1 machine", self.summary.read_text())

        done, code = self.github_gate()
        self.assertIn(code, ("0", "1", "6"))
        self.assertEqual(done.returncode, 1 if code == "1" else 0, done.stderr)
        self.assertEqual(self.script(self.github_step("Show it on the page of this run")).returncode, 0)
        self.assertIn((self.folder / "results/comparison.md").read_text(), self.summary.read_text())
        self.assertTrue((self.folder / "results/comparison.xml").exists())

    def test_what_a_verdict_does_to_a_github_workflow(self):
        self.github_gate()
        self.script(self.github_step("Take it into the history of main"))
        for verdict, ends in ((0, 0), (1, 1), (6, 0), (5, 5)):
            done, code = self.github_gate(fails=verdict)
            self.assertEqual((done.returncode, code), (ends, str(verdict)), done.stderr)
        steps = yaml.safe_load(GITHUB.read_text())["jobs"]["baseline"]["steps"]
        kept = [step for step in steps if "save" in step.get("uses", "") or "Take it" in step.get("name", "")]
        self.assertEqual({step["if"] for step in kept},
                         {"github.ref == 'refs/heads/main' && steps.gate.outputs.code == '0'"})

    def test_only_the_last_five_results_are_the_baseline(self):
        self.github_gate()
        kept = next((self.folder / "results/history").iterdir())
        for day in range(1, 9):
            (self.folder / f"history/2020-01-0{day}T000000Z-0.json").write_text(kept.read_text())
        self.github_gate(fails=0)
        self.assertEqual(sorted(file.name[:10] for file in (self.folder / "base").iterdir()),
                         [f"2020-01-0{day}" for day in range(4, 9)])

    def test_gitlab(self):
        jobs = yaml.safe_load(GITLAB.read_text())
        script = jobs["dtrain-baseline"]["script"][0]
        done = self.script(script, KEEP="no")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.folder.glob("history/*/*.json")), [])
        shutil.rmtree(self.folder / "results")  # each job starts from a clean checkout
        done = self.script(script, KEEP="yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list(self.folder.glob("history/*/*.json"))), 1)
        for verdict in (0, 1, 6):
            self.assertEqual(self.script(script, fails=verdict, KEEP="no").returncode, verdict)
        self.assertEqual(jobs[".dtrain"]["allow_failure"], {"exit_codes": [6]})
        kept = {rule["if"]: rule["variables"]["CACHE_POLICY"] for rule in jobs["dtrain-baseline"]["rules"]}
        self.assertEqual(kept, {"$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH": "pull-push",
                                '$CI_PIPELINE_SOURCE == "merge_request_event"': "pull"})

    def test_two_builds_in_turns(self):
        """The scripts' own line, with the program in both places."""
        scripts = self.github_step("Run both in turns", "ab"), yaml.safe_load(GITLAB.read_text())["dtrain-ab"]["script"][0]
        lines = [" ".join(script[script.index("./dtrain ab"):].replace("\\\n", " ").split("||")[0].split()) for script in scripts]
        self.assertEqual(lines[0], lines[1].replace("--format console,", "--format github,"))
        programs = "../base/build/release/dtrain build/release/dtrain"
        self.assertIn(programs, lines[0])
        line = lines[0].replace(programs, f"'{PROGRAM}' '{PROGRAM}'").replace("180s", "12s")
        done = self.script(line, AB_BENCH=SMALL + " --rounds 1 --steps 3")
        self.assertIn(done.returncode, (0, 1, 6), done.stderr)
        self.assertIn("<testsuite", (self.folder / "verdict/comparison.xml").read_text())
        self.assertTrue((self.folder / "verdict/comparison.md").exists())


if __name__ == "__main__":
    unittest.main()
