#!/usr/bin/python3 -B
"""Goal: a secret is where it was asked for and nowhere else: not in an answer, not in the store in the clear,
not in a session that does not have it, not in one that lost it; and when all is over, in no memory and no file.

    test_secrets.py CORDON [name ...]
"""
import base64
import glob
import os
import pathlib
import re
import secrets as random
import sqlite3
import subprocess
import time

import harness
import memory
from harness import Server, check, children, comm, equal, has, run_tests, wait_for
from level import LEVEL, PATIENCE, differs  # noqa: E402

KILLS = True  # one test kills cordond
PYTHON = os.path.realpath("/usr/bin/python3")
SOCKET = "/run/secrets/.socket"
ASK = (
    "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect('" + SOCKET + "'); "
    "s.sendall(sys.argv[1].encode()+b'\\n'); "
    "print('got '+b''.join(iter(lambda: s.recv(4096), b'')).decode())"
)


def value():
    return "v-" + random.token_hex(24)


def put(server, name, text, status=201, **more):
    return server.want(status, "POST", "/v1/secrets", {"name": name, "value": text, **more})


def drop(server, name):
    server.want(204, "DELETE", f"/v1/secrets/{name}")


def sh(server, session, line, **more):
    done = server.run(session["id"], line, **more)
    return done["stdout"]


def python(server, session, code, *args, program=PYTHON, **more):
    done = server.run(session["id"], [program, "-c", code, *args], **more)
    return done["stdout"] + done["stderr"]


# --- what their owner sees


def test_made_shown_changed_removed(server):
    text = value()
    made = put(server, "github.token", text, metadata={"for": "ci"}, hosts=["api.github.com", "*.example.org"],
               methods=["GET"], paths=["/repos/**"], **{"in": ["header:X-Token", "body:token"]}, ttl="1h")
    check(re.fullmatch(r"sec_[a-z0-9]{16}", made["id"]), made["id"])
    equal((made["name"], made["version"], made["usable"]), ("github.token", 1, True))
    equal((made["metadata"], made["hosts"], made["methods"], made["paths"], made["in"]),
          ({"for": "ci"}, ["api.github.com", "*.example.org"], ["GET"], ["/repos/**"], ["header:X-Token", "body:token"]))
    equal(made["ways"], ["broker", "env", "file", "socket"])
    check(made["expires_at"] is not None, "no time")
    equal(server.want(200, "GET", "/v1/secrets/github.token"), made)
    equal(server.want(200, "GET", f"/v1/secrets/{made['id']}"), made)
    equal(server.want(200, "GET", "/v1/secrets"), {"secrets": [made], "next": None})
    changed = server.want(200, "PUT", "/v1/secrets/github.token", {"value": value(), "ways": ["env"], "ttl": 0})
    equal((changed["version"], changed["hosts"], changed["ways"], changed["expires_at"]),
          (2, made["hosts"], ["env"], None))
    kept = server.want(200, "PUT", "/v1/secrets/github.token", {"hosts": ["a.example.org"]})
    equal((kept["version"], kept["hosts"], kept["ways"]), (2, ["a.example.org"], ["env"]))
    server.refused(409, "conflict", "POST", "/v1/secrets", {"name": "github.token", "value": "x"}, "taken")
    drop(server, "github.token")
    server.refused(404, "not_found", "GET", "/v1/secrets/github.token")
    server.refused(404, "not_found", "DELETE", "/v1/secrets/github.token")
    check(text not in server.log(), "in the log")


def test_nonsense_is_refused(server):
    good = {"name": "n", "value": "v"}
    for change, word in (
        ({"name": ""}, "name"), ({"name": "a b"}, "name"), ({"name": ".hidden"}, "name"), ({"name": "x" * 64}, "name"),
        ({"name": None}, "name"), ({"value": ""}, "value"), ({"value": None}, "value"), ({"value": 7}, "value"),
        ({"value": "x" * 65537}, "value"), ({"hosts": ["*"]}, "hosts"), ({"hosts": ["a b"]}, "hosts"),
        ({"hosts": ["10.0.0.1"]}, "hosts"), ({"methods": ["get"]}, "methods"), ({"paths": ["x"]}, "paths"),
        ({"in": ["query"]}, "in"), ({"in": ["body:"]}, "in"), ({"ways": []}, "ways"), ({"ways": ["mail"]}, "ways"),
        ({"metadata": {"a": 1}}, "metadata"), ({"ttl": "soon"}, "ttl"), ({"host": ["x.org"]}, "host"),
    ):
        server.refused(400, "invalid", "POST", "/v1/secrets", {**good, **change}, word)
    equal(server.want(200, "GET", "/v1/secrets"), {"secrets": [], "next": None})


