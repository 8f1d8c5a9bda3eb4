#!/usr/bin/python3
"""test_redaction.py - what the operator's patterns describe is covered in all that sessions say and in all that is
recorded of them, wherever it is cut, and whatever happens to the daemon in between."""
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, equal, run_tests, wait_for  # noqa: E402
from checks import PATIENCE  # noqa: E402
from test_process_rpc import Box, ended  # noqa: E402

KILLS = True
PATTERNS = "sk-[A-Za-z0-9]{20,64} [0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{4}"
KEY = "sk-" + "Ab3" * 10
CARD = "1234-5678-9012-3456"


def path_of(x):
    return f"/v1/sessions/{x['session_id']}/executions/{x['id']}"


def output(server, x, stream="stdout"):
    return server.request("GET", f"{path_of(x)}/output?stream={stream}", raw=True)[2].decode()


def not_on_disk(server, *values):
    """None of them is in any file of the server, its log included."""
    for folder, _, names in os.walk(server.folder):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or os.path.islink(path):
                continue
            with open(path, "rb") as f:
                data = f.read()
            for value in values:
                check(value.encode() not in data, f"{value} is in {path}")


def test_both_streams(server):
    s = server.create()["id"]
    done = server.run(s, f"k=sk-; k=${{k}}$(printf 'Ab3%.0s' 1 2 3 4 5 6 7 8 9 10); echo \"a $k b\"; echo \"$k\" >&2")
    equal((done["stdout"], done["stderr"]), (f"a {'*' * 33} b\n", "*" * 33 + "\n"))
    done = server.run(s, "echo plain text, sk-short and 1234-5678-9012")
    equal(done["stdout"], "plain text, sk-short and 1234-5678-9012\n")
    not_on_disk(server, KEY)


def test_the_end_of_a_session_with_much_to_mask(server):
    """What the pipes hold when the session ends is masked and kept as far as one turn of the loop allows (512 KiB);
    the rest is counted, and marked as left out."""
    s = server.create(limits={"pids": 200}, timeout="1h")["id"]
    floods = [server.spawn(s, f"yes {KEY}", output_limit="64M") for _ in range(40 if PATIENCE == 1 else 12)]
    wait_for(lambda: all(server.execution(x)["state"] == "running" for x in floods), 30, "start of all")
    time.sleep(0.5)  # for full pipes: 2.5 MiB, or 768 KiB
    server.delete(s)
    server.reaches(s, "ended")
    rows = [server.execution(x) for x in floods]
    texts = [output(server, x) for x in floods]
    check(not any(KEY in text for text in texts), "nothing is shown")
    cut = [r["stdout_bytes"] - len(text) for r, text in zip(rows, texts) if r["output_truncated"]]
    check(sum(cut) > 0, "nothing was left out: all of it was masked in one turn")
    check(all(r["stdout_bytes"] == len(text) for r, text in zip(rows, texts) if not r["output_truncated"]), "whole ones")


def until_there(path):
    """Of a shell: waits for the file that touch() makes."""
    return f"until [ -e {path} ]; do sleep 0.05; done"


def touch(server, s, path):
    server.want(201, "PUT", f"/v1/sessions/{s}/files?path={path}", b"")


def test_in_pieces(server):
    """A byte at a time: all is covered if no two bytes are further apart than output is held back (25 ms), which a machine under load
    may do; else what was shown is a beginning of it, and the rest is covered."""
    s, shown = server.create()["id"], []
    for _ in range(10):
        x = server.spawn(s, "k=1234-5678-9012-; for c in $(echo ${k}3456x | sed 's/./& /g'); do printf $c; done")
        server.ended(x)
        shown.append(output(server, x))
        n = len(shown[-1].split("*")[0])
        equal(shown[-1], CARD[:n] + "*" * (19 - n) + "x")
        if n == 0:
            break
    equal(shown[-1], "*" * 19 + "x", f"none was covered as a whole: {shown}")


def test_after_a_pause(server):
    """What was held back is shown; what follows is covered all the same."""
    s = server.create()["id"]
    x = server.spawn(s, f"printf 1234-5678; {until_there('/tmp/go')}; printf -- -9012-3456.; sleep 0.2; printf end")
    wait_for(lambda: output(server, x) == "1234-5678", 15, "what was held back")
    touch(server, s, "/tmp/go")
    server.ended(x)
    equal(output(server, x), "1234-5678" + "*" * 10 + ".end")


