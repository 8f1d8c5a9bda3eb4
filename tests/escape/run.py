#!/usr/bin/python3
"""run.py - runs the escape probe in real cells and looks at the host afterwards.

For every combination of mode (rootful, rootless with a mapped id range, rootless with a single id),
profile and user: canaries are set up on the host and in a sibling cell, the probe runs all its rows
in a cell, and then every canary is looked at. One TAP line per row, per canary, per combination.

A row passes only with an answer its table names. Rows that have a control are first run outside of
any cell, as root: where the attack works there, the refusal inside is the cell's doing. Where this
kernel does not know the thing at all and the cell gives the same answer as the bare machine, the
row is reported as skipped, "unknown here", and not as a pass.

    run.py [--cordon PATH] [--probe PATH] [--mode M] [--profile P] [--user U] [--row ID]
"""
import argparse
import tempfile
import atexit
import contextlib
import fcntl
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True    # the source tree may be read-only, and stays clean
import guest
from canaries import Canaries, NAMESPACES, cold_file, digest, join_session_keyring

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UID = 54321                    # nobody's: the rootless runs need a user without any rights
RANGE = (1500000000, 65536)    # far from any range that adduser hands out
NAME = "cordon-escape"
LIMITS = {"memory": 256 << 20, "pids": 150, "disk": 32 << 20, "inodes": 3000, "nofile": 256}
OUTPUT_LIMIT = 1 << 20
# What a kernel says when it lacks a thing, or a machine when it denies it to its own root.
LACKING = {"ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EOPNOTSUPP", "ENODEV",
           "ENOPROTOOPT", "hidden", "EPERM", "EACCES", "SIGSEGV", "ENXIO", "ENOKEY"}
MUST_HOLD = ["abstract", "tcp4", "tcp6", "udp4", "tmp", "shm-file"]


class Tap:
    def __init__(self):
        self.count = self.failed = self.skipped = 0

    def ok(self, good, name, why=None, skip=None):
        self.count += 1
        self.failed += not good
        self.skipped += bool(good and skip)
        line = f"{'ok' if good else 'not ok'} {self.count} - {name}"
        print(line + (f" # SKIP {skip}" if good and skip else ""))
        if why and not good:
            self.note(why)
        return good

    def note(self, text):
        for line in str(text).splitlines():
            print("#", line)
        sys.stdout.flush()

    def end(self):
        print(f"1..{self.count}")
        self.note(f"{self.count - self.failed - self.skipped} passed, {self.skipped} unknown here, "
                  f"{self.failed} failed")
        return 1 if self.failed else 0


class Row:
    def __init__(self, line):
        self.id, self.section, self.what, expect, self.control, flags = line.split("\t")
        self.expect = expect.split("|")
        self.solo = flags == "solo"


def rows_of(probe, *combo):
    p = subprocess.run([probe, "--list", *combo], capture_output=True, text=True, check=True)
    return [Row(line) for line in p.stdout.splitlines()]


def parse_rows(out):
    """{id: (answer, verdict)} and the probe's own count."""
    found, total = {}, None
    for line in out.splitlines():
        part = line.split("\t")
        if part[0] == "row" and len(part) == 4:
            found[part[1]] = (part[2], part[3])
        elif part[0] == "total":
            total = int(part[1])
    return found, total


class Line:
    """One line in a file of /etc for as long as it is needed."""

    def __init__(self, path, text):
        self.path, self.text = path, text + "\n"

    def __enter__(self):
        with open(self.path, "a") as f:
            f.write(self.text)
        atexit.register(self.remove)

    def __exit__(self, *_):
        self.remove()
        atexit.unregister(self.remove)

    def remove(self):
        with open(self.path) as f:
            lines = f.readlines()
        if self.text not in lines:
            return
        st = os.stat(self.path)
        with open(self.path + ".cordon-escape", "w") as f:
            f.writelines(line for line in lines if line != self.text)
            os.fchmod(f.fileno(), st.st_mode & 0o7777)
            os.fchown(f.fileno(), st.st_uid, st.st_gid)
        os.rename(self.path + ".cordon-escape", self.path)


