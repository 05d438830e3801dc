"""An API server that is busy or away, and pages: a stand-in's; no cluster is needed."""

import pytest
from api_server import HANG_UP

from labkit.launchers.kubernetes import api
from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.settings import Settings

pytestmark = pytest.mark.unit

LABELS = {"app.kubernetes.io/part-of": "labkit"}


def config_map(name, **labels):
    return {"kind": "ConfigMap", "metadata": {"name": name, "labels": LABELS | labels}}


def names(found):
    return [item["metadata"]["name"] for item in found]


def test_lists_come_in_pages(api_server, monkeypatch):
    monkeypatch.setattr(api, "PAGE", 2)
    for number in range(5):
        api_server.put("configmaps", config_map(f"page-{number}"))
    api_server.put("configmaps", {"metadata": {"name": "another's"}})
    assert names(Cluster(Settings()).list("ConfigMap")) == [f"page-{n}" for n in range(5)]
    assert len(api_server.requests) == 3


def test_a_list_that_expires_begins_again(api_server, monkeypatch):
    monkeypatch.setattr(api, "PAGE", 1)
    for number in range(3):
        api_server.put("configmaps", config_map(f"page-{number}"))
    found = []
    for item in Cluster(Settings()).list("ConfigMap"):
        found.append(item)
        if len(found) == 2:
            api_server.fail(410, "The provided continue parameter is too old")
    assert names(found) == ["page-0", "page-1", "page-2"]


def test_what_is_there_already_is_returned(api_server):
    cluster = Cluster(Settings())
    made = cluster.create(config_map("one"))
    assert cluster.create(config_map("one"))["metadata"]["uid"] == made["metadata"]["uid"]
    cluster.remove_and_check(api.PART_OF)
    assert cluster.left(api.PART_OF) == []


@pytest.mark.parametrize("status", [HANG_UP, 429, 500, 503, 504])
def test_what_passes_is_tried_again(status, api_server):
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.fail(status, "not now", times=2)
    cluster.create(config_map("one"))
    assert names(cluster.list("ConfigMap")) == ["one"]


@pytest.mark.parametrize(
    ("status", "says"),
    [(400, "no sense"), (403, "labkit may not create ConfigMap one"), (404, "no sense")],
)
def test_what_stays_is_said_at_once(status, says, api_server):
    cluster = Cluster(Settings())
    api_server.fail(status, "no sense")
    with pytest.raises(ClusterError, match=says):
        cluster.create(config_map("one"))
    assert len(api_server.requests) == 1
