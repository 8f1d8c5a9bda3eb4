"""The C of src, read as far as tools/check-loops needs it: functions, their calls, and the order of their statements.

There is no preprocessor: of "#if ... #else ... #endif" both parts are read, and a macro with arguments is a function of its
name. It reads the style of this tree (HACKING.md), not all of C: the braces of a function stand in the first column."""
import re

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|\.\.\.|[^\s\w\"'\\]")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "case", "default", "break", "continue", "goto", "alignof", "_Alignof",
            "__typeof__", "typeof", "__attribute__", "_Static_assert", "static_assert", "offsetof", "defined", "struct", "union", "enum", "int", "void", "const"}
OPEN, CLOSE = frozenset("({["), frozenset(")}]")
BLANK = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))((?:[^\n]*\\\n)*[^\n]*)", re.M)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
FUNCTION = re.compile(r"^(?P<head>[a-z][^\n;={}]*(?:\n[^\n;={}]+)*\))\n\{\n(?P<body>.*?)^\}", re.M | re.S)
HEAD_NAME = re.compile(r"(\w+)\(")
CALL = re.compile(r"(->|\.)?\b([A-Za-z_]\w*)\(|(\(\*\w+\)|\])\(")
LOOP_MACRO = re.compile(r"[A-Z]\w*_(?:WALK|EACH)\w*")


def is_name(token):
    return token[0].isalpha() or token[0] == "_"