def test_only_admins_and_only_their_own(server):
    put(server, "mine", value())
    _, key = server.tenant("others")
    for method, path, body in (("GET", "/v1/secrets", None), ("POST", "/v1/secrets", {"name": "a", "value": "b"}),
                               ("GET", "/v1/secrets/mine", None), ("PUT", "/v1/secrets/mine", {"value": "b"}),
                               ("DELETE", "/v1/secrets/mine", None)):
        server.refused(403, "forbidden", method, path, body, key=key)
    tenant = server.want(201, "POST", "/v1/tenants", {"name": "third"})
    admin = server.want(201, "POST", f"/v1/tenants/{tenant['id']}/keys", {"name": "a", "scopes": ["admin", "sessions"]})
    equal(server.want(200, "GET", "/v1/secrets", key=admin["key"]), {"secrets": [], "next": None})
    own = server.want(200, "GET", "/v1/secrets")["secrets"][0]
    for which in ("mine", own["id"]):
        server.refused(404, "not_found", "GET", f"/v1/secrets/{which}", key=admin["key"])
        server.refused(404, "not_found", "DELETE", f"/v1/secrets/{which}", key=admin["key"])
    server.refused(404, "not_found", "POST", "/v1/sessions", {"secrets": [{"name": "mine", "as": "env", "env": "A"}]},
                   "no such secret 'mine'", key=admin["key"])
    drop(server, "mine")


# --- ways in


def test_what_a_session_cannot_have(server):
    put(server, "bound", value(), ways=["broker"], hosts=["api.example.org"])
    put(server, "free", value())
    for wish, word in (
        ({"name": "nobody", "as": "env", "env": "A"}, "nobody"),
        ({"name": "bound", "as": "env", "env": "A"}, "may not be used as env"),
        ({"name": "free", "as": "broker", "env": "A"}, "no host"),
        ({"name": "free", "as": "env", "env": "A-B"}, "env"),
        ({"name": "free", "as": "env"}, "env"),
        ({"name": "free", "as": "file", "path": "/etc/passwd"}, "path"),
        ({"name": "free", "as": "file", "path": "../x"}, "path"),
        ({"name": "free", "as": "file", "path": ".socket"}, "path"),
        ({"name": "free", "as": "file", "mode": "4755"}, "mode"),
        ({"name": "free", "as": "socket", "program": "python3"}, "program"),
        ({"name": "free", "as": "mail"}, "as"),
    ):
        status, _, body = server.request("POST", "/v1/sessions", {"secrets": [wish]})
        check(status in (400, 403, 404), f"{wish}: {status} {body}")
        equal(status == 404, word == "nobody", str(wish))
        has(body["error"]["message"], word, str(wish))
    status, _, body = server.request("POST", "/v1/sessions", {"secrets": [
        {"name": "free", "as": "file", "owner": "nobody-of-that-name"}]})
    equal((status, "nobody-of-that-name" in body["error"]["message"]), (400, True), str(body))
    drop(server, "bound")
    drop(server, "free")


def test_a_body_that_is_no_json_is_not_repeated(server):
    """What cannot be read may be a secret, and errors are logged."""
    for body in (b'{"name": "x", "value": "hun\\u0000ter2"}', b'{"name": "x", "value": hunter2}', b'{"name": "x", "value": "hunter2'):
        error = server.refused(400, "invalid", "POST", "/v1/secrets", body, "line 1, column",
                               headers={"Content-Type": "application/json"})
        check("hun" not in error["message"] and "near" not in error["message"], str(error))


