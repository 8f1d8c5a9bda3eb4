#!/usr/bin/python3 -B
"""Goal: Cordon builds and passes its unit tests on Debian 13. A template of it is made by mmdebstrap from the distribution's
mirror, the sources are copied into a session of it, and the build runs there as an ordinary user.

    test_debian13.py CORDON

Not a part of make check, as it fetches packages and takes minutes: make check-debian13. MIRROR: another mirror."""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../server"))
from harness import check, equal, has, note, run_tests  # noqa: E402

ROOT = os.path.abspath(os.path.join(HERE, "../.."))
FAILED = r"^ *\d+/\d+ cordon:\w+ / (.*?) +(?:ERROR|FAIL|TIMEOUT) "
SKIPPED = r"^ *\d+/\d+ cordon:\w+ / .*? +SKIP "
# On a disk: in memory the files of the build and its processes together would need more than most machines have.
PLACE = {"storage": "disk", "limits": {"memory": "3G", "disk": "10G", "cpus": "2"}}


def packages():
    with open(os.path.join(ROOT, "tools/packages-build"), encoding="utf-8") as f:
        return ",".join(line.split("#")[0].strip() for line in f if line.split("#")[0].strip())


def cli(server, *words, stdin=subprocess.DEVNULL, seconds=1800):
    done = subprocess.run([server.program, *words], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                          env={**os.environ, "CORDON_SERVER": server.url, "CORDON_API_KEY": server.key})
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        note(text[-4000:])
    equal(done.returncode, 0, f"cordon {' '.join(words)}")
    return text


def test_cordon_is_built_and_tested_on_debian_13(server):
    mirror = ["--mirror", os.environ["MIRROR"]] if "MIRROR" in os.environ else []
    cli(server, "template", "debian", "--include", packages(), *mirror, "trixie")
    session = server.create(template="debian-trixie", timeout=3600, **PLACE)["id"]
    has(cli(server, "exec", session, "--", "cat", "/etc/debian_version"), "13")
    sources = subprocess.run(["git", "-C", ROOT, "archive", "--format=tar", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
    server.run(session, "mkdir cordon")
    server.want(200, "PUT", f"/v1/sessions/{session}/files/tar?path=/home/user/cordon", sources,
                headers={"Content-Type": "application/x-tar"})
    said = cli(server, "exec", session, "--", "sh", "-ec",
               "cd cordon && meson setup build >log 2>&1 || { tail -20 log; exit 1; }; ninja -C build --quiet >>log 2>&1 || { tail -50 log; exit 1; };"
               " meson test -C build --no-rebuild --suite unit --suite fuzz || true")
    note("\n".join(line for line in said.splitlines() if re.search(FAILED + "|" + SKIPPED + "|^(Ok|Fail|Skipped|Timeout):", line)))
    failed = set(re.findall(FAILED, said, re.M))
    passed = int(re.search(r"^Ok: +(\d+)", said, re.M).group(1))
    still = []
    for name in sorted(failed):  # once more, alone, as tools/run-tests does
        done = server.run(session, f"cd cordon && meson test -C build --no-rebuild --verbose '{name}' >again 2>&1; "
                          "code=$?; tail -c 4000 again; exit $code")
        if done["exit_code"] != 0:
            still.append(name)
            note(f"{name}:\n{done['stdout']}")
    equal(still, [], "programs that fail")
    check(passed > 200, f"{passed} programs passed")
    server.delete(session)


if __name__ == "__main__":
    if os.getuid() != 0 or shutil.which("mmdebstrap") is None:
        print("1..0 # SKIP needs root and mmdebstrap")
        sys.exit(0)
    run_tests(globals(), memory_max="4G")
