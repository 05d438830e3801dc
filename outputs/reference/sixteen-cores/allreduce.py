"""LeNet-5 by all-reduce: PyTorch's DistributedDataParallel over gloo, one thread a process.

The images are drawn at random: what is measured is how long a step takes.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from labkit import report

batch, steps = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(
    nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10),
    )
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.025)
images, labels = torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))
for step in range(10 + steps):
    if step == 10:  # the first ones allocate and connect
        dist.barrier()
        report.ready()
    optimizer.zero_grad()
    loss = cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if step >= 10:
        report.step(batch, loss=loss.item())
dist.destroy_process_group()
