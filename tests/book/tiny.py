"""Tiny notebooks, for a profile called tiny."""

import json

from labkit.book import pages
from labkit.book.plan import plan

PARAMETERS = """\
framework = "mxnet"
dataset = "fashion-mnist"
batch_size = 16
steps = 8  # of every worker
launcher = "local"
"""

TRIAL = """\
from labkit.campaign import measure
from labkit.trials import Trial
trial = Trial(
    framework=framework, model="lenet5", dataset=dataset, batch_size=batch_size,
    steps=steps, learning_rate=0.025, eval_samples=250,
)
results = measure([trial], launcher)
"""

FIGURE = """\
from labkit import show
show("6.5a", results)
"""

KERNEL = """\
import json, sys, psutil
from ipykernel.connect import get_connection_file
print("python", sys.executable)
print("transport", json.load(open(get_connection_file()))["transport"])
print("ports", psutil.Process().net_connections("inet"))
"""

FAILS = "hits, images = 7, 0\nhits / images"


def write(path, *cells, title="# 0.1 A tiny notebook", parameters=PARAMETERS):
    """Write a notebook: its title, its parameters, and these cells of code."""
    cells = [("markdown", [], title), ("code", ["parameters"], parameters)] + [
        ("code", [], source) for source in cells
    ]
    notebook = {
        "cells": [
            {"id": f"cell{i}", "cell_type": kind, "metadata": {"tags": tags}, "source": source}
            | ({"outputs": [], "execution_count": None} if kind == "code" else {})
            for i, (kind, tags, source) in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "x", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook))


def up_to_date(notebooks):
    """Return whether the profile's first page is made from what is there now."""
    pages.code_hash.cache_clear()
    return plan("tiny", notebooks=notebooks)[0].is_up_to_date()
