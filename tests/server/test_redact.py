#!/usr/bin/python3 -B
"""Goal: what a session, or the node, wants covered by its form is covered wherever output and commands are kept or shown,
and it is counted.

    test_redact.py CORDON [name ...]
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, equal, run_tests, wait_for  # noqa: E402

MAIL, CARD, IBAN, PHONE, IP = "ann@example.com", "4111 1111 1111 1111", "DE89370400440532013000", "+49 30 1234567", "192.0.2.17"
ALL = ["email", "phone", "card", "iban", "ip", "token"]


def logs(server):
    """Everything that is kept of output."""
    found = b""
    for folder, _, names in os.walk(server.state):
        for name in names:
            if "output" in folder or name.endswith(".log"):
                with open(os.path.join(folder, name), "rb") as f:
                    found += f.read()
    return found


def execution(server, x, key):
    return server.want(200, "GET", f"/v1/sessions/{x['session_id']}/executions/{x['id']}", key=key)


def stars(text):
    return "*" * len(text)


def test_output(server):
    s = server.create(redact=["email", "card"])
    equal(s["redact"], ["email", "card"])
    done = server.run(s["id"], f"echo {MAIL}, {CARD} {IP}; echo '<{MAIL}>' >&2; printf 4111111111111111")
    equal(done["stdout"], f"{stars(MAIL)}, {stars(CARD)} {IP}\n" + stars("4111111111111111"))
    equal(done["stderr"], f"<{stars(MAIL)}>\n")
    row = wait_for(lambda: (x := server.execution(done))["redacted"] and x, 10, "counts")
    equal(row["redacted"], {"email": 2, "card": 2})
    kept = logs(server)
    check(b"ann@" not in kept and b"4111" not in kept, "on disk")
    plain = server.create()
    equal(plain["redact"], [])
    done = server.run(plain["id"], f"echo {MAIL}")
    equal((done["stdout"], server.execution(done)["redacted"]), (MAIL + "\n", {}))


def test_over_the_borders_of_pieces(server):
    """A thing that comes in pieces, within the time that output waits."""
    s = server.create(redact=ALL)["id"]
    text = f"{MAIL} {IBAN} {PHONE}"
    program = f"import sys\nfor c in {text!r}:\n    sys.stdout.write(c)\n    sys.stdout.flush()\n"
    equal(server.run(s, f"python3 -c '{program}'".replace("'" + text + "'", '"' + text + '"'))["stdout"], f"{stars(MAIL)} {stars(IBAN)} {stars(PHONE)}")
    many = server.run(s, f"yes {MAIL} | head -n 20000", output_limit="8M")
    equal(set(many["stdout"].split()), {stars(MAIL)})


def test_own_patterns_and_records(server):
    s = server.create(redact=["pattern:CUST-[0-9]{8}", "email"])["id"]
    done = server.run(s, f"echo CUST-12345678 {MAIL}", record="text")
    equal(done["stdout"], f"{stars('CUST-12345678')} {stars(MAIL)}\n")
    row = wait_for(lambda: (x := server.execution(done))["redacted"] and x, 10, "counts")
    equal(row["redacted"], {"email": 1, "pattern": 1})
    check(MAIL not in row["command"] and "CUST-1" not in row["command"], row["command"])
    for wrong in (["mail"], ["pattern:a*"], ["pattern:"], [1], "email", ["email"] * 17, ["pattern:" + "a" * 129]):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"redact": wrong}, "redact")


def test_network_records(server):
    """The texts that a program wrote, also in an escaped form. Hosts stay."""
    s = server.create(redact=["email", "ip"])["id"]
    for path in (f"/a?to={MAIL}", "/b?to=ann%40example.com", f"/c/{MAIL}", "/d?x=1"):
        server.run(s, f"python3 -c 'import urllib.request as u; u.urlopen(\"http://x.example{path}\")'")
    rows = wait_for(lambda: len(found := [r for r in server.want(200, "GET", f"/v1/sessions/{s}/network/log?kind=request")["records"]]) == 4 and found, 20, "records")
    equal([(r["name"], r["path"], r.get("query")) for r in rows],
          [("x.example", "/a", "to=" + stars(MAIL)), ("x.example", "/b", stars("to=ann%40example.com")), ("x.example", "/c/" + stars(MAIL), None),
           ("x.example", "/d", "x=1")])


def test_reasons_of_refusals(server):
    """A reason shows the start of a path, also escaped, and also cut inside of what is covered. Executions list it, too."""
    policy = {"rules": [{"host": "x.example", "ports": [80], "paths": ["/ok"]}]}
    s = server.create(redact=["email", "card"], network=policy)["id"]
    paths = (f"/c/{MAIL}", "/c/ann%40example.com", "/" + "a" * 46 + "/" + CARD.replace(" ", ""))
    for n, path in enumerate(paths):
        done = server.run(s, f"python3 -c 'import urllib.request as u; u.urlopen(\"http://x.example{path}\")' 2>/dev/null")
        rows = wait_for(lambda n=n: len(found := server.want(200, "GET", f"/v1/sessions/{s}/network/log?kind=request")["records"]) == n + 1 and found, 20, "records")
        denied = server.execution(done)["denied"]
        equal([d["name"] for d in denied], ["x.example"])
        for text in (rows[-1]["reason"], denied[0]["reason"]):
            check("ann" not in text and "4111" not in text and "*" in text, text)


def test_terminals_and_streams(server):
    """Live output is what is kept."""
    s = server.create(redact=["email"])["id"]
    x = server.spawn(s, f"printf '\\033[1m{MAIL}\\033[0m\\n'", tty={"rows": 24, "cols": 80})
    server.ended(x)
    status, _, data = server.request("GET", f"/v1/sessions/{s}/executions/{x['id']}/output", raw=True)
    check(status == 200 and b"ann@" not in data and b"\x1b[1m" + stars(MAIL).encode() in data, data)


def test_metrics(server):
    _, _, text = server.request("GET", "/metrics", raw=True)
    found = re.search(rb'cordon_redacted_total\{name="email"\} (\d+)', text)
    check(found and int(found[1]) > 20000, text[-500:])


def test_restarts_and_forks(server):
    s = server.create(redact=["email"], timeout="1h")["id"]
    server.restart()
    equal(server.run(s, f"echo {MAIL}")["stdout"], stars(MAIL) + "\n")
    forked = server.want(201, "POST", f"/v1/sessions/{s}/fork", {})
    child = forked["forks"][0]["session"]["id"] if "forks" in forked else forked["sessions"][0]["id"]
    equal(server.run(child, f"echo {MAIL}")["stdout"], stars(MAIL) + "\n")


def test_with_secrets(server):
    """Values of secrets are covered beside, and do not count as names."""
    server.want(201, "POST", "/v1/secrets", {"name": "word", "value": "open-sesame-99"})
    s = server.create(redact=["email"], secrets=[{"name": "word", "as": "env", "env": "WORD"}])["id"]
    done = server.run(s, f"echo $WORD {MAIL}")
    equal(done["stdout"], f"{stars('open-sesame-99')} {stars(MAIL)}\n")
    equal(wait_for(lambda: server.execution(done)["redacted"], 10, "counts"), {"email": 1})


def test_of_a_tenant(server):
    """Sessions and forks made from then on have the tenant's entries, and none can be taken away."""
    ident, key = server.tenant("covered", redact=["email", "pattern:CUST-[0-9]{8}"])
    equal(server.want(200, "GET", f"/v1/tenants/{ident}")["redact"], ["email", "pattern:CUST-[0-9]{8}"])
    s = server.create(key=key, redact=["card", "email"])
    equal(s["redact"], ["email", "pattern:CUST-[0-9]{8}", "card"])
    done = server.run(s["id"], f"echo CUST-12345678 {MAIL} {CARD} {IP}", key=key, record="text")
    equal(done["stdout"], f"{stars('CUST-12345678')} {stars(MAIL)} {stars(CARD)} {IP}\n")
    check(MAIL not in execution(server, done, key)["command"] and "CUST-1" not in execution(server, done, key)["command"], "the recorded command")
    equal(server.create(key=key, redact=[])["redact"], ["email", "pattern:CUST-[0-9]{8}"], "an empty list takes nothing away")
    equal(server.create()["redact"], [], "of another tenant")
    server.want(200, "PATCH", f"/v1/tenants/{ident}", {"redact": ["ip"]})
    server.want(200, "PATCH", f"/v1/tenants/{ident}", {"max_sessions": 50})
    equal(server.want(200, "GET", f"/v1/tenants/{ident}")["redact"], ["ip"], "another change keeps it")
    server.restart()
    equal(server.run(s["id"], f"echo {MAIL} {IP}", key=key)["stdout"], f"{stars(MAIL)} {IP}\n", "a session keeps what it had")
    forked = server.want(201, "POST", f"/v1/sessions/{s['id']}/fork", {}, key=key)
    child = forked["forks"][0]["session"]["id"] if "forks" in forked else forked["sessions"][0]["id"]
    equal(server.run(child, f"echo {MAIL} {IP}", key=key)["stdout"], f"{stars(MAIL)} {stars(IP)}\n", "a fork has both")
    server.want(200, "PATCH", f"/v1/tenants/{ident}", {"redact": []})
    equal(server.create(key=key)["redact"], [])
    changed = [r["record"]["data"]["changed"] for r in server.want(200, "GET", f"/v1/audit?tenant={ident}&type=tenant.changed&limit=100")["records"]]
    equal(changed, ["redact", "max_sessions", "redact"], "on record")
    for wrong in (["mail"], ["pattern:a*"], [1], "email", ["email"] * 17):
        server.refused(400, "invalid", "PATCH", f"/v1/tenants/{ident}", {"redact": wrong}, "redact")
    server.refused(403, "forbidden", "PATCH", f"/v1/tenants/{ident}", {"redact": []}, key=key)
    made = subprocess.run([server.program, "tenant", "set", ident, "--redact", "email", "--redact", "token"], capture_output=True, timeout=40,
                          env={"CORDON_SERVER": server.url, "CORDON_API_KEY": server.key, "HOME": "/nowhere"})
    equal(made.returncode, 0, str(made))
    equal(server.want(200, "GET", f"/v1/tenants/{ident}")["redact"], ["email", "token"])


