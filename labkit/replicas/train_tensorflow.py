"""Train with TensorFlow: a graph, `replica_device_setter` and `MonitoredTrainingSession`.

This is the TensorFlow of 2018, which TensorFlow 2 still carries under ``compat.v1``: the variables
live on parameter servers, each worker builds the whole graph, reads the weights, computes its
gradients and has them applied on the servers: without waiting for anybody (``async-ps``), or by
`SyncReplicasOptimizer`, as the mean of all workers' gradients (``sync-ps``). What `tf.layers` and
`contrib.rnn` did for the thesis is written out here, because neither exists any more.
"""

import signal
import time

from labkit.replicas import checksum, loop
from labkit.replicas.arguments import parse
from labkit.replicas.events import Ready
from labkit.replicas.pace import Pace

if __name__ == "__main__":
    ARGS = parse()

import numpy as np
import tensorflow
from tensorflow.python.training import monitored_session

tf = tensorflow.compat.v1

# A session that recovers hides why it was lost, and whether its last step has been applied.
monitored_session._PREEMPTION_ERRORS = ()

CODE = checksum(__file__)

INITIALIZERS = {
    "default": tf.glorot_uniform_initializer,
    "xavier": tf.glorot_uniform_initializer,
    "uniform": lambda: tf.random_uniform_initializer(-0.01, 0.01),
}

OPTIMIZERS = {
    "sgd": tf.train.GradientDescentOptimizer,
    # The sum of squares begins where MXNet's has the constant that keeps its root from zero.
    "adagrad": lambda rate: tf.train.AdagradOptimizer(rate, initial_accumulator_value=1e-7),
}
"""What applies gradients, from a learning rate; its state lies beside the variables."""


class Graph:
    """A model with its loss, between placeholders for batches and what comes out of them.

    Parameters
    ----------
    model : module
    data : Arrays
    initializer : str
        The initial weights' distribution.
    """

    def __init__(self, model, data, initializer) -> None:
        dtype = tf.int32 if data.train_inputs.dtype == np.int32 else tf.float32
        self.inputs = tf.placeholder(dtype, (None,) + data.train_inputs.shape[1:])
        self.labels = tf.placeholder(tf.int32, (None,) + data.train_labels.shape[1:])
        with tf.variable_scope("", initializer=INITIALIZERS[initializer]()):
            logits = model.tensorflow(tf, self.inputs)
        truth = tf.reshape(self.labels, [-1])
        self.losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=truth, logits=logits)
        self.hits = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), truth)
        self.variables = tf.global_variables()


class Copy:
    """The network a second time, on this process alone, with weights that stand still.

    Parameters
    ----------
    args : Namespace
    model : module
    data : Arrays
    """

    def __init__(self, args, model, data) -> None:
        with tf.Graph().as_default():
            self.graph = Graph(model, data, args.initializer)
            self.values = [tf.placeholder(v.dtype, v.shape) for v in self.graph.variables]
            pairs = zip(self.graph.variables, self.values)
            self.assign = tf.group(*(v.assign(x, read_value=False) for v, x in pairs))
            self.session = tf.Session(config=config(args))

    def take(self, weights) -> None:
        """Judge these weights from now on."""
        self.session.run(self.assign, dict(zip(self.values, weights)))

    def evaluate(self, inputs, labels):
        """Return each target's loss and whether its likeliest class is right."""
        return self.session.run(
            [self.graph.losses, self.graph.hits],
            {self.graph.inputs: inputs, self.graph.labels: labels},
        )


def summed(gradient):
    """Return a gradient in which no row of a variable occurs twice.

    That of an embedding has a row for each word of the batch. Where a word is repeated, the norm
    of its rows is not that of their sum.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


class LockStep(tf.train.SyncReplicasOptimizer):
    """Applies the mean of all workers' gradients; its thread ends in silence, with the session."""

    def get_chief_queue_runner(self):
        """Return what applies gradients on the chief, for the session's hook."""
        runner = super().get_chief_queue_runner()
        ends = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
        return tf.train.QueueRunner(
            runner.queue, runner.enqueue_ops, queue_closed_exception_types=ends
        )


READS = ("ReadVariableOp", "ResourceGather")
"""The operations that fetch weights."""


def gate(pace) -> None:
    """Have a forward pass that has been built begin when all its weights have arrived, as told.

    Otherwise a layer's weights would still be on their way while an earlier layer computes, and
    nobody could say when computing began.
    """
    graph = tf.get_default_graph()
    reading = [
        (operation, tensor)
        for operation in graph.get_operations()
        for tensor in operation.inputs
        if tensor.op.type in READS
    ]
    # Each tensor is sent once, to whatever uses it.
    arrived = [tf.identity(tensor) for _, tensor in reading]
    with tf.control_dependencies(arrived):
        began = tf.numpy_function(told(pace.begin), [], tf.float32)
    for operation, _ in reading:
        operation._add_control_input(began.op)  # there is no public way to a later dependency


def stretched(gradients, pace):
    """Return the same gradients, after the wait of a slow node."""
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    with tf.control_dependencies(values):
        ended = tf.numpy_function(told(pace.end), [], tf.float32)
    with tf.control_dependencies([ended]):
        values = list(map(tf.identity, values))
    return [
        tf.IndexedSlices(value, g.indices, g.dense_shape)
        if isinstance(g, tf.IndexedSlices)
        else value
        for value, g in zip(values, gradients)
    ]


def told(function):
    """Return a function as a graph can call it: with a value."""

    def call():
        function()
        return np.float32(0)

    return call


