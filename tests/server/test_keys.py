#!/usr/bin/python3 -B
"""Goal: a key does what its scopes say, for its tenant, as long as it lives, and nothing else; and a tenant
cannot tell what another has from what nobody has.

    test_keys.py CORDON [name ...]
"""
import http.client
import json
import os
import re
import stat
import subprocess
import tempfile

import harness
from harness import Server, check, equal, has, run_tests, wait_for

KEY = re.compile(r"e2b_[0-9a-f]{40}")
NOBODY = "i0000000000000000"


def routes():
    out = subprocess.run(
        [os.path.join(os.path.dirname(harness.PROGRAM), "cordond"), "--routes"], capture_output=True, check=True
    )
    return [tuple(line.split()) for line in out.stdout.decode().splitlines()]


def needed(method, pattern):
    """The scope that a route needs, by the contract and not by the server's table."""
    if pattern in ("/metrics", "/mcp"):
        return "read"
    if pattern == "/mcp/{session}":
        return "sessions"
    if not pattern.startswith("/v1/"):
        return None
    if pattern.startswith(("/v1/keys", "/v1/tenants", "/v1/secrets", "/v1/layers", "/v1/gc", "/v1/packages")):
        return "admin"
    if pattern.endswith("/report"):
        return "audit"
    if pattern.startswith("/v1/audit"):  # who changes the log needs both
        return "audit" if method == "GET" or pattern.endswith("/cosignature") else "admin and audit"
    if pattern.startswith("/v1/builds") and method != "GET":
        return "sessions"
    if pattern.startswith("/v1/templates") and method != "GET":
        return "admin"
    if method == "GET" and not pattern.endswith("/attach"):  # which can type
        return "read"
    return "sessions"


def make_key(server, *scopes, key="", **more):
    made = server.want(201, "POST", "/v1/keys", {"name": "k", "scopes": list(scopes), **more}, key=key)
    check(KEY.fullmatch(made["key"]), f"key {made['key']!r}")
    return made


def works(server, key):
    status, _, body = server.request("GET", "/v1/sessions", key=key)
    check(status in (200, 401), f"{status} {body}")
    return status == 200


