#!/usr/bin/python3 -B
"""Goal: a request for a package that a registry redirects, or that is open while the policy changes, gets nothing that a
request of its own would not get, and its record says what was done for it.

    test_under_way.py CORDON_EGRESS CORDON_CACHE [name ...]
"""
from gate_world import answer, equal, get, main, world

VALUE, PLACEHOLDER = "tok-9fQ2xLmZ7TbKw0aRVd4U", "cordon_" + "A" * 32
GIT = {"registries": [{"ecosystem": "git", "host": "code.example", "files": ["files.example"]}], "unknown_age": "allow"}
OPEN = [{"host": "*", "tls": "terminate"}]


def secret(name="t", value=VALUE, hosts=("code.example",), **more):
    return {"name": name, "value": value, "hosts": list(hosts), "placeholder": PLACEHOLDER, **more}


def request_of(cell, **want):
    return cell.record(lambda r: r.get("kind") in ("request", "package") and all(r.get(k) == v for k, v in want.items()), 10)


def led(request):
    asked.append((request.line.split(" ")[1], request.get("Authorization")))
    return answer(b"", "302 Found", ("Location: https://files.example/storage/1",))


asked = []


def test_secrets_of_a_redirected_request():
    """The host that leads elsewhere got the secret: the one record of both says so."""
    files = []

    def kept(request):
        files.append(request.get("Authorization"))
        return answer(b"data")

    with world({"code.example": led, "files.example": kept}) as w:
        cell = w.cell(GIT, secrets=[secret()])
        asked.clear()
        reply = get(cell, "code.example", "/good/y/archive/v1.tar.gz", True, f"Authorization: Bearer {PLACEHOLDER}\r\n")
        equal((reply.status, reply.body), (200, b"data"), reply)
        equal((asked, files), ([("/good/y/archive/v1.tar.gz", f"Bearer {VALUE}")], [None]), "what the servers got")
        row = request_of(cell, name="files.example")
        equal((row["secrets"], row["status"]), ("t", 200), row)


def test_many_long_names_of_secrets():
    """A record has the names of all that were sent."""
    names = [f"{number:02d}" + "n" * 61 for number in range(20)]
    secrets = [{"name": name, "value": f"{VALUE}-{name[:2]}", "hosts": ["code.example"], "placeholder": "cordon_" + name[:2] * 16} for name in names]
    with world({"code.example": lambda r: answer(r.get("X-All").encode())}) as w:
        cell = w.cell(None, secrets=secrets, rules=OPEN)
        reply = get(cell, "code.example", "/", True, "X-All: " + " ".join(s["placeholder"] for s in secrets) + "\r\n")
        equal(set(reply.body.split()), {b"*" * (len(VALUE) + 3)}, "all values are put in, and covered in the answer")
        equal(request_of(cell, name="code.example")["secrets"].split(","), names)


if __name__ == "__main__":
    main(globals())