def test_an_attack_on_the_cost(server):
    """The dearest patterns that are allowed, each with many matches begun at every byte, over output that begins all of them: the other
    sessions are served meanwhile, and the output is covered to its end."""
    dear = ["pattern:" + c + "[" + c + "b]{200,250}z" for c in "acdefghijklmnopq"]
    ident, key = server.tenant("dear", redact=dear)
    other = server.create()["id"]
    server.run(other, "true")
    s = server.create(key=key, redact=["pattern:" + c + "[" + c + "b]{100,240}y" for c in "rstuvwxACDEFGHIJ"])["id"]
    text = "'ab'*100 + 'b'*50 + 'z'"
    x = server.spawn(s, ["python3", "-c", f"import sys\nfor i in range(8000): sys.stdout.write({text} + 'ab'*100)"], key=key, output_limit="16M")
    slowest, rounds = 0, 0
    while execution(server, x, key)["output_open"] and rounds < 200:
        began = time.monotonic()
        equal(server.run(other, "echo here")["stdout"], "here\n")
        slowest, rounds = max(slowest, time.monotonic() - began), rounds + 1
    check(slowest < 5, f"another session waited {slowest:.1f} s")
    check(rounds > 1, "the output took time")
    wait_for(lambda: not execution(server, x, key)["output_open"], 120, "the end of the output")
    equal(execution(server, x, key)["redacted"], {"pattern": 8000})
    for entries in (["pattern:[a-z]{300}"], ["pattern:" + "a{9}" * 30]):
        server.refused(400, "invalid", "POST", "/v1/sessions", {"redact": entries}, "redact")


