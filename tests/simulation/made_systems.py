"""Systems that are not measured anywhere, and the sizes of the networks that labkit comes with."""

from dataclasses import replace

from hypothesis import strategies as st

from labkit.simulation import Demands, System
from labkit.trials.models import MODELS

LENET = tuple(4 * size for size in MODELS["lenet5"].variables["mxnet"])
"""Bytes of LeNet-5's variables, layer by layer."""

LENET_STEP = Demands(compute=0.12, server=0.008, variables=LENET)


def mxnet(workers, demands=LENET_STEP, **values):
    """Return a system as MXNet makes it: a server beside each worker."""
    return System(demands, workers, workers, placement="hash", beside=True, **values)


seconds = st.floats(1e-4, 1.0)
pauses = st.lists(st.floats(0.01, 10), max_size=3, unique=True).map(sorted)
cooling = pauses.flatmap(lambda pauses: st.tuples(*[st.tuples(st.just(p), seconds)
                                                    for p in pauses]))  # fmt: skip
demands = st.builds(
    Demands, compute=seconds, client=seconds, server=seconds, cooling=cooling,
    latency=st.floats(0, 0.1), hidden=st.floats(0, 1), per_step=st.just(0.0),
    compute_cv=st.floats(0, 1), server_cv=st.floats(0, 1),
    variables=st.lists(st.integers(4, 10_000_000), min_size=1, max_size=6).map(tuple),
)  # fmt: skip
common = {
    "workers": st.integers(1, 6), "servers": st.integers(1, 4),
    "strategy": st.sampled_from(["async-ps", "sync-ps"]),
    "placement": st.sampled_from(["hash", "round-robin"]),
    "slowdown": st.floats(1, 20), "slowdown_spread": st.sampled_from([1.0, 1.3, 3.0]),
    "bandwidth": st.none() | st.floats(1e7, 1e10),
}  # fmt: skip
sliced = st.builds(
    System, demands, **common, threads=st.just(True), share=st.floats(0.05, 1, exclude_max=True)
)
apart = st.builds(
    System, demands, **common, threads=st.booleans(), cores=st.none() | st.floats(0.5, 4)
)
beside = st.builds(
    lambda demands, machine, **values: System(
        demands, servers=values["workers"], placement="hash", beside=True, **machine,
        **{name: value for name, value in values.items() if name not in ("servers", "placement")},
    ),
    demands,
    st.fixed_dictionaries({"cores": st.none() | st.floats(0.5, 4)})
    | st.fixed_dictionaries({"share": st.floats(0.05, 1)}),
    **common,
)  # fmt: skip


def once_a_step(system):
    """Return the system, and ones whose servers do some of their work once for a step."""
    shares = st.sampled_from([0.0, 0.5, 1.0])
    return shares.map(
        lambda share: replace(
            system,
            demands=replace(system.demands, per_step=share * system.demands.server),
        )
    )


dedicated = (sliced | apart).flatmap(once_a_step)
systems = dedicated | beside.flatmap(once_a_step)
