#!/usr/bin/env python3
"""run_commands.py PROGRAM README [--network]: runs the commands of README.md's `sh` blocks, in order, in a scratch folder.

A `dtrain` of the README is PROGRAM. Commands that measure or train get flags behind them that make them short (SHORT);
everything else runs as it stands. A command is expected to end with 0, or with the code of its `# exit N` comment; one
that gives a verdict may end with any of them.
Commands that need the network, or that build this project, are left out here: with --network they are only listed, and
the exit code is 77, which ctest counts as skipped.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SHORT = {
    "bench": ["--rounds", "2", "--warmup", "1", "--steps", "2"],
    "train": ["--epochs", "1"],
    "verify": ["--steps", "3"],
    "data generate": ["--records", "64", "--test-records", "64"],
}
LEFT_OUT = {
    r"data fetch": "needs the network",
    r"git clone": "needs the network",
    r"apt": "installs packages",
    r"tests/run|\.ci/run": "runs this test itself",
    r"bench/peers": "makes virtual environments of several GB",
}


def commands_in(readme):
    for block in re.findall(r"^```sh\n(.*?)^```", readme, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.strip()


def why_left_out(command):
    return next((why for pattern, why in LEFT_OUT.items() if re.search(pattern, command)), None)


def shortened(command):
    """The command with SHORT's flags behind its own, before any redirection."""
    words, tail = re.match(r"([^|>;&]*)(.*)", command, re.S).groups()
    name = re.match(r"(?:\S+=\S+\s+)*(?:\./)?dtrain\s+(data \w+|\w+)", words)
    flags = SHORT.get(name.group(1), []) if name else []
    return " ".join([words.rstrip(), *map(shlex.quote, flags), tail]).strip()


def expected_codes(command):
    if re.search(r"dtrain (compare|ab) |--baseline", command):
        return {0, 1, 6}
    if "dtrain predict" in command:
        return {0, 6}
    comment = re.search(r"#\s*exit (\d+)", command)
    return {int(comment.group(1)) if comment else 0}


def run(command, folder, environment):
    text = shortened(command.split(" #")[0])
    print(f"$ {text}", flush=True)
    done = subprocess.run(["bash", "-c", text], cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    if done.returncode in expected_codes(command):
        return True
    if "--tune" in command and done.returncode == 2 and "is too short: a stretch takes" in done.stdout:
        return True  # what time is enough depends on the machine
    print(f"{done.stdout}\nFAILED: exit code {done.returncode}, expected {expected_codes(command)}: {command}")
    return False


def main():
    program, readme = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    commands = list(commands_in(readme.read_text()))
    if "--network" in sys.argv:
        left_out = [f"`{c.split(chr(35))[0].strip()}` {why_left_out(c)}" for c in commands if why_left_out(c)]
        print("SKIPPED: " + "; ".join(left_out))
        sys.exit(77 if left_out else 0)
    commands = [c for c in commands if not why_left_out(c)]
    if not commands:
        sys.exit("README.md has no command to run")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for link in (folder / "dtrain", folder / "bin" / "dtrain"):
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(program)
        (folder / "docs").symlink_to(readme.resolve().parent / "docs")
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": scratch,
                       "XDG_DATA_HOME": str(folder / "data-home"), "XDG_CACHE_HOME": str(folder / "cache-home")}
        results = [run(command, folder, environment) for command in commands]
    sys.exit(0 if all(results) else 1)


main()