@contextlib.contextmanager
def user_of(mode, base):
    """Yields the uid cordon is to run as, with what /etc has to say about it."""
    with contextlib.ExitStack() as stack:
        if mode == "mapped":
            stack.enter_context(Line("/etc/passwd", f"{NAME}:x:{UID}:{UID}::{base}:/bin/false"))
            for path in ("/etc/subuid", "/etc/subgid"):
                stack.enter_context(Line(path, f"{NAME}:{RANGE[0]}:{RANGE[1]}"))
        yield 0 if mode == "rootful" else UID


def unable(mode):
    """Why a mode cannot be tried on this machine, or None."""
    if mode == "mapped" and not (shutil.which("newuidmap") and shutil.which("newgidmap")):
        return "newuidmap is not installed"
    if mode != "rootful":
        with contextlib.suppress(KeyError):
            pwd.getpwuid(UID)
            return f"uid {UID} is taken"
    return None


class Combination:
    """One mode, profile and user, with its canaries and the command lines that go with it."""

    def __init__(self, args, mode, profile, user, uid, cold):
        self.args, self.mode, self.profile, self.user, self.uid = args, mode, profile, user, uid
        self.name = f"{mode}/{profile}/{user}"
        self.canaries = Canaries(args.probe, uid)
        self.base = self.canaries.base
        self.home = f"{self.base}/home"
        os.mkdir(self.home, 0o700)
        os.chown(self.home, uid, uid)
        tag = secrets.token_hex(6)
        self.keys = self.canaries.keys
        self.keys.update(LIMITS)
        self.keys.update({
            "cpus": "0.5", "sibling-name": f"sibling-{tag}", "sibling-abstract": f"sibling-{tag}",
            "sibling-mqueue": f"sibling-{tag}", "sibling-port": 20000 + secrets.randbelow(9000),
            "sibling-sysv-key": secrets.randbelow(1 << 30) + 1,
        })
        self.keys["guest"] = args.level or "none"
        self.keys["skip"] = ",".join(args.guest.ends) if args.guest else ""
        self.canaries.arm(cold)

    def command(self, *command, options=()):
        limits = [x for k, v in LIMITS.items() for x in (f"--{k}", str(v))]
        best = [] if self.mode == "rootful" else ["--best-effort"]
        mounts = ["--mount", f"{self.canaries.probe_dir}:/probe:ro",
                  "--mount", f"{self.canaries.volume}:/vol:rw"]
        if self.args.guest:
            mounts = self.args.guest.options(self.canaries, self.user)
        return [self.args.cordon, "run", "--profile", self.profile, "--user", self.user,
                "--timeout", "170s", *limits, *best, *mounts, *options, "--", *command]

    def start(self, command, **kw):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.home,
               "CORDON_ESCAPE_SECRET": self.canaries.value}
        # cordon asks QEMU for its version, which opens the directory that it is started in
        kw.setdefault("cwd", self.home if self.args.level == "microvm" else self.canaries.private)
        return subprocess.Popen(command, env=env, pass_fds=(7, 8), user=self.uid, group=self.uid,
                                extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, errors="replace", **kw)

    def run(self, *command, options=()):
        """Exit code, standard output, standard error; 124 as well when cordon itself hangs."""
        p = self.start(self.command(*command, options=options), stdin=subprocess.DEVNULL)
        try:
            out, err = p.communicate(timeout=200)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            return 124, out, err + "cordon did not come back\n"
        return p.returncode, out, err

    def probe(self, *what, options=()):
        keys = [f"{k}={v}" for k, v in self.keys.items()]
        return self.run("/probe/probe", *what, self.profile, self.user, self.mode, *keys,
                        options=options)


