"""What the peers share: arguments, cores, processes, rounds, noise, and the result file.

A peer is a file that calls main(name, modes, make_trainer). make_trainer(work, rank) imports the framework, which
therefore starts in a process that is already pinned to its core and set to one thread, and returns a Trainer.

Images lie in memory as normalised float32 before the clock starts: peers are spared the input pipeline that dtrain's
figures contain.
"""
import argparse
import dataclasses
import datetime
import json
import multiprocessing
import os
import pathlib
import platform
import resource
import shlex
import statistics
import sys
import time

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"  # read when numpy and the frameworks are imported

import numpy as np  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32)
DEVIATION = np.array([0.2470, 0.2435, 0.2616], np.float32)
PARAMETERS = {"cnn": 122_570, "resnet9": 6_573_130}
TRAINING_FLOPS = {"cnn": 25_736_448, "resnet9": 2_272_032_768}  # an image, as docs/metrics.md counts
WAIT_SECONDS = 300  # for another process of the same run: imports and compilation lie inside


@dataclasses.dataclass
class Work:
    """One configuration: what every peer and dtrain do alike."""

    model: str
    batch: int  # images a replica takes in a step
    replicas: int
    strategy: str  # mirrored: gradients are shared; unconnected: copies that share nothing
    mode: str
    data: str
    rounds: int
    min_time: float
    warmup_limit: float
    out: str
    device: str = "cpu"
    precision: str = "fp32"
    compile: str = ""  # a mode of torch.compile; empty: as it is written
    channels_last: bool = False

    @property
    def optimizer(self):
        return "adam" if self.model == "cnn" else "sgd"

    @property
    def learning_rate(self):
        return 1e-3 if self.model == "cnn" else 1e-2


class Trainer:
    """Trains in one process. step() returns the loss when the step's work is finished."""

    images_per_step = 0  # by this process
    parameters = 0
    libraries = []
    devices = []  # names of GPUs

    def step(self):
        raise NotImplementedError

    def take_steps(self, count):
        """(times, losses): when the first step began and when each one's work was finished, in seconds of one clock."""
        losses, ends = [], [time.monotonic()]
        for _ in range(count):
            losses.append(self.step())
            ends.append(time.monotonic())
        return ends, losses


# ---------------------------------------------------------------- arguments and data


def declare_gpu(parser):
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="fp32",
                        help="on a GPU; fp32 has TF32 switched off, the 16-bit ones are autocast (fp32)")
    parser.add_argument("--compile", nargs="?", const="default", default="", metavar="MODE",
                        choices=["default", "reduce-overhead", "max-autotune"], help="on a GPU: torch.compile")
    parser.add_argument("--channels-last", action="store_true", help="on a GPU: activations as NHWC")


def on_gpu(parser, a):
    """What a GPU changes of the work: nothing on a CPU."""
    if a.device == "cpu":
        if a.precision != "fp32" or a.compile or a.channels_last:
            parser.error("--precision, --compile and --channels-last are for --device cuda; on a CPU, see --mode")
        return {}
    if a.replicas > 1:
        parser.error("--device cuda is measured with one replica")
    mode = ("compiled" if a.compile else "eager") + (f"-{a.compile}" if a.compile not in ("", "default") else "")
    return {"device": "cuda", "precision": a.precision, "compile": a.compile, "channels_last": a.channels_last,
            "mode": mode + ("-channels-last" if a.channels_last else "") + "-" + a.precision}


