"""LeNet-5 as in the thesis: two convolutions and poolings, 500 units, 10 classes."""

DATASETS = ("fashion-mnist", "mnist")
METRIC = "accuracy"
EVAL_BATCH = 250

FILTERS = (20, 50)
UNITS = 500
CLASSES = 10


def mxnet(mx, images):
    """Build the network from images of shape (batch, 28, 28)."""
    net = mx.sym.Reshape(images, shape=(-1, 1, 28, 28))
    for filters in FILTERS:
        net = mx.sym.Convolution(net, kernel=(5, 5), num_filter=filters)
        net = mx.sym.Activation(net, act_type="tanh")
        net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2))
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=UNITS)
    net = mx.sym.Activation(net, act_type="tanh")
    return mx.sym.FullyConnected(net, num_hidden=CLASSES)


def tensorflow(tf, images):
    """Build the network from images of shape (batch, 28, 28)."""

    def dense(net, units):
        weights = tf.get_variable("weights", [net.shape[-1], units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(net, weights), bias)

    net = tf.reshape(images, [-1, 28, 28, 1])
    for layer, filters in enumerate(FILTERS):
        with tf.variable_scope(f"convolution{layer}"):
            kernel = tf.get_variable("kernel", [5, 5, net.shape[-1], filters])
            bias = tf.get_variable("bias", [filters], initializer=tf.zeros_initializer())
        net = tf.nn.conv2d(net, kernel, strides=1, padding="VALID")
        net = tf.tanh(tf.nn.bias_add(net, bias))
        net = tf.nn.max_pool2d(net, ksize=2, strides=2, padding="VALID")
    with tf.variable_scope("hidden"):
        net = tf.tanh(dense(tf.reshape(net, [-1, 4 * 4 * FILTERS[-1]]), UNITS))
    with tf.variable_scope("classes"):
        return dense(net, CLASSES)
