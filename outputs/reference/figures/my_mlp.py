"""A model of one's own: what it learns, and the network in each framework.

    labkit model check FILE        tries it in seconds
    labkit run --model FILE ...    measures it

Only the standard library and numpy may be imported here: frameworks are handed in.
"""

# The data sets that it can learn, its default first. fashion-mnist and mnist: images of 28 x 28
# pixels from 0 to 1, in 10 classes. ptb: sequences of 30 words as numbers, each to be followed by
# one of 10,000 words.
DATASETS = ("fashion-mnist", "mnist")

# Or data of your own: instead of DATASETS a function that returns four arrays, a row per sample.
# Inputs from 0 to 255 (uint8) become 0 to 1, floats stay as they are; labels are classes from 0.
#
#     def load(folder):  # the folder of this file
#         data = np.load(folder / "mine.npz")
#         return data["train_x"], data["train_y"], data["test_x"], data["test_y"]

# How it is judged on the test set: "accuracy" (percent), or "perplexity" of a language model.
METRIC = "accuracy"

# Samples in one step of evaluation; this says nothing about training.
EVAL_BATCH = 500

# A language model says here how many words of a sample it predicts: TIME_STEPS = 30.

UNITS = 64


# One function for each framework that it supports; leave out what you do not need. Each gets the
# framework's module and a batch of inputs, and returns scores: one row per image (or per word, one
# sample after another), one column per class. Softmax, loss and gradients are labkit's.


def mxnet(mx, images):
    """Build it from images of shape (batch, 28, 28)."""
    hidden = mx.sym.FullyConnected(mx.sym.Flatten(images), num_hidden=UNITS)
    hidden = mx.sym.Activation(hidden, act_type="relu")
    return mx.sym.FullyConnected(hidden, num_hidden=10)


def tensorflow(tf, images):
    """Build it from images of shape (batch, 28, 28); tf is tensorflow.compat.v1."""

    def dense(inputs, name, units):
        with tf.variable_scope(name):
            weights = tf.get_variable("weights", [inputs.shape[-1], units])
            bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.matmul(inputs, weights) + bias

    hidden = tf.nn.relu(dense(tf.reshape(images, [-1, 28 * 28]), "hidden", UNITS))
    return dense(hidden, "scores", 10)
