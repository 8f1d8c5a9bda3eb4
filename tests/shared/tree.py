"""tree.py - a small root directory for sessions: a static busybox and the files that cells need."""
import os
import shutil

BUSYBOX = "/bin/busybox"
TOOLS = ("cat", "chmod", "cp", "echo", "env", "false", "id", "ls", "mkdir", "pwd", "rm", "sh", "sleep", "stat", "test", "touch", "true")
PASSWD = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"


def make_tree(path, mark="tiny", mode=0o755):
    """Root's, and nobody else may write to it: as an operator prepares it."""
    for name in ("bin", "dev", "etc", "home/user", "proc", "root", "run", "tmp", "usr/bin"):
        os.makedirs(os.path.join(path, name), 0o755)
    shutil.copy(BUSYBOX, os.path.join(path, "bin/busybox"))
    for name in TOOLS:
        os.symlink("busybox", os.path.join(path, "bin", name))
    for name, text in (("passwd", PASSWD), ("group", "root:x:0:\nuser:x:1000:\n"), ("mark", mark)):
        with open(os.path.join(path, "etc", name), "w") as f:
            f.write(text)
    os.chown(os.path.join(path, "home/user"), 1000, 1000)
    os.chmod(os.path.join(path, "tmp"), 0o1777)
    os.chmod(path, mode)
    return path
