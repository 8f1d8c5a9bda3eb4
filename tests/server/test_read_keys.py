#!/usr/bin/python3
"""A key of scope read, as for a dashboard, sees sessions and not their secrets: test_read_keys.py CORDON."""
import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, equal, has, run_tests
from mcp_client import Client
from streams import Events

VALUE = "hunter2SECRETVALUE"
LONG = "L0ng" + "abcdefghij" * 400


def prepared(server):
    """A session with a secret in a file and in the environment, and copies of it that its code made; a read key."""
    names = [s["name"] for s in server.want(200, "GET", "/v1/secrets")["secrets"]]
    for name, value in (("tok", VALUE), ("long", LONG)):
        if name not in names:
            server.want(201, "POST", "/v1/secrets", {"name": name, "value": value, "hosts": ["a.example.com"]})
    secrets = [{"name": "tok", "as": "file"}, {"name": "tok", "as": "env", "env": "TOK"}, {"name": "long", "as": "env", "env": "LONG"}]
    session = server.create(secrets=secrets)["id"]
    server.run(session, """
        mkdir d; printf 'before %s after' "$TOK" > d/copy; printf '%s%s' "$LONG" "$TOK" > d/two
        printf 'nothing here' > plain; head -c 3000000 /dev/zero | tr '\\0' x > d/big; printf %s "$TOK" >> d/big
        ln -s /proc/self/environ d/env; ln -s /proc d/proc; ln -s /run/secrets d/link; ln -s /dev/shm/secrets d/shm""")
    server.spawn(session, "sleep 1000")
    key = server.want(201, "POST", "/v1/keys", {"scopes": ["read"]})["key"]
    return session, f"/v1/sessions/{session}/files", key


def test_secrets_as_files_and_environments_are_hidden(server):
    session, files, key = prepared(server)
    for path in ("/run/secrets/tok", "/dev/shm/secrets/tok", "/run/secrets", "d/link/tok", "d/shm/tok", "/proc/1/environ", "/proc/self/environ",
                 "d/env", "d/proc/self/environ", "/proc/../proc/self/status", "/proc"):
        for user in ("", "&user=root", "&user=0"):
            for route in ("", "/tar", "/stat?follow=true&", "/list"):
                status, _, data = server.request("GET", f"{files}{route}{'' if '?' in route else '?'}path={path}{user}", key=key, raw=True)
                check(status in (403, 404), f"{route} {path} {user}: {status} {data[:300]}")
                check(VALUE.encode() not in data, f"{route} {path} {user} shows it")
    server.refused(403, "denied", "GET", f"{files}?path=plain&user=root", None, "scope read", key=key)
    equal(server.want(200, "GET", f"{files}?path=plain&user=user", key=key), b"nothing here")
    equal(server.want(200, "GET", f"{files}?path=/run/secrets/tok&user=root"), VALUE.encode(), "for a key of scope sessions")
    server.delete(session)


def test_paused_sessions_stay_paused(server):
    """To resume one, or to start a stopped one, is to run its programs: it needs a key that may."""
    session, files, key = prepared(server)
    x = server.spawn(session, "echo on; exec sleep 1000")["id"]
    of = f"/v1/sessions/{session}"
    with Events(server, f"{of}/executions/{x}/events", key=key) as stream:
        stream.wanted("stdout")
    for body, state in (({}, "paused"), ({"memory": False}, "stopped")):
        server.want(200, "POST", of + "/pause", body)
        for path in (files + "?path=plain", files + "/tar?path=d", files + "/stat?path=plain", files + "/list?path=d", of + "/processes"):
            server.refused(403, "forbidden", "GET", path, None, "sessions", key=key)
        for tool, words in (("read_file", {"path": "plain"}), ("list_files", {"path": "d"})):
            Client(server, key=key).fails(tool, "sessions", session_id=session, **words)
        with Events(server, f"{of}/executions/{x}/events", key=key) as stream:
            equal(stream.wanted("stdout").output, b"on\n", "a record")
        equal(server.get(session, key=key)["state"], state)
        server.want(200, "GET", of + "/executions", key=key)
        server.want(200, "GET", of + "/events", key=key)
    equal(server.want(200, "GET", files + "?path=plain"), b"nothing here", "for a key of scope sessions")
    equal(server.want(200, "GET", files + "?path=plain", key=key), b"nothing here", "while it runs")
    server.delete(session)