def parse_arguments(framework, modes, in_process, gpu):
    parser = argparse.ArgumentParser(description=f"Measures training in {framework}; writes a dtrain.result/1.")
    parser.add_argument("--model", choices=sorted(PARAMETERS), default="cnn")
    parser.add_argument("--batch-size", type=int, default=64, help="images a replica takes in a step (64)")
    parser.add_argument("--replicas", type=int, default=1, help="one core each (1)")
    parser.add_argument("--strategy", choices=["mirrored", "unconnected"], default="mirrored",
                        help="what several replicas do: share gradients, or run side by side as a control")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--data", default="synthetic", help="`synthetic`, or a folder of CIFAR-10 binary files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--min-time", type=float, default=1.0, help="seconds of a round (1)")
    parser.add_argument("--warmup-limit", type=float, default=3.0, help="seconds of warm-up, at most (3)")
    parser.add_argument("--out", default=f"results/peers/{framework}", help="folder for result.json")
    if gpu:
        declare_gpu(parser)
    a = parser.parse_args()
    for name in ("batch_size", "replicas", "rounds"):
        if getattr(a, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    cores = sorted(os.sched_getaffinity(0))
    if a.replicas > len(cores):
        parser.error(f"--replicas {a.replicas}: there are {len(cores)} cores, and a replica takes one")
    if a.replicas > 1 and a.strategy == "mirrored" and in_process is None:
        parser.error(f"{framework} is measured with one replica or with --strategy unconnected")
    work = Work(a.model, a.batch_size, a.replicas, a.strategy, a.mode, a.data, a.rounds, a.min_time, a.warmup_limit, a.out)
    return dataclasses.replace(work, **(on_gpu(parser, a) if gpu else {})), cores


def load_images(work, rank, channels_last):
    """(images, labels): float32, normalised, a whole number of batches for one replica."""
    batches = 32 if work.model == "cnn" else 4
    count = batches * work.batch
    generator = np.random.default_rng(rank)
    if work.data == "synthetic":
        images = generator.standard_normal((count, 3, 32, 32), dtype=np.float32)
        labels = generator.integers(0, 10, count)
    else:
        files = sorted(pathlib.Path(work.data).glob("data_batch_*.bin"))
        if not files:
            raise SystemExit(f"{work.data}: no data_batch_*.bin in this folder")
        records = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073) for f in files])
        records = records[generator.integers(0, len(records), count)]
        labels = records[:, 0]
        images = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255
        images = (images - MEAN[:, None, None]) / DEVIATION[:, None, None]
    if channels_last:
        images = images.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels.astype(np.int64)


def batches_of(work, images, labels):
    return [(images[i:i + work.batch], labels[i:i + work.batch]) for i in range(0, len(images), work.batch)]


def forever(items):
    while True:
        yield from items


def keep_freed_memory():
    """Restarts this process with a malloc that keeps large blocks: else every step pays for zeroed pages again."""
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        os.environ.update(MALLOC_MMAP_THRESHOLD_=str(1 << 32), MALLOC_TRIM_THRESHOLD_=str(1 << 36),
                          MALLOC_TOP_PAD_=str(1 << 26))
        os.execv(sys.executable, [sys.executable] + sys.argv)


# ---------------------------------------------------------------- processes that measure together


class Alone:
    def meet(self):
        pass

    def agree(self, number):
        return number


class Crew:
    """Ranks that begin each round together and take the number of steps that rank 0 says."""

    def __init__(self, ranks):
        context = multiprocessing.get_context("spawn")
        self.barrier = context.Barrier(ranks)
        self.number = context.Value("l", 0)
        self.rank = 0

    def meet(self):
        self.barrier.wait(WAIT_SECONDS)

    def agree(self, number):
        if self.rank == 0:
            self.number.value = number
        self.meet()
        agreed = self.number.value
        self.meet()
        return agreed


def work_as(rank, cores, work, make_trainer, crew, results):
    """A process of its own: pins itself, measures, hands over what it saw."""
    os.sched_setaffinity(0, cores)
    crew.rank = rank
    try:
        results.put((rank, measure(work, make_trainer(work, rank), crew)))
    except BaseException as error:
        crew.barrier.abort()
        results.put((rank, f"{type(error).__name__}: {error}"))
        raise


def measure_in_processes(work, cores, make_trainer):
    crew = Crew(work.replicas)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    children = [context.Process(target=work_as, args=(r, {cores[r]}, work, make_trainer, crew, results))
                for r in range(work.replicas)]
    for child in children:
        child.start()
    seen = dict(results.get(timeout=2 * WAIT_SECONDS) for _ in children)
    for child in children:
        child.join(WAIT_SECONDS)
    failed = [f"rank {r}: {s}" for r, s in sorted(seen.items()) if isinstance(s, str)]
    if failed:
        raise SystemExit("; ".join(failed))
    return [seen[r] for r in range(work.replicas)]


