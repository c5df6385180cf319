"""read_results.py FILE NAME: counts one JUnit file of ctest for tests/run.

Prints `passed<TAB>count`, then a line for every failed and skipped test with its reason. A test that ctest could not
start counts as failed, not as skipped.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason_of(output: str) -> str:
    """What the test said when it skipped: GoogleTest's message, or a script's SKIPPED line."""
    google = re.search(r"^\S+:\d+: Skipped\n(.*?)(?:\n\n|\n\[|\Z)", output, re.S | re.M)
    if google:
        return " ".join(google.group(1).split())
    script = re.search(r"^SKIPPED:?\s*(.*)$", output, re.M)
    return script.group(1) if script else "no reason given"


def main() -> None:
    file, name = sys.argv[1:]
    passed = 0
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        skipped = case.find("skipped")
        output = case.findtext("system-out") or ""
        title = f"{name}: {case.get('name')}"
        if case.find("failure") is not None:
            print(f"failed\t{title}")
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            print(f"skipped\t{title}: {reason_of(output)}")
        elif skipped is not None or case.get("status") == "notrun":
            print(f"failed\t{title}: {(skipped.get('message') if skipped is not None else '') or 'could not be run'}")
        elif case.get("status") != "disabled":
            passed += 1
    print(f"passed\t{passed}")


main()