def cli(server, *words, key="", code=0):
    done = subprocess.run(
        [server.program, *words],
        env={"CORDON_SERVER": server.url, "CORDON_API_KEY": key or server.key, "HOME": "/nowhere"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    equal(done.returncode, code, f"cordon {' '.join(words)}: {done.stderr.decode()}")
    return done.stdout.decode() if code == 0 else done.stderr.decode()


# -- scopes


def test_every_route_with_every_scope(server):
    keys = {scope: make_key(server, scope)["key"] for scope in ("read", "sessions", "admin", "audit")}
    listed = routes()
    check(len(listed) > 40, f"only {len(listed)} routes")
    asked = [*listed, *(("HEAD", pattern) for method, pattern in listed if method == "GET")]
    for method, pattern in asked:
        scope = needed("GET" if method == "HEAD" else method, pattern)
        path = re.sub(r"\{\w+\}", NOBODY, pattern)
        body = b"[]" if method in ("POST", "PUT", "PATCH") else None
        status, _, answer = server.request(method, path, body, key=None)
        if scope is None:
            check(status in (200, 503), f"{method} {path} without a key: {status}")
            continue
        equal(status, 401, f"{method} {path} without a key")
        words = {401: "unauthorized", 403: "forbidden"} if not path.startswith("/mcp") else {401: -32600, 403: -32600}
        check(method == "HEAD" or answer["error"]["code"] == words[401], f"{method} {path}: {answer}")
        for have, key in keys.items():
            good = have == scope or (have == "sessions" and scope == "read")
            status, _, answer = server.request(method, path, body, key=key)
            if good:
                check(status not in (401, 403, 405, 500), f"{method} {path} with {have}: {status} {answer}")
            else:
                equal(status, 403, f"{method} {path} with {have}")
                check(method == "HEAD" or answer["error"]["code"] == words[403], f"{method} {path}: {answer}")


def test_other_methods_need_a_key_too(server):
    """Without a key nobody learns which paths exist, by no method; but a browser may ask before it sends one (CORS)."""
    asks = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    for path in ("/v1/sessions", f"/v1/sessions/{NOBODY}", "/v1/nothing", "/v2/sandboxes", "/sandboxes/x/timeout"):
        for method in ("OPTIONS", "PATCH", "PUT"):
            equal(server.request(method, path, key=None)[0], 401, f"{method} {path} without a key")
            equal(server.request(method, path, key="crd_" + "a" * 32)[0], 401, f"{method} {path} with a wrong one")
    status, headers, _ = server.request("OPTIONS", "/v1/sessions", headers=asks, raw=True, key=None)
    equal((status, "POST" in headers.get("Allow", headers.get("allow", ""))), (204, True), "a browser that asks first")
    equal(server.request("OPTIONS", "/v1/nothing", headers=asks, key=None)[0], 401, "not for what does not exist")
    equal(server.request("POST", "/healthz", key=None)[0], 405, "a path without a key")
    equal(server.request("PATCH", "/v1/sessions")[0], 405, "with a key")
    equal(server.request("OPTIONS", "/v1/sessions")[0], 204, "with a key")


def test_scopes_add_up(server):
    both = make_key(server, "read", "admin")
    equal(both["scopes"], ["read", "admin"], "scopes")
    server.want(200, "GET", "/v1/sessions", key=both["key"])
    server.want(200, "GET", "/v1/keys", key=both["key"])
    server.refused(403, "forbidden", "POST", "/v1/sessions", {}, key=both["key"])


def test_bad_wishes_name_the_member(server):
    for body, member in (
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": "read"}, "scopes"),
        ({"scopes": [1]}, "scopes"),
        ({"scopes": ["read"], "name": 7}, "name"),
        ({"scopes": ["read"], "name": "x" * 5000}, "name"),
        ({"scopes": ["read"], "expires_in": "soon"}, "expires_in"),
        ({"scopes": ["read"], "expires_in": -1}, "expires_in"),
        ({"scopes": ["read"], "shoe_size": 43}, "shoe_size"),
        ({"name": "no scopes"}, "scopes"),
    ):
        server.refused(400, "invalid", "POST", "/v1/keys", body, member)


# -- what is a key


def test_what_is_no_key(server):
    good = server.key
    for bad in (
        "",
        "e2b_",
        good[:-1],
        good + "0",
        good.upper(),
        "e2b_" + "0" * 40,
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        "e2b_" + "g" * 40,
        " " * 44,
        "x" * 4000,
        "' OR '1'='1",
    ):
        for header in ({"X-API-Key": bad}, {"Authorization": "Bearer " + bad}):
            server.refused(401, "unauthorized", "GET", "/v1/sessions", headers=header)
    for header in (
        {"Authorization": good},
        {"Authorization": "Basic " + good},
        {"Authorization": "Bearer " + good, "X-API-Key": good},  # two could be two tenants'
    ):
        server.refused(401, "unauthorized", "GET", "/v1/sessions", headers=header)
    for header in ({"X-API-Key": good}, {"x-api-key": good}, {"Authorization": "bearer " + good}):
        server.want(200, "GET", "/v1/sessions", headers=header)


def test_without_a_key_all_paths_look_alike(server):
    for path in ("/v1/sessions", f"/v1/sessions/{NOBODY}", "/v1/keys", "/v1/nothing", "/v4", "/nothing"):
        error = server.refused(401, "unauthorized", "GET", path, key=None)
        equal((error["session_id"], error["fault"]), (None, "user"), path)
    words = {str(server.want(401, "GET", path, key=None))  # below E2B's names, in E2B's shape
             for path in ("/sandboxes", f"/sandboxes/{NOBODY}", "/v2/sandboxes", "/v2/nothing", "/templates/x", "/v3")}
    equal(len(words), 1, f"{words}")


def test_a_key_expires(server):
    made = make_key(server, "read", expires_in="1s")
    check(made["expires_at"] > made["created_at"], f"{made}")
    check(works(server, made["key"]), "does not work while it lives")
    wait_for(lambda: not works(server, made["key"]), 15, "the end of the key")
    server.refused(401, "unauthorized", "GET", "/v1/sessions", None, "the key has expired", key=made["key"])
    other = made["key"][:-1] + ("0" if made["key"][-1] != "0" else "1")
    server.refused(401, "unauthorized", "GET", "/v1/sessions", None, "not valid", key=other)


def test_a_revoked_key_ends_at_once(server):
    made, other = make_key(server, "read"), make_key(server, "read")
    link = http.client.HTTPConnection(*server.address, timeout=10)
    for want in (200, 401):
        link.request("GET", "/v1/sessions", headers={"X-API-Key": made["key"]})
        answer = link.getresponse()
        answer.read()
        equal(answer.status, want, "on a connection that stays open")
        if want == 200:
            server.want(204, "DELETE", f"/v1/keys/{made['id']}")
    link.close()
    check(works(server, other["key"]), "another key of the tenant")
    ids = [k["id"] for k in server.want(200, "GET", "/v1/keys")["keys"]]
    check(made["id"] not in ids and other["id"] in ids, f"list after the revocation: {ids}")
    server.refused(404, "not_found", "DELETE", "/v1/keys/key_0000000000000000")


def test_last_use_is_known(server):
    made = make_key(server, "read")

    def row():
        return next(k for k in server.want(200, "GET", "/v1/keys")["keys"] if k["id"] == made["id"])

    equal((made["last_used_at"], row()["last_used_at"]), (None, None), "last use of a new key")
    check(works(server, made["key"]), "does not work")
    check(row()["last_used_at"] >= made["created_at"], f"last use: {row()}")


def test_a_key_is_shown_once_and_not_stored(server):
    made = make_key(server, "read", "sessions")
    check(works(server, made["key"]), "does not work")
    for row in server.want(200, "GET", "/v1/keys")["keys"]:
        check("key" not in row, f"shown again: {row}")
        check(len(row["prefix"]) <= 12, f"prefix {row['prefix']!r} shows too much")
    text, seen = made["key"].encode(), []
    for folder, _, names in os.walk(server.state):
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                data = f.read()
            seen.append(name)
            for secret in (text, text[4:], bytes.fromhex(made["key"][4:])):
                check(secret not in data, f"the key is in {name}")
            if name != "first.key":
                check(server.key[4:].encode() not in data, f"the first key is in {name}")
    check(any("db" in n or "sqlite" in n for n in seen), f"no database among {seen}")
    check(made["key"][4:] not in server.log() and server.key[4:] not in server.log(), "a key is in the log")


def test_the_first_key():
    with Server(pool_size=0) as server:
        path = os.path.join(server.state, "first.key")
        st = os.stat(path)
        equal((stat.S_IMODE(st.st_mode), st.st_uid), (0o600, harness.USER), "mode and owner of first.key")
        with open(path) as f:
            check(KEY.fullmatch(f.read().rstrip("\n")), "form of first.key")
        equal(stat.S_IMODE(os.stat(server.state).st_mode) & 0o066, 0, "others in the state folder")
        server.want(200, "GET", "/v1/tenants")
        os.unlink(path)
        server.restart()
        check(not os.path.exists(path), "written again")
        server.want(200, "GET", "/v1/tenants")


# -- tenants


def test_tenants_are_made_changed_and_removed(server):
    spec = {"name": "acme", "max_sessions": 3, "create_rate": 2.5, "burst": 4, "queue_length": 5, "queue_timeout": "3s"}
    made = server.want(201, "POST", "/v1/tenants", spec)
    path = f"/v1/tenants/{made['id']}"
    want = {
        "name": "acme",
        "operator": False,
        "max_sessions": 3,
        "create_rate_millis": 2500,
        "burst": 4,
        "queue_length": 5,
        "queue_timeout_ms": 3000,
    }
    equal({k: made[k] for k in want}, want, "as made")
    equal(server.want(200, "GET", path), made, "as shown")
    check(made in server.want(200, "GET", "/v1/tenants")["tenants"], "in the list")
    server.refused(409, "conflict", "POST", "/v1/tenants", {"name": "acme"})
    changed = server.want(200, "PATCH", path, {"max_sessions": 9})
    equal(changed, {**made, "max_sessions": 9}, "changed")
    equal(server.want(200, "GET", path), changed, "as shown")
    server.want(204, "DELETE", path)
    server.want(204, "DELETE", path)
    server.refused(404, "not_found", "GET", path)
    server.refused(404, "not_found", "PATCH", path, {"burst": 1})
    server.refused(404, "not_found", "POST", path + "/keys", {"scopes": ["read"]})
    server.refused(404, "not_found", "DELETE", "/v1/tenants/ten_0000000000000000")
    check(made["id"] not in [t["id"] for t in server.want(200, "GET", "/v1/tenants")["tenants"]], "still in the list")
    again = server.want(201, "POST", "/v1/tenants", {"name": "acme"})  # the name is free again
    check(again["id"] != made["id"], "the id again")
    server.want(204, "DELETE", f"/v1/tenants/{again['id']}")


def test_bad_tenants_name_the_member(server):
    for body, member in (
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 5000}, "name"),
        ({"name": "x", "max_sessions": -1}, "max_sessions"),
        ({"name": "x", "max_sessions": "many"}, "max_sessions"),
        ({"name": "x", "burst": 1.5}, "burst"),
        ({"name": "x", "create_rate": -1}, "create_rate"),
        ({"name": "x", "queue_timeout": "later"}, "queue_timeout"),
        ({"name": "x", "max_memory": "all"}, "max_memory"),
        ({"name": "x", "operator": True}, "operator"),
    ):
        server.refused(400, "invalid", "POST", "/v1/tenants", body, member)