def test_of_the_node():
    """The setting covers in all sessions, and sessions add to it."""
    with Server(redact="ip token") as server:
        s = server.create()["id"]
        equal(server.run(s, f"echo {IP} {MAIL}")["stdout"], f"{stars(IP)} {MAIL}\n")
        s = server.create(redact=["email"])["id"]
        equal(server.run(s, f"echo {IP} {MAIL}")["stdout"], f"{stars(IP)} {stars(MAIL)}\n")


def test_patterns_of_the_node():
    """They hold for records, too, in sessions that want nothing more."""
    with Server(redact_patterns="CUST-[0-9]{8}") as server:
        s = server.create()["id"]
        url = "http://x.example/a/CUST-12345678?k=CUST-12345678"
        done = server.run(s, f"echo CUST-12345678; python3 -c 'import urllib.request as u; u.urlopen(\"{url}\")' 2>/dev/null")
        equal(done["stdout"], stars("CUST-12345678") + "\n")
        rows = wait_for(lambda: server.want(200, "GET", f"/v1/sessions/{s}/network/log?kind=request")["records"], 20, "records")
        equal((rows[0]["path"], rows[0]["query"]), ("/a/" + stars("CUST-12345678"), "k=" + stars("CUST-12345678")))


if __name__ == "__main__":
    run_tests(globals())
