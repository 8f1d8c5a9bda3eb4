#!/usr/bin/python3
"""cordon-pull against registries that work, lie, break off and attack.

Goal: what it passes on has the digest and size that were asked for, whatever the registry does; everything else is an
error that says what was wrong; credentials go where they may go and nowhere else; private addresses are not reached.

usage: test_cordon_pull.py CORDON_PULL [name ...]
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "shared")]
from checks import Skip, check, equal, has, wait_for  # noqa: E402
from fake_aws import Aws, certificate  # noqa: E402
import fake_aws as aws  # noqa: E402
from fake_registry import Answer, Registry, basic, token_wall  # noqa: E402
from registry_images import Image, digest, layer  # noqa: E402
import pull_channel as wire  # noqa: E402
from pull_channel import Failure, Puller  # noqa: E402

PROGRAM = ""
NOISE = random.Random(13).randbytes(300000)


def image():
    return Image([layer({"etc/": None, "etc/name": b"one\n"}), layer({"data": NOISE})], {"Env": ["A=1"]})


class Bed:
    """An image in a fake registry, and a cordon-pull."""

    def __init__(self, made=None, **how):
        self.image = made or image()
        self.registry, self.puller = Registry(self.image), Puller(PROGRAM, **how)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.registry.close()
        code = self.puller.close()
        if args[0] is None:
            equal(code, 0, "exit status of cordon-pull; its log: " + "".join(self.puller.log[-5:]))

    def pull(self, **how):
        return self.puller.pull(self.registry.host, **how)

    def whole(self, got):
        equal(got[0][-1][1], self.image.config, "configuration")
        equal([digest(x) for x in got[1]], self.image.layers, "digests of the layers")

    def sent(self, header="authorization"):
        return [h.get(header) for _, h in self.registry.requests]


def fails(act, code, *parts):
    try:
        act()
    except Failure as e:
        equal(e.code, code, f"code of the failure ({e})")
        for part in parts:
            has(e.text, part, "text of the failure")
        return e
    raise AssertionError("it worked")


# ---- what works

def test_an_image_is_fetched_and_verified():
    with Bed() as bed:
        bed.whole(bed.pull())


def test_a_digest_pin_is_verified():
    with Bed() as bed:
        pin = digest(bed.image.manifest_bytes)
        bed.whole(bed.pull(reference=pin))
        bed.registry.answer = lambda target, headers: Answer(200, {}, b'{"other":1}') if pin in target else None
        fails(lambda: bed.pull(reference=pin), wire.INVALID, "another digest")


def test_an_index_is_followed_twice_but_not_further():
    with Bed() as bed:
        bed.image.index(depth=2)
        got = bed.pull()
        equal([kind for kind, _ in got[0]], [0, 0, 1, 2], "documents")
        bed.whole(got)
        bed.image.index(depth=1)
        fails(bed.pull, wire.INVALID, "more than 2 deep")


def test_tokens_are_asked_for_with_and_without_credentials():
    with Bed() as bed:
        token_wall(bed.registry, None)
        bed.whole(bed.pull())
        token = [t for t, _ in bed.registry.requests if t.startswith("/token")]
        equal(token, ["/token?service=the%20registry&scope=repository%3Aa%2Fb%3Apull"], "one token for all requests")
        token_wall(bed.registry, {"ann": "pass:word"})
        fails(bed.pull, wire.DENIED, "401")
        fails(lambda: bed.pull(user="ann", password="wrong"), wire.DENIED, "401")
        bed.whole(bed.pull(user="ann", password="pass:word"))


def test_a_new_token_is_asked_for_when_the_first_has_expired():
    with Bed() as bed:
        tokens = iter(["first", "second", "third"])
        valid = []

        def answer(target, headers):
            if target.startswith("/token"):
                valid[:] = [next(tokens), 3]
                return Answer(200, {}, json.dumps({"access_token": valid[0]}).encode())
            if valid and headers.get("authorization") == "Bearer " + valid[0] and valid[1]:
                valid[1] -= 1
                return None
            return Answer(401, {"WWW-Authenticate": f'Bearer realm="http://{bed.registry.host}/token"'})
        bed.registry.answer = answer
        bed.whole(bed.pull())
        equal(valid[0], "second", "token in use at the end")


def test_basic_credentials():
    with Bed() as bed:
        want = basic("ann", "pw")
        bed.registry.answer = lambda target, headers: (
            None if headers.get("authorization") == want
            else Answer(401, {"WWW-Authenticate": 'Basic realm="x"'}))
        bed.whole(bed.pull(user="ann", password="pw"))
        fails(bed.pull, wire.DENIED, "user name")


def test_a_registry_of_aws():
    """Its password is asked for with a signed request, once; the secret itself is sent to nobody."""
    with tempfile.TemporaryDirectory() as folder:
        made = image()
        cloud, puller = Aws(made, folder), None
        try:
            puller = Puller(PROGRAM, hosts=aws.HOSTS, ca=cloud.ca)
            ask = {"user": aws.KEY, "password": aws.SECRET, "aws": True, "open_hosts": f"{aws.HOST}, {aws.API}"}
            got = puller.pull(aws.HOST, **ask)
            equal([digest(x) for x in got[1]], made.layers, "layers")
            equal([(path, body) for path, _, body in cloud.asked], [("/", b"{}")], "requests to the API")
            sent = [h.get("authorization") for _, h in cloud.registry.requests]
            equal((sent[0], set(sent[1:])), (None, {basic("AWS", aws.PASSWORD)}), "Authorization at the registry")
            cloud.registry.requests.clear()
            fails(lambda: puller.pull(aws.HOST, **{**ask, "password": aws.SECRET[::-1]}), wire.DENIED, "InvalidSignatureException", "AWS")
            fails(lambda: puller.pull(aws.HOST, **{**ask, "user": "AKIDOTHER"}), wire.DENIED, "UnrecognizedClientException")
            fails(lambda: puller.pull(aws.HOST, **{**ask, "user": "A\r\nX: y"}), wire.INVALID, "cannot be written")
            # an API at a private address needs the operator, as every host
            fails(lambda: puller.pull(aws.HOST, **{**ask, "open_hosts": aws.HOST}), wire.DENIED, "loopback")
            equal({h.get("authorization") for _, h in cloud.registry.requests}, {None}, "Authorization without a password")
            everything = repr((cloud.asked, cloud.registry.requests, puller.log))
            check(aws.SECRET not in everything and aws.SECRET[::-1] not in everything, "the secret in a request or in the log")
            check(aws.PASSWORD not in "".join(puller.log), "the password in the log")
        finally:
            cloud.close()
            if puller:
                equal(puller.close(), 0, "exit status of cordon-pull")


def test_credentials_of_aws_are_for_aws():
    with Bed() as bed:
        bed.registry.answer = lambda target, headers: Answer(401, {"WWW-Authenticate": 'Basic realm="x"'})
        fails(lambda: bed.pull(user=aws.KEY, password=aws.SECRET, aws=True), wire.INVALID, "not a registry of AWS")
        equal(set(bed.sent()), {None}, "Authorization")


def test_no_header_leaves_for_another_host():
    with Bed() as bed, Bed(bed.image) as other:
        token_wall(bed.registry, {"ann": "pw"})
        wall = bed.registry.answer

        def answer(target, headers):
            denied = wall(target, headers)
            if denied is None and "/blobs/" in target:
                return Answer(307, {"Location": f"http://{other.registry.host}{target}?signature=xyz"})
            return denied
        bed.registry.answer = answer
        bed.whole(bed.pull(user="ann", password="pw", open_hosts=f"{bed.registry.host}, {other.registry.host}"))
        equal(set(other.sent()), {None}, "Authorization at the other host")
        check(other.registry.requests, "the other host was asked")
        wait_for(lambda: any("/blobs/" in line for line in bed.puller.log), name="log of the requests")
        check(not any("xyz" in line for line in bed.puller.log), "no query of a redirect in the log")


def test_a_host_behind_a_redirect_gets_no_credentials_by_asking():
    with Bed() as bed, Bed(bed.image) as other:
        other.registry.answer = lambda target, headers: Answer(401, {"WWW-Authenticate": 'Basic realm="give"'})
        bed.registry.answer = lambda target, headers: (
            Answer(302, {"Location": f"http://{other.registry.host}/x"}) if "/blobs/" in target else None)
        fails(lambda: bed.pull(user="ann", password="pw", open_hosts="127.0.0.1"), wire.DENIED, "401")
        equal(set(other.sent()), {None}, "Authorization at the other host")


def test_a_mirror_is_asked_first_and_without_credentials():
    with Bed() as bed, Bed(bed.image) as mirror:
        how = {"mirror": f"http://{mirror.registry.host}", "open_hosts": "127.0.0.1", "user": "ann", "password": "pw"}
        bed.whole(bed.pull(**how))
        equal(bed.registry.requests, [], "requests to the registry")
        mirror.registry.answer = lambda target, headers: Answer(401, {"WWW-Authenticate": 'Basic realm="m"'})
        bed.whole(bed.pull(**how))
        equal(set(mirror.sent()), {None}, "Authorization at the mirror")
        equal({t for t, _ in bed.registry.requests} != set(), True, "the registry was asked")


# ---- what breaks and passes

def test_a_broken_blob_is_continued_where_it_ended():
    with Bed() as bed:
        big, breaks = bed.image.layers[1], [100000, 50000, 120000]

        def answer(target, headers):
            if big in target and breaks:
                usual = bed.registry.usual(target, headers)
                usual.cut = breaks.pop(0)
                return usual
            return None
        bed.registry.answer = answer
        bed.whole(bed.pull())
        ranges = [h.get("range") for t, h in bed.registry.requests if big in t]
        equal(ranges[0], None)
        equal([int(r[6:-1]) for r in ranges[1:]], [100000, 150000, 270000], "where it continued")


def test_a_registry_without_ranges_sends_all_again():
    with Bed() as bed:
        big, breaks = bed.image.layers[1], [100000]

        def answer(target, headers):
            if big not in target:
                return None
            return Answer(200, {}, bed.image.blobs[big], cut=breaks.pop() if breaks else None)
        bed.registry.answer = answer
        bed.whole(bed.pull())


def test_retry_after_is_obeyed():
    with Bed() as bed:
        times = []

        def answer(target, headers):
            times.append(time.monotonic())
            return Answer(429, {"Retry-After": "1"}) if len(times) == 1 else None
        bed.registry.answer = answer
        bed.whole(bed.pull())
        check(times[1] - times[0] >= 0.9, f"it waited {times[1] - times[0]:.2f} s")
        times.clear()
        bed.registry.answer = lambda target, headers: Answer(429, {"Retry-After": "86400"})
        fails(bed.pull, wire.LIMIT, "86400 s")


def test_failures_of_the_server_are_tried_again():
    with Bed() as bed:
        left = [503, 502]
        bed.registry.answer = lambda target, headers: Answer(left.pop()) if left else None
        bed.whole(bed.pull())


# ---- hostile registries

def silent(seconds):
    time.sleep(seconds)  # a server that does not answer


def changed(bed, what, body):
    """The registry answers requests for `what` with this."""
    bed.registry.answer = lambda target, headers: body if what in target else None


HOSTILE = {
    "a manifest of 1 MiB and a byte": (lambda b: changed(b, "manifests", Answer(200, {}, b" " * ((1 << 20) + 1))), wire.LIMIT, "longer"),
    "a manifest without an end": (lambda b: changed(b, "manifests", Answer(200, {"Transfer-Encoding": "chunked"},
                                  b"100000\r\n" + b" " * 0x100000 + b"\r\n", length=False)), wire.SYSTEM, "closed"),
    "an endless manifest": (lambda b: changed(b, "manifests", Answer(200, {"Transfer-Encoding": "chunked"},
                            (b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 5 + b"0\r\n\r\n", length=False)),
                            wire.LIMIT, "longer"),
    "a manifest that is no JSON": (lambda b: changed(b, "manifests", Answer(200, {}, b"<html>")), wire.INVALID, ""),
    "a manifest of many values": (lambda b: changed(b, "manifests", Answer(
        200, {}, b'{"layers":[0' + b",0" * 100000 + b"]}")), wire.INVALID, "values"),
    "another configuration": (lambda b: changed(b, digest(b.image.config), Answer(200, {}, b"x" * len(b.image.config))),
                              wire.INVALID, "another digest"),
    "a longer configuration": (lambda b: changed(b, digest(b.image.config), Answer(200, {}, b.image.config + b" ")),
                               wire.INVALID, "announced"),
    "a layer with other bytes": (lambda b: changed(b, b.image.layers[1], Answer(
        200, {}, b"x" * len(b.image.blobs[b.image.layers[1]]))), wire.INVALID, "another digest"),
    "a short layer": (lambda b: changed(b, b.image.layers[1], Answer(200, {}, b"short")), wire.INVALID, "announced"),
    "a short layer without its length": (lambda b: changed(b, b.image.layers[1], Answer(
        200, {}, b"short", length=False)), wire.INVALID, "sent 5 bytes"),
    "a long layer without its length": (lambda b: changed(b, b.image.layers[1], Answer(
        200, {}, b.image.blobs[b.image.layers[1]] + b"x", length=False)), wire.INVALID, "more than"),
    "a compressed answer": (lambda b: changed(b, b.image.layers[1], Answer(
        200, {"Content-Encoding": "gzip"}, b.image.blobs[b.image.layers[1]])), wire.INVALID, "encoded"),
    "redirects in a circle": (lambda b: changed(b, "blobs", Answer(307, {"Location": "/v2/a/b/blobs/x"})),
                              wire.INVALID, "redirects"),
    "a redirect to plain http elsewhere": (lambda b: changed(b, "blobs", Answer(
        307, {"Location": "http://example.com/x"})), wire.INVALID, "loopback only"),
    "a redirect to another scheme": (lambda b: changed(b, "blobs", Answer(
        307, {"Location": "file:///etc/passwd"})), wire.INVALID, "neither https"),
    "a redirect with a user": (lambda b: changed(b, "blobs", Answer(
        307, {"Location": "https://me:pw@example.com/x"})), wire.INVALID, "user name"),
    "a redirect to a metadata service": (lambda b: changed(b, "blobs", Answer(
        307, {"Location": "https://169.254.169.254/latest"})), wire.DENIED, "metadata"),
    "a redirect to a private address": (lambda b: changed(b, "blobs", Answer(
        307, {"Location": "https://10.1.2.3/x"})), wire.DENIED, "private"),
    "a redirect to another port of this machine": (lambda b: changed(b, "blobs", Answer(
        307, {"Location": "http://127.0.0.1:9/x"})), wire.DENIED, "loopback"),
    "a token server at a private address": (lambda b: changed(b, "manifests", Answer(
        401, {"WWW-Authenticate": 'Bearer realm="https://192.168.7.7/token"'})), wire.DENIED, "private"),
    "a token server by plain http": (lambda b: changed(b, "manifests", Answer(
        401, {"WWW-Authenticate": 'Bearer realm="http://example.com/token"'})), wire.INVALID, "loopback only"),
    "a challenge that is unknown": (lambda b: changed(b, "manifests", Answer(
        401, {"WWW-Authenticate": "Negotiate"})), wire.DENIED, "401"),
    "a malformed answer": (lambda b: changed(b, "manifests", Answer(raw=b"HTTP/1.1 200 OK\nX: y\n\n")), wire.INVALID,
                           "malformed"),
    "two lengths": (lambda b: changed(b, "manifests", Answer(
        raw=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}")), wire.INVALID, "malformed"),
    "an image of another platform": (lambda b: b.image.index(entries=[
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(b"x"), "size": 9,
         "platform": {"os": "linux", "architecture": "s390x"}}]), wire.NOT_FOUND, "s390x"),
    "schema 1": (lambda b: changed(b, "manifests", Answer(
        200, {"Content-Type": "application/vnd.docker.distribution.manifest.v1+prettyjws"},
        b'{"schemaVersion":1,"name":"a/b","fsLayers":[]}')), wire.UNSUPPORTED, "schema 1"),
    "foreign layers": (lambda b: b.image.remake(layers=[{
        "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "digest": digest(b"x"), "size": 4,
        "urls": ["https://example.com/x"]}]), wire.UNSUPPORTED, "distributed"),
    "a digest of another kind": (lambda b: b.image.remake(config={
        "mediaType": "application/vnd.oci.image.config.v1+json", "digest": "md5:" + "0" * 32, "size": 4}),
        wire.INVALID, ""),
    "a configuration that is too large": (lambda b: b.image.remake(config={
        **b.image.manifest["config"], "size": (1 << 20) + 1}), wire.INVALID, "larger"),
    "an image that does not exist": (lambda b: changed(b, "manifests", Answer(
        404, {}, b'{"errors":[{"code":"NAME_UNKNOWN"}]}')), wire.NOT_FOUND, "NAME_UNKNOWN"),
    "an image that is forbidden": (lambda b: changed(b, "manifests", Answer(
        403, {}, b'{"errors":[{"code":"DENIED"}]}')), wire.DENIED, "403"),
}


def test_hostile_registries():
    with Bed() as bed:
        wrong = []
        for name, (prepare, code, part) in HOSTILE.items():
            bed.image = bed.registry.image = image()
            bed.registry.answer = lambda target, headers: None
            prepare(bed)
            try:
                fails(bed.pull, code, part)
            except (AssertionError, TimeoutError) as e:
                wrong.append(f"{name}: {e}")
        equal(wrong, [], "rows that went otherwise")
        bed.image = bed.registry.image = image()
        bed.registry.answer = lambda target, headers: None
        bed.whole(bed.pull())


def test_a_dripping_or_silent_registry_is_given_up():
    with Bed() as bed:
        big, usual = bed.image.layers[1], bed.registry.answer
        bed.registry.answer = lambda target, headers: (
            Answer(200, {}, bed.image.blobs[big], drip=(10, 0.1)) if big in target and "range" not in headers
            else Answer(503) if big in target else None)
        fails(lambda: bed.pull(patience=700), wire.SYSTEM, "503")
        wait_for(lambda: any("too slowly" in line for line in bed.puller.log), name="the reason in the log")
        bed.registry.answer = lambda target, headers: silent(3) if "manifests" in target else None
        fails(lambda: bed.pull(patience=300), wire.SYSTEM, "in time")


def test_a_pull_has_a_deadline():
    with Bed() as bed:
        bed.registry.answer = lambda target, headers: silent(5) if "manifests" in target else None
        fails(lambda: bed.pull(deadline=1000), wire.LIMIT, "longer than 1 s")


def test_a_slow_reader_is_waited_for():
    with Bed() as bed:
        pull, _ = bed.puller.documents(bed.registry.host, patience=300)
        big, usual = bed.image.layers[1], bed.registry.answer
        got = bed.puller.blob(pull, big, len(bed.image.blobs[big]), slow=0.3)
        equal(digest(got), big)


def test_a_reader_that_ends_ends_the_blob():
    with Bed() as bed:
        pull, _ = bed.puller.documents(bed.registry.host)
        read, write = os.pipe()
        os.close(read)
        big, usual = bed.image.layers[1], bed.registry.answer
        bed.puller.send(wire.BLOB, pull, 1, bytes.fromhex(big[7:]) + (300200).to_bytes(8, "little"), [write])
        os.close(write)
        fails(lambda: bed.puller.expect(pull), wire.INVALID, "announced")
        read, write = os.pipe()
        os.close(read)
        size = len(bed.image.blobs[big])
        bed.puller.send(wire.BLOB, pull, 1, bytes.fromhex(big[7:]) + size.to_bytes(8, "little"), [write])
        os.close(write)
        fails(lambda: bed.puller.expect(pull), wire.CONFLICT, "not wanted")
        equal(digest(bed.puller.blob(pull, big, size)), big, "the pull goes on")


# ---- addresses and TLS

def test_private_addresses_need_the_operator():
    with Bed(hosts="10.1.2.3 corp.test\n127.0.0.1 trick.test\n") as bed:
        for host, why in (("127.0.0.1:9", "loopback"), ("localhost:9", "loopback"), ("10.0.0.1", "private"),
                          ("corp.test", "private"), ("trick.test:9", "loopback"), ("[::1]:9", "loopback"),
                          ("169.254.169.254", "metadata"), ("[::ffff:10.0.0.1]", "private")):
            fails(lambda: bed.puller.pull(host, open_hosts="other.test"), wire.DENIED, why)
        fails(lambda: bed.puller.pull("169.254.169.254", open_hosts="169.254.169.254"), wire.DENIED, "metadata")
        # the name alone does not make it plain: a name of the operator's that leads to loopback is asked by TLS
        fails(lambda: bed.puller.pull(f"trick.test:{bed.registry.port}", open_hosts="trick.test"), wire.SYSTEM, "TLS")


def test_servers_are_verified():
    with tempfile.TemporaryDirectory() as folder:
        tls = certificate(folder, "reg.test")
        with open(tls[0], "rb") as f:
            ca = f.read()
        made = image()
        registry = Registry(made, tls=tls)
        host = f"reg.test:{registry.port}"
        hosts = "127.0.0.1 reg.test other.test\n"
        trusting, doubting = Puller(PROGRAM, hosts=hosts, ca=ca), Puller(PROGRAM, hosts=hosts)
        try:
            got = trusting.pull(host)
            equal([digest(x) for x in got[1]], made.layers, "layers over TLS")
            for puller, name in ((doubting, "reg.test"), (trusting, "other.test")):
                try:
                    puller.pull(f"{name}:{registry.port}", patience=2000)
                    raise AssertionError("a server was not verified")
                except Failure as e:
                    equal(e.code, wire.DENIED, str(e))
        finally:
            registry.close()
            trusting.close()
            doubting.close()


# ---- the process

def test_it_is_confined():
    with Bed() as bed:
        bed.whole(bed.pull())
        with open(f"/proc/{bed.puller.pid}/status", encoding="ascii") as f:
            status = dict(line.split(":", 1) for line in f)
        equal(status["Seccomp"].strip(), "2", "seccomp")
        equal(status["NoNewPrivs"].strip(), "1", "no new privileges")


def test_nonsense_on_the_channel_ends_it():
    for data in (b"\xff" * 64, b"\x08\0\0\0\x40\0\0\0" + b"\1\0\0\0\0\0\0\0", b"\x08\0\0\0\x02\0\0\0" + b"\1\0\0\0\1\0\0\0"):
        puller = Puller(PROGRAM)
        puller.ours.sendall(data)
        equal(puller.receive(10), None, "the channel")
        puller.close()


def test_many_pulls_at_once_and_a_bound():
    with Bed() as bed:
        numbers = [bed.puller.start(bed.registry.host, deadline=20000) for _ in range(20)]
        failed = 0
        for number in numbers:
            try:
                while bed.puller.expect(number)[2][:1] != b"\2":
                    pass
            except Failure as e:
                equal(e.code, wire.LIMIT, str(e))
                failed += 1
        check(failed <= 4, f"{failed} of 20 were refused")
        for number in numbers:
            bed.puller.send(wire.END, number)
        bed.whole(bed.pull())


def test_pulls_and_layers_at_a_time():
    """Up to their bounds, while the registry sends nothing of the layers; one more of each is refused."""
    with Bed() as bed:
        held = [bed.puller.documents(bed.registry.host, deadline=60000)[0] for _ in range(64)]
        fails(lambda: bed.puller.documents(bed.registry.host), wire.LIMIT, "too many pulls at a time")
        big, usual = bed.image.layers[1], bed.registry.answer
        pipes = [os.pipe() for _ in range(5)]
        ended = threading.Event()
        bed.registry.answer = lambda target, headers: ended.wait(60) and None if "blobs" in target else None
        for number, (_, write) in enumerate(pipes, 1):
            bed.puller.send(wire.BLOB, held[0], number, bytes.fromhex(big.split(":")[1]) + struct.pack("<Q", 1 << 30), [write])
        fails(lambda: bed.puller.expect(held[0]), wire.CONFLICT, "too many blobs at a time")
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])
        for number in held:
            bed.puller.send(wire.END, number)
        ended.set()
        bed.registry.answer = usual
        bed.whole(bed.pull())


def main():
    global PROGRAM
    PROGRAM = sys.argv[1]
    tests = [(name, act) for name, act in globals().items() if name.startswith("test_")]
    if sys.argv[2:]:
        tests = [(name, act) for name, act in tests if name[5:] in sys.argv[2:] or name in sys.argv[2:]]
    print(f"1..{len(tests)}")
    bad = 0
    for number, (name, act) in enumerate(tests, 1):
        try:
            act()
            print(f"ok {number} {name[5:]}", flush=True)
        except Skip as e:
            print(f"ok {number} {name[5:]} # SKIP {e}", flush=True)
        except Exception as e:  # noqa: BLE001
            bad += 1
            for line in f"{type(e).__name__}: {e}".splitlines():
                print("#", line)
            print(f"not ok {number} {name[5:]}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
