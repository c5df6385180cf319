"""Several hosts on this machine: network namespaces behind links of a given rate (tests/netns)."""

import itertools
import os
import pathlib
import shutil
import subprocess

SCRIPTS = pathlib.Path(__file__).parents[1] / "netns"
PAYLOAD = 1448 / 1514  # of an Ethernet frame: what TCP and IP leave of an MTU of 1500

counter = itertools.count()


def missing():
    """Why there can be no hosts here; empty where there can."""
    if os.geteuid() != 0:
        return "network namespaces are made as root only"
    absent = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (package iproute2)"
    try:
        Hosts(1, "100mbit").remove()
    except subprocess.CalledProcessError as error:
        return f"this kernel makes no shaped hosts: {error.stderr.strip()}"
    return ""


class Hosts:
    def __init__(self, count, rate):
        """`rate` as tc writes it: 100mbit, 1gbit."""
        self.name = f"dtrain-{os.getpid()}-{next(counter)}"
        self.count = count
        self.run("up.sh", self.name, str(count), rate)

    @staticmethod
    def run(script, *arguments):
        subprocess.run([SCRIPTS / script, *arguments], check=True, capture_output=True, text=True)

    def prefix(self, host):
        """What a command is started with to run on a host. Ahead of other programs of this machine, for the link is to be
        what is waited for."""
        return ("ip", "netns", "exec", f"{self.name}-{host}", "nice", "-n", "-10")

    def address(self, host, port=2222):
        return f"10.77.0.{host + 1}:{port}"

    def addresses(self):
        return [self.address(host) for host in range(self.count)]

    def pull_cable(self, host):
        subprocess.run(["ip", "-n", f"{self.name}-{host}", "link", "set", "eth0", "down"], check=True)

    def remove(self):
        self.run("down.sh", self.name)