def test_together_they_have_a_bound(server):
    """Masks take memory for each session and value, here and in egress: a tenant cannot have any amount of it."""
    for i in range(9):
        put(server, f"large{i}", random.token_hex(31000))
    put(server, "tiny", "x" * 20, hosts=["api.example.org"])
    large = [{"name": f"large{i}", "as": "env", "env": f"L{i}"} for i in range(9)]
    server.refused(429, "quota_secret_bytes", "POST", "/v1/sessions", {"secrets": large}, "of a session may")
    wish = {"secrets": large[:8] + [{"name": "tiny", "as": "env", "env": "T"}]}
    made = []
    while (answer := server.request("POST", "/v1/sessions", wish))[0] == 201:
        made.append(answer[2]["id"])
        server.ids.add(made[-1])
        check(len(made) < 12, "there is no bound")
    equal((answer[0], answer[2]["error"]["code"]), (429, "quota_secret_bytes"), "of one more")
    server.refused(429, "quota_secret_bytes", "PUT", "/v1/secrets/tiny", {"value": "y" * 65000})
    # a small one can be changed always, at the rate of what is sent again for it
    wait_for(lambda: server.request("PUT", "/v1/secrets/tiny", {"value": "z" * 500})[0] == 200, 10, "a small one")
    late = 0
    for i in range(8):
        status, _, body = server.request("PUT", "/v1/secrets/tiny", {"value": f"{i}" * 20})
        if status == 429:
            equal(body["error"]["code"], "quota_rate", "of a change that sends much again")
            late += 1
    check(late > 0, "changes of a tiny secret send 3 MB each, and are not counted")
    for ident in made[1:]:
        server.delete(ident)
    statuses = set()
    for i in range(12):
        body = {"command": "true", "secrets": [{"name": "tiny", "as": "broker", "env": "B"}]}
        statuses.add(server.request("POST", f"/v1/sessions/{made[0]}/executions?wait=true", body)[0])
    check(429 in statuses, f"executions with secrets send 448 KB each, and are not counted: {statuses}")
    del made[1:]
    server.create()  # and who has none is not concerned
    for ident in made:
        server.delete(ident)
    wait_for(lambda: server.request("PUT", "/v1/secrets/tiny", {"value": "y" * 65000})[0] == 200, 10, "room")
    for name in ["tiny"] + [f"large{i}" for i in range(9)]:
        drop(server, name)


def test_a_variable(server):
    first, second = value(), value()
    put(server, "token", first)
    session = server.create(env={"TOKEN": "old", "OTHER": "o"}, secrets=[{"name": "token", "as": "env", "env": "TOKEN"}])
    equal(session["secrets"], [{"name": "token", "as": "env", "env": "TOKEN"}])
    line = 'printf %s "$TOKEN" | sha256sum | cut -c1-64; echo $OTHER'

    def is_there(text):
        from hashlib import sha256
        equal(sh(server, session, line), sha256(text.encode()).hexdigest() + "\no\n")

    is_there(first)
    equal(sh(server, session, "echo $TOKEN"), "*" * len(first) + "\n", "it is masked")
    equal(sh(server, session, "echo $TOKEN", env={"TOKEN": "own"}), "own\n")
    server.want(200, "PUT", "/v1/secrets/token", {"value": second})
    is_there(second)
    check(first not in str(server.get(session["id"])) and second not in str(server.get(session["id"])), "shown")
    drop(server, "token")
    is_there("old")
    for text in (first, second):  # what it was stays masked until the session ends
        equal(sh(server, session, ["echo", text]), "*" * len(text) + "\n", "masked still")
    server.delete(session["id"])


def test_a_change_for_many_sessions(server):
    """Masks and orders of many sessions are made over several turns; none has the new value before its mask."""
    from hashlib import sha256
    for i in range(24):
        put(server, f"other{i}", value())
    texts = [value() for _ in range(3)]
    put(server, "token", texts[0])
    wish = [{"name": "token", "as": "env", "env": "TOKEN"}, {"name": "token", "as": "file"}]
    wish += [{"name": f"other{i}", "as": "env", "env": f"O{i}"} for i in range(24)]
    sessions = [server.create(secrets=wish) for _ in range(6)]
    for text in texts[1:]:
        server.want(200, "PUT", "/v1/secrets/token", {"value": text})
        for session in reversed(sessions):
            equal(sh(server, session, "echo $TOKEN"), "*" * len(text) + "\n", "the new value in the output")
            equal(sh(server, session, "printf %s \"$TOKEN\" | sha256sum | cut -c1-64"),
                  sha256(text.encode()).hexdigest() + "\n", "the new value in the cell")
        for session in sessions:
            wait_for(lambda: sh(server, session, "sha256sum < /run/secrets/token | cut -c1-64").strip()
                     == sha256(text.encode()).hexdigest(), 10, "the new value in the file")
    for session in sessions:
        server.delete(session["id"])
    for name in ["token"] + [f"other{i}" for i in range(24)]:
        drop(server, name)


