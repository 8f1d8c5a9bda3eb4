#!/usr/bin/python3
"""cordon audit witness: a checkpoint is cosigned by witnesses, with proofs made from tiles.

Goal: a witness that follows C2SP's tlog-witness signs every growth of a log, whatever it saw before, and the verifiers
accept its signature; answers that are wrong are refused and never stored; a log that was rolled back is told.

usage: test_witness.py CORDON_CLIENT [name ...]
"""
import os
import subprocess
import sys
import tempfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "shared"), os.path.join(HERE, "..", "notary"), os.path.join(HERE, "..", "..", "examples")]
from audit_world import Signer, World, verify  # noqa: E402
from checks import check, equal, has, named_tests, run_tap  # noqa: E402
from witness import Handler, Server, Witness  # noqa: E402

CLIENT = ""


class LogServer(Server):
    """The routes of a server that the verb uses, over a log of the test's."""

    def __init__(self, world, keeps=True):
        self.world, self.stored, self.tiles = world, [], 0
        server = self

        class H(Handler):
            def do_GET(self):
                at = urllib.parse.urlsplit(self.path)
                equal(self.headers["Authorization"], "Bearer key_test", "the key")
                if at.path == "/v1/audit/checkpoint":
                    return self.answer(200, server.world.notes[max(server.world.notes)])
                return self.answer(*server.tile(at.path.removeprefix("/v1/audit/tile/")), kind="application/octet-stream")

            def do_POST(self):
                body = self.body().decode()
                if not keeps:
                    return self.answer(404, '{"error":{"code":"not_found","message":"no such route"}}', "application/json")
                server.stored.append(verify.Note(body))
                self.answer(200, "{}", "application/json")
        super().__init__(H)

    def tile(self, path):
        self.tiles += 1
        level, _, rest = path.partition("/")
        index, _, width = rest.partition(".p/")
        level, width, number = int(level), int(width or 256), int(index.replace("/", "").replace("x", ""))
        step, log = 256 ** level, self.world.log
        if (number * 256 + width) * step > len(log.hashes):
            return 404, b""
        return 200, b"".join(log.of(i * step, (i + 1) * step) for i in range(number * 256, number * 256 + width))


def run(server, *words):
    done = subprocess.run([CLIENT, "audit", "witness", "--server", server.url, *words], capture_output=True, text=True, timeout=60,
                          env=os.environ | {"CORDON_API_KEY": "key_test"})
    return done.returncode, done.stdout, done.stderr


def grown(n):
    w = World()
    for i in range(n):
        w.leaves.append("")
        w.log.add(b"record %d" % i)
    w.checkpoint()
    return w


def grow(w, n):
    size = len(w.leaves)
    for i in range(size, size + n):
        w.leaves.append("")
        w.log.add(b"record %d" % i)
    w.checkpoint()


def test_every_growth_is_cosigned():
    w = grown(1)
    with LogServer(w) as log, Witness("witness.example/one", {w.origin: w.vkey}) as one, Witness("witness.example/two", {w.origin: w.vkey}) as two:
        words = [one.url, one.signer.vkey, two.url, two.signer.vkey]
        for more in (0, 1, 1, 3, 100, 150, 300, 1, 700):
            if more:
                grow(w, more)
            size = len(w.leaves)
            code, out, err = run(log, *words)
            equal((code, err), (0, ""), f"{size} records")
            equal(out.count(f"cosigned {w.origin} with {size} records"), 2, out)
            equal([one.seen[w.origin], two.seen[w.origin]], [(size, w.log.root())] * 2, "what the witnesses know")
            for note, witness in zip(log.stored[-2:], (one, two)):
                check(note.signed_by(verify.Key(witness.signer.vkey)) and note.size == size, "what is stored")
        # The same once more: a witness signs it again.
        equal(run(log, *words)[0], 0, "the same checkpoint again")


def test_the_saved_checkpoint_has_all_signatures():
    w = grown(300)
    with LogServer(w) as log, Witness("witness.example/one", {w.origin: w.vkey}) as one, tempfile.TemporaryDirectory() as d:
        equal(run(log, "--out", f"{d}/checkpoint", one.url, one.signer.vkey)[0], 0, "exit status")
        with open(f"{d}/checkpoint", newline="") as f:
            note = verify.Note(f.read())
        check(note.signed_by(verify.Key(w.vkey)) is True and note.signed_by(verify.Key(one.signer.vkey)), "signatures")
    with LogServer(w, keeps=False) as log, Witness("witness.example/one", {w.origin: w.vkey}) as one, tempfile.TemporaryDirectory() as d:
        equal(run(log, "--out", f"{d}/checkpoint", one.url, one.signer.vkey)[0], 0, "a server that keeps none, but a file")
        check(os.path.exists(f"{d}/checkpoint"), "the file")
        check(run(log, one.url, one.signer.vkey)[0] != 0, "neither a server nor a file keeps it")


