#!/usr/bin/env python3
"""The same training in PyTorch. `tuned`: channels_last, fused optimizer, a malloc that keeps its pages; `eager`: as it
is usually written. Mirrored: DistributedDataParallel over Gloo, a process a replica."""
import os
import tempfile

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


if __name__ == "__main__":
    common.keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PEER_RENDEZVOUS"] = os.path.join(folder, "rendezvous")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        common.main("torch", ["tuned", "eager"], TorchTrainer, in_process=False)