class Sibling:
    """A cell beside the probe's, of the same kind, with canaries of its own."""

    def __init__(self, combo):
        keys = [f"{k}={v}" for k, v in combo.keys.items() if k.startswith("sibling-")]
        self.p = combo.start(combo.command("/probe/probe", "--sibling", *keys), cwd="/",
                             stdin=subprocess.PIPE)
        self.holds = []
        for line in self.p.stdout:
            part = line.rstrip("\n").split("\t")
            if part[0] == "holds":
                self.holds.append(part[1])
            elif part[0] == "ns":
                combo.keys[f"sibling-ns-{part[1]}"] = part[2]
            elif part[0] == "ready":
                return
        self.holds = None
        for name in NAMESPACES:
            combo.keys[f"sibling-ns-{name}"] = "0"

    def finish(self):
        """What was touched; None if it cannot say."""
        try:
            out, err = self.p.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.p.kill()
            out, err = self.p.communicate()
        if "end" not in out.splitlines():
            return None, err
        return [x.split("\t")[1] for x in out.splitlines() if x.startswith("touched")], err


def judge(tap, combo, row, got, controls):
    """One TAP line for one row."""
    name = f"{combo.name} {row.id}: {row.what}"
    if got is None:
        return tap.ok(False, name, "the row did not run")
    answer, verdict = got
    good = answer in row.expect
    if verdict is not None and good != (verdict == "pass"):
        return tap.ok(False, name, f"probe and driver disagree about {answer}")
    outside = controls.get(row.id)
    unknown = None
    if outside in LACKING and outside not in row.control.split("|") and outside == answer:
        unknown = f"unknown here: root outside gets {outside} as well"
    wanted = "|".join(row.expect)
    return tap.ok(good, f"{name} = {answer}", f"got {answer}, wanted {wanted}", unknown)


def run_solo(combo, row):
    """A row that may end its cell: then the cell's exit code is the answer."""
    options = ["--cpus", combo.keys["cpus"]] if row.id == "cpu-hog" else []
    code, out, err = combo.probe("--only", row.id, options=options)
    found, _ = parse_rows(out)
    if row.id in found:
        return found[row.id], err
    return (f"cell:{code}", None), err


def check_result(tap, combo, path):
    try:
        with open(path) as f:
            result = json.load(f)
        wrong = [f"{k} is {result.get(k)!r}" for k, v in
                 {"profile": combo.profile, "level": combo.args.level or "container", "error": None}.items()
                 if result.get(k) != v]
    except (OSError, ValueError) as e:
        wrong = [str(e)]
    tap.ok(not wrong, f"{combo.name} result file says what ran", ", ".join(wrong))


def run_combination(tap, combo, controls, matrix, only):
    rows = rows_of(combo.args.probe, combo.profile, combo.user, combo.mode)
    sibling = Sibling(combo)
    held = sibling.holds or []
    missing = [x for x in MUST_HOLD if x not in held]
    tap.ok(sibling.holds is not None and not missing, f"{combo.name} sibling cell holds canaries",
           f"missing: {missing or 'the sibling itself'}")
    result = f"{combo.home}/result.json"
    with combo.canaries.busy():
        code, out, err = combo.probe("--run", options=["--result", result])
    found, total = parse_rows(out)
    together = [r for r in rows if not r.solo]
    if combo.args.level:
        return run_in_guest(tap, combo, rows, found, sibling, (code, out, err))
    all_ran = tap.ok(total == len(together) == len(found) and code in (0, 1),
                     f"{combo.name} all {len(together)} rows ran",
                     f"exit code {code}, {len(found)} reported, total says {total}\n{err[-2000:]}")
    if not all_ran and not found:
        tap.note("no cell, so no row can be judged")
        return
    check_result(tap, combo, result)
    for row in rows:
        if only and row.id not in only:
            continue
        got = found.get(row.id)
        if row.solo:
            got, _ = run_solo(combo, row)
        judge(tap, combo, row, got, controls)
        matrix.setdefault(row.id, (row, {}))[1][combo.name] = got[0] if got else "-"
    touched, err = sibling.finish()
    tap.ok(touched == [], f"{combo.name} sibling cell untouched", f"{touched}\n{err[-1000:]}")
    check_flood(tap, combo)
    check_command_line(tap, combo)
    for what, wrong in combo.canaries.check():
        tap.ok(wrong is None, f"{combo.name} canary: {what}", wrong)


