#!/usr/bin/env python3
"""update_output.py PROGRAM README: puts what the program prints on a real run into README.md, between its output marks.

For a quiet machine: the figures are shown to every reader. What follows the list of files (warnings, notes) is left out.
"""
import pathlib
import re
import subprocess
import sys

COMMAND = ["bench", "--strategy", "mirrored", "--gpus", "2"]


def main():
    program, readme = sys.argv[1:]
    done = subprocess.run([program, *COMMAND], stdout=subprocess.PIPE, text=True, check=True)
    shown = done.stdout.split("\nWarnings\n")[0].rstrip()
    block = f"<!-- output -->\n```\n$ ./dtrain {' '.join(COMMAND)}\n{shown}\n```\n<!-- /output -->"
    text = pathlib.Path(readme).read_text()
    text, found = re.subn(r"<!-- output -->.*?<!-- /output -->", lambda _: block, text, flags=re.S)
    if found != 1:
        sys.exit(f"{readme}: no output marks")
    pathlib.Path(readme).write_text(text)


main()