# ---------------------------------------------------------------- timing


def busy_and_stolen():
    """Seconds that all cores of the machine worked, and that the hypervisor took, since it started."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, stolen = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq) / TICKS, stolen / TICKS


def own_seconds():
    t = os.times()
    return t.user + t.system


def seconds_since_process_start():
    with open("/proc/self/stat") as f:
        started = int(f.read().rsplit(")", 1)[1].split()[19]) / TICKS
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def durations(ends):
    return [after - before for before, after in zip(ends, ends[1:])]


def warm_up(work, trainer, crew):
    """The rule of dtrain: until the medians of two windows of 5 steps in a row differ by less than 5 %, or the limit."""
    began = time.monotonic()
    medians, steps, losses = [], 0, []
    while True:
        ends, window = trainer.take_steps(5)
        steps += 5
        losses += window
        medians.append(statistics.median(durations(ends)))
        steady = len(medians) > 1 and abs(medians[-1] / medians[-2] - 1) < 0.05
        if crew.agree(int(steady or time.monotonic() - began > work.warmup_limit)):
            return medians[-1], steps, losses


def measure(work, trainer, crew):
    first_loss = trainer.step()
    first_step = seconds_since_process_start()
    step_time, warmup_steps, losses = warm_up(work, trainer, crew)
    count = crew.agree(max(1, round(work.min_time / step_time)))
    rounds = []
    for number in range(work.rounds):
        crew.meet()
        before, own = busy_and_stolen(), own_seconds()
        ends, some = trainer.take_steps(count)
        after = busy_and_stolen()
        losses += some
        rounds.append({"ends": ends, "images": count * trainer.images_per_step, "own": own_seconds() - own,
                       "busy": after[0] - before[0], "stolen": after[1] - before[1],
                       "warmup_steps": 1 + warmup_steps if number == 0 else 0})
    return {"rounds": rounds, "losses": [first_loss] + losses, "first_step": first_step,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "parameters": trainer.parameters, "libraries": trainer.libraries, "devices": trainer.devices}


# ---------------------------------------------------------------- the result file


def round_of(ranks, number):
    """One round of all ranks: its seconds are the slowest one's."""
    seen = [rank["rounds"][number] for rank in ranks]
    slowest = max(seen, key=lambda r: r["ends"][-1])
    return {"images": sum(r["images"] for r in seen),
            "seconds": slowest["ends"][-1] - min(r["ends"][0] for r in seen),
            "steps": len(slowest["ends"]) - 1, "warmup_steps": seen[0]["warmup_steps"], "ranks": [],
            "step_seconds": durations(slowest["ends"])}


def noise_of(ranks, rounds):
    wall = sum(r["seconds"] for r in rounds)
    own = sum(r["own"] for rank in ranks for r in rank["rounds"])
    first = ranks[0]["rounds"]
    return {"foreign_load_cores": max(0.0, sum(r["busy"] for r in first) - own) / wall,
            "stolen_cores": sum(r["stolen"] for r in first) / wall, "throttled_seconds": 0.0}


def percentiles(rounds):
    steps = [s for r in rounds for s in r["step_seconds"]]
    return {f"p{q}": float(np.percentile(steps, q)) * 1e3 for q in (50, 95, 99)}


