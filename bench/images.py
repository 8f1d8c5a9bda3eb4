"""Images: pulled and unpacked, beside skopeo and umoci doing the same; a section of bench/run.

An image of 100 MiB and 5,000 files in five layers is made, pushed to a registry on loopback, and pulled from it in turns:
by the server (`POST /v1/templates/pull`, until the template is there, on disk and committed), and by `skopeo copy` into an
image layout followed by `umoci unpack`, which neither waits for the disk nor makes a template, and by `buildah pull`.
"""
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time

import containers
import server

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "registry"))
from registry_images import Image, layer  # noqa: E402

LAYERS, FILES, BYTES = 5, 1000, 20 * 1024  # of each layer; of each file
ROUNDS = 5
TARGET = 1.0


def make_image():
    noise = random.Random(1)
    folders = {f"usr/share/f{d}/": None for d in range(20)}
    return Image([layer({**folders, **{f"usr/share/f{i % 20}/l{n}-{i}": noise.randbytes(BYTES // 2) + b"text " * (BYTES // 10)
                                       for i in range(FILES)}}) for n in range(LAYERS)])


def serve_registry(folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{s.getsockname()[1]}"
    config = folder / "registry.yml"
    config.write_text(f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\nhttp: {{addr: '{host}'}}\n")
    process = subprocess.Popen(["docker-registry", "serve", config], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(tuple(host.split(":")), 1).close()
            return process, host
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("docker-registry does not start")


def ask(running, method, path, body=None):
    link = http.client.HTTPConnection(running.address, timeout=300)
    link.request(method, path, None if body is None else json.dumps(body),
                 {"X-API-Key": running.key_file.read_text().strip(), "Content-Type": "application/json"})
    answer = link.getresponse()
    text = answer.read()
    link.close()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
    return text


def pull(running, host):
    begin = time.perf_counter()
    text = ask(running, "POST", "/v1/templates/pull", {"reference": f"{host}/bench/image:t", "name": "bench"})
    taken = time.perf_counter() - begin
    if b"event: template" not in text or b'"shared":true' in text:
        raise RuntimeError(f"not pulled as it should be: {text[-500:]!r}")
    return taken


def forget(running):
    """The template and its layers, so that the next pull needs all of it."""
    ask(running, "DELETE", "/v1/templates/bench")
    layers = running.folder / "state" / "storage" / "layers"
    end = time.monotonic() + 60
    while os.listdir(layers) and time.monotonic() < end:
        time.sleep(0.05)


def by_tools(folder, host):
    shutil.rmtree(folder / "copy", ignore_errors=True)
    shutil.rmtree(folder / "bundle", ignore_errors=True)
    begin = time.perf_counter()
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", f"docker://{host}/bench/image:t",
                    f"oci:{folder}/copy:t"], check=True, capture_output=True)
    subprocess.run(["umoci", "unpack", "--image", f"{folder}/copy:t", folder / "bundle"], check=True, capture_output=True)
    return time.perf_counter() - begin


def by_buildah(folder, host):
    if containers.missing():
        return []
    with containers.Store(folder) as store:
        return [store.pull_ms(f"{host}/bench/image:t") / 1e3]


def section(setup, judge, table, heading):
    heading(f"images: {LAYERS * FILES * BYTES >> 20} MiB in {LAYERS * FILES} files pulled and unpacked; seconds")
    missing = [name for name in ("docker-registry", "skopeo", "umoci") if not shutil.which(name)]
    if missing or not setup.root:
        print(f"skipped: needs root, {' '.join(missing)}")
        judge("pull and unpack / skopeo copy + umoci unpack", TARGET, None)
        return
    folder = setup.folder / "images"
    folder.mkdir()
    make_image().write_layout(folder / "oci")
    process, host = serve_registry(folder)
    ours, theirs, peer = [], [], []
    try:
        subprocess.run(["skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", f"oci:{folder}/oci:t",
                        f"docker://{host}/bench/image:t"], check=True, capture_output=True)
        with server.Server(setup.build, setup.folder, setup.outside, {"registries": "127.0.0.1"}) as running:
            for _ in range(2 if setup.options.rounds < 100 else ROUNDS):
                theirs.append(by_tools(folder, host))
                peer += by_buildah(folder, host)
                ours.append(pull(running, host))
                forget(running)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    rows = [[name, len(x), f"{min(x):.2f}", f"{statistics.median(x):.2f}", f"{max(x):.2f}"]
            for name, x in (("cordon template pull", ours), ("skopeo copy + umoci unpack", theirs), ("buildah pull", peer)) if x]
    table(["", "n", "min", "median", "max"], rows)
    judge("pull and unpack / skopeo copy + umoci unpack", TARGET, statistics.median(ours) / statistics.median(theirs))