def without_comments(text):
    """The same text with comments, strings and characters blanked; lines stay where they are."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else m[0][0] + " " * (len(m[0]) - 2) + m[0][0], text)


class Node:
    """One expression, from one token of its function to another, and the nodes that can follow."""

    def __init__(self, first, last):
        self.first, self.last, self.then = first, last, []


class Function:
    def __init__(self, path, name, head, body, line):
        self.path, self.name, self.head, self.body, self.line = path, name, head, body, line

    def calls(self):
        """(name, is it a member of something) of each call; "*": by an expression."""
        for m in CALL.finditer(self.body):
            if m[3]:
                yield "*", True
            elif m[2] not in KEYWORDS:
                yield m[2], m[1] is not None

    def kinds(self):
        """{variable: structure that it points to}"""
        found, text = {}, self.head + "\n" + self.body
        for m in re.finditer(r"\bstruct (\w+) (?:const )?(?=\*)", text):
            depth, i, begin = 0, m.end(), m.end()
            while i < len(text) and depth >= 0:
                if text[i] in OPEN:
                    depth += 1
                elif text[i] in CLOSE:
                    depth -= 1
                if depth < 0 or (depth == 0 and text[i] in ",;"):
                    name = re.match(r"\s*\*+\s*(?:const )?(\w+)", text[begin:i])
                    if name is None or text[i] == ";":
                        depth = -1
                    if name is not None:
                        found.setdefault(name[1], m[1])
                    begin = i + 1
                i += 1
        return found


def functions_of(path, text):
    text = without_comments(text)
    found = []
    for m in MACRO.finditer(text):
        found.append(Function(path, m[1], m[2], m[3].replace("\\\n", " \n"), text.count("\n", 0, m.start(3)) + 1))
    text = DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    for m in FUNCTION.finditer(text):
        name = HEAD_NAME.search(m["head"])
        if name:
            found.append(Function(path, name[1], m["head"], m["body"], text.count("\n", 0, m.start("body")) + 1))
    return found


class Flow:
    """The expressions of a function, in the order in which they can run."""

    def __init__(self, function):
        self.tokens, self.lines, line, at = [], [], function.line, 0
        body = function.body
        for m in TOKEN.finditer(body):
            line += body.count("\n", at, m.start())
            at = m.start()
            self.tokens.append(m[0])
            self.lines.append(line)
        self.pair, stack = {}, []
        for i, t in enumerate(self.tokens):
            if t in OPEN:
                stack.append(i)
            elif t in CLOSE and stack:
                self.pair[stack.pop()] = i
        self.nodes, self._labels, self._gotos = [], {}, []
        self._end = Node(0, 0)
        self.begin = self._block(0, len(self.tokens), self._end, None, None, None)
        for node, label in self._gotos:
            node.then = [self._labels.get(label, self._end)]

    def _node(self, first, last, then):
        node = Node(first, last)
        node.then = list(then)
        self.nodes.append(node)
        return node

    def _close(self, i):
        return self.pair.get(i, len(self.tokens) - 1)

    def _is_loop_macro(self, i):
        return self.tokens[i + 1 : i + 2] == ["("] and LOOP_MACRO.fullmatch(self.tokens[i]) is not None and self.tokens[self._close(i + 1) + 1 : self._close(i + 1) + 2] != [";"]

    def _past(self, i, end):
        """The first token behind the statement that begins at i."""
        if i >= end:
            return end
        t = self.tokens[i]
        if t == "{":
            return self._close(i) + 1
        if t in ("if", "for", "while", "switch") or self._is_loop_macro(i):
            j = self._past(self._close(i + 1) + 1, end)
            return self._past(j + 1, end) if t == "if" and j < end and self.tokens[j] == "else" else j
        if t == "else":
            return self._past(i + 1, end)
        if t == "do":
            j = self._past(i + 1, end)
            return self._expression_end(j, end)
        if t in ("case", "default"):
            while i < end and self.tokens[i] != ":":
                i += 1
            return i + 1
        if is_name(t) and i + 1 < end and self.tokens[i + 1] == ":":
            return i + 2
        return self._expression_end(i, end)

    def _expression_end(self, i, end):
        while i < end and self.tokens[i] != ";":
            i = self._close(i) + 1 if self.tokens[i] in OPEN else i + 1
        return min(i + 1, end)

    def _block(self, i, end, then, out, again, cases):
        """Statements, from the last to the first; returns the node that begins them."""
        parts = []
        while i < end:
            j = self._past(i, end)
            parts.append((i, j))
            i = j
        for i, j in reversed(parts):
            then = self._statement(i, j, then, out, again, cases)
        return then

    def _statement(self, i, end, then, out, again, cases):
        if i >= end:
            return then
        t = self.tokens[i]
        if t == "{":
            return self._block(i + 1, end - 1, then, out, again, cases)
        if t == "else":
            return self._statement(i + 1, end, then, out, again, cases)
        if t == "if":
            j = self._close(i + 1) + 1
            k = self._past(j, end)
            yes = self._statement(j, k, then, out, again, cases)
            no = self._statement(k + 1, end, then, out, again, cases) if k < end else then
            return self._node(i + 2, j - 1, [yes, no])
        if t == "while":
            j = self._close(i + 1) + 1
            head = self._node(i + 2, j - 1, [then])
            head.then.append(self._statement(j, end, head, then, head, cases))
            return head
        if t == "do":
            j = self._past(i + 1, end)
            head = self._node(j + 1, end, [then])
            head.then.append(self._statement(i + 1, j, head, then, head, cases))
            return head.then[-1]
        if t == "for" or self._is_loop_macro(i):
            return self._for(i, end, then, cases)
        if t == "switch":
            inside, j = [], self._close(i + 1) + 1
            self._statement(j, end, then, then, again, inside)
            return self._node(i + 2, j - 1, [*inside, then])
        if t in ("case", "default"):
            node = self._node(i, i, [then])
            if cases is not None:
                cases.append(node)
            return node
        if end - i == 2 and self.tokens[i + 1] == ":":
            self._labels[t] = self._node(i, i, [then])
            return self._labels[t]
        if t == "break":
            return out or then
        if t == "continue":
            return again or then
        if t == "goto":
            node = self._node(i, i, [])
            self._gotos.append((node, self.tokens[i + 1]))
            return node
        return self._node(i, end, [self._end if t == "return" else then])

    def _for(self, i, end, then, cases):
        j = self._close(i + 1)
        marks, k = [], i + 2
        while k < j:
            if self.tokens[k] == ";":
                marks.append(k)
            k = self._close(k) + 1 if self.tokens[k] in OPEN else k + 1
        marks = (marks + [j, j])[:2]
        test = self._node(marks[0] + 1, marks[1], [then])
        step = self._node(min(marks[1] + 1, j), j, [test])
        test.then.append(self._statement(j + 1, end, step, then, step, cases))
        return self._node(i + 2, marks[0], [test])
