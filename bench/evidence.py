"""Evidence: what audit logs and traces cost, a section of bench/run.

A million records: the records of real cycles are copied with new numbers and sessions into the store of a server that does not
run. The server then makes tiles and a signed checkpoint of them and exports them, and `cordon audit verify` and
examples/verify.py verify the file, as it is and with one byte changed. Bytes are those of the store's pages. Rates are by
processor time, which another load on the machine changes less than the wall clock; both are shown.

Programs in a traced session: a shell that starts /bin/true, in turns with a session without a trace.

What records cost a cycle is measured between builds: bench/cycle-processor.
"""
import json
import os
import pathlib
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import time

import mcp
import server

HERE = pathlib.Path(__file__).resolve().parent
RECORDS, FEW = 1_000_000, 20_000
CYCLES = 20  # whose records are copied
EXECS, TURNS = 100, 15
SETTINGS = {"audit_max": 0, "tenant_audit_max": 0}
# From the requirement: bytes of a record beside its data, records a second, milliseconds of an exec.
TARGETS = {"bytes": 300, "verify": 200_000, "exec": 1.0}


def patterns(db, log):
    """Of each record of the cycles: the text around its number and its session, its session, its side."""
    rows = db.execute("SELECT leaf, session, side FROM audit WHERE id >= ? AND id < ? AND session <> '' ORDER BY id", (log << 40, (log + 1) << 40)).fetchall()
    found = []
    for leaf, session, side in rows:
        parts = re.split('("seq":)[0-9]+', leaf.decode(), maxsplit=1)
        found.append((parts[0] + parts[1], parts[2], session, side))
    return found


def fill(path, records):
    """Copies until the log of the operator's tenant has so many."""
    owner = os.stat(path)
    db = sqlite3.connect(path, isolation_level=None)
    (log, had), = db.execute("SELECT l.id, (SELECT max(id) FROM audit WHERE id >> 40 = l.id) & ((1 << 40) - 1) FROM audit_log l WHERE tenant <> ''").fetchall()
    made = patterns(db, log)
    number = {session: i for i, session in enumerate({session for _, _, session, _ in made})}
    now = int(time.time() * 1000)

    def rows():
        for seq in range(had + 1, records):
            turn, at = divmod(seq, len(made))
            before, after, session, side = made[at]
            name = "i" + f"{turn * len(number) + number[session]:x}".rjust(len(session) - 1, "0")
            yield (log << 40) + seq, now, name, (before + str(seq) + after.replace(session, name)).encode(), side
    db.execute("BEGIN")
    db.executemany("INSERT INTO audit (id, time_ms, session, leaf, side) VALUES (?, ?, ?, ?, ?)", rows())
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    for end in ("", "-wal", "-shm"):
        if os.path.exists(f"{path}{end}"):
            os.chown(f"{path}{end}", owner.st_uid, owner.st_gid)


