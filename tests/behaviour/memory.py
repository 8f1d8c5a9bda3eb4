"""memory.py - reads the memory of another process, for tests that search it for secrets.

Only pages that the process has in memory (or swap) are read: what a page holds that was never touched is no news, and
the address space of a sanitized program is terabytes of such pages. So a search takes time by what the process uses.

    for where, data in memory.pieces(pid): ...      # needs root; a process that has ended has none
"""
import array
import os

PAGE = os.sysconf("SC_PAGE_SIZE")
PIECE = 16 << 20
PAGES_AT_ONCE = 1 << 16  # of one read of pagemap
IN_USE = 3 << 62  # bits of a pagemap entry: present, swapped


def runs(pagemap, begin, end):
    """(first, last) of each run of used pages between two addresses; a run is at most PIECE long."""
    start = None
    for base in range(begin // PAGE, end // PAGE, PAGES_AT_ONCE):
        pagemap.seek(base * 8)
        entries = array.array("Q", pagemap.read(8 * min(PAGES_AT_ONCE, end // PAGE - base)))
        if start is None and not any(entries):
            continue
        for number, entry in enumerate(entries, base):
            used = entry & IN_USE
            if start is not None and (not used or number * PAGE - start >= PIECE):
                yield start, number * PAGE
                start = None
            if used and start is None:
                start = number * PAGE
    if start is not None:
        yield start, end


def mappings(pid):
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            place, rights = line.split()[:2]
            begin, end = (int(x, 16) for x in place.split("-"))
            # The shadow of a sanitizer holds no bytes of the program, and pagemap of terabytes is long, too.
            if "r" in rights and "[v" not in line and end - begin <= 1 << 30:
                yield begin, end, line.strip()


def pieces(pid):
    """(description, bytes) of each run of pages in use."""
    try:
        with open(f"/proc/{pid}/comm") as f:
            name = f.read().strip()
        with open(f"/proc/{pid}/mem", "rb", 0) as mem, open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap:
            for begin, end, line in mappings(pid):
                for first, last in runs(pagemap, begin, end):
                    try:
                        mem.seek(first)
                        yield f"{pid} ({name}) {line}", mem.read(last - first)
                    except (OSError, ValueError):
                        pass
    except (ProcessLookupError, FileNotFoundError):
        pass  # it has ended