def test_only_the_operator_has_tenants(server):
    tenant, _ = server.tenant("plain")
    key = server.want(201, "POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["admin", "sessions"]})["key"]
    for method, path, body in (
        ("GET", "/v1/tenants", None),
        ("POST", "/v1/tenants", {"name": "mine"}),
        ("GET", f"/v1/tenants/{tenant}", None),
        ("PATCH", f"/v1/tenants/{tenant}", {"max_sessions": 1000}),
        ("DELETE", f"/v1/tenants/{tenant}", None),
        ("POST", f"/v1/tenants/{tenant}/keys", {"scopes": ["read"]}),
        ("GET", "/v1/tenants/ten_0000000000000000", None),
    ):
        server.refused(403, "forbidden", method, path, body, key=key)
    own = make_key(server, "read", key=key)
    equal([k["id"] for k in server.want(200, "GET", "/v1/keys")["keys"] if k["id"] == own["id"]], [], "operator's list")
    server.refused(404, "not_found", "DELETE", f"/v1/keys/{own['id']}")  # not even the operator's to revoke here
    first = server.want(200, "GET", "/v1/keys")["keys"][0]["id"]
    server.refused(404, "not_found", "DELETE", f"/v1/keys/{first}", key=key)
    server.want(204, "DELETE", f"/v1/keys/{own['id']}", key=key)
    operator = next(t["id"] for t in server.want(200, "GET", "/v1/tenants")["tenants"] if t["operator"])
    server.refused(409, "conflict", "DELETE", f"/v1/tenants/{operator}")
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")


def test_a_removed_tenants_sessions_end(server):
    tenant, key = server.tenant("doomed")
    session = server.create(key=key)
    server.spawn(session["id"], "sleep 1000", key=key)
    wait_for(lambda: len(server.cell_pids(session["id"])) >= 2, 15, "its processes")
    server.want(204, "DELETE", f"/v1/tenants/{tenant}")
    check(not works(server, key), "its key works")
    wait_for(lambda: not server.cell_pids(session["id"]), 10, "the end of its processes")


BODIES = {
    "/executions": {"command": "true"},
    "/signals": {"signal": "TERM"},
    "/resize": {"rows": 10, "cols": 10},
    "/timeout": {"timeout": "5m"},
    "/mkdir": {"path": "x"},
    "/move": {"from": "a", "to": "b"},
}


def same_as_unknown(server, key, method, path, unknown):
    """A good request for another's and for nobody's: both answers must be alike but for the ids."""
    answers = []
    for target in (path, unknown):
        body = None if method in ("GET", "DELETE") else json.dumps(BODIES.get("/" + target.split("/")[-1], {})).encode()
        asked = target + ("?path=/etc/hostname" if re.search("/files(/stat|/list|/tar|/watch)?$", target) else "")
        status, headers, data = server.request(method, asked, body, raw=True, key=key)
        error = json.loads(data)["error"]
        want = (404, -32600, None) if target.startswith("/mcp/") else (404, "not_found", "user")  # JSON-RPC
        equal((status, error["code"], error.get("fault")), want, f"{method} {asked}: {error}")
        text = data.decode().replace(error.get("request_id", "REQUEST"), "REQUEST")
        for part in target.split("/")[2:]:
            text = text.replace(part, "ID") if re.fullmatch(r"i[a-z0-9]{16,38}|exe_\w+", part) else text
        answers.append((text, sorted(headers)))
    equal(answers[0], answers[1], f"{method} {path} and {unknown}")


def ask_everything(server, key, session, execution, mine):
    """Every route about a session, asked by a tenant who does not own it."""
    asked = 0
    for method, pattern in routes():
        if "{session}" not in pattern or pattern.endswith("/attach"):
            continue
        asked += 1
        path = pattern.replace("{session}", session).replace("{execution}", execution).replace("{pid}", "1")
        unknown = path.replace(session, NOBODY).replace(execution, execution[:-3] + "000")
        same_as_unknown(server, key, method, path, unknown)
        if "{execution}" in pattern:  # in a session of one's own
            path = path.replace(session, mine)
            same_as_unknown(server, key, method, path, path.replace(execution, execution[:-3] + "000"))
    check(asked > 25, f"only {asked} routes")


def test_anothers_is_like_nobodys(server):
    _, theirs = server.tenant("theirs")
    curious, _ = server.tenant("curious")
    key = server.want(201, "POST", f"/v1/tenants/{curious}/keys", {"name": "all", "scopes": ["sessions", "audit"]})["key"]
    session = server.create(key=theirs)["id"]
    execution = server.run(session, "echo secret", key=theirs)["id"]
    ended = server.create(key=theirs)["id"]
    left = server.run(ended, "echo secret", key=theirs)["id"]
    server.want(204, "DELETE", f"/v1/sessions/{ended}", key=theirs)
    server.reaches(ended, "ended", key=theirs)
    mine = server.create(key=key)["id"]
    ask_everything(server, key, session, execution, mine)
    ask_everything(server, key, ended, left, mine)  # only records are left of it, and they are nobody's business
    equal([s["id"] for s in server.want(200, "GET", "/v1/sessions", key=key)["sessions"]], [mine], "own list")
    events = server.want(200, "GET", "/v1/events?limit=1000", key=key)["events"]
    equal({e["session_id"] for e in events if e["session_id"]}, {mine}, "own events")
    equal(server.get(session, key=theirs)["state"], "running", "their session after all that")
    for odd in ("..", "%2e%2e", "a%00b", "x" * 500, "I" + session[1:], session + "%20", "%27%20OR%201=1"):
        status, _, _ = server.request("GET", f"/v1/sessions/{odd}", key=key)
        check(status in (400, 404), f"session {odd!r}: {status}")


# -- the command line


def test_keys_and_tenants_by_command(server):
    tenant = cli(server, "tenant", "create", "by-command", "--max-sessions", "2").strip()
    equal(server.want(200, "GET", f"/v1/tenants/{tenant}")["max_sessions"], 2, "max_sessions")
    cli(server, "tenant", "set", tenant, "--burst", "7", "--queue-timeout", "4s")
    row = server.want(200, "GET", f"/v1/tenants/{tenant}")
    equal((row["burst"], row["queue_timeout_ms"], row["max_sessions"]), (7, 4000, 2), "as set")
    has(cli(server, "tenant", "ls"), "by-command", "the table")
    check(tenant in [t["id"] for t in json.loads(cli(server, "tenant", "ls", "--json"))["tenants"]], "the list")

    scopes = ("--scope", "admin", "--scope", "sessions")
    key = cli(server, "key", "create", "--tenant", tenant, "--name", "théirs", *scopes).strip()
    check(KEY.fullmatch(key), f"printed {key!r}")
    check(works(server, key), "the key of the tenant")
    made = json.loads(cli(server, "key", "create", "--expires-in", "1h", "--json", key=key))
    equal(made["scopes"], ["sessions"], "scopes by default")
    check(made["expires_at"] is not None, "expiry")
    listed = cli(server, "key", "ls", key=key)
    for part in (made["id"], "théirs", made["prefix"]):
        has(listed, part, "the table")
    check(key not in listed and made["key"] not in listed, "a key in the table")
    cli(server, "key", "rm", made["id"], key=key)
    check(not works(server, made["key"]), "revoked by command")

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "allow.json")
        for text, allow in (('{"memory": "512M", "networks": ["deny"]}', {"networks": ["deny"], "memory_bytes": 512 << 20}), ("{}", {})):
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            cli(server, "tenant", "set", tenant, "--allow", path)
            equal(server.want(200, "GET", f"/v1/tenants/{tenant}")["allow"], allow, "the tenant's")
        with open(path, "w", encoding="ascii") as f:
            f.write('{"memory": "256M", "sessions": 3}')
        less = json.loads(cli(server, "key", "create", "--allow", path, "--json", key=key))
        equal(less["allow"], {"memory_bytes": 256 << 20, "sessions": 3}, "the key's")
        for text, why in (("[1]", "not a JSON object"), ('{"memory":', "line 1"), ('{"memry": "1G"}', "memry")):
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            has(cli(server, "key", "create", "--allow", path, key=key, code=2), why)
        has(cli(server, "tenant", "set", tenant, "--allow", folder + "/none", code=2), "--allow")

    has(cli(server, "tenant", "ls", key=key, code=4), "operator", "why not")
    cli(server, "key", "rm", "key_0000000000000000", code=3)
    cli(server, "tenant", "rm", tenant)
    check(not works(server, key), "key of a removed tenant")


if __name__ == "__main__":
    run_tests(globals(), pool_size=2, node_max_memory="500G")
