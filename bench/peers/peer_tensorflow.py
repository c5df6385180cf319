#!/usr/bin/env python3
"""The same training in TensorFlow: a custom loop in a tf.function. Mirrored: MirroredStrategy over one logical CPU
device a replica, in one process."""
import os

import common


def make_network(keras, model):
    layers = keras.layers
    if model == "cnn":
        return keras.Sequential([
            keras.Input((32, 32, 3)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(), layers.Conv2D(64, 3, activation="relu"),
            layers.Flatten(), layers.Dense(64, activation="relu"), layers.Dense(10)])

    def block(x, channels, pool=False):
        x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x))
        return layers.MaxPooling2D()(x) if pool else x

    def residual(x, channels):
        return layers.Add()([x, block(block(x, channels), channels)])

    image = keras.Input((32, 32, 3))
    x = residual(block(block(image, 64), 128, pool=True), 128)
    x = residual(block(block(x, 256, pool=True), 512, pool=True), 512)
    return keras.Model(image, layers.Dense(10)(layers.Flatten()(layers.MaxPooling2D(4)(x))))


class TensorFlowTrainer(common.Trainer):
    def __init__(self, work, rank):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        import contextlib
        import keras
        import tensorflow as tf
        mirrored = work.replicas > 1 and work.strategy == "mirrored"
        copies = work.replicas if mirrored else 1
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(copies)
        keras.utils.set_random_seed(0)
        strategy = self.mirror(tf, copies) if mirrored else None
        with strategy.scope() if strategy else contextlib.nullcontext():
            network = make_network(keras, work.model)
            optimizer = (keras.optimizers.Adam(work.learning_rate) if work.model == "cnn" else
                         keras.optimizers.SGD(work.learning_rate, momentum=0.9))
            optimizer.build(network.trainable_variables)
        self.images_per_step = work.batch * copies
        self.parameters = sum(int(common.np.prod(v.shape)) for v in network.trainable_variables)
        self.libraries = [f"tensorflow {tf.__version__}", f"keras {keras.__version__}", f"numpy {common.np.__version__}"]

        def train(images, labels):
            with tf.GradientTape() as tape:
                logits = network(images, training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
                share = loss / copies  # gradients are summed over copies
            gradients = tape.gradient(share, network.trainable_variables)
            optimizer.apply_gradients(zip(gradients, network.trainable_variables))
            return loss

        if strategy:
            self.train = tf.function(lambda images, labels: strategy.reduce(
                tf.distribute.ReduceOp.MEAN, strategy.run(train, args=(images, labels)), axis=None))
        else:
            self.train = tf.function(train)
        images, labels = common.load_images(work, rank, channels_last=True)
        batches = [tuple(map(tf.constant, pair)) for pair in common.batches_of(work, images, labels)]
        if strategy:
            batches = [self.deal(strategy, batches[i:i + copies])
                       for i in range(0, len(batches) - copies + 1, copies)]
        self.batches = common.forever(batches)

    @staticmethod
    def mirror(tf, copies):
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * copies)
        return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(copies)])

    @staticmethod
    def deal(strategy, batches):
        """One batch to each copy."""
        return tuple(strategy.experimental_distribute_values_from_function(
            lambda context, part=part: batches[context.replica_id_in_sync_group][part]) for part in (0, 1))

    def step(self):
        return float(self.train(*next(self.batches)))


if __name__ == "__main__":
    common.main("tensorflow", ["function"], TensorFlowTrainer, in_process=True)