def test_values_are_covered_in_files(server):
    session, files, key = prepared(server)
    got = server.request("GET", f"{files}?path=d/copy", key=key)
    equal((got[1]["content-length"], got[2]), (str(len(VALUE) + 13), b"before " + b"*" * len(VALUE) + b" after"))
    equal(server.want(200, "GET", f"{files}?path=d/two", key=key), b"*" * (len(LONG) + len(VALUE)), "two of them")
    equal(server.want(200, "GET", f"{files}?path=d/big", key=key), b"x" * 3000000 + b"*" * len(VALUE), "at the end of much")
    equal(server.want(200, "GET", f"{files}?path=plain", key=key), b"nothing here")
    equal(server.want(200, "GET", f"{files}?path=d/copy"), f"before {VALUE} after".encode(), "for a key of scope sessions")
    server.delete(session)


def test_parts_of_files_do_not_show_parts_of_values(server):
    session, files, key = prepared(server)
    server.refused(403, "denied", "GET", f"{files}?path=d/copy&offset=7&length=3", None, "whole files", key=key)
    server.refused(403, "denied", "GET", f"{files}?path=d/copy&length=9", None, "whole files", key=key)
    for value in ("bytes=7-9", "bytes=-12"):
        status, headers, data = server.request("GET", f"{files}?path=d/copy", headers={"Range": value}, key=key)
        equal((status, data), (200, b"before " + b"*" * len(VALUE) + b" after"), value)
    status, _, data = server.request("GET", f"{files}?path=d/copy", headers={"Range": "bytes=7-9"})
    equal((status, data), (206, VALUE[:3].encode()), "for a key of scope sessions")
    other = server.create()["id"]  # without secrets there is nothing to cover
    server.run(other, "printf 0123456789 > f")
    equal(server.want(200, "GET", f"/v1/sessions/{other}/files?path=f&offset=2&length=3", key=key), b"234")
    server.delete(other)
    server.delete(session)


def test_a_part_over_mcp_shows_no_part_of_a_value(server):
    session, _, key = prepared(server)
    value = "".join(chr(97 + i * i % 26 + i % 3) for i in range(20000)) + "".join(chr(65 + i % 26) for i in range(20000))
    server.want(201, "POST", "/v1/secrets", {"name": "huge", "value": value, "ways": ["env"]})
    holder = server.create(secrets=[{"name": "huge", "as": "env", "env": "HUGE"}])["id"]
    server.run(holder, 'printf "begin %s end" "$HUGE" > f; printf %s "$HUGE" | fold -w 60 > lines; printf %s "$HUGE" | fold -w 5 > short')
    c = Client(server, key=key)
    for n in (16, 100, 8192, 31803, 39999, 40006, 262144):
        for path in ("f", "lines", "short"):
            text = c.call("read_file", session_id=holder, path=path, max_bytes=n)["text"]
            check(not any(value[at:at + 12] in text for at in range(0, len(value), 12)), f"{path}, {n} bytes: {text[:100]}")
            has(text, "****")
    agent = Client(server)  # may read parts, whose ends are searched in the same way
    for offset in (5, 1000, 20000, 39000):
        text = agent.call("read_file", session_id=holder, path="f", offset=offset, max_bytes=1000)["text"]
        check(not any(value[at:at + 12] in text for at in range(0, len(value), 12)), f"at {offset}: {text[:100]}")
    for s in (session, holder):
        server.delete(s)
    server.want(204, "DELETE", "/v1/secrets/huge")


def test_archives_hide_and_cover(server):
    session, files, key = prepared(server)
    data = server.want(200, "GET", f"{files}/tar?path=d", key=key, raw=True)
    check(VALUE.encode() not in data and LONG.encode() not in data, "a value is in the archive")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
        equal(tar.extractfile("copy").read(), b"before " + b"*" * len(VALUE) + b" after")
        equal(len(tar.extractfile("big").read()), 3000000 + len(VALUE), "the long one")
    has(names, "link", "links are links")
    data = server.want(200, "GET", f"{files}/tar?path=/dev", key=key, raw=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        check(not [n for n in tar.getnames() if n.startswith("shm/secrets/")], f"{tar.getnames()}")
    check(VALUE.encode() not in data, "a value is in the archive of /dev")
    server.delete(session)


if __name__ == "__main__":
    run_tests(globals(), pool_size=2)
