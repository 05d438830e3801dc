"""labkit: what happens to a deep-learning training job when it runs on more machines?"""

__version__ = "0.1.0"