class Worker(loop.Network):
    """A graph and a session that train on this process's CPU, alone or with others."""

    def __init__(self, args, model, data) -> None:
        target, device = "", None
        self.workers = 1
        self.parts, self.copy = (args, model, data), None
        self.pace = Pace.of(args)
        if args.strategy != "single":
            self.workers = len(args.hosts["worker"])
            target = join(args).target
            device = tf.train.replica_device_setter(
                cluster=cluster(args), worker_device=f"/job:worker/task:{args.index}"
            )
        with tf.Graph().as_default(), tf.device(device):
            tf.set_random_seed(args.seed)
            self._build(args, model, data)
            if args.index > 0:
                self._wait_for_chief(target, config(args))
            self.session = tf.train.MonitoredTrainingSession(
                master=target,
                is_chief=args.index == 0,
                hooks=self.hooks,
                config=config(args),
                # The chief's thread that applies gradients waits for the next ones for ever.
                stop_grace_period_secs=0,
            )

    def _build(self, args, model, data) -> None:
        self.graph = Graph(model, data, args.initializer)
        self.variables = [v.shape.num_elements() for v in self.graph.variables]
        if self.pace:
            gate(self.pace)
        # Fed with every step, so that a warm-up can take the same path with weight 0. The rate
        # could not be: in lock step a thread of the chief's applies it, and feeds nothing.
        self.weight = tf.placeholder(tf.float32, [])
        self.loss = tf.reduce_mean(self.graph.losses)
        objective = self.loss * self.weight
        if args.loss_over_time == "sum":
            objective *= float(np.prod(data.train_labels.shape[1:]))
        optimizer = OPTIMIZERS[args.optimizer](args.learning_rate)
        gradients, variables = zip(*optimizer.compute_gradients(objective))
        if args.clip_norm:
            gradients, _ = tf.clip_by_global_norm(list(map(summed, gradients)), args.clip_norm)
        if self.pace:
            gradients = stretched(gradients, self.pace)
        self.steps, self.hooks, updates = 0, [], None
        if args.strategy == "sync-ps":
            optimizer = LockStep(optimizer, self.workers, self.workers)
            # No tokens to begin with: with one, a worker would go on before the first update, and
            # its second gradient would be stale and dropped.
            self.hooks = [optimizer.make_session_run_hook(args.index == 0, num_tokens=0)]
            updates = tf.train.get_or_create_global_step()
            # It averages a row of an embedding over the workers that have it, not over all.
            gradients = map(tf.convert_to_tensor, gradients)
        self.update = optimizer.apply_gradients(zip(gradients, variables), updates)
        self.hit_share = tf.constant(0.0)
        if model.METRIC == "accuracy":
            self.hit_share = tf.reduce_mean(tf.cast(self.graph.hits, tf.float32))
        self.arrivals = tf.get_variable(
            "arrivals", [], tf.int32, initializer=tf.zeros_initializer(), trainable=False
        )
        self.arrive = self.arrivals.assign_add(1, read_value=False)

    @staticmethod
    def _wait_for_chief(target: str, settings) -> None:
        # MonitoredTrainingSession would sleep 30 s after its first look in vain.
        uninitialized = tf.report_uninitialized_variables(tf.global_variables())
        with tf.Session(target, config=settings) as session:
            while len(session.run(uninitialized)):
                time.sleep(0.05)

    def _step(self, inputs, labels, weight: float):
        updates, loss, hits = self.session.run(
            [self.update, self.loss, self.hit_share],
            {self.graph.inputs: inputs, self.graph.labels: labels, self.weight: weight},
        )
        self.steps += 1
        if self.hooks and updates != self.steps:
            raise RuntimeError(
                f"the workers are out of step: {updates} updates after {self.steps} steps, so a "
                "gradient was dropped"
            )
        return float(loss), float(hits)

    def train(self, inputs, labels):
        return self._step(inputs, labels, 1.0)

    def warm_up(self, inputs, labels) -> None:
        self._step(inputs, labels, 0.0)

    def snapshot(self) -> None:
        if self.copy is None:
            self.copy = Copy(*self.parts)
        self.copy.take(self.session.run(self.graph.variables))

    def evaluate(self, inputs, labels):
        return self.copy.evaluate(inputs, labels)

    def finish(self) -> None:
        """Nothing to do: a session's run returns when all is computed."""

    def barrier(self) -> None:
        self.session.run(self.arrive)
        while self.session.run(self.arrivals) < self.workers:
            # Many that ask often are more than a server can answer beside those who still come.
            time.sleep(0.005 * self.workers)

    def close(self) -> None:
        self.session.close()


def cluster(args):
    """Name the processes as TensorFlow does: ``ps`` for servers, ``worker`` for workers."""
    return tf.train.ClusterSpec({"ps": args.hosts["server"], "worker": args.hosts["worker"]})


def config(args):
    """Limit this process to its threads, and a worker's view to the servers and itself."""
    filters = []
    if args.strategy != "single" and args.role == "worker":
        filters = ["/job:ps", f"/job:worker/task:{args.index}"]
    return tf.ConfigProto(
        intra_op_parallelism_threads=args.threads,
        inter_op_parallelism_threads=args.threads,
        device_filters=filters,
    )


def join(args):
    """Start this process's server: the one that others talk to."""
    return tf.train.Server(
        cluster(args),
        job_name={"server": "ps", "worker": "worker"}[args.role],
        task_index=args.index,
        config=config(args),
    )


def serve(args, writer) -> None:
    """Be a parameter server until a SIGTERM says that the workers have finished."""
    # `Server.join()` would never return; one that left by itself would hang the last worker.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = join(args)
    writer.write(Ready)
    signal.sigwait({signal.SIGTERM})
    del server


def main(args) -> None:
    """Be one replica."""
    loop.main(args, {"tensorflow": tensorflow.__version__}, CODE, Worker, serve)


if __name__ == "__main__":
    main(ARGS)