def test_guesses_in_output(server):
    """A brokered secret, which the cell does not have: what prints a part of it looks like what prints anything."""
    text = value()
    put(server, "token", text, hosts=["api.example.com"], ways=["broker"])
    session = server.create(secrets=[{"name": "token", "as": "broker", "env": "TOKEN"}])
    for known in (1, 2, 5, 6, 7, 8, 20, len(text) - 1):
        wrong = text[:known - 1] + ("0" if text[known - 1] != "0" else "1")
        for guess in (text[:known], wrong, text[-known:]):
            for line in (["printf", "%s", guess], f"printf %s '{guess}'; sleep 0.1; printf ."):
                done = server.run(session["id"], line)
                equal(done["stdout"], guess + ("." if isinstance(line, str) else ""), f"{known} characters")
                equal(server.execution(done)["stdout_bytes"], len(done["stdout"]))
    equal(sh(server, session, ["printf", "%s", text]), "*" * len(text), "all of it")
    server.delete(session["id"])
    drop(server, "token")


def test_a_file(server):
    first, second = value(), value()
    put(server, "pass", first)
    session = server.create(secrets=[{"name": "pass", "as": "file"},
                                     {"name": "pass", "as": "file", "path": "/run/secrets/db", "owner": "root",
                                      "mode": "0440"}])
    equal(sh(server, session, "stat -L -c '%U %a %s' /run/secrets/pass"), f"user 400 {len(first)}\n")
    equal(sh(server, session, "stat -L -c '%U %a' /run/secrets/db; cat /run/secrets/db 2>&1 >/dev/null"),
          "root 440\ncat: /run/secrets/db: Permission denied\n")
    same = "cmp /run/secrets/pass - && echo same"
    equal(sh(server, session, f"printf %s {first[:9]}{first[9:]} | {same}"), "same\n")
    equal(sh(server, session, "stat -f -L -c %T /run/secrets/pass"), "tmpfs\n")
    diff = server.diff(session["id"])
    equal([c["path"] for c in diff["changes"]], [] if differs("/dev/shm") else ["/dev/shm/secrets"], "the diff")
    server.want(200, "PUT", "/v1/secrets/pass", {"value": second})
    wait_for(lambda: sh(server, session, f"printf %s {second} | {same}") == "same\n", 15, "the new value")
    at = len(server.log())
    for _ in range(20):  # one change on the heels of another
        server.want(200, "PUT", "/v1/secrets/pass", {"value": value()})
    drop(server, "pass")
    wait_for(lambda: sh(server, session, "ls /run/secrets") == "", 15, "the end of the file")
    check("secrets not delivered" not in server.log()[at:], server.log()[at:])
    server.delete(session["id"])


def answered(server, session, name, text, what="the socket", ask=ASK, **more):
    """The socket gives the value, as soon as it is delivered; or it never does at this level."""
    if differs("secrets as a socket"):
        equal(python(server, session, ask, name, **more), "got \n", what)
    else:
        wait_for(lambda: len(python(server, session, ask, name, **more).strip()) == 4 + len(text), 15, what)


def test_a_socket(server):
    text, other = value(), value()
    put(server, "one", text)
    put(server, "two", other)
    session = server.create(idle_timeout="1h", secrets=[
        {"name": "one", "as": "socket", "program": PYTHON},
        {"name": "two", "as": "socket", "program": PYTHON, "owner": "root"}])
    answered(server, session, "one", text, ask=ASK + "; import hashlib")
    equal(python(server, session, ASK, "two"), "got \n", "another user")
    answered(server, session, "two", other, "its user", user="root")
    equal(python(server, session, ASK, "three"), "got \n", "no such secret")
    sh(server, session, f"cp {PYTHON} /tmp/python")
    equal(python(server, session, ASK, "one", program="/tmp/python"), "got \n", "another program")
    equal(sh(server, session, "ls /run/secrets"), "", "files")
    drop(server, "one")
    wait_for(lambda: python(server, session, ASK, "one") == "got \n", 15, "refusal")
    put(server, "one", text)
    answered(server, session, "one", text, "it again")
    drop(server, "one")
    drop(server, "two")
    server.delete(session["id"])


