#!/usr/bin/env python3
"""The same training in PyTorch. On a CPU `tuned`: channels_last, fused optimizer, a malloc that keeps its pages; `eager`:
as it is usually written. Mirrored: DistributedDataParallel over Gloo, a process a replica.

On a GPU (--device cuda) the images lie there before the clock starts, the optimizer is fused, cuDNN is tuned
(cudnn.benchmark), and a step waits for nothing: its end is a CUDA event's. bf16 and fp16 are autocast with fp32 weights,
which is what dtrain does too and how PyTorch's own recipes train; fp16 has a gradient scaler."""
import os
import tempfile
import time

import common


def make_network(torch, model):
    nn = torch.nn
    if model == "cnn":
        return nn.Sequential(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))

    def block(inputs, outputs, *more):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                             *more)

    class Residual(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.inner = nn.Sequential(block(channels, channels), block(channels, channels))

        def forward(self, x):
            return x + self.inner(x)

    return nn.Sequential(
        block(3, 64), block(64, 128, nn.MaxPool2d(2)), Residual(128), block(128, 256, nn.MaxPool2d(2)),
        block(256, 512, nn.MaxPool2d(2)), Residual(512), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10))


class TorchTrainer(common.Trainer):
    def __init__(self, work, rank):
        import torch
        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)
        torch.manual_seed(0)
        tuned = work.mode == "tuned"
        layout = torch.channels_last if tuned else torch.contiguous_format
        network = make_network(torch, work.model).to(memory_format=layout)
        self.images_per_step = work.batch
        self.parameters = sum(p.numel() for p in network.parameters())
        self.libraries = [f"torch {torch.__version__}", f"numpy {common.np.__version__}"]
        if work.model == "cnn":
            self.optimizer = torch.optim.Adam(network.parameters(), lr=work.learning_rate, fused=tuned or None)
        else:
            self.optimizer = torch.optim.SGD(network.parameters(), lr=work.learning_rate, momentum=0.9,
                                             fused=tuned or None)
        if work.replicas > 1 and work.strategy == "mirrored":
            torch.distributed.init_process_group("gloo", init_method=f"file://{os.environ['PEER_RENDEZVOUS']}",
                                                 rank=rank, world_size=work.replicas)
            network = torch.nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
        self.network = network
        self.loss = torch.nn.functional.cross_entropy
        images, labels = common.load_images(work, rank, channels_last=False)
        images = torch.from_numpy(images).contiguous(memory_format=layout)
        self.batches = common.forever(common.batches_of(work, images, torch.from_numpy(labels)))

    def step(self):
        images, labels = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.network(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class CudaTrainer(common.Trainer):
    def __init__(self, work):
        import torch
        self.torch = torch
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = work.precision != "fp32"
        layout = torch.channels_last if work.channels_last else torch.contiguous_format
        network = make_network(torch, work.model).to(device="cuda", memory_format=layout)
        self.images_per_step = work.batch
        self.parameters = sum(p.numel() for p in network.parameters())
        self.devices = [torch.cuda.get_device_name()]
        self.libraries = [f"torch {torch.__version__}", f"CUDA {torch.version.cuda}", f"cuDNN {torch.backends.cudnn.version()}"]
        if work.model == "cnn":
            self.optimizer = torch.optim.Adam(network.parameters(), lr=work.learning_rate, fused=True)
        else:
            self.optimizer = torch.optim.SGD(network.parameters(), lr=work.learning_rate, momentum=0.9, fused=True)
        self.scaler = torch.amp.GradScaler("cuda", enabled=work.precision == "fp16")
        element = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(work.precision)

        def loss_of(images, labels):
            with torch.autocast("cuda", dtype=element, enabled=element is not None):
                return torch.nn.functional.cross_entropy(network(images), labels)

        self.loss_of = torch.compile(loss_of, mode=work.compile) if work.compile else loss_of
        self.keeps_loss = work.compile not in ("reduce-overhead", "max-autotune")  # else the next step overwrites it
        images, labels = common.load_images(work, 0, channels_last=False)
        images = torch.from_numpy(images).to("cuda").contiguous(memory_format=layout)
        self.batches = common.forever(common.batches_of(work, images, torch.from_numpy(labels).to("cuda")))

    def enqueue(self):
        """A step's loss, once the GPU has come so far."""
        images, labels = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(images, labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach() if self.keeps_loss else loss.detach().clone()

    def step(self):
        return self.enqueue().item()

    def take_steps(self, count):
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        losses = []
        self.torch.cuda.synchronize()
        begin = time.monotonic()
        events[0].record()
        for event in events[1:]:
            losses.append(self.enqueue())
            event.record()
        self.torch.cuda.synchronize()
        ends = [begin + events[0].elapsed_time(event) / 1e3 for event in events]
        return ends, [loss.item() for loss in losses]


def make_trainer(work, rank):
    return CudaTrainer(work) if work.device == "cuda" else TorchTrainer(work, rank)


if __name__ == "__main__":
    common.keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PEER_RENDEZVOUS"] = os.path.join(folder, "rendezvous")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        common.main("torch", ["tuned", "eager"], make_trainer, in_process=False, gpu=True)
