"""The step tables of the documentation: each file is reached from an earlier one.

A step table begins with the row `| step | file | process |`. A module is a .c file together with its header. Two modules are linked
if one of them includes the header of the other, or names a function or table that the other one exports (a callback is
a link in the other direction). Where the process changes, modules are also linked by a message: both include the same header of
src/lib/wire, directly or through two other modules; main.c begins a program. Each file of a table but those of the first row must be linked with a file of
an earlier row, directly or through files of its own row. A row names each file once."""
import os
import re

HEADER = re.compile(r"^\| step \| file \| process \|")
EXPORT = re.compile(r"^(?!static\b|typedef\b|return\b|else\b)[A-Za-z_][\w\s*]*?\b(\w+)(?:\(| = |\[\w*\] = )", re.M)


def module(path):
    return re.sub(r"\.[ch]$", "", path)


class Sources:
    def __init__(self, root, files):
        self.uses, self.words, self.exports = {}, {}, {}
        for path in files:
            if path.startswith("src/") and path.endswith((".c", ".h")):
                with open(os.path.join(root, path), encoding="utf-8") as f:
                    text = f.read()
                m = module(path[4:])
                self.uses.setdefault(m, set()).update(module(x) for x in re.findall(r'^#include "([^"]+)"', text, re.M))
                self.words.setdefault(m, set()).update(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))
                if path.endswith(".c"):
                    self.exports[m] = set(EXPORT.findall(text)) - {"main"}

    def includes(self, start, depth):
        seen, edge = {start}, {start}
        for _ in range(depth):
            edge = {y for x in edge for y in self.uses.get(x, ())} - seen
            seen |= edge
        return seen

    def calls(self, a, b):
        return b in self.uses.get(a, ()) or bool(self.words.get(a, set()) & self.exports.get(b, set()))

    def linked(self, a, b, crosses):
        return self.calls(a, b) or crosses and any(
            x.startswith("lib/wire/") for x in self.includes(a, 3) & self.includes(b, 3))


def tables(text):
    """The step tables: for each row its line, files and process."""
    table, found = None, []
    for number, line in enumerate(text.split("\n"), 1):
        if HEADER.match(line):
            table = []
            found.append(table)
        elif not line.startswith("|"):
            table = None
        elif table is not None and not line.startswith("|--"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            files = re.findall(r"`([\w/]+\.[ch])`", cells[1])
            process = cells[2] if len(cells) > 2 and cells[2] else (table[-1][2] if table else "")
            table.append((number, files, process))
    return found


def errors(text, sources):
    """Yields line, file and reason of each file that nothing before leads to, or that its row names twice."""
    for table in tables(text):
        before, past = [], ""
        for number, files, process in table:
            here = [m for m in map(module, files) if m in sources.uses]
            crosses = process != past or "," in process
            reached = [m for m in here if not before or m in before or crosses and m.endswith("/main")]
            waiting = [m for m in here if m not in reached]
            while found := [m for m in waiting if any(sources.linked(x, m, crosses) for x in before + reached)]:
                reached += found
                waiting = [m for m in waiting if m not in found]
            for m in waiting:
                yield number, m + ".c", "no earlier file of the table calls it or sends it a message"
            for m in sorted({m for m in here if here.count(m) > 1}):
                yield number, m + ".c", "the row names it twice"
            before += here
            past = process if here else past