def judge_guest(tap, combo, row, got, err=""):
    """One TAP line for one row of a guest: the answer of a container, or the one that is named for the level."""
    name = f"{combo.name} {row.id}: {row.what}"
    if got is None:
        return tap.ok(False, name, "the row did not run")
    want, reason = guest.expected(combo.args.level, row, combo.user)
    return tap.ok(guest.is_expected(got[0], want), f"{name} = {got[0]}{f' ({reason})' if reason else ''}",
                  f"got {got[0]}, wanted {'|'.join(want)}\n{err[-1000:]}")


def run_in_guest(tap, combo, rows, found, sibling, ended):
    """The rest at a level with a guest."""
    code, _, err = ended
    level = combo.args.guest
    want = [row.id for row in rows if not row.solo and row.id not in level.ends]
    missing = [row for row in want if row not in found]
    tap.ok(not missing, f"{combo.name} all {len(want)} rows ran", f"exit code {code}, missing {missing[:5]}\n{err[-2000:]}")
    for row in rows:
        if row.id in level.alone or (row.solo and not combo.args.short):
            judge_guest(tap, combo, row, *run_solo(combo, row))
        elif not row.solo and row.id not in level.ends:
            judge_guest(tap, combo, row, found.get(row.id))
    touched, err = sibling.finish()
    tap.ok(touched == [], f"{combo.name} sibling guest untouched", f"{touched}\n{err[-1000:]}")
    check_flood(tap, combo)
    check_command_line(tap, combo)
    for what, wrong in combo.canaries.check():
        tap.ok(wrong is None, f"{combo.name} canary: {what}", wrong)


def check_flood(tap, combo):
    code, out, err = combo.run("/probe/probe", "--flood", str(64 << 20),
                               options=["--output-limit", str(OUTPUT_LIMIT)])
    tap.ok(0 < len(out) <= OUTPUT_LIMIT + 65536, f"{combo.name} flood: output is cut at its limit",
           f"{len(out)} bytes came, exit code {code}\n{err[-500:]}")


def check_command_line(tap, combo):
    """Path arguments that try to lead the keeper out of the cell it is building. Either cordon
    refuses (2, or 125 to 127), or the program runs inside and sees nothing of the host."""
    c = combo.canaries
    climb = "/.." * 20
    tricks = [
        ("cwd by descriptor", ["--cwd", "/proc/self/fd/7"]),
        ("cwd by the root's magic link", ["--cwd", "/proc/self/root" + c.private]),
        ("cwd with ..", ["--cwd", climb + c.private]),
        ("cwd relative", ["--cwd", "../" * 20 + c.private]),
        ("cwd by a link of the volume", ["--cwd", "/vol/link-dir"]),
        ("mount target with ..", ["--mount", f"{c.probe_dir}:{climb}{c.private}/hole"]),
        ("mount target by a link", ["--mount", f"{c.probe_dir}:/vol/link-dir/hole"]),
        ("mount target is a link", ["--mount", f"{c.probe_dir}:/vol/link-abs"]),
        ("mount target below /proc", ["--mount", f"{c.probe_dir}:/proc/1/root{c.private}/hole"]),
    ]
    before = sorted(os.listdir(c.private))
    for what, options in tricks[:1] if combo.args.short else tricks:
        code, out, err = combo.run("/probe/probe", "--where", "secret", options=options)
        good = (code == 0 and out == "contained\n") or (code in (2, 125, 126, 127) and not out)
        after = sorted(os.listdir(c.private))
        tap.ok(good and after == before, f"{combo.name} command line: {what}",
               f"exit code {code}, said {out!r}, folder {after}\n{err[-500:]}")
    c.watch.touched()    # listing the folder above was ours
    if combo.args.short:
        return
    programs = {p: digest(p) for p in cordon_programs(combo.args.cordon)}
    # in a guest that is cordon-init, which waits for its shim
    code, _, err = combo.run("/proc/self/exe", options=["--timeout", "5s"] if combo.args.level else ())
    tap.ok(code != 0 and all(digest(p) == d for p, d in programs.items()),
           f"{combo.name} command line: /proc/self/exe as the command",
           f"exit code {code}\n{err[-500:]}")


def cordon_programs(cordon):
    folder = os.path.dirname(os.path.abspath(cordon))
    return [f"{folder}/{n}" for n in ("cordon", "cordon-keeper", "cordon-init", "cordon-shim", "cordon-storage")
            if os.path.exists(f"{folder}/{n}")]


