"""level_work.py - the kinds of work that level_kills.py interrupts: requests for sessions at levels gvisor and microvm, and what is true
of a session after each, however the work ended."""
import http.client
import json
import random

from harness import check, equal, wait_for
from state_base import quoted

GVISOR = {"level": "gvisor", "template": "small"}
MICROVM = {"level": "microvm", "template": "small"}
COLD = {"limits": {"memory": "256M", "disk": "32M"}}  # not the defaults: no cell of a pool fits
CONTENT = random.Random(1).randbytes(3 << 20)
LINES = "".join(f"line {i}\n" for i in range(3000))
PRINTS = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"
PATIENCE = 150


class Answer:
    """Of one request: its status, None if the connection broke; and what it said."""

    def __init__(self, status, data):
        self.status, self.data = status, data

    def word(self):
        code = self.data["error"]["code"] if isinstance(self.data, dict) and "error" in self.data and self.status >= 400 else ""
        return f"{self.status or 'broken'} {code}".strip()

    def __str__(self):
        return f"{self.status} {str(self.data)[:300]}"


class Work:
    """begin() makes what run() needs; run() sends requests and gives their answers; look() is called when the server is ready again."""

    body = GVISOR
    seconds = 0.5  # within which the kill comes
    own = True  # a session is made first, which is the one that is killed
    deletes = False

    def __init__(self, server):
        self.server, self.session = server, None

    def send(self, method, path, body=None, **more):
        try:
            status, _, data = self.server.request(method, path, body, timeout=PATIENCE, **more)
            return Answer(status, json.loads(data) if status >= 400 and isinstance(data, bytes) else data)  # an error of a download
        except TimeoutError:
            return Answer(0, "no answer")
        except (OSError, http.client.HTTPException, ValueError) as e:
            return Answer(None, repr(e))

    def create(self, body):
        """A session, in the end: a program of the server that was killed may still be missing."""
        made = wait_for(lambda: (a := self.send("POST", "/v1/sessions", body)).status not in (None, 503) and a, PATIENCE, "a session")
        equal(made.status, 201, f"a session {body}: {made}")
        self.server.ids.add(made.data["id"])
        return made.data["id"]

    def path(self, more):
        return f"/v1/sessions/{self.session}{more}"

    def is_usable(self, session):
        done = self.send("POST", f"/v1/sessions/{session}/executions?wait=true", {"command": "cat /tmp/own 2> /dev/null; echo up", "timeout": "60s"})
        return done.status == 200 and done.data["stdout"].endswith("up\n") and done.data

    def begin(self):
        if self.own:
            self.session = self.create(self.body)
            wait_for(lambda: self.is_usable(self.session), PATIENCE, "use of it")
            self.prepare()

    def prepare(self):
        pass

    def look(self, answers, alive):
        """alive: the session has not ended."""


class Create(Work):
    own = False

    def run(self):
        return [self.send("POST", "/v1/sessions", self.body)]


class Cold(Create):
    body = {**GVISOR, **COLD}


class Exec(Work):
    def run(self):
        return [self.send("POST", self.path("/executions?wait=true"), {"command": PRINTS, "timeout": "60s"})]

    def look(self, answers, alive):
        rows = self.server.want(200, "GET", self.path("/executions"))["executions"]
        for row in rows:
            if row["stdout_bytes"] <= 3 and row["ended_at"]:  # of is_usable()
                continue
            ended = self.server.ended({"session_id": self.session, "id": row["id"]}, PATIENCE)
            out = self.server.want(200, "GET", self.path(f"/executions/{row['id']}/output?stream=stdout"), raw=True).decode()
            check(LINES.startswith(out), f"output that it did not write: {out[-200:]!r}")
            if alive:
                equal((ended["exit_code"], len(out)), (0, len(LINES)), "the execution of a session that lives")
        if answers[0].status == 200 and answers[0].data["exit_code"] == 0:
            equal(answers[0].data["stdout"], LINES, "the output in the answer")