def test_a_session_with_a_socket_can_be_idle(server):
    put(server, "s", value())
    session = server.create(idle_timeout="1s", secrets=[{"name": "s", "as": "socket", "program": PYTHON}])
    server.reaches(session["id"], "ended", 10)
    drop(server, "s")


def test_a_placeholder(server):
    text = value()
    put(server, "key", text, hosts=["api.example.org"])
    session = server.create(secrets=[{"name": "key", "as": "broker", "env": "API_KEY"}])
    shown = sh(server, session, "echo $API_KEY").strip()
    check(re.fullmatch(r"cordon_[a-z0-9]{32}", shown), f"placeholder {shown!r}")
    check(text not in sh(server, session, "env; ls -R /run/secrets /dev/shm"), "the value is in the cell")
    again = server.create(secrets=[{"name": "key", "as": "broker", "env": "API_KEY"}])
    check(sh(server, again, "echo $API_KEY").strip() != shown, "the same in two sessions")
    check(shown not in str(server.get(session["id"])), "shown")
    drop(server, "key")
    equal(sh(server, session, "echo $API_KEY").strip(), shown, "it stays, worth nothing")
    server.delete(session["id"])
    server.delete(again["id"])


def test_a_locked_session(server):
    text = value()
    put(server, "l", text)
    session = server.create(profile="locked", secrets=[{"name": "l", "as": "file"}, {"name": "l", "as": "env", "env": "L"},
                                                       {"name": "l", "as": "socket", "program": PYTHON}])
    equal(sh(server, session, "stat -c '%U %a %s' /dev/shm/secrets/l; echo ${#L}"), f"user 400 {len(text)}\n{len(text)}\n")
    answered(server, session, "l", text, ask=ASK.replace("/run/", "/dev/shm/"))
    drop(server, "l")
    wait_for(lambda: sh(server, session, "ls /dev/shm/secrets") == "", 15, "the end of the file")
    server.delete(session["id"])


def test_a_rule_that_puts_it_in(server):
    text, later = value(), value()
    put(server, "r", text)
    rule = {"host": "api.example.org", "set_headers": {"Authorization": "Bearer ${secret.r}", "X-Later": "${secret.later}"}}
    session = server.create(network={"version": 1, "rules": [rule]})

    def egress_has(what):
        return any(what.encode() in data for _, data in memory.pieces(server.pid("cordon-egress")))

    check(egress_has(text), "egress does not have it")
    equal(sh(server, session, ["echo", text]), "*" * len(text) + "\n", "masked")
    check(not egress_has(later), "too early")
    put(server, "later", later)
    wait_for(lambda: egress_has(later), 15, "what the rule waits for")
    equal(session["secrets"], [], "it has none of its own")
    server.delete(session["id"])
    wait_for(lambda: not egress_has(text) and not egress_has(later), 15, "its end in egress")
    drop(server, "r")
    drop(server, "later")


def test_its_time(server):
    put(server, "short", value(), ttl=f"{3 * PATIENCE}s")
    began = time.monotonic()
    session = server.create(secrets=[{"name": "short", "as": "env", "env": "S"}, {"name": "short", "as": "file"},
                                     {"name": "short", "as": "socket", "program": PYTHON}])
    equal(sh(server, session, "test -n \"$S\" && test -s /run/secrets/short && echo yes"), "yes\n")
    wait_for(lambda: not server.want(200, "GET", "/v1/secrets/short")["usable"], 6, "its end")
    check(time.monotonic() - began > 2.5, "too early")
    has(server.want(200, "GET", "/v1/secrets/short")["problem"], "has expired")
    wait_for(lambda: sh(server, session, "ls /run/secrets") == "", 4, "the end of the file")
    equal(sh(server, session, "echo \"<$S>\""), "<>\n")
    equal(python(server, session, ASK, "short"), "got \n")
    server.refused(409, "conflict", "POST", "/v1/sessions", {"secrets": [{"name": "short", "as": "file"}]}, "expired")
    server.want(200, "PUT", "/v1/secrets/short", {"ttl": "1h"})
    wait_for(lambda: sh(server, session, "ls /run/secrets") == "short\n", 4, "it again")
    drop(server, "short")
    server.delete(session["id"])


