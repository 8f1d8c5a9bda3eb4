"""memory_image.py - searches images of memory for a text: those on disk, and those that a process has in memory files."""
import mmap
import os
import pathlib


def file_has(path, text):
    if os.path.getsize(path) == 0:
        return False
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        return m.find(text.encode()) >= 0


def folder(server, layer):
    return next(pathlib.Path(server.folder).glob(f"**/layers/{layer}"))


def layer_has(server, layer, text):
    """Is it in the memory, or the state of the devices, of that layer?"""
    found = [p for p in folder(server, layer).iterdir() if p.is_file()]
    assert any(p.name == "ram" for p in found), f"{layer} is no image of memory"
    return any(file_has(p, text) for p in found)


def files_have(server, layer, text):
    """Is it in a file of that layer?"""
    return any(file_has(p, text) for p in folder(server, layer).rglob("*") if p.is_file() and not p.is_symlink())


def process_files_have(pid, text):
    """Is it in a memory file that this process has open?"""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{fd}"
        try:
            if os.readlink(path).startswith("/memfd:guest") and file_has(path, text):
                return True
        except FileNotFoundError:
            pass
    return False
