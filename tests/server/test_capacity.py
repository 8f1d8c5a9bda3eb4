#!/usr/bin/python3 -B
"""Goal: a crowd is served: everybody at once, everybody right, and the pool learns from it.

    test_capacity.py CORDON [name ...]
"""
import socket
import statistics
import threading
import time

from burst import burst
from harness import Failed, Server, check, equal, note, rss, run_tests, wait_for

MANY = {"node_max_memory": "500G", "tenant_max_storage": 0}


def pool(server):
    return server.want(200, "GET", "/v1/node")["pool"]


def delete_many(server, ids):
    answers = burst(server, len(ids), method="DELETE", path=[f"/v1/sessions/{i}" for i in ids])
    equal({a.status for a in answers}, {204}, "deletions")


def hundred(server, what):
    answers = burst(server, 100)
    took = sorted(a.seconds for a in answers)
    note(f"{what}: all after {took[-1] * 1000:.0f} ms, median {statistics.median(took) * 1000:.0f} ms")
    equal([a.status for a in answers], [201] * 100, f"100 at once, {what}")
    ids = [a.body["id"] for a in answers]
    equal(len(set(ids)), 100, "ids")
    equal({a.body["state"] for a in answers}, {"running"}, "states")
    return ids


def test_hundreds_of_idle_sessions_with_default_settings():
    """A fresh server, its only tenant, sessions that ask for nothing: the limits are those of the machine."""
    with Server() as server:
        answers = [a for _ in range(6) for a in burst(server, 50)]
        equal({a.status for a in answers}, {201}, "300 sessions")
        equal(len({a.body["id"] for a in answers}), 300, "ids")
        equal(server.want(200, "GET", "/v1/node")["sessions"]["running"], 300, "that are running")
        delete_many(server, [a.body["id"] for a in answers])


def test_a_hundred_at_once(server):
    ids = hundred(server, "with a pool of 8")
    answers = burst(
        server,
        100,
        path=[f"/v1/sessions/{i}/executions?wait=true" for i in ids],
        body={"command": "hostname; cat /etc/machine-id"},
    )
    equal({a.status for a in answers}, {200}, "executions at once")
    said = [tuple(a.body["stdout"].split()) for a in answers]
    equal([s[0] for s in said], ids, "host names")
    equal(len({s[1] for s in said}), 100, "machine ids")
    delete_many(server, ids)
    wait_for(lambda: not any(server.want(200, "GET", "/v1/node")["sessions"].values()), 15, "the end of all")


def test_a_hundred_at_once_without_a_pool():
    with Server(pool_size=0, pool_max=0, **MANY) as server:
        ids = hundred(server, "without a pool")
        equal(pool(server)["ready"], 0, "cells in the pool")
        delete_many(server, ids)


def test_a_hundred_at_once_just_after_the_start():
    with Server(**MANY) as server:
        hundred(server, "of a server that has just started")


def test_the_pool_follows_demand():
    with Server(pool_size=2, pool_max=6, pool_refill_per_second=200, **MANY) as server:
        wait_for(lambda: pool(server)["ready"] == 2, 10, "a full pool")
        first = pool(server)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            server.delete(server.create()["id"])
            time.sleep(0.05)  # between two looks
        grown = pool(server)
        note(f"after 2 s of creates: {grown}")
        equal(grown["size"], 6, "the pool's size when many are wanted")
        hits, misses = grown["hits"] - first["hits"], grown["misses"] - first["misses"]
        check(hits > 3 * misses, f"{hits} hits, {misses} misses")
        wait_for(lambda: pool(server)["ready"] == pool(server)["size"], 10, "as many as it wants")
        wait_for(lambda: pool(server)["ready"] == 2, 20, "its first size when nobody asks")


def test_what_the_pool_does_not_have(server):
    wait_for(lambda: pool(server)["ready"] >= 4, 10, "a pool")
    before = pool(server)
    for spec in ({"limits": {"memory": "64M"}}, {"profile": "locked"}, {"limits": {"pids": 100}}):
        session = server.create(**spec)
        equal(server.run(session["id"], "echo hi")["stdout"], "hi\n", f"{spec}")
        server.delete(session["id"])
    server.delete(server.create(metadata={"a": "b"}, env={"A": "b"}, timeout="1m")["id"])
    now = pool(server)
    equal((now["hits"] - before["hits"], now["misses"] - before["misses"]), (1, 3), "hits and misses")


def client(server, number, rounds, wrong):
    """What an agent does, on one connection after the other."""
    try:
        for i in range(rounds):
            session = server.create(metadata={"client": str(number)})["id"]
            done = server.run(session, f"echo {number}-{i}; exit {number}")
            equal((done["stdout"], done["exit_code"]), (f"{number}-{i}\n", number), "result")
            server.want(201, "PUT", f"/v1/sessions/{session}/files?path=f", f"{number}".encode())
            equal(server.want(200, "GET", f"/v1/sessions/{session}/files?path=f"), f"{number}".encode(), "file")
            server.delete(session)
    except Exception as e:
        wrong.append(f"client {number}: {e!r}")


def test_64_clients(server):
    wrong, rounds, began = [], 4, time.monotonic()
    before = rss(server.pid("cordond"))
    clients = [threading.Thread(target=client, args=(server, n, rounds, wrong), daemon=True) for n in range(64)]
    for c in clients:
        c.start()
    for c in clients:
        c.join(120)
        if c.is_alive():
            raise Failed(f"a client hangs; {wrong[:5]}")
    took = time.monotonic() - began
    equal(wrong, [], "what went wrong")
    note(f"{64 * rounds} cycles of five requests in {took:.1f} s")
    wait_for(lambda: not any(server.want(200, "GET", "/v1/node")["sessions"].values()), 15, "the end of all")
    grown = rss(server.pid("cordond")) - before
    check(grown < 20 << 20, f"cordond grew by {grown >> 10} KiB")


def test_many_connections_that_say_nothing(server):
    """They cost a place each, and no request waits for them."""
    held = [socket.create_connection(server.address, 10) for _ in range(500)]
    try:
        began = time.monotonic()
        for _ in range(20):
            server.want(200, "GET", "/v1/node")
        check(time.monotonic() - began < 8, "requests beside 500 silent connections are slow")
    finally:
        for s in held:
            s.close()


if __name__ == "__main__":
    run_tests(globals(), **MANY)