def test_after_a_pause_it_is_what_it_should_be(server):
    if not server.want(200, "GET", "/v1/node")["restrictions"].get("freezer", True):
        raise harness.Skip("no freezer")
    first, second = value(), value()
    put(server, "p", first)
    put(server, "q", first)
    session = server.create(secrets=[{"name": "p", "as": "file"}, {"name": "q", "as": "file"},
                                     {"name": "p", "as": "socket", "program": PYTHON}])
    server.want(200, "POST", f"/v1/sessions/{session['id']}/pause")
    server.want(200, "PUT", "/v1/secrets/p", {"value": second + "-longer"})
    drop(server, "q")
    server.want(200, "POST", f"/v1/sessions/{session['id']}/resume")
    wait_for(lambda: sh(server, session, "stat -L -c %s /run/secrets/*") == f"{len(second) + 7}\n", 15, "the new value")
    answered(server, session, "p", second + "-longer")
    drop(server, "p")
    server.delete(session["id"])


def test_a_daemon_that_dies(server):
    text = value()
    put(server, "d", text)
    session = server.create(secrets=[{"name": "d", "as": "file"}, {"name": "d", "as": "env", "env": "D"},
                                     {"name": "d", "as": "socket", "program": PYTHON}])
    server.kill("cordond")
    wait_for(lambda: server.pid("cordond"), 10)
    server.wait_ready()
    equal(sh(server, session, "test ${#D} = " + str(len(text)) + " && stat -L -c %s /run/secrets/d"), f"{len(text)}\n")
    answered(server, session, "d", text)
    drop(server, "d")
    wait_for(lambda: sh(server, session, "ls /run/secrets") == "", 15, "the end of the file")
    server.delete(session["id"])


def test_old_values_outlive_the_daemon(server):
    """A cordond killed right after a value was replaced or deleted: live sessions mask it, cold ones, forks, and with no key that is not theirs."""
    first, second, third = value(), value(), value()
    put(server, "v", first)
    put(server, "other", value())
    session = server.create(secrets=[{"name": "v", "as": "env", "env": "V"}], timeout="1h")
    bystander = server.create(secrets=[{"name": "other", "as": "env", "env": "O"}], timeout="1h")
    server.want(200, "PUT", "/v1/secrets/v", {"value": second})
    server.kill("cordond")
    wait_for(lambda: server.pid("cordond"), 10)
    server.wait_ready()
    equal(sh(server, session, ["echo", first]), "*" * len(first) + "\n", "replaced")
    server.want(200, "PUT", "/v1/secrets/v", {"value": third})
    drop(server, "v")
    for _ in range(2):  # the next daemon knows what the one before read
        server.kill("cordond")
        wait_for(lambda: server.pid("cordond"), 10)
        server.wait_ready()
        for text in (first, second, third):
            equal(sh(server, session, ["echo", text]), "*" * len(text) + "\n", "deleted")
    equal(sh(server, bystander, ["echo", first]), first + "\n", "another session had it never")
    for at in glob.glob(os.path.join(server.state, "cordon.db*")):
        check(first.encode() not in pathlib.Path(at).read_bytes(), at)
    equal(kept(server, session["id"]), 3)
    for s in (session, bystander):
        server.delete(s["id"])
        server.reaches(s["id"], "ended")
    wait_for(lambda: kept(server, session["id"]) == 0, 10, "they go with the session")
    drop(server, "other")


def test_as_many_old_values_as_there_may_be(server):
    """64 old values stay masked, also for the next daemon; of one more the oldest goes."""
    texts = [value() for _ in range(66)]
    put(server, "often", texts[0])
    session = server.create(secrets=[{"name": "often", "as": "env", "env": "V"}], timeout="1h")

    def shown():
        out = server.run(session["id"], ["printf", "%s\\n", *texts])["stdout"].split()
        return [i for i, text in enumerate(texts) if out[i] == text]

    for i in range(1, 65):
        server.want(200, "PUT", "/v1/secrets/often", {"value": texts[i]})
    equal(shown(), [65], "one value, and 64 old ones")
    server.want(200, "PUT", "/v1/secrets/often", {"value": texts[65]})
    equal(shown(), [0], "the oldest is not remembered")
    equal(kept(server, session["id"]), 64)
    server.kill("cordond")
    wait_for(lambda: server.pid("cordond"), 10)
    server.wait_ready()
    equal(shown(), [0], "by the next daemon")
    server.delete(session["id"])
    drop(server, "often")


