"""steps_state.py - routes of the native interface about what stays: keys, secrets, tenants, volumes, templates, snapshots
(steps_base.py)."""
import os
import sys
import time

from steps_base import same, step

for folder in ("registry", "shared"):
    sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
from fake_registry import Registry  # noqa: E402
from registry_images import Image, layer  # noqa: E402
from tree import make_tree  # noqa: E402


def drop_volume(w, name):
    """Also if the answer of its creation was lost, and it is made meanwhile."""
    for _ in range(20):
        if w.server.request("DELETE", f"/v1/volumes/{name}")[0] == 204:
            return
        time.sleep(0.02)  # most often there is none


@step
def volumes(w):
    yield
    name = w.fresh("vol")
    made = w.ask("POST", "/v1/volumes", {"name": name, "size": "16M"})
    asked = [(w.ask("GET", "/v1/volumes"), (200,)), (w.ask("GET", f"/v1/volumes/{name}"), (200, 404))]
    gone = w.ask("DELETE", f"/v1/volumes/{name}")
    yield
    for a, want in asked:
        w.good(a, *want)
    if w.good(made, 201) and w.good(gone, 204):
        same(w.server.request("GET", f"/v1/volumes/{name}")[0], 404, "the volume that was deleted")
    drop_volume(w, name)



@step
def keys(w):
    name = w.fresh("k")
    yield
    made = w.ask("POST", "/v1/keys", {"name": name, "scopes": ["read"]})
    listed = w.ask("GET", "/v1/keys")
    gone = w.ask("DELETE", f"/v1/keys/{made.json['id']}") if made.status == 201 and made.whole else None
    yield
    w.good(listed, 200)
    if w.good(made, 201):
        status = w.server.request("GET", "/v1/sessions", key=made.json["key"])[0]
        if w.good(gone, 204):
            same(status, 401, "what a key may that is gone")
        elif gone.whole:
            same(status, 200, "what the key may")
        w.server.request("DELETE", f"/v1/keys/{made.json['id']}")


@step
def secrets(w):
    name = w.fresh("secret")
    yield
    made = w.ask("POST", "/v1/secrets", {"name": name, "value": "first-value"})
    looked = [w.ask("GET", "/v1/secrets")]
    changed = gone = None
    if made.status == 201:
        looked.append(w.ask("GET", f"/v1/secrets/{name}"))
        changed = w.ask("PUT", f"/v1/secrets/{name}", {"value": "second-value"})
        gone = w.ask("DELETE", f"/v1/secrets/{name}") if changed.status == 200 else None
    yield
    for a in looked:
        w.good(a, 200)
    status, _, now = w.server.request("GET", f"/v1/secrets/{name}")
    if w.good(made, 201):
        if changed is not None and w.good(changed, 200) and gone is not None and w.good(gone, 204):
            same(status, 404, "a secret that is gone")
        elif gone is None or gone.whole and gone.status != 204:
            same(status, 200, "a secret that was acknowledged")
    w.server.request("DELETE", f"/v1/secrets/{name}")


@step
def tenants(w):
    name = w.fresh("tenant")
    yield
    made = w.ask("POST", "/v1/tenants", {"name": name})
    asked = [(w.ask("GET", "/v1/tenants"), (200,))]
    if made.status == 201 and made.whole:
        path = f"/v1/tenants/{made.json['id']}"
        asked += [(w.ask("GET", path), (200,)), (w.ask("PATCH", path, {"max_sessions": 3}), (200,))]
        asked += [(w.ask("GET", path + "/network"), (200,)), (w.ask("PUT", path + "/network", {"version": 1}), (200,))]
        asked.append((w.ask("POST", path + "/keys", {"name": "k", "scopes": ["sessions"]}), (201,)))
        asked.append((w.ask("DELETE", path), (204,)))
    yield
    for a, want in asked:
        w.good(a, *want)
    if w.good(made, 201):
        patched, last = asked[2][0], asked[-1][0]
        status, _, now = w.server.request("GET", f"/v1/tenants/{made.json['id']}")
        if last.whole and last.status == 204:
            same(status, 404, "a tenant that is gone")
        elif last.whole and patched.whole and patched.status == 200:
            same(now["max_sessions"], 3, "max_sessions")
        w.server.request("DELETE", f"/v1/tenants/{made.json['id']}")


@step
def templates(w):
    name, tree = w.fresh("template"), os.path.join(w.server.state, "templates", "faults")
    if not os.path.exists(tree):
        make_tree(tree)
    yield
    made = w.ask("POST", "/v1/templates", {"name": name, "root": {"kind": "layers", "layers": ["faults"]}})
    shown = gone = None
    if made.status == 201 and made.whole:
        shown = w.ask("GET", f"/v1/templates/{name}")
        gone = w.ask("DELETE", f"/v1/templates/{name}")
    yield
    status = w.server.request("GET", f"/v1/templates/{name}")[0]
    if w.good(made, 201):
        w.good(shown, 200)
        if w.good(gone, 204):
            same(status, 404, "a template that is gone")
        elif gone.whole:
            same(status, 200, "a template that was acknowledged")
    w.server.request("DELETE", f"/v1/templates/{name}")