def test_a_log_that_was_rolled_back():
    w = grown(300)
    with LogServer(w) as log, Witness("witness.example/one", {w.origin: w.vkey}) as one:
        equal(run(log, one.url, one.signer.vkey)[0], 0, "before")
        log.world = grown(200)
        code, _, err = run(log, one.url, one.signer.vkey)
        check(code != 0, "an older log was accepted")
        has(err, "rolled back", "stderr")
        # Another log of more records.
        fork = World()
        for i in range(400):
            fork.leaves.append("")
            fork.log.add(b"other %d" % i)
        fork.checkpoint()
        log.world = fork
        code, _, err = run(log, one.url, one.signer.vkey)
        check(code != 0, "a fork was accepted")
        has(err, "422", "stderr")
        equal(one.seen[w.origin][0], 300, "what the witness knows")
        equal(len(log.stored), 1, "stored")


def test_answers_that_are_wrong():
    w = grown(20)
    other = Signer("witness.example/one", 4, seed=b"o" * 32)
    text = w.notes[20].split("\n\n")[0] + "\n"
    signer = Signer("witness.example/one", 4)

    class Liar(Server):
        def __init__(self, status, body):
            class H(Handler):
                def do_POST(self):
                    self.body()
                    self.answer(status, body)
            super().__init__(H)
    with LogServer(w) as log:
        for status, body in ((200, other.line(text)), (200, signer.line(text.replace("20", "21", 1))), (200, ""), (200, "x\n"), (200, signer.line(text)[:-1]), (200, "y" * 20000),
                             (409, "x\n"), (409, ""), (409, "20"), (409, "21\n"), (409, "9999999999999999999\n"), (409, "5\n"), (404, "no\x1b[31m\n"), (500, ""), (302, "")):
            with Liar(status, body) as liar:
                code, _, err = run(log, liar.url, signer.vkey)
                check(code != 0 and err, f"{status} {body[:40]!r} was accepted")
                check("\x1b" not in err, f"control characters: {err!r}")
        equal(log.stored, [], "stored")
        code, _, err = run(log, "http://127.0.0.1:1", signer.vkey)
        check(code != 0, "a witness that is not there")
        for words in ([], ["http://127.0.0.1:1"], ["http://127.0.0.1:1", "nonsense"]):
            equal(run(log, *words)[0], 2, f"usage: {words}")


def test_only_the_line_of_the_witness_is_kept():
    """A witness that adds a wrong line of another key must not spoil the checkpoint for who has that key."""
    w = grown(20)
    text = w.notes[20].split("\n\n")[0] + "\n"
    signer, other = Signer("witness.example/one", 4), Signer("witness.example/two", 4)

    def wrong(of):
        return f"\u2014 {of.name} {verify.base64.b64encode(of.id + bytes(72 if of.kind == 4 else 64)).decode()}\n"

    class Spoiler(Server):
        def __init__(self, body):
            class H(Handler):
                def do_POST(self):
                    self.body()
                    self.answer(200, body)
            super().__init__(H)
    with LogServer(w) as log, tempfile.TemporaryDirectory() as d:
        with Spoiler(wrong(w.signers[0]) + signer.line(text) + wrong(other)) as spoiler:
            equal(run(log, "--out", f"{d}/checkpoint", spoiler.url, signer.vkey)[0], 0, "exit status")
        with open(f"{d}/checkpoint", newline="") as f:
            note = verify.Note(f.read())
        for kept in (note, log.stored[-1]):
            equal([name for name, _, _ in kept.signatures], [w.signers[0].name, signer.name], "lines that are kept")
            check(kept.signed_by(verify.Key(w.vkey)) is True and kept.signed_by(verify.Key(signer.vkey)), "signatures")
        with Spoiler(signer.line(text) * 2) as spoiler:
            check(run(log, spoiler.url, signer.vkey)[0] != 0, "two lines of one key")


def test_one_of_two_fails():
    w = grown(5)
    with LogServer(w) as log, Witness("witness.example/one", {}) as one, Witness("witness.example/two", {w.origin: w.vkey}) as two:
        code, out, err = run(log, one.url, one.signer.vkey, two.url, two.signer.vkey)
        check(code != 0, "exit status")
        has(err, "witness.example/one: the witness answered 404", "stderr")
        has(out, "witness.example/two cosigned", "stdout")
        equal(len(log.stored), 1, "stored")


def main():
    global CLIENT
    CLIENT = os.path.abspath(sys.argv[1])
    return run_tap(named_tests(globals(), sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