def test_prompt_is_shown(server):
    s = server.create()["id"]
    x = server.spawn(s, "printf 'number: 1234'; sleep 60")
    wait_for(lambda: output(server, x) == "number: 1234", 15, "the prompt")
    server.request("DELETE", path_of(x))


def test_outcome_has_all(server):
    """What is held back when a program ends belongs to what it said; so does what children say later."""
    s = server.create()["id"]
    for _ in range(20):
        equal(server.run(s, "printf 'last words 1234-5678'")["stdout"], "last words 1234-5678")
    x = server.spawn(s, f"({until_there('/tmp/late')}; printf -- -9012-3456,) & printf 1234-5678")
    server.ended(x)
    equal(output(server, x), "1234-5678")
    touch(server, s, "/tmp/late")
    wait_for(lambda: output(server, x) == "1234-5678" + "*" * 10 + ",", 15, "the child's output")


def test_much(server):
    """More than a pipe holds, with one in every piece, and its bytes counted right."""
    s = server.create()["id"]
    line = "x" * 977 + " " + CARD
    x = server.run(s, f"k=1234-5678-9012-; for i in $(seq 1000); do echo {'x' * 977} ${{k}}3456; done", output_limit="8M")
    want = (line.replace(CARD, "*" * 19) + "\n") * 1000
    got = output(server, x)
    check(got == want, f"{len(got)} bytes of {len(want)}, {got[-100:]!r}")
    equal(server.execution(x)["stdout_bytes"], len(want))


def test_terminal(server):
    box = Box(server)
    out, _, end, _ = box.run("k=1234-5678-9012-; echo a ${k}3456 b")
    equal((out, end), (f"a {'*' * 19} b\n".encode(), ended(0)))
    s = server.create()["id"]
    x = server.spawn(s, "k=1234-5678-9012-; echo a ${k}3456 b", tty={"rows": 24, "cols": 80})
    server.ended(x)
    equal(output(server, x), f"a {'*' * 19} b\r\n")


def test_records(server):
    """The command, the folder, an error's words."""
    s = server.create()["id"]
    equal(server.run(s, f"true {KEY}")["command"], "true " + "*" * len(KEY), "the answer to its creator")
    x = server.run(s, f"true {KEY}", record="text")
    equal(server.execution(x)["command"], "true " + "*" * len(KEY))
    check(KEY not in str(server.execution(x)), "in the record")
    x = server.spawn(s, "true", cwd=f"/nowhere/{KEY}")
    check(KEY not in str(server.ended(x)), "in an error")
    check(KEY not in str(server.want(200, "GET", f"/v1/sessions/{s}/events")), "in events")
    not_on_disk(server, KEY)


def test_speed(server):
    """Time that grows with the output, not with its square, although a match could begin at every end of a piece."""
    s = server.create()["id"]
    begin = time.monotonic()
    x = server.run(s, "yes 'a line of 1234 and 567, sk' | head -c 100000000", output_limit="128M")
    took = time.monotonic() - begin
    equal(server.execution(x)["stdout_bytes"], 100000000)
    check(took < 120, f"{took:.1f} s for 100 MB")


def test_killed_at_any_time(server):
    """kill -9 of cordond, again and again, while numbers and lines are written: each line comes once, in order."""
    s = server.create(timeout="1h")["id"]
    x = server.spawn(s, "k=1234-5678-9012-; i=0; while [ $i -lt 40000 ]; do i=$((i+1)); echo line $i ${k}3456; done",
                     output_limit="64M")
    for _ in range(10):
        time.sleep(random.uniform(0.02, 0.2))  # the moment of the kill varies
        pid = server.kill("cordond")
        wait_for(lambda pid=pid: server.pid("cordond") not in (None, pid), 10, "cordond")
        server.wait_ready()
    server.ended(x, 60)
    lines = output(server, x).split("\n")
    equal(lines.pop(), "", "the end")
    for number, line in enumerate(lines):
        check(re.fullmatch(rf"line {number + 1} \*{{19}}", line), f"line {number + 1}: {line!r}")
    equal(len(lines), 40000)
    not_on_disk(server, CARD)


def test_bad_patterns_are_refused(server):
    for pattern in ("a*bcd", "abc", "[abcd", "(abcd)", "sk-[A-Z]{1,300}"):
        try:
            Server(server.program, redact_patterns=pattern).close()
        except Exception as e:  # pylint: disable=broad-except
            check("redact_patterns" in str(e), str(e))
        else:
            check(False, f"{pattern} was taken")


if __name__ == "__main__":
    run_tests(globals(), redact_patterns=PATTERNS, pool_size=2)
