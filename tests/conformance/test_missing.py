#!/usr/bin/python3
"""What is not there yet: each such endpoint says so with status 501, in E2B's shape, and takes nothing."""
from contract import Sandbox, equal, refused, run_tests

GONE = [
    ("POST", "/v2/templates", {}),
    ("POST", "/templates", {}),
    ("POST", "/templates/base", {}),
    ("POST", "/templates/base/builds/b1", {}),
    ("GET", "/teams", None),
    ("GET", "/teams/t/metrics", None),
    ("GET", "/teams/t/metrics/max?metric=concurrent_sandboxes", None),
    ("GET", "/api-keys", None),
    ("POST", "/api-keys", {"name": "k"}),
    ("PATCH", "/api-keys/k", {"name": "n"}),
    ("DELETE", "/api-keys/k", None),
    ("POST", "/access-tokens", {"name": "t"}),
    ("DELETE", "/access-tokens/t", None),
]


def one(method, path, body):
    def check_it(server):
        box = Sandbox(server)
        refused(server, 501, method, path.replace("{id}", box.id), body, "not supported")
        equal(box.state(), "running", "the sandbox does not mind")
        box.kill()

    return check_it


for METHOD, PATH, BODY in GONE:
    globals()[f"test_{METHOD} {PATH.split('?')[0]}"] = one(METHOD, PATH, BODY)


def test_deleting_a_template(server):
    """DELETE /templates/{id} is also how snapshots are deleted: an unknown one is 404, ours cannot be deleted."""
    refused(server, 404, "DELETE", "/templates/abc123%3Adefault")
    status, _, data = server.request("DELETE", "/templates/base")
    assert status in (403, 501) and data["code"] == status, f"{status} {data}"


def test_without_a_key_they_say_401_and_nothing_more(server):
    for path in ("/snapshots", "/volumes", "/teams", "/api-keys", "/templates/base/tags"):
        refused(server, 401, "GET", path, key=None)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