# --- at rest


def kept(server, session):
    """Sealed values of before."""
    db = sqlite3.connect(os.path.join(server.state, "cordon.db"))
    try:
        return db.execute("SELECT count(*) FROM layer_value WHERE layer = ?", (session,)).fetchone()[0]
    finally:
        db.close()


def boxes(server):
    db = sqlite3.connect(os.path.join(server.state, "cordon.db"))
    try:
        return dict(db.execute("SELECT name, box FROM secret").fetchall())
    finally:
        db.close()


def test_keys_and_their_rotation():
    text = value()
    old = "old:" + base64.b64encode(os.urandom(32)).decode()
    new = "new:" + base64.b64encode(os.urandom(32)).decode()
    key_file = f"/var/tmp/cordon-keys-{os.getpid()}"

    def keys(*lines):
        with open(key_file, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write("# of a test\n" + "".join(line + "\n" for line in lines))

    def usable(server):
        return server.want(200, "GET", "/v1/secrets/r")["usable"]

    keys(old)
    try:
        with Server(pool_size=0, secrets_key_file=key_file) as server:
            put(server, "r", text)
            box = boxes(server)["r"]
            check(box[2:5] == b"old" and text.encode() not in box, "sealed by another key")
            keys(new, old)
            server.restart()
            again = boxes(server)["r"]
            check(again[2:5] == b"new", "not sealed again")
            keys(new)
            server.restart()
            check(usable(server), "not usable with the new key")
            equal(boxes(server)["r"], again, "the box")
            keys("third:" + base64.b64encode(os.urandom(32)).decode())
            server.restart()
            equal(usable(server), False)
            has(server.want(200, "GET", "/v1/secrets/r")["problem"], "key new")
            server.refused(404, "not_found", "POST", "/v1/sessions", {"secrets": [{"name": "r", "as": "file"}]}, "key new")
            put(server, "s", value())
            session = server.create(secrets=[{"name": "s", "as": "file"}])
            equal(sh(server, session, "ls /run/secrets"), "s\n")
            # A box in another's place does not open.
            server.stop()
            db = sqlite3.connect(os.path.join(server.state, "cordon.db"))
            db.execute("UPDATE secret SET box = (SELECT box FROM secret WHERE name = 's') WHERE name = 'r'")
            db.commit()
            db.close()
            server.start()
            has(server.want(200, "GET", "/v1/secrets/r")["problem"], "belongs to another name")
            check(text not in server.log(), "in the log")
    finally:
        os.unlink(key_file)


def test_a_key_of_its_own(server):
    path = os.path.join(server.state, "secrets.key")
    equal(os.stat(path).st_mode & 0o7777, 0o600)
    with open(path) as f:
        check(re.fullmatch(r"k[a-z0-9]{16}:[A-Za-z0-9+/]{43}=\n", f.read()), "not a key")
    for text in ("x", "a:b", "a:" + base64.b64encode(b"short").decode(), ""):
        done = subprocess.run([server.program, "serve", "--check"], capture_output=True,
                              env={"CORDON_SECRETS_KEY": text, "HOME": "/root"})
        equal(done.returncode, 0 if text == "" else 2, f"{text!r}: {done.stderr}")


# --- when all is over


def files(folder):
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    yield path, f.read()


def everything(server):
    """Every process that is left of the server and its cells, and every file."""
    pids = [server.process.pid, *children(server.process.pid)]
    for pid in list(pids):
        pids += children(pid)
    seen = {comm(pid) for pid in pids}
    first = "cordon-init" if LEVEL == "container" else "cordon-shim"  # of a cell that waits
    check({"cordond", "cordon-keeper", "cordon-egress", first} <= seen, f"processes {seen}")
    for pid in set(pids):
        yield from memory.pieces(pid)
    yield from files(server.folder)


def forms(text):
    raw = text.encode()
    yield raw
    yield raw.hex().encode()
    for lead in range(3):  # any alignment: without the characters that neighbours share
        coded = base64.b64encode(b"\0" * lead + raw).decode()
        first = (lead * 8 + 5) // 6
        yield coded[first : len(coded) - 4].encode()


def test_nothing_is_left():
    with Server(pool_size=2) as server:
        texts = {name: value() for name in ("v", "f", "s", "b", "old")}
        for name, text in texts.items():
            put(server, name, text, hosts=["api.example.org"])
        new = value()
        server.want(200, "PUT", "/v1/secrets/old", {"value": new})
        texts["new"] = new
        session = server.create(network={"version": 1, "rules": ["api.example.org"]}, secrets=[
            {"name": "v", "as": "env", "env": "V"}, {"name": "f", "as": "file"},
            {"name": "s", "as": "socket", "program": PYTHON}, {"name": "b", "as": "broker", "env": "B"},
            {"name": "old", "as": "env", "env": "O"}])
        equal(sh(server, session, "test -n \"$V$O\" && test -s /run/secrets/f && echo yes"), "yes\n")
        python(server, session, ASK, "s")
        for _ in range(3):
            sh(server, session, "true")
        # The search finds what is there: a live cell has it.
        pids = server.cell_pids(session["id"])
        found = [where for pid in pids for where, data in memory.pieces(pid) if texts["s"].encode() in data]
        check(found, f"the search does not find anything in {pids}")
        outside = [where for where, data in memory.pieces(server.pid("cordon-egress")) if texts["b"].encode() in data]
        check(outside, "cordon-egress does not have what it should put into requests")
        server.delete(session["id"])
        wait_for(lambda: not server.cell_pids(session["id"]), 10, "end of the cell")
        left, known = [], 0
        wanted = {form: name for name, text in texts.items() for form in forms(text)}
        for where, data in everything(server):
            known += "(cordond)" in where and b"/v1/secrets/{secret}" in data
            left += [f"{name}: {where}" for form, name in wanted.items() if form in data]
        check(known > 0, "the search does not see cordond's memory")
        equal(left, [])


def test_the_client(server):
    text = value()
    env = {"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere", "THE_VALUE": text}

    def cli(*words, code=0, data=b""):
        done = subprocess.run([server.program, *words], env=env, input=data, capture_output=True, timeout=30)
        equal(done.returncode, code, f"cordon {' '.join(words)}: {done.stderr.decode()}")
        check(text.encode() not in done.stdout + done.stderr, "the value is shown")
        return done.stdout.decode()

    cli("secret", "set", "c", "--value-env", "THE_VALUE", "--host", "api.example.org", "--method", "GET", "--path",
        "/v1/**", "--in", "header", "--ttl", "1h", "--metadata", "a=b")
    has(cli("secret", "ls"), "api.example.org")
    shown = server.want(200, "GET", "/v1/secrets/c")
    equal((shown["version"], shown["methods"], shown["paths"], shown["in"], shown["metadata"]),
          (1, ["GET"], ["/v1/**"], ["header"], {"a": "b"}))
    has(cli("secret", "show", "c"), '"usable": true')
    cli("secret", "set", "c", "--from-file", "-", data=text.encode() + b"-two\n")
    equal(server.want(200, "GET", "/v1/secrets/c")["version"], 2)
    made = cli("create", "--secret", "c=broker:B", "--secret", "c=env:E", "--secret", "c=file", "--secret",
               f"c=socket:{PYTHON}").strip()
    equal([s["as"] for s in server.get(made)["secrets"]], ["broker", "env", "file", "socket"])
    equal(server.run(made, "echo ${#E}; stat -L -c %s /run/secrets/c")["stdout"], f"{len(text) + 4}\n{len(text) + 4}\n")
    cli("create", "--secret", "c=mail:X", code=2)
    named = cli("create", "--secret", "c").strip()
    equal([s["as"] for s in server.get(named)["secrets"]], ["broker"], "only its name")
    has(server.run(named, "echo $C")["stdout"], "cordon_")
    server.delete(named)
    cli("secret", "set", "new", code=2)  # without a value
    cli("secret", "rm", "c")
    cli("secret", "show", "c", code=3)
    server.delete(made)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
