#!/usr/bin/env python3
"""The same training in JAX: one compiled step, weights and optimizer state donated to the next. Several replicas are devices of
one process whose gradients are averaged inside of the step, or unconnected copies."""
import os

import common

BLOCKS = [("prep", 3, 64), ("l1", 64, 128), ("r1a", 128, 128), ("r1b", 128, 128), ("l2", 128, 256), ("l3", 256, 512),
          ("r3a", 512, 512), ("r3b", 512, 512)]


def initial_parameters(np, model):
    generator = np.random.default_rng(0)

    def uniform(shape, fan):
        limit = (6 / fan) ** 0.5
        return generator.uniform(-limit, limit, shape).astype(np.float32)

    def convolution(inputs, outputs):
        return uniform((3, 3, inputs, outputs), 9 * (inputs + outputs))

    def dense(inputs, outputs):
        return [uniform((inputs, outputs), inputs + outputs), np.zeros(outputs, np.float32)]

    if model == "cnn":
        parameters = {name: [convolution(i, o), np.zeros(o, np.float32)]
                      for name, i, o in (("conv1", 3, 32), ("conv2", 32, 64), ("conv3", 64, 64))}
        return {**parameters, "dense1": dense(1024, 64), "dense2": dense(64, 10)}, {}
    parameters = {name: [convolution(i, o), np.ones(o, np.float32), np.zeros(o, np.float32)] for name, i, o in BLOCKS}
    statistics = {name: [np.zeros(o, np.float32), np.ones(o, np.float32)] for name, _, o in BLOCKS}
    return {**parameters, "fc": dense(512, 10)}, statistics


def make_network(jax, model):
    """apply(parameters, statistics, images) -> (logits, new statistics)."""
    jnp, lax, relu = jax.numpy, jax.lax, jax.nn.relu

    def convolve(x, weights, padding):
        return lax.conv_general_dilated(x, weights, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def pool(x, size):
        window = (1, size, size, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")

    def cnn(p, statistics, x):
        x = pool(relu(convolve(x, p["conv1"][0], "VALID") + p["conv1"][1]), 2)
        x = pool(relu(convolve(x, p["conv2"][0], "VALID") + p["conv2"][1]), 2)
        x = relu(convolve(x, p["conv3"][0], "VALID") + p["conv3"][1]).reshape(x.shape[0], -1)
        x = relu(x @ p["dense1"][0] + p["dense1"][1])
        return x @ p["dense2"][0] + p["dense2"][1], statistics

    def resnet9(p, statistics, x):
        new = {}

        def block(name, x):
            weights, gamma, beta = p[name]
            x = convolve(x, weights, "SAME")
            mean = x.mean((0, 1, 2))
            variance = jnp.square(x).mean((0, 1, 2)) - mean * mean
            new[name] = [0.9 * old + 0.1 * now for old, now in zip(statistics[name], (mean, variance))]
            return relu((x - mean) * (gamma * lax.rsqrt(variance + 1e-5)) + beta)

        x = pool(block("l1", block("prep", x)), 2)
        x = x + block("r1b", block("r1a", x))
        x = pool(block("l3", pool(block("l2", x), 2)), 2)
        x = x + block("r3b", block("r3a", x))
        x = pool(x, 4).reshape(x.shape[0], -1)
        return x @ p["fc"][0] + p["fc"][1], new

    return cnn if model == "cnn" else resnet9


class JaxTrainer(common.Trainer):
    def __init__(self, work, rank):
        devices = work.replicas if work.strategy == "mirrored" else 1
        flags = [f"--xla_force_host_platform_device_count={devices}"] if devices > 1 else ["--xla_cpu_multi_thread_eigen=false"]
        os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", "")] + flags).strip()
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import optax
        network = make_network(jax, work.model)
        optimizer = optax.adam(work.learning_rate) if work.model == "cnn" else optax.sgd(work.learning_rate, momentum=0.9)

        def loss_of(parameters, statistics, images, labels):
            logits, statistics = network(parameters, statistics, images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), statistics

        def train(parameters, statistics, state, images, labels):
            differentiate = jax.value_and_grad(loss_of, has_aux=True)
            (loss, statistics), gradients = differentiate(parameters, statistics, images, labels)
            if devices > 1:
                loss, gradients = jax.lax.pmean((loss, gradients), "replicas")
            updates, state = optimizer.update(gradients, state, parameters)
            return optax.apply_updates(parameters, updates), statistics, state, loss

        parameters, statistics = initial_parameters(common.np, work.model)
        self.images_per_step = work.batch * devices
        self.parameters = sum(leaf.size for leaf in jax.tree.leaves(parameters))
        self.libraries = [f"jax {jax.__version__}", f"optax {optax.__version__}", f"numpy {common.np.__version__}"]
        held = (parameters, statistics, optimizer.init(parameters))
        batches = self.load(work, rank)
        if devices == 1:
            self.train = jax.jit(train, donate_argnums=(0, 1, 2))
            self.held = jax.device_put(held)
            self.batches = common.forever(jax.device_put(batches))
            return
        self.train = jax.pmap(train, "replicas", donate_argnums=(0, 1, 2))
        by_device = jax.sharding.NamedSharding(jax.make_mesh((devices,), ("replicas",)), jax.sharding.PartitionSpec("replicas"))

        def give(trees):
            return jax.device_put(jax.tree.map(lambda *leaves: common.np.stack(leaves), *trees), by_device)

        self.held = give([held] * devices)
        shares = [self.load(work, replica) for replica in range(devices)]
        self.batches = common.forever([give(share) for share in zip(*shares)])

    @staticmethod
    def load(work, rank):
        images, labels = common.load_images(work, rank, channels_last=True)
        return common.batches_of(work, images, labels.astype("int32"))

    def step(self):
        *self.held, loss = self.train(*self.held, *next(self.batches))
        return float(loss.ravel()[0])


if __name__ == "__main__":
    common.main("jax", ["jit"], JaxTrainer, in_process=True)
