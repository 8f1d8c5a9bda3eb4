#!/usr/bin/python3
"""Secrets: each endpoint with each status that it may have; no answer has a value in it."""
import re
import time

from contract import check, equal, near, parse_time, refused, run_tests

MEMBERS = {"secretID", "name", "currentVersion", "metadata", "createdAt", "updatedAt"}


def make(server, name, value="the-value", **more):
    return server.want(201, "POST", "/secrets", {"name": name, "value": value, **more})


def test_create_get_update_delete(server):
    made = make(server, "API_KEY", metadata={"a": "b"})
    equal(set(made), MEMBERS)
    check(re.fullmatch(r"sec_[a-z0-9]+", made["secretID"]), made["secretID"])
    equal((made["name"], made["currentVersion"], made["metadata"]), ("API_KEY", 1, {"a": "b"}))
    near(parse_time(made["createdAt"]), time.time(), 5, "createdAt")
    equal(made["updatedAt"], made["createdAt"])
    for which in ("API_KEY", made["secretID"]):
        equal(server.want(200, "GET", f"/secrets/{which}"), made)
    changed = server.want(200, "POST", "/secrets/API_KEY", {"value": "another-value"})
    equal((changed["currentVersion"], changed["metadata"], changed["secretID"]), (2, {"a": "b"}, made["secretID"]))
    changed = server.want(200, "POST", f"/secrets/{made['secretID']}", {"value": "third-value", "metadata": {}})
    equal((changed["currentVersion"], changed["metadata"]), (3, {}))
    equal(server.want(200, "PUT", "/secrets/API_KEY", {"value": "fourth"})["currentVersion"], 4)
    status, _, data = server.request("DELETE", "/secrets/API_KEY")
    equal((status, data), (204, b""))
    refused(server, 404, "GET", "/secrets/API_KEY")
    refused(server, 404, "DELETE", "/secrets/API_KEY")
    refused(server, 404, "POST", "/secrets/API_KEY", {"value": "x"})
    check("-value" not in server.log(), "a value is in the log")


def test_refused(server):
    make(server, "taken")
    refused(server, 409, "POST", "/secrets", {"name": "taken", "value": "x"})
    for body in ({}, {"name": "x"}, {"value": "x"}, {"name": "a b", "value": "x"}, {"name": "x", "value": ""},
                 {"name": "x", "value": 1}, {"name": "x", "value": "v", "metadata": {"a": 1}}):
        refused(server, 400, "POST", "/secrets", body)
    refused(server, 400, "POST", "/secrets/taken", {})
    server.want(204, "DELETE", "/secrets/taken")


def test_list(server):
    made = [make(server, f"list-{i}") for i in range(5)]
    equal(server.want(200, "GET", "/secrets"), made)
    names, token = [], ""
    while True:
        status, headers, page = server.request("GET", "/secrets?limit=2" + (f"&nextToken={token}" if token else ""))
        equal(status, 200)
        names += [s["name"] for s in page]
        token = headers.get("x-next-token", "")
        if not token:
            break
        equal(len(page), 2)
    equal(names, [s["name"] for s in made])
    for bad in ("limit=0", "limit=101", "limit=x"):
        refused(server, 400, "GET", f"/secrets?{bad}")
    for s in made:
        server.want(204, "DELETE", f"/secrets/{s['secretID']}")
    equal(server.want(200, "GET", "/secrets"), [])


def test_whose_they_are(server):
    make(server, "mine")
    tenant, key = server.tenant("others")
    admin = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["admin"]})["key"]
    equal(server.want(200, "GET", "/secrets", key=admin), [])
    refused(server, 404, "GET", "/secrets/mine", key=admin)
    for path in ("/secrets", "/secrets/mine"):
        refused(server, 403, "GET", path, key=key)
    for method, path, body in (("POST", "/secrets", {"name": "a", "value": "b"}), ("POST", "/secrets/mine", {"value": "b"}),
                               ("DELETE", "/secrets/mine", None)):
        refused(server, 403, method, path, body, key=key)
    refused(server, 401, "GET", "/secrets", key=None)
    server.want(204, "DELETE", "/secrets/mine")


if __name__ == "__main__":
    run_tests(globals(), pool_size=1)
