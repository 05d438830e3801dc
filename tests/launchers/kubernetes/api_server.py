"""A stand-in for a Kubernetes API server, over HTTP: it can do what a real one seldom does.

It keeps the objects of one namespace, lists them by labels and fields and in pages, creates the
pods of Jobs, deletes what they own, and serves pods' logs. Nothing runs in its pods: a test says
what becomes of them (`ApiServer.set_status`, `ApiServer.logs`). What goes wrong is ordered ahead
(`ApiServer.fail`), or is a property: its clock, its token, how many requests it leaves unanswered.
"""

import itertools
import json
import re
import socket
import struct
import threading
import time
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "test"

PATH = re.compile(
    r"/(?:api/v1|apis/[a-z0-9.]+/v1)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+))?(?P<sub>/(?:log|resize))?"
)
"""Of a request: kinds are as in paths, such as ``networkpolicies``."""

REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
           409: "AlreadyExists", 410: "Expired", 429: "TooManyRequests", 500: "InternalError",
           503: "ServiceUnavailable", 504: "Timeout"}  # fmt: skip

HANG_UP = 0
"""Instead of a status: the connection is reset without an answer."""


class ApiServer(ThreadingHTTPServer):
    """Serves on a port of the loopback until it is closed.

    Attributes
    ----------
    objects : dict
        By kind (as in paths) and name.
    logs : dict of str to bytes
        By the pod's name; a pod without one has an empty log.
    requests : list of tuple
        Method, kind, name and query of each request that has come, answered or not.
    token : str
        The only one that is accepted.
    ahead : float
        Seconds by which its clock is ahead.
    create_pods : bool
        Whether Jobs get their pods.
    collects : bool
        Whether what an object owns is deleted with it.
    rules : list of dict or None
        Of the Role that whoever asks has; None: all is allowed.
    used_rights : set of tuple
        Verb and resource of each right that a request has needed.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects, self.logs, self.requests = {}, {}, []
        self.token, self.ahead, self.create_pods, self.rules = "secret", 0.0, True, None
        self.used_rights = set()
        self.collects = True
        self._faults = []
        self._versions = itertools.count(1)
        self.lock = threading.RLock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self):
        self.shutdown()
        self.server_close()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def write_kubeconfig(self, path, token=None, **user):
        """Write a kubeconfig for it, with the right token or another, or with another `user`."""
        user = user or {"token": token or self.token}
        context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": self.address}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "test", "context": context}],
        }))  # fmt: skip

    # --- what goes wrong ------------------------------------------------------------------

    def fail(self, status, message="", times=1, *, method="", kind="", reason="", **headers):
        """Answer the next requests of a method and kind (empty: of any) with an error.

        Several orders are worked off one after another. A `status` of `HANG_UP` resets the
        connection; with ``body=b"..."`` the answer is not a Kubernetes one, as a load balancer's.
        """
        body = headers.pop("body", None)
        self._faults.append([times, method, kind, status, message, reason, headers, body])

    def fault(self, method, kind):
        """Return the error that was ordered for a request, None if none was."""
        with self.lock:
            for fault in self._faults:
                if fault[0] > 0 and fault[1] in ("", method) and fault[2] in ("", kind):
                    fault[0] -= 1
                    return fault[3:]
        return None

    # --- what is there --------------------------------------------------------------------

    def now(self):
        """Return the time by its own clock, as in timestamps."""
        moment = datetime.fromtimestamp(time.time() + self.ahead, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def of_kind(self, kind):
        return self.objects.setdefault(kind, {})

    def put(self, kind, item):
        """Create an object, as a request does; return it."""
        with self.lock:
            meta = item.setdefault("metadata", {})
            meta.setdefault("labels", {})
            meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
            meta |= {"namespace": NAMESPACE, "resourceVersion": str(next(self._versions))}
            item.setdefault("status", {})
            self.of_kind(kind)[meta["name"]] = item
            if kind == "jobs" and self.create_pods:
                self._create_pods(item)
            return item

    def _create_pods(self, job):
        template = job["spec"]["template"]
        for index in range(job["spec"]["completions"]):
            labels = template["metadata"]["labels"] | {
                "batch.kubernetes.io/job-completion-index": str(index),
                "batch.kubernetes.io/job-name": job["metadata"]["name"],
            }
            self.put("pods", {
                "metadata": {
                    "name": f"{job['metadata']['name']}-{index}-{uuid.uuid4().hex[:5]}",
                    "labels": labels,
                    "ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}],
                },
                "spec": json.loads(json.dumps(template["spec"])),
                "status": {"phase": "Pending"},
            })  # fmt: skip

    def has_right(self, verb, resource):
        """Whether its rules give whoever asks a right."""
        return self.rules is None or any(
            resource in rule["resources"] and verb in rule["verbs"] for rule in self.rules
        )

    def resize(self, pod, patch):
        """Change the resources of a pod's containers, by their names."""
        for change in patch["spec"]["containers"]:
            names = [container["name"] for container in pod["spec"]["containers"]]
            container = pod["spec"]["containers"][names.index(change["name"])]
            for what, values in change["resources"].items():
                container["resources"].setdefault(what, {}).update(values)
        return pod

    def set_status(self, component, index, state, reason="", code=0, **status):
        """Have a pod's first container be ``running``, ``terminated`` or ``waiting``."""
        with self.lock:
            pod = self.pod(component, index)
            phases = {"running": "Running", "waiting": "Pending"}
            phase = phases.get(state, "Failed" if code else "Succeeded")
            details = {"reason": reason} if reason else {}
            if state == "terminated":
                details["exitCode"] = code
            container = pod["spec"]["containers"][0]["name"]
            containers = [{"name": container, "state": {state: details}}]
            pod["spec"]["nodeName"] = "node-1"
            pod["status"] = {"phase": phase, "containerStatuses": containers} | status

    def pod(self, component, index):
        """Return the pod of a kind and index."""
        wanted = {"app.kubernetes.io/component": component,
                  "batch.kubernetes.io/job-completion-index": str(index)}  # fmt: skip
        return next(p for p in self.of_kind("pods").values()
                    if wanted.items() <= p["metadata"]["labels"].items())  # fmt: skip

    def delete(self, kind, name):
        """Delete an object, and what it owns."""
        with self.lock:
            gone = self.of_kind(kind).pop(name)
            owned = [
                (kind, item["metadata"]["name"])
                for kind, items in self.objects.items()
                for item in items.values()
                if self.collects
                and gone["metadata"]["uid"]
                in {owner["uid"] for owner in item["metadata"].get("ownerReferences", [])}
            ]
            for other, its_name in owned:
                self.delete(other, its_name)
            return gone


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is sent in one piece
    disable_nagle_algorithm = True

    def do_GET(self):
        self._handle()

    do_POST = do_DELETE = do_PATCH = do_GET

    def log_message(self, *_):
        pass

    def _handle(self):
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = PATH.fullmatch(url.path)
        kind, name = found["kind"], found["name"] or ""
        server = self.server
        server.requests.append((self.command, kind, name, query))
        if (fault := server.fault(self.command, kind)) is not None:
            status, message, reason, headers, plain = fault
            self._refuse(status, message, reason, headers, plain)
        elif self.headers.get("Authorization") != f"Bearer {server.token}":
            self._refuse(401, "Unauthorized")
        elif found["namespace"] not in (None, NAMESPACE):
            self._refuse(404, f'namespaces "{found["namespace"]}" not found')
        elif kind == "selfsubjectaccessreviews":  # which everybody may ask for
            asked = json.loads(body)["spec"]["resourceAttributes"]
            resource = f"{asked['resource']}/{asked['subresource']}"
            self._answer({"status": {"allowed": server.has_right(asked["verb"], resource)}}, 201)
        elif not self._allowed(kind, name, found["sub"] or ""):
            self._refuse(403, f"{self.command} {kind} is forbidden")
        else:
            with server.lock:
                self._serve(kind, name, query, body, found["sub"])

    def _allowed(self, kind, name, sub):
        """Whether the rules give the right that a request needs."""
        verbs = {"POST": "create", "DELETE": "delete", "PATCH": "patch",
                 "GET": "get" if name else "list"}  # fmt: skip
        verb, resource = verbs[self.command], f"{kind}{sub}"
        self.server.used_rights.add((verb, resource))
        return self.server.has_right(verb, resource)

    def _serve(self, kind, name, query, body, sub):
        items = self.server.of_kind(kind)
        if self.command == "POST":
            item = json.loads(body)
            name = item["metadata"]["name"]
            if name in items:
                self._refuse(409, f'{kind} "{name}" already exists')
            else:
                self._answer(self.server.put(kind, item), 201)
        elif not name:
            self._list(kind, query)
        elif name not in items:
            self._refuse(404, f'{kind} "{name}" not found')
        elif sub == "/log":
            self._log(items[name], query)
        elif self.command == "PATCH":
            self._answer(self.server.resize(items[name], json.loads(body)))
        elif self.command == "DELETE":
            self._answer(self.server.delete(kind, name))
        else:
            self._answer(items[name])

    def _list(self, kind, query):
        items = [
            item for item in self.server.of_kind(kind).values()
            if _matches(query.get("labelSelector", ""), item["metadata"]["labels"].get)
            and _matches(query.get("fieldSelector", ""), lambda path, item=item: _at(item, path))
        ]  # fmt: skip
        begin, most = int(query.get("continue", 0)), int(query.get("limit", len(items)))
        more = str(begin + most) if begin + most < len(items) else ""
        self._answer({"items": items[begin : begin + most], "metadata": {"continue": more}})

    def _log(self, pod, query):
        names = [container["name"] for container in pod["spec"]["containers"]]
        if len(names) > 1 and query.get("container") not in names:
            name = pod["metadata"]["name"]
            self._refuse(400, f"a container name must be specified for pod {name}, "
                              f"choose one of: [{' '.join(names)}]")  # fmt: skip
            return
        self._send(200, self.server.logs.get(pod["metadata"]["name"], b""), {})

    def _refuse(self, status, message, reason="", headers=(), plain=None):
        if status == HANG_UP:
            self.close_connection = True
            # with nothing lingering, closing is a reset
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
            return
        content = {"kind": "Status", "status": "Failure", "code": status,
                   "reason": reason or REASONS.get(status, ""), "message": message}  # fmt: skip
        body = json.dumps(content).encode() if plain is None else plain
        self._send(status, body, dict(headers))

    def _answer(self, content, status=200):
        self._send(status, json.dumps(content).encode(), {})

    def _send(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def date_time_string(self, timestamp=None):
        return super().date_time_string(timestamp or time.time() + self.server.ahead)


def _matches(selector, value_of):
    """Whether an object has the labels or fields of a selector of equalities."""
    for term in filter(None, selector.split(",")):
        name, unequal, value = re.fullmatch(r"([^!=]+)(!?)=+(.*)", term).groups()
        if (str(value_of(name) or "") == value) == bool(unequal):
            return False
    return True


def _at(item, path):
    for key in path.split("."):
        item = item.get(key, {})
    return item
