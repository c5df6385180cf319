"""A SLURM of one node in a folder of its own: munged, slurmctld and slurmd, ended with the test that needs them."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from program import clean_environment

DAEMONS = ("munged", "slurmctld", "slurmd")
TOOLS = ("srun", "sbatch", "sinfo")

CONFIGURATION = """\
ClusterName=dtrain
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
PlugStackConfig={folder}/plugstack.conf
SwitchType=switch/none
ReturnToService=2
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why there can be no SLURM here; empty where there can."""
    if os.geteuid() != 0:
        return "SLURM's daemons are started as root only"
    absent = [tool for tool in DAEMONS + TOOLS if find(tool) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def find(tool):
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class NotStarted(Exception):
    pass


class Slurm:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm."))
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.processes = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        controller_port, node_port = free_ports(2)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "plugstack.conf").touch()
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                folder=self.folder, host=socket.gethostname().split(".")[0], cpus=os.cpu_count(),
                controller_port=controller_port, node_port=node_port,
            )
        )
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.daemon(
            "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
            f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
            f"--seed-file={self.folder}/munged.seed",
        )
        self.wait_for("munged", (self.folder / "munge.socket").exists)
        self.daemon("slurmctld", "-D", "-c")
        self.daemon("slurmd", "-D", "-N", "localhost")
        self.wait_for("an idle node", lambda: "idle" in self.run("sinfo", "-h", "-o", "%t").stdout)

    def daemon(self, tool, *arguments):
        with open(self.folder / f"{tool}.out", "w") as out:
            self.processes.append(
                subprocess.Popen(
                    [find(tool), *arguments], env=clean_environment(self.environment), stdin=subprocess.DEVNULL,
                    stdout=out, stderr=subprocess.STDOUT, cwd=self.folder,
                )
            )

    def wait_for(self, what, there, seconds=30):
        deadline = time.monotonic() + seconds
        while not there():
            ended = [process.args[0] for process in self.processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise NotStarted(f"waited for {what}, ended: {ended}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        files = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        return "\n".join(f"-- {file.name}\n{file.read_text()[-2000:]}" for file in files)

    def run(self, *command, cwd=None, environment=None, timeout=60):
        return subprocess.run(
            command, env=clean_environment({**(environment or {}), **self.environment}), cwd=cwd, capture_output=True, text=True,
            timeout=timeout, check=False,
        )

    def stop(self):
        for process in self.processes:
            process.terminate()
        deadline = time.monotonic() + 1
        for process in self.processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.end_leftovers()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_leftovers(self):
        """Step daemons and tasks: all that has inherited this SLURM's configuration."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder).encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
