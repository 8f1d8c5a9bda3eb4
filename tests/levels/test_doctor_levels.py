#!/usr/bin/python3 -B
"""test_doctor_levels.py - cordon doctor runs a program at each level, and says which step failed where that does not work."""
import glob
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shared"))
import guest_kernel  # noqa: E402
import runsc  # noqa: E402
from checks import Skip, check, equal, has, named_tests, run_tap  # noqa: E402

CORDON = str(pathlib.Path(sys.argv[1]).resolve())
LEVELS = ("container", "gvisor", "microvm")


# In a pid namespace of its own, so that all processes in it are doctor's: those that are left after ten seconds are printed.
WATCHED = """
"$@"; code=$?
for i in $(seq 100); do
    set -- /proc/[0-9]*
    [ $# = 1 ] && exit $code  # this shell
    sleep 0.1
done
ps -eo pid,args >&2
exit $code
"""


def doctor(*options, **more):
    """{level: (yes or no, the text of its row and of the lines that belong to it)}. Nothing is left; the exit code does not
    depend on gvisor and microvm."""
    p = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", WATCHED, "sh", *more.pop("before", ()),
                        more.pop("program", CORDON), "doctor", "--boot-timeout", "3m", *options], capture_output=True, text=True, timeout=500, **more)
    equal((p.returncode, p.stderr), (0, ""), p.stdout)
    equal(glob.glob("/tmp/cordon-doctor-*"), [], "files of the trial")
    found = re.findall(r"^level +(\w+) +(yes|no) +(.*\n(?: .*\n)*)", p.stdout, re.M)
    return {name: (answer, text) for name, answer, text in found}


def damaged_runsc(folder):
    """One that tells its version, and then does not know its platform."""
    path = folder / "runsc"
    path.write_bytes(pathlib.Path(runsc.find(CORDON)).read_bytes().replace(b"systrap", b"systrxp"))
    path.chmod(0o755)
    return str(path)


def damaged_state(folder, name, change):
    """A state directory whose guest kernel has this file changed, and the manifest with it."""
    shutil.copytree(guest_kernel.state(CORDON) / "guest", folder / "guest")
    data = change((folder / "guest" / name).read_bytes())
    (folder / "guest" / name).write_bytes(data)
    manifest = folder / "guest" / "manifest"
    manifest.write_text(re.sub(rf"^{name} \w+$", f"{name} {hashlib.sha256(data).hexdigest()}", manifest.read_text(), flags=re.M))
    return str(folder)


def endless(kernel):
    """The kernel with a jump to itself as the first instruction: its ELF note has the physical address of the entry."""
    note = kernel.index(b"Xen\0", kernel.index(struct.pack("<I", 18) + b"Xen\0"))
    (entry,) = struct.unpack_from("<I", kernel, note + 4)
    (table,) = struct.unpack_from("<Q", kernel, 32)
    for i in range(struct.unpack_from("<H", kernel, 56)[0]):
        kind, _, offset, _, address, size, _, _ = struct.unpack_from("<IIQQQQQQ", kernel, table + 56 * i)
        if kind == 1 and address <= entry < address + size:
            at = offset + entry - address
            return kernel[:at] + b"\xeb\xfe" + kernel[at + 2:]
    raise AssertionError("the kernel's entry is in no segment")


def test_a_program_runs_at_each_level():
    got = doctor("--runsc", runsc.find(CORDON), "--state-dir", guest_kernel.state(CORDON))
    for level in LEVELS:
        equal(got[level][0], "yes", got[level][1])
        check(re.match(r"a program ran in \d+\.\d\d s ", got[level][1]), got[level][1])
    has(got["gvisor"][1], "runsc of ")
    check(re.search(r"QEMU \d+\.\d+ with (kvm|tcg), guest kernel \S+", got["microvm"][1]), got["microvm"][1])


def test_quick_starts_no_guest():
    with tempfile.TemporaryDirectory() as name:
        got = doctor("--quick", "--runsc", damaged_runsc(pathlib.Path(name)), "--state-dir", guest_kernel.state(CORDON))
    for level in "gvisor", "microvm":
        equal(got[level][0], "yes", level)
        has(got[level][1], "not tried (--quick): ")


def test_damaged_engine_and_a_kernel_that_hangs():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        options = ("--runsc", damaged_runsc(folder), "--state-dir", damaged_state(folder, "vmlinux", endless))
        got = doctor(*options, "--boot-timeout", "2s")
    equal((got["container"][0], got["gvisor"][0], got["microvm"][0]), ("yes", "no", "no"), "levels")
    has(got["gvisor"][1], "the guest did not start (engine)")
    has(got["gvisor"][1], "unknown platform", "what runsc printed")
    has(got["microvm"][1], "the guest did not start (time)")