def run_controls(tap, args, cold):
    """The attacks that are harmless outside, outside, as root."""
    canaries = Canaries(args.probe, 0)
    try:
        canaries.arm(cold)
        keys = {**canaries.keys, **LIMITS, "vol": canaries.volume}
        with canaries.busy():
            out = subprocess.run([args.probe, "--control", *(f"{k}={v}" for k, v in keys.items())],
                                 capture_output=True, text=True).stdout
    finally:
        canaries.close()
    found, _ = parse_rows(out)
    answers = {}
    for row in rows_of(args.probe):
        if row.control == "-":
            continue
        answer = found.get(row.id, ("did not run",))[0]
        answers[row.id] = answer
        works = answer in row.control.split("|")
        unknown = None if works else f"unknown here: {answer}"
        tap.ok(works or answer in LACKING, f"control {row.id}: works outside = {answer}",
               f"got {answer}, wanted {row.control}", unknown)
    return answers


def print_table(tap, matrix):
    """One line per row: each answer, with the combinations that got it."""
    for row, answers in matrix.values():
        groups = {}
        for combo, answer in answers.items():
            groups.setdefault(answer, []).append(combo)
        most = max(groups, key=lambda a: len(groups[a]))
        text = most if len(groups) == 1 else "; ".join(
            f"{a}: {'the rest' if a == most else ' '.join(c)}" for a, c in
            sorted(groups.items(), key=lambda g: g[0] == most))
        tap.note(f"{row.section} {row.id:<22} {row.what:<52} {text}")


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cordon", default=f"{ROOT}/build/cordon")
    p.add_argument("--probe", default=f"{ROOT}/build/tests/probe")
    p.add_argument("--mode", action="append", choices=["rootful", "mapped", "single"])
    p.add_argument("--profile", action="append", choices=["standard", "locked"])
    p.add_argument("--user", action="append", choices=["root", "user"])
    p.add_argument("--row", action="append", help="judge only this row (all of them run)")
    p.add_argument("--no-control", action="store_true")
    p.add_argument("--level", choices=["gvisor", "microvm"], help="a level with a guest, see guest.py")
    p.add_argument("--short", action="store_true", help="a guest: without what needs more guests of its own")
    args = p.parse_args()
    # Copies that other users can reach: a clone may well be in /root.
    folder = tempfile.mkdtemp(prefix="cordon-escape-", dir="/var/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    args.guest = guest.of_level(args.level, args.cordon, folder) if args.level else None
    for path in (*cordon_programs(args.cordon), args.probe):
        shutil.copy(path, folder)
    args.cordon, args.probe = f"{folder}/cordon", f"{folder}/{os.path.basename(args.probe)}"
    return args


def main():
    args = options()
    tap = Tap()
    if os.geteuid() != 0:
        print("Bail out! needs root, to lay canaries and to become another user")
        return 2
    for path in (args.cordon, args.probe):
        if not os.access(path, os.X_OK):
            print(f"Bail out! no program at {path}")
            return 2
    # Keeps the numbers free for the descriptors that must not leak.
    for number in (7, 8):
        os.dup2(os.open(os.devnull, os.O_RDONLY), number)
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *_: sys.exit(143))
    # One run at a time: the lines in /etc have one name.
    lock = open(f"/run/{NAME}.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    tap.note("keyring canary in place" if join_session_keyring() else "no keyrings on this kernel")
    cold = cold_file()
    controls = {} if args.no_control else run_controls(tap, args, cold)
    matrix = {}
    for mode in args.mode or ["rootful", "mapped", "single"]:
        why = unable(mode)
        if why:
            tap.ok(True, f"{mode}: every row", skip=why)
            continue
        with user_of(mode, "/nonexistent") as uid:
            for profile in args.profile or ["standard", "locked"]:
                for user in args.user or ["root", "user"]:
                    combo = Combination(args, mode, profile, user, uid, cold)
                    try:
                        run_combination(tap, combo, controls, matrix, args.row)
                    finally:
                        combo.canaries.close()
    print_table(tap, matrix)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