def sizes(path):
    """(bytes of the store's pages, bytes of data) for a record. What is sealed counts as data with its salts: it is what the client sent."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    (pages,), = db.execute("SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'audit%'").fetchall()
    n = data = 0
    for leaf, side in db.execute("SELECT leaf, side FROM audit ORDER BY id DESC LIMIT 20000"):
        record = json.loads(leaf)
        data += len(side.encode()) + sum(len(json.dumps(record[name], separators=(",", ":")).encode()) + len(name) + 4 for name in ("data", "sealed") if name in record)
        n += 1
    (records,), = db.execute("SELECT count(*) FROM audit").fetchall()
    db.close()
    return pages / records, data / n


def timed(command, want):
    """(seconds, processor seconds, what it printed)"""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != want:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stdout[-1000:]}")
    return time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, json.loads(done.stdout)


def wait_signed(to, client):
    """Until a checkpoint covers all records."""
    while True:
        client.http.close()
        client.http.request("GET", "/v1/audit/checkpoint?fresh=true", headers={"Authorization": f"Bearer {client.key}", "Accept": "application/json"})
        answer = client.http.getresponse()
        found = json.loads(answer.read())
        if answer.status == 200:
            return found
        if to.process.poll() is not None:
            raise RuntimeError("the server has ended")
        time.sleep(0.1)


def export(client, path):
    client.http.close()
    client.http.request("GET", "/v1/audit?proofs=true", headers={"Authorization": f"Bearer {client.key}"})
    answer = client.http.getresponse()
    with open(path, "wb") as f:
        while chunk := answer.read(1 << 20):
            f.write(chunk)


def change(path):
    """One digit of a record nine tenths into the file."""
    with open(path, "r+b") as f:
        f.seek(path.stat().st_size * 9 // 10)
        text = f.read(1 << 16)
        at = f.tell() - len(text) + text.index(b'\\"request\\":\\"') + 20
        f.seek(at)
        old = f.read(1)
        f.seek(at)
        f.write(b"0" if old != b"0" else b"1")


def many(setup, judge, table, records):
    with server.Server(setup.build, setup.folder, setup.outside, SETTINGS) as to:
        client = mcp.Client(to)
        for _ in range(CYCLES):
            client.whole()
        wait_signed(to, client)
        to.stop()
        path = to.folder / "state" / "cordon.db"
        fill(path, records)
        begin = time.monotonic()
        to.start()
        to.__enter__()
        key = wait_signed(to, client)["vkey"]
        signed = time.monotonic() - begin
        file = setup.folder / "audit.jsonl"
        begin = time.monotonic()
        export(client, file)
        rows = [("tiles and checkpoint, by the server", f"{signed:.1f}", "", f"{records / signed:.0f}"),
                ("export", f"{time.monotonic() - begin:.1f}", "", f"{records / (time.monotonic() - begin):.0f}")]
        to.stop()
        whole, data = sizes(path)
        rates = []
        for name, command in (("cordon audit verify", [setup.build / "cordon-client", "audit", "verify", "--json", "--key", key, file]),
                              ("examples/verify.py", [sys.executable, HERE.parent / "examples" / "verify.py", "--key", key, file])):
            wall, processor, found = timed(command, 0)
            if found["verified"] < records:
                raise RuntimeError(f"{name}: {found}")
            rows.append((f"{name}, {found['verified']} records", f"{wall:.1f}", f"{processor:.1f}", f"{found['verified'] / processor:.0f}"))
            rates.append(found["verified"] / processor)
        change(file)
        wall, _, found = timed([setup.build / "cordon-client", "audit", "verify", "--json", "--key", key, file], 1)
        rows.append((f"one byte changed: found, first bad record {found['first_bad']}", f"{wall:.1f}", "", ""))
        print(f"an export of {file.stat().st_size >> 20} MiB")
        file.unlink()
        table(("", "seconds", "of processor", "records/s"), rows)
        print(f"a record takes {whole:.0f} bytes of the store, {data:.0f} of them data and sealed values")
        judge("evidence: bytes of a record beside its data", TARGETS["bytes"], whole - data)
        judge("evidence: records verified a second", TARGETS["verify"], rates[0], least=True)


def traced(setup, judge, table):
    """Milliseconds of an exec in a session with a trace, and in one without, in turns."""
    loop = f"i=0; while [ $i -lt {EXECS} ]; do /bin/true; i=$((i+1)); done"
    with server.Server(setup.build, setup.folder, setup.outside) as to:
        client = mcp.Client(to)
        sessions = {name: client.ask("POST", "/v1/sessions", {"timeout": 3600, **more})["id"] for name, more in (("no trace", {}), ("trace: programs", {"trace": "programs"}))}
        taken = {name: [] for name in sessions}
        for turn in range(TURNS + 1):
            for name, session in sessions.items():
                begin = time.perf_counter()
                done = client.ask("POST", f"/v1/sessions/{session}/executions?wait=true", {"argv": ["/bin/sh", "-c", loop]})
                if done["exit_code"] != 0:
                    raise RuntimeError(f"{name}: {done}")
                if turn:
                    taken[name].append((time.perf_counter() - begin) * 1e3 / EXECS)
    table(("ms for one exec of a shell", "least", "median"), [(name, f"{min(t):.2f}", f"{statistics.median(t):.2f}") for name, t in taken.items()])
    more = statistics.median(b - a for a, b in zip(*taken.values()))
    judge("evidence: ms that a trace of programs adds to an exec, median of the turns", TARGETS["exec"], more)


def section(setup, judge, table, heading):
    heading("evidence: audit logs and traces")
    traced(setup, judge, table)
    many(setup, judge, table, FEW if setup.options.rounds < 100 else RECORDS)