def test_a_guest_that_cannot_boot():
    """Its console says why."""
    with tempfile.TemporaryDirectory() as name:
        state = damaged_state(pathlib.Path(name), "modules", lambda data: data[:len(data) // 2])
        answer, text = doctor("--state-dir", state, "--runsc", "/nonexistent")["microvm"]
    equal(answer, "no")
    has(text, "the guest did not start (kernel)")
    has(text, "cordon-init: boot: ", "the guest's console")


def test_guest_shows_a_newer_kernel():
    """By apt's lists, or why there is none to compare with."""
    with tempfile.TemporaryDirectory() as name:
        manifest = pathlib.Path(name) / "guest" / "manifest"
        manifest.parent.mkdir()
        text = (guest_kernel.state(CORDON) / "guest" / "manifest").read_text()
        for version, is_newer in ("0.1-1", True), ("999.1-1", False), (None, False):
            package = f"linux-image-x_{version}_amd64.deb" if version else "given.deb"
            manifest.write_text(re.sub(r"^package .*$", f"package {package}", text, flags=re.M))
            shown = subprocess.run([CORDON, "guest", "--state-dir", name], capture_output=True, text=True, timeout=120, check=True).stdout
            check(re.search(r"^newest   (linux-image-\S+_\S+|not known: .+)", shown, re.M), shown)
            if "not known" not in shown:
                equal(", newer: `cordon guest install` gets it\n" in shown, is_newer, shown)


def test_missing_parts_say_how_to_get_them():
    with tempfile.TemporaryDirectory() as name:
        got = doctor("--runsc", "/bin/true", "--state-dir", name)
        equal((got["gvisor"][0], got["microvm"][0]), ("no", "no"))
        has(got["gvisor"][1], "runsc does not tell its version")
        has(got["microvm"][1], "cordon level install microvm")
        folder = pathlib.Path(name) / "damaged"
        folder.mkdir()
        damaged_state(folder, "vmlinux", lambda data: data)
        with open(folder / "guest" / "vmlinux", "r+b") as f:
            f.write(b"no kernel")
        answer, text = doctor("--state-dir", folder, "--runsc", "/nonexistent")["microvm"]
        equal(answer, "no")
        has(text, "vmlinux")


def level(*words, before=()):
    p = subprocess.run([*before, CORDON, "level", *words], capture_output=True, text=True, timeout=300)
    return p.returncode, p.stdout, p.stderr


def test_what_a_level_needs_is_installed():
    """Where all is there nothing is fetched; what is missing is got by root only; the rest is told."""
    state = ("--state-dir", str(guest_kernel.state(CORDON)))
    code, text, errors = level("install", "microvm", *state)
    equal((code, errors), (0, ""), text)
    check(re.match(r"microvm +(kvm|tcg) .*\ntemplate  host has \d+ MiB at this level", text), text)
    code, text, errors = level(*state)
    equal((code, errors, [line.split()[0] for line in text.splitlines()]), (0, "", list(LEVELS)), text)
    for words, why in ((("install", "container"), "none of gvisor, microvm"), (("install",), "none of gvisor, microvm"), (("upgrade",), "'upgrade'")):
        code, text, errors = level(*words)
        equal((code, text), (2, ""), errors)
        has(errors, why)
    if not any(os.path.exists(f"{place}/runsc") for place in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")):
        code, _, errors = level("install", "gvisor", before=("setpriv", "--reuid=54323", "--regid=54323", "--clear-groups"))
        equal(code, 125)
        has(errors, "run it as root")


def test_an_ordinary_user():
    """Without subordinate ids: a virtual machine needs none, gVisor does."""
    if re.search(r"^(54323|#54323):", pathlib.Path("/etc/subuid").read_text(), re.M):
        raise Skip("the user of the test has subordinate ids")
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        os.chown(home, 54323, 54323)
        os.chmod(place, 0o755)  # what a clone in /root has is out of reach
        for name in ("cordon", "cordon-keeper", "cordon-init", "cordon-shim", "cordon-storage"):
            shutil.copy(pathlib.Path(CORDON).parent / name, place)
        engine = shutil.copy(runsc.find(CORDON), place)
        shutil.copytree(guest_kernel.state(CORDON) / "guest", f"{place}/state/guest")
        got = doctor("--runsc", engine, "--state-dir", f"{place}/state", env={**os.environ, "HOME": home}, program=f"{place}/cordon",
                     before=("setpriv", "--reuid=54323", "--regid=54323", "--clear-groups"))
        equal((got["gvisor"][0], got["microvm"][0]), ("no", "yes"), str(got))
        has(got["gvisor"][1], "/etc/subuid")
    shutil.rmtree("/tmp/cordon-54323", ignore_errors=True)


if __name__ == "__main__":
    if not shutil.which("qemu-system-x86_64"):
        sys.exit(run_tap([("all", lambda: (_ for _ in ()).throw(Skip("there is no qemu-system-x86_64")))]))
    sys.exit(run_tap(named_tests(globals(), sys.argv[2:])))