def machine(devices):
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.machine())
    return {"key": os.environ.get("PEER_MACHINE_KEY", ""), "cpu": cpu, "cores": os.cpu_count(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "devices": devices, "driver": ""}


def config_of(work):
    return {"strategy": "single" if work.replicas == 1 else work.strategy, "threads_per_replica": 1,
            "batch_size": work.batch, "global_batch": None, "accumulate": 1, "model": work.model, "precision": work.precision,
            "optimizer": work.optimizer, "lr": work.learning_rate, "momentum": 0.9, "weight_decay": 0.0,
            "schedule": "constant", "seed": 0, "data": work.data, "augment": False, "memory_limit": None,
            "warmup": None, "steps": None, "rounds": work.rounds, "min_time": work.min_time, "target_accuracy": None,
            "gpus": work.replicas, "replicas": work.replicas, "device": work.device, "scaling": "weak"}


def result_of(framework, work, cores, ranks):
    rounds = [round_of(ranks, number) for number in range(work.rounds)]
    rates = [r["images"] / r["seconds"] for r in rounds]
    strategy = "single" if work.replicas == 1 else work.strategy
    steps = sum(r["steps"] for r in rounds)
    why = "a peer's file holds one run; its base is another launch"
    run = {"id": f"{framework}-{work.mode}-{strategy}-{work.replicas}", "strategy": strategy,
           "base": "plain" if work.replicas == 1 else None, "replicas": work.replicas, "simulated": False,
           "global_batch": work.batch * work.replicas, "replica_batch": [work.batch] * work.replicas,
           "cores": [[c] for c in cores[:work.replicas]],
           "images_per_second": {"median": statistics.median(rates), "low": min(rates), "high": max(rates)},
           "step_ms": percentiles(rounds), "efficiency": None, "efficiency_reason": why, "budget": None,
           "budget_reason": "phases were not measured", "rounds": rounds, "evaluations": [],
           "losses": ranks[0]["losses"], "weights_hash": "", "steps_per_rank": [steps] * work.replicas,
           "memory": {}, "noise": noise_of(ranks, rounds), "failure": "",
           "notes": [f"first step finished {max(r['first_step'] for r in ranks):.2f} s after the process started",
                     "images_per_second low and high are the slowest and the fastest round"]}
    parameters = ranks[0]["parameters"]
    return {"schema": "dtrain.result/1", "complete": True,
            "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": shlex.join([sys.executable] + sys.argv),
            "build": {"version": ranks[0]["libraries"][0], "commit": "unknown",
                      "compiler": f"Python {platform.python_version()}", "libraries": ranks[0]["libraries"]},
            "machine": machine(ranks[0]["devices"]), "environment": {}, "config": config_of(work),
            "dataset": {"name": work.data, "images": len(ranks) * (32 if work.model == "cnn" else 4) * work.batch,
                        "checksum": ""},
            "model": {"name": work.model, "parameters": parameters,
                      "training_flops_per_image": TRAINING_FLOPS[work.model], "batch_statistics": work.model == "resnet9"},
            "runs": [run], "peak_process_bytes": sum(r["peak_bytes"] for r in ranks), "verdict": "",
            "warnings": ["measured outside dtrain; images lie in memory, so no input pipeline is in the figures"]}


def write(result, folder):
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    temporary = path / f".result.json.{os.getpid()}"
    temporary.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    temporary.rename(path / "result.json")
    return path / "result.json"


def main(framework, modes, make_trainer, in_process=None, gpu=False):
    """in_process: True when the mirrored replicas live in one process, False when each has its own, None: no such mode.
    gpu: the trainer knows work.device, and what a GPU adds to the work."""
    work, cores = parse_arguments(framework, modes, in_process, gpu)
    together = work.replicas == 1 or (work.strategy == "mirrored" and in_process)
    if together:
        if work.device == "cpu":
            os.sched_setaffinity(0, set(cores[:work.replicas]))
        ranks = [measure(work, make_trainer(work, 0), Alone())]
    else:
        ranks = measure_in_processes(work, cores, make_trainer)
    if ranks[0]["parameters"] != PARAMETERS[work.model]:
        raise SystemExit(f"{framework}'s {work.model} has {ranks[0]['parameters']} parameters, not {PARAMETERS[work.model]}")
    result = result_of(framework, work, cores, ranks)
    file = write(result, work.out)
    rate = result["runs"][0]["images_per_second"]
    print(f"{result['runs'][0]['id']}: {rate['median']:.0f} images/s "
          f"({rate['low']:.0f} to {rate['high']:.0f} over {work.rounds} rounds) -> {file}")