class Upload(Work):
    seconds = 0.25

    def run(self):
        return [self.send("PUT", self.path("/files?path=/tmp/f"), CONTENT)]

    def look(self, answers, alive):
        if alive:
            got = self.send("GET", self.path("/files?path=/tmp/f"), raw=True)
            whole = got.status == 200 and got.data == CONTENT
            check(whole or (got.status == 404 and answers[0].status != 201), f"a file after {answers[0]}: {got.status}, {len(got.data)} bytes")


class Download(Upload):
    seconds = 0.08

    def prepare(self):
        self.server.want(201, "PUT", self.path("/files?path=/tmp/f"), CONTENT)

    def run(self):
        return [self.send("GET", self.path("/files?path=/tmp/f"), raw=True)]

    def look(self, answers, alive):
        check(answers[0].status != 200 or answers[0].data == CONTENT, "a download that ended well is not whole")


class Pause(Work):
    seconds = 0.02

    def prepare(self):
        equal(self.server.run(self.session, "echo own > /tmp/own")["exit_code"], 0)

    def run(self):
        return [self.send("POST", self.path("/pause"), {"memory": True}), self.send("POST", self.path("/resume"))]

    def look(self, answers, alive):
        if alive:
            done = wait_for(lambda: self.is_usable(self.session), PATIENCE, "use of it")
            equal(done["stdout"], "own\nup\n", "its file")


class Snapshot(Pause):
    seconds = 0.12

    def run(self):
        return [self.send("POST", self.path("/snapshots"), {})]

    def look(self, answers, alive):
        super().look(answers, alive)
        shots = self.server.want(200, "GET", "/v1/snapshots")["snapshots"]
        check(answers[0].status != 201 or len(shots) == 1, f"a snapshot that was acknowledged is not there: {shots}")
        for shot in shots:
            made = self.create({"template": shot["id"]})
            equal(wait_for(lambda m=made: self.is_usable(m), PATIENCE, "a session of a snapshot")["stdout"], "own\nup\n", "its file")
            self.server.delete(made)
            self.server.reaches(made, "ended", 60)
            self.server.want(204, "DELETE", "/v1/snapshots/" + quoted(shot["id"]))


class Fork(Pause):
    seconds = 0.7

    def run(self):
        return [self.send("POST", self.path("/fork"), {"count": 2})]


class Delete(Work):
    seconds, deletes = 0.02, True

    def prepare(self):
        self.server.spawn(self.session, "sleep 1000")

    def run(self):
        return [self.send("DELETE", self.path(""))]

    def look(self, answers, alive):
        check(answers[0].status != 204 or not alive, "a deleted session lives on")


class MicrovmCreate(Create):
    body, seconds = MICROVM, 1.0


class MicrovmCold(Create):
    body, seconds = {**MICROVM, **COLD}, 1.0


class MicrovmFirst(Create):
    """The first session of a template, whose guest is booted for it; the image is made whole or is not there."""

    seconds = 12.0
    number = 0

    def begin(self):
        MicrovmFirst.number += 1
        self.name = f"first-{self.number}"
        self.server.want(201, "POST", "/v1/templates", {"name": self.name, "root": {"kind": "layers", "layers": ["small"]}})
        self.body = {**MICROVM, **COLD, "template": self.name}

    def look(self, answers, alive):
        made = self.create(self.body)
        wait_for(lambda: self.is_usable(made), PATIENCE, "the next session of the template")
        self.server.delete(made)
        self.server.reaches(made, "ended", 60)


class MicrovmExec(Exec):
    body, seconds = {**MICROVM, **COLD}, 2.0


KINDS = {"gvisor-create": Create, "gvisor-cold": Cold, "gvisor-exec": Exec, "gvisor-upload": Upload, "gvisor-download": Download,
         "gvisor-pause": Pause, "gvisor-snapshot": Snapshot, "gvisor-fork": Fork, "gvisor-delete": Delete,
         "microvm-create": MicrovmCreate, "microvm-cold": MicrovmCold, "microvm-first": MicrovmFirst, "microvm-exec": MicrovmExec}