@step
def template_rows(w):
    """Tags, files and who may use it. The files of a directory of template_dir are not listed: 422."""
    name, tree = w.fresh("tagged"), os.path.join(w.server.state, "templates", "faults")
    if not os.path.exists(tree):
        make_tree(tree)
    w.server.want(201, "POST", "/v1/templates", {"name": name, "root": {"kind": "layers", "layers": ["faults"]}})
    at = f"/v1/templates/{name}"
    yield
    w.ask("GET", f"{at}/files")
    changed = w.ask("PATCH", at, {"public": True})
    tagged = w.ask("POST", f"{at}/tags", {"tags": ["v1"]})
    untagged = w.ask("DELETE", f"{at}/tags/v1")
    yield
    w.good(changed, 200)
    status = w.server.request("GET", f"{at}:v1")[0]
    if w.good(tagged, 200) and w.good(untagged, 204):
        same(status, 404, "a tag that is gone")
    w.server.request("DELETE", at)


REGISTRY = []  # of pull(): one for the whole run


@step
def pull(w):
    if not REGISTRY:
        REGISTRY.append(Registry(Image([layer({"proc/": None, "dev/": None, "a": b"a" * 100000}), layer({"b": b"b"})])))
    name = w.fresh("pulled")
    reference = f"{REGISTRY[0].host}/x/y:t"
    yield
    made = w.ask("POST", "/v1/templates/pull", {"reference": reference, "name": name})
    yield
    status = w.server.request("GET", f"/v1/templates/{name}")[0]
    if w.good(made, 200) and b"event: template" in made.data:
        same(status, 200, "a template that was acknowledged")
    elif made.whole:
        same(status, 404, "a template that was refused")
    if status == 200:
        w.server.want(204, "DELETE", f"/v1/templates/{name}")


@step
def builds(w):
    """To the start; the build itself fails at once, since its base does not exist."""
    where, asked = "/v1/builds", []
    yield
    made = w.ask("POST", where, {"name": w.fresh("build")})
    asked.append((w.ask("GET", where), (200,)))
    asked.append((w.ask("DELETE", where + "/cache"), (204,)))
    if made.status == 201 and made.whole:
        one = f"{where}/{made.json['id']}"
        asked.append((w.ask("PUT", f"{one}/files/{'0' * 64}", b"x" * 100000), (204,)))
        asked.append((w.ask("POST", one + "/start", {"fromTemplate": "none", "steps": []}), (202,)))
        asked.append((w.ask("GET", one), (200,)))
        asked.append((w.ask("DELETE", one), (204, 409)))
    yield
    for a, want in asked:
        w.good(a, *want)
    w.good(made, 201)


def drop_snapshots(w, source):
    """Also those of requests whose answer was lost."""
    for found in w.server.want(200, "GET", f"/v1/snapshots?session={source}")["snapshots"]:
        w.server.want(204, "DELETE", "/v1/snapshots/" + found["id"].replace("/", "%2F").replace(":", "%3A"))


@step
def snapshots(w):
    source = w.server.create(timeout="1h", metadata={"faults": "source"})["id"]
    yield
    one, asked = f"/v1/sessions/{source}", []
    made = w.ask("POST", one + "/snapshots", {})
    asked.append((w.ask("POST", one + "/snapshots", {"name": "faulty", "expires_in": "1h"}), (201,)))
    if made.status == 201 and made.whole:
        shot = "/v1/snapshots/" + made.json["id"].replace(":", "%3A")
        asked += [(w.ask("GET", shot), (200,)), (w.ask("DELETE", shot), (204,))]
    asked.append((w.ask("GET", "/v1/snapshots"), (200,)))
    asked.append((w.ask("POST", one + "/fork", {"timeout": "1m"}), (201,)))
    asked.append((w.ask("POST", one + "/pause", {"memory": False}), (200,)))
    asked.append((w.ask("POST", one + "/reset"), (200,)))
    asked += [(w.ask("GET", "/v1/layers"), (200,)), (w.ask("POST", "/v1/gc"), (200,))]
    asked += [(w.ask(m, "/v1/packages/cache" + p), (200, 503)) for m, p in (("GET", ""), ("GET", "/entries"), ("POST", "/gc"),
                                                                           ("POST", "/verify"))]
    yield
    w.good(made, 201)
    for a, want in asked:
        w.good(a, *want)
    drop_snapshots(w, source)
    for s in w.server.want(200, "GET", "/v1/sessions?metadata.faults=source&ended=false&state=running,paused,stopped,pausing,resuming,creating")["sessions"]:
        w.server.request("DELETE", f"/v1/sessions/{s['id']}")
