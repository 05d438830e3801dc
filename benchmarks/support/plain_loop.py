"""Plain training loops, a process each, without anything of labkit's around them.

They are the baseline of `trainer.py` and `learning.py`: the model comes from its file, the loop is
what one writes in a first script with the framework. Prints one line of JSON.

    python plain_loop.py mxnet --model lenet5 --batch-size 128 --learning-rate 0.025 --steps 100
"""

import json
import sys
import time

from labkit.replicas.arguments import parse

FRAMEWORK = sys.argv[1]
ARGS = parse(sys.argv[2:])

import numpy as np

from labkit.replicas import models
from labkit.replicas.arrays import Arrays, as_inputs

MODEL = models.load(models.path_of(ARGS.model))
DATA = Arrays(ARGS.dataset, ARGS.data)
SHAPE, LABEL_SHAPE = DATA.train_inputs.shape[1:], DATA.train_labels.shape[1:]
TARGETS = int(np.prod(LABEL_SHAPE))
"""Of one sample."""
WARM_UP = 5


def mxnet_loop():
    """Return functions that take a step, wait for it, and give a test batch's results."""
    from labkit.replicas import train_mxnet as trainer

    mx = trainer.mx
    symbol = trainer.network(MODEL)

    def bind(size, shared=None):
        module = mx.mod.Module(symbol, context=mx.cpu())
        module.bind(
            [("data", (size, *SHAPE))],
            [("softmax_label", (size, *LABEL_SHAPE))],
            for_training=shared is None,
            shared_module=shared,
        )
        return module

    mx.random.seed(ARGS.seed)
    np.random.seed(ARGS.seed)
    module = bind(ARGS.batch_size)
    module.init_params(trainer.initializer(ARGS.initializer))
    targets = ARGS.batch_size * (TARGETS if ARGS.loss_over_time == "mean" else 1)
    module.init_optimizer(
        optimizer_params={"learning_rate": ARGS.learning_rate, "rescale_grad": 1 / targets}
    )
    evaluators = {}

    def batch(x, y):
        return mx.io.DataBatch([mx.nd.array(x)], [mx.nd.array(y)])

    def losses(out, y):
        return -mx.nd.log(mx.nd.maximum(mx.nd.pick(out, mx.nd.array(y.reshape(-1))), 1e-30))

    def step(x, y):
        module.forward_backward(batch(x, y))
        if ARGS.clip_norm:
            gradients = [g[0] for g in module._exec_group.grad_arrays]
            mx.gluon.utils.clip_global_norm(gradients, ARGS.clip_norm * targets)
        module.update()
        return losses(module.get_outputs()[0], y).mean().asscalar()

    def test(x, y):
        if len(x) not in evaluators:
            evaluators[len(x)] = bind(len(x), module)
        evaluator = evaluators[len(x)]
        evaluator.forward(batch(x, y), is_train=False)
        out = evaluator.get_outputs()[0]
        return losses(out, y).asnumpy(), out.asnumpy().argmax(1) == y.reshape(-1)

    return step, mx.nd.waitall, test


def tensorflow_loop():
    """Return functions that take a step, wait for it, and give a test batch's results."""
    from labkit.replicas import train_tensorflow as trainer

    tf = trainer.tf
    tf.disable_eager_execution()
    tf.set_random_seed(ARGS.seed)
    dtype = tf.float32 if DATA.train_inputs.dtype == np.uint8 else tf.int32
    inputs = tf.placeholder(dtype, [None, *SHAPE])
    labels = tf.placeholder(tf.int32, [None, *LABEL_SHAPE])
    truth = tf.reshape(labels, [-1])
    with tf.variable_scope("", initializer=trainer.INITIALIZERS[ARGS.initializer]()):
        logits = MODEL.tensorflow(tf, inputs)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=truth, logits=logits)
    loss = tf.reduce_mean(losses)
    hits = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), truth)
    scale = TARGETS if ARGS.loss_over_time == "sum" else 1
    optimizer = tf.train.GradientDescentOptimizer(ARGS.learning_rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss * scale), strict=True)
    if ARGS.clip_norm:
        # dense, so that the rows of a word that occurs twice are summed before the norm is taken
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        gradients, _ = tf.clip_by_global_norm(dense, ARGS.clip_norm)
    update = optimizer.apply_gradients(zip(gradients, variables, strict=True))
    session = tf.Session(config=trainer.config(ARGS))
    session.run(tf.global_variables_initializer())

    def step(x, y):
        return session.run([update, loss], {inputs: x, labels: y})[1]

    def test(x, y):
        return session.run([losses, hits], {inputs: x, labels: y})

    return step, lambda: None, test


def main():
    """Train and time; evaluate if asked to."""
    step, wait, test = {"mxnet": mxnet_loop, "tensorflow": tensorflow_loop}[FRAMEWORK]()
    size = ARGS.batch_size
    per_epoch = len(DATA.train_inputs) // size
    total = ARGS.steps or ARGS.epochs * per_epoch
    # To see what was learnt all steps count; to time them some are taken before.
    warm_up = WARM_UP if ARGS.eval_samples == 0 else 0
    seconds = time.monotonic()
    for number in range(warm_up + total):
        epoch, batch = divmod(number, per_epoch)
        if batch == 0:
            order = np.random.default_rng([ARGS.seed, 0, epoch]).permutation(
                len(DATA.train_inputs)
            )
        if number == warm_up:
            wait()
            seconds = time.monotonic()
        chosen = order[batch * size : (batch + 1) * size]
        labels = DATA.train_labels[chosen].astype(np.int32)
        loss = step(as_inputs(DATA.train_inputs[chosen]), labels)
    wait()
    result = {"batches_per_second": total / (time.monotonic() - seconds), "loss": float(loss)}
    if ARGS.eval_samples != 0:
        losses, hits = [], []
        inputs = DATA.test_inputs[: ARGS.eval_samples]
        labels = DATA.test_labels[: ARGS.eval_samples]
        for begin in range(0, len(inputs), MODEL.EVAL_BATCH):
            part = slice(begin, begin + MODEL.EVAL_BATCH)
            found = test(as_inputs(inputs[part]), labels[part].astype(np.int32))
            losses.append(found[0])
            hits.append(found[1])
        result["accuracy"] = 100 * float(np.concatenate(hits).mean())
        result["perplexity"] = float(np.exp(np.concatenate(losses).mean()))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
