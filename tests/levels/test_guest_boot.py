#!/usr/bin/python3 -B
"""test_guest_boot.py - cordon-init as the first program of a virtual machine: what programs see there is what they see in a
cell. One guest boots, under QEMU's engine and without a shim; all tests use it, in their order."""
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import engine
from checks import Failed, Skip, check, equal, has, named_tests, run_tap, wait_for
from guest_stream import (BUILTIN, EGRESS, EXITED, HIT_MEMORY, HIT_PIDS, HOLD, IS_HELD, LOCKED, NO_PROFILE, NO_READ_ONLY, NO_STDIN, READ_ONLY,
                          Guest)

CORDON, DRIVER = sys.argv[1:3]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="guest-boot-"))
IDS = ["0123456789abcdef" * 2, "fedcba9876543210" * 2]
STATE = {}


def root_image():
    """An image with busybox in it, as the template of the session."""
    tree = FOLDER / "root"
    for folder in ("bin", "dev", "proc", "sys", "etc", "tmp", "run", "root", "home/user"):
        (tree / folder).mkdir(parents=True)
    shutil.copy2(shutil.which("busybox"), tree / "bin/busybox")
    for applet in subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            os.symlink("busybox", tree / "bin" / applet)
    (tree / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\ntty:x:5:\nuser:x:1000:\n")
    (tree / "etc/resolv.conf").write_text("nameserver 198.18.0.1\n")
    os.symlink("/dev/machine-id", tree / "etc/machine-id")
    os.chmod(tree / "tmp", 0o1777)
    os.chown(tree / "home/user", 1000, 1000)
    subprocess.run(["mkfs.erofs", FOLDER / "root.erofs", tree], check=True, capture_output=True)
    return os.open(FOLDER / "root.erofs", os.O_RDONLY)


def guest():
    if "skip" in STATE:
        raise Skip(STATE["skip"])
    if "guest" not in STATE:
        try:
            kernel, _ = engine.boot_files(CORDON, CORDON)
        except Skip as e:
            STATE["skip"] = str(e)
            raise
        initramfs = FOLDER / "initramfs"
        subprocess.run([CORDON, "guest", "--state-dir", engine.guest_kernel.state(CORDON), "--initramfs", initramfs], check=True)
        STATE["root"] = root_image()
        STATE["engine"] = engine.Engine(DRIVER, mib=256, kernel=kernel, initrd=os.open(initramfs, os.O_RDONLY),
                                        root=STATE["root"]).started()
        STATE["guest"] = Guest(STATE["engine"].stream)
        equal(STATE["guest"].hello(machine_id=IDS[0]), (0, ""), "the guest takes all that HELLO has")
        equal(STATE["guest"].synced(), [], "programs of a new guest")
    return STATE["guest"]


def test_the_initramfs_leaves_the_last_page_of_memory_alone():
    """QEMU would write its end over the ACPI tables, and a kernel that sums up what is there never boots. A size of whole pages keeps it off."""
    guest()
    size = os.path.getsize(FOLDER / "initramfs")
    equal(size % 4096, 0, f"the initramfs has {size} bytes")


def test_a_kernel_without_a_timer_does_not_boot():
    """As one that could not verify its timer, which happens on a loaded machine: in all clones of it no program that waits would go on."""
    guest()
    command = ["qemu-system-x86_64", "-M", "microvm,acpi=on,rtc=on,pit=off,pic=off", "-cpu", "max", "-m", "256M", "-nodefaults", "-no-user-config",
               "-no-reboot", "-display", "none", "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
               "-kernel", engine.guest_kernel.state(CORDON) / "guest" / "vmlinux", "-initrd", FOLDER / "initramfs",
               "-append", "console=ttyS0 quiet reboot=t panic=-1 tsc=reliable no_timer_check cryptomgr.notests tsc_early_khz=2000000 nolapic_timer"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=engine.PATIENCE)
    has(done.stdout, "cordon-init: boot: the kernel has no timer that works", "its console")


def test_boots_and_runs_a_program():
    equal(guest().shell("echo $((6 * 7))"), "42\n", "output")
    equal(guest().run("/bin/sh", "-c", "exit 3").event.exit_code, 3, "exit code")
    equal(guest().shell("id -u; pwd", user="user", cwd=""), "1000\n/home/user\n", "the user")


def test_much_output_arrives_as_it_was_written():
    """By pages of the program's pipe, which go to the port without being copied, and by what is left of them."""
    wanted = "".join(f"{n}\n" for n in range(1, 60001)) * 8
    guest().longest = 0
    guest().shell("seq 1 60000 > /tmp/numbers")
    equal(guest().shell("cd /tmp; cat " + "numbers " * 8) == wanted, True, "3 MB")
    check(guest().longest > 65536, f"pages are sent: the longest frame has {guest().longest} bytes")
    script = "cd /tmp; cat " + "numbers " * 8 + ">&2 & i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo $i; head -c 50001 /dev/zero; done; wait; rm /tmp/numbers"
    ended = guest().run("/bin/sh", "-c", script)
    equal(ended.err == wanted, True, "the same beside another stream")
    equal(ended.out == "".join(f"{n}\n" + "\0" * 50001 for n in range(1, 21)), True, "the other stream")


def test_dev_is_that_of_a_cell():
    names = guest().shell("ls /dev").split()
    equal(names, "fd full machine-id null ptmx pts random shm stderr stdin stdout tty urandom zero".split(), "/dev")
    equal(guest().shell("stat -c %a /dev/null /dev/shm; touch /dev/x 2>/dev/null || echo no"), "666\n1777\nno\n", "modes")
    has(guest().shell("touch /dev/shm/x && mount | grep ' /dev/shm '"), "nosuid,nodev", "/dev/shm")


def test_proc_shows_the_session_only():
    equal(guest().shell("ps -o pid,args | head -n 2 | tail -n 1").split()[0], "1", "PID 1 is the agent")
    check("kthread" not in guest().shell("ps -o args"), "threads of the kernel are not seen")
    for path in ("cmdline", "kallsyms", "modules", "kcore", "kmsg"):
        equal(guest().shell(f"cat /proc/{path}"), "", f"/proc/{path} is covered")
    for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger"):
        equal(guest().shell(f"echo x 2>/dev/null >{path} || echo no"), "no\n", f"{path} cannot be written")
    equal(guest().shell("ls /sys"), "", "/sys is empty")


def test_rights_are_those_of_a_cell():
    caps = re.findall(r"Cap(?:Prm|Eff|Bnd):\s+(\w+)", guest().shell("cat /proc/self/status"))
    ours = subprocess.run([CORDON, "run", "--user", "root", "--", "grep", "Cap", "/proc/self/status"], capture_output=True, text=True).stdout
    equal(caps, re.findall(r"Cap(?:Prm|Eff|Bnd):\s+(\w+)", ours), "capabilities of root here and in a cell")
    for what in ("mount -t tmpfs x /tmp", "mknod /tmp/vda b 254 0", "cat /proc/1/environ", "readlink /proc/1/fd/3", "insmod /bin/busybox", "reboot -f",
                 "kill -9 1 && kill -0 1 && false", "date -s 2001-01-01; test $(date +%Y) = 2001", "hostname other", "unshare -U true"):
        check(guest().run("/bin/sh", "-c", what).event.exit_code != 0, f"root may not: {what}")
    equal(guest().shell("cat /proc/self/oom_score_adj"), "0\n", "programs may be killed, unlike PID 1")


def test_files_are_an_overlay_over_the_image():
    equal(guest().shell("echo new >/etc/passwd.new && cat /etc/passwd.new && rm /etc/group && ls /etc/group 2>/dev/null || true"), "new\n", "writes")
    fields = guest().shell("df -P -k / | tail -n 1").split()
    equal(int(fields[1]), 64 << 10, "the size that HELLO has")
    refused = guest().run("/bin/sh", "-c", "dd if=/dev/zero of=/tmp/big bs=1M count=100 2>&1; rm /tmp/big; exit 1")
    has(refused.out, "No space left", "the disk is full at its size")
    has(guest().run("/bin/sh", "-c", "i=0; while [ $i -lt 5000 ]; do : >/tmp/f$i || exit 1; i=$((i+1)); done").err, "No space left", "inodes")
    guest().shell("rm -f /tmp/f*")


def test_changes_are_listed():
    ended = guest().run("diff", flags=NO_STDIN | BUILTIN)
    equal(ended.event.exit_code, 0, ended.err)
    found = {record.rsplit("\t", 1)[1]: record[0] for record in ended.out.split("\0") if record}
    equal({path: found.get(path) for path in ("/etc/passwd.new", "/etc/group", "/dev/shm/x", "/")},
          {"/etc/passwd.new": "A", "/etc/group": "D", "/dev/shm/x": "A", "/": "E"}, "added, deleted, complete")
    check("/bin/busybox" not in found, "what is not changed is not listed")
    archive = guest().run("capture", flags=NO_STDIN | BUILTIN)
    equal(archive.event.exit_code, 0, archive.err)
    has(archive.out, "passwd.new", "the archive")
    check(guest().run("diff", user="user", flags=NO_STDIN | BUILTIN).event.exit_code != 0, "for root only")


def test_network_is_lo_with_every_address():
    equal(guest().shell("ls /proc/sys/net/ipv4/conf").split(), ["all", "default", "lo"], "devices")
    guest().run("/bin/sh", "-c", "nc -w 5 192.0.2.7 443 </dev/null")
    equal(guest().opened[-1], (1, 4, 443, bytes([192, 0, 2, 7]) + bytes(12)), "it was asked for the address and port")
    before = len(guest().opened)
    guest().shell("nc -l -p 8080 -e echo hi & for i in 1 2 3 4 5 6 7 8 9; do nc 127.0.0.1 8080 </dev/null && break; sleep 0.2; done; wait")
    equal(len(guest().opened), before, "loopback stays inside")


def test_pids_are_limited():
    equal(guest().hello(machine_id=IDS[0], pids=24), (0, ""), "HELLO")
    ended = guest().run("/bin/sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done; exit 1")
    check(ended.event.flags & HIT_PIDS, f"the event says which limit was hit: {ended}")
    guest().run("/bin/sh", "-c", "kill -9 -1")
    equal(guest().hello(machine_id=IDS[0]), (0, ""), "HELLO")
    equal(guest().run("/bin/sh", "-c", "exit 1").event.flags & (HIT_PIDS | HIT_MEMORY), 0, "the next program has not hit it")


def test_memory_is_limited():
    equal(guest().hello(machine_id=IDS[0], memory=48 << 20), (0, ""), "HELLO")
    ended = guest().run("/bin/sh", "-c", "dd if=/dev/zero of=/dev/null bs=90M count=1")
    equal(ended.event.flags & HIT_MEMORY, HIT_MEMORY, f"the event says which limit was hit: {ended}")
    equal(guest().hello(machine_id=IDS[0]), (0, ""), "HELLO")
    ended = guest().run("/bin/sh", "-c", "dd if=/dev/zero of=/dev/null bs=400M count=1")
    equal(ended.event.flags & HIT_MEMORY, HIT_MEMORY, f"more than the machine has: {ended}")
    equal(guest().shell("echo alive"), "alive\n", "the agent goes on")


def test_descriptors_are_limited():
    equal(guest().hello(machine_id=IDS[0], nofile=77), (0, ""), "HELLO")
    equal(guest().shell("ulimit -n"), "77\n", "nofile")
    equal(guest().hello(machine_id=IDS[0]), (0, ""), "HELLO")


def test_each_hello_gives_an_identity():
    script = "cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname; date +%s; df -P -k / | tail -n 1"
    first = guest().shell(script).split()
    equal(guest().hello(machine_id=IDS[1], hostname="second", wall_ns=4000000000 * 10**9, disk=96 << 20), (0, ""), "HELLO")
    second = guest().shell(script).split()
    equal((first[0], second[0]), tuple(IDS), "machine ids")
    check(first[1] != second[1] and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", second[1]), f"boot ids: {first[1]} {second[1]}")
    equal((first[2], second[2]), ("guest", "second"), "host names")
    check(abs(int(first[3]) - time.time()) < 60 and 0 <= int(second[3]) - 4000000000 < 60, f"clocks: {first[3]} {second[3]}")
    equal(second[5], str(96 << 10), "the disk has its new size")


def test_stat_counts_programs():
    stat = guest().stat()
    equal((stat.processes, stat.disk_limit), (1, 96 << 20), "processes and disk")


def clone(image, number):
    """A guest that goes on from the image, greeted as another machine."""
    of = engine.Engine(DRIVER, mib=256, ram=image[0], devices=image[1], root=STATE["root"]).started()
    of.order("go_on")
    copy = Guest(of.stream)
    equal(copy.hello(generation=10 + number, machine_id=f"{number}" * 32, hostname=f"clone{number}"), (0, ""), "HELLO of a clone")
    return of, copy, copy.synced()


def test_clones_are_machines_of_their_own():
    guest().spawn("/bin/sh", "-c", "while :; do sleep 0.1; done", flags=NO_STDIN | HOLD)
    image = snapshot()
    script = ("head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'; echo; cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id "
              "/etc/machine-id; hostname")
    answers, clones = [guest().shell(script).split()], []
    try:
        for number in (1, 2):
            of, copy, held = clone(image, number)
            clones.append(of)
            equal([event.flags & IS_HELD for event in held], [IS_HELD], "the program goes on in the clone")
            answers.append(copy.shell(script).split())
            check(abs(int(copy.shell("date +%s")) - time.time()) < 60, "the clock is that of HELLO, not of the image")
            copy.shell(f"echo {number} >/tmp/own")
            equal(copy.shell("cat /tmp/own"), f"{number}\n", "files of one clone")
    finally:
        for of in clones:
            of.__exit__()
    for column in zip(*answers):
        equal(len(set(column)), 3, f"random bytes, UUIDs, boot ids, machine ids and names of three machines: {column}")
    equal(guest().run("/bin/sh", "-c", "cat /tmp/own").event.exit_code, 1, "the first guest has no file of a clone")


def in_image(fd, what):
    with open(fd, "rb", closefd=False) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        return memory.find(what) >= 0


def snapshot():
    guest().quiesce()
    STATE["engine"].order("stop")
    image = STATE["engine"].order("snapshot")
    STATE["engine"].order("go_on")
    guest().go_on()
    return image


def test_what_is_removed_is_not_in_memory():
    guest().shell("echo kept-$((111111111 * 7)) >/dev/shm/kept; echo gone-$((111111111 * 8)) >/dev/shm/gone; rm /dev/shm/gone")
    equal(guest().run("/bin/sh", "-c", "cat >/dev/shm/input; rm /dev/shm/input", given=b"value-of-a-secret-5551212").event.exit_code, 0, "cat")
    ram = snapshot()[0]
    check(in_image(ram, b"kept-777777777"), "a file that is there is found")
    check(not in_image(ram, b"gone-888888888"), "what a program wrote and removed is cleared")
    check(not in_image(ram, b"value-of-a-secret-5551212"), "what the agent passed on is cleared")


# The last ones: a guest that is read-only or locked stays so.


def test_a_read_only_root():
    equal(guest().hello(machine_id=IDS[0], flags=EGRESS | READ_ONLY), (0, ""), "HELLO")
    equal(guest().shell("for d in / /etc /bin /root; do touch $d/x 2>/dev/null && echo $d; done; "
                        "for d in /tmp /run /dev/shm /home/user; do touch $d/written || exit 1; done"), "", "what root can write to")
    equal(guest().shell("stat -c '%a %u' /tmp /run /home/user; touch ~/own && echo own", user="user", cwd=""),
          "1777 0\n755 0\n755 1000\nown\n", "modes and owners")
    found = [record.rsplit("\t", 1)[1] for record in guest().run("diff", flags=NO_STDIN | BUILTIN).out.split("\0") if record]
    equal([path for path in found if path.endswith("written")], ["/tmp/written", "/run/written", "/home/user/written", "/dev/shm/written"], "diff")
    refused, why = guest().hello(machine_id=IDS[0])
    equal((refused, why), (NO_READ_ONLY, os.strerror(1)), "it does not become writable again")


PROFILE = "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' /proc/self/status"


def test_locked_programs():
    flags = EGRESS | READ_ONLY | LOCKED
    guest().spawn("/bin/sleep", "1000", flags=NO_STDIN | HOLD)
    equal(guest().hello(machine_id=IDS[0], flags=flags), (NO_PROFILE, os.strerror(16)), "while a program runs")
    guest().run("/bin/sh", "-c", "kill -9 -1")
    guest().ignored = (EXITED,)  # of the shell, or of what it killed
    wait_for(lambda: guest().hello(machine_id=IDS[0], flags=flags) == (0, ""), 30, "HELLO after the last program")
    ours = subprocess.run([CORDON, "run", "--profile", "locked", "--", "sh", "-c", PROFILE], capture_output=True, text=True).stdout
    equal(guest().shell(PROFILE, user="").split(), ours.split(), "users, capabilities and filter, here and in a cell")
    guest().ignored = ()
    for what in ("chroot / true", "unshare -U true", "su -c true"):
        check(guest().run("/bin/sh", "-c", what, user="user").event.exit_code != 0, f"it may not: {what}")
    equal(guest().shell("umask 0; echo $((6 * 7)) | cat", user="user"), "42\n", "an ordinary program")
    for user, why in (("root", 1), ("77", 1)):
        try:
            guest().spawn("/bin/true", user=user)
        except Failed as e:
            has(str(e), os.strerror(why), f"as {user}")
        else:
            raise Failed(f"a program runs as {user}")
    equal(guest().run("diff", flags=NO_STDIN | BUILTIN).event.exit_code, 0, "the list of changes is made by the agent's own rights")
    for more in ({"flags": EGRESS | READ_ONLY}, {"flags": flags, "uid": 1001}):
        equal(guest().hello(machine_id=IDS[0], **more), (NO_PROFILE, os.strerror(1)), "it does not get other rights")


if __name__ == "__main__":
    try:
        code = run_tap(named_tests(globals(), sys.argv[3:]))
    finally:
        if "engine" in STATE:
            if "code" not in globals() or code:
                print("# console:", STATE["engine"].console()[:1500].replace("\n", "\n# "))
            STATE["engine"].__exit__()
        shutil.rmtree(FOLDER)
    sys.exit(code)
