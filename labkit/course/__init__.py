"""What the chapters on foundations compute and draw: small nets in numpy, and figures of them.

One module for each notebook, and what they share: `images` and `diagrams`. What draws returns a
figure, for `labkit.show` and `labkit.explore`; the rest computes, in a few lines that a notebook
can show.
"""
