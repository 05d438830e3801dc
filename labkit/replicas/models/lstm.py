"""The thesis's RNN: two LSTM layers of 200 units over an embedding, unrolled over 30 words."""

DATASETS = ("ptb",)
METRIC = "perplexity"
EVAL_BATCH = 20
TIME_STEPS = 30

LAYERS = 2
UNITS = 200
VOCABULARY = 10000


def mxnet(mx, words):
    """Build the network from words of shape (batch, 30), from a zero state."""
    net = mx.sym.Embedding(words, input_dim=VOCABULARY, output_dim=UNITS, name="embedding")
    stack = mx.rnn.SequentialRNNCell()
    for layer in range(LAYERS):
        stack.add(mx.rnn.LSTMCell(UNITS, prefix=f"lstm{layer}_"))
    net, _ = stack.unroll(TIME_STEPS, inputs=net, merge_outputs=True)
    net = mx.sym.Reshape(net, shape=(-1, UNITS))
    return mx.sym.FullyConnected(net, num_hidden=VOCABULARY, name="prediction")


def tensorflow(tf, words):
    """Build the network from words of shape (batch, 30), from a zero state."""
    embedding = tf.get_variable("embedding", [VOCABULARY, UNITS])
    sequence = tf.unstack(tf.nn.embedding_lookup(embedding, words), axis=1)
    for layer in range(LAYERS):
        with tf.variable_scope(f"lstm{layer}"):
            weights = tf.get_variable("weights", [2 * UNITS, 4 * UNITS])
            bias = tf.get_variable("bias", [4 * UNITS], initializer=tf.zeros_initializer())
        # Read once: each use of a variable would fetch it from its server again.
        weights, bias = tf.identity(weights), tf.identity(bias)
        cell = output = tf.zeros([tf.shape(words)[0], UNITS])
        outputs = []
        for inputs in sequence:
            gates = tf.matmul(tf.concat([inputs, output], axis=1), weights)
            new, candidate, forget, show = tf.split(tf.nn.bias_add(gates, bias), 4, axis=1)
            # The 1 makes a fresh cell remember, as in BasicLSTMCell and in MXNet's LSTMCell.
            cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(new) * tf.tanh(candidate)
            output = tf.tanh(cell) * tf.sigmoid(show)
            outputs.append(output)
        sequence = outputs
    with tf.variable_scope("prediction"):
        weights = tf.get_variable("weights", [UNITS, VOCABULARY])
        bias = tf.get_variable("bias", [VOCABULARY], initializer=tf.zeros_initializer())
    net = tf.reshape(tf.stack(sequence, axis=1), [-1, UNITS])
    return tf.nn.bias_add(tf.matmul(net, weights), bias)
