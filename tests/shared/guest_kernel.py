"""guest_kernel.py - the guest kernel for tests of level microvm: installed once per build directory.

state(cordon) gives a state directory that has it; its folder `guest` may be linked or copied into a server's own."""
import fcntl
import os
import pathlib
import subprocess


def state(cordon):
    """A state directory with a guest kernel, beside the program `cordon`. Downloads the package if it has none."""
    folder = pathlib.Path(cordon).resolve().parent / "guest-kernel"
    if (folder / "guest" / "manifest").exists():  # it appears with all the rest; the folder may be read-only here
        return folder
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "guest" / "manifest").exists():
            subprocess.run([cordon, "guest", "install", "--state-dir", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def give(cordon, state_dir):
    """Lets a server with this state directory find the guest kernel."""
    os.symlink(state(cordon) / "guest", pathlib.Path(state_dir) / "guest")
