"""plain.py - cells run without IPython: the value of the last expression, tracebacks, top-level await.

No magics and no !commands; display() and the _repr_*_ methods of objects work."""
import ast
import builtins
import inspect
import linecache
import os
import re
import sys
import traceback
import types

from . import background, fields, frames, hints, values

METHODS = {
    "_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png", "_repr_jpeg_": "image/jpeg", "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex", "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
FIGURES = "cordon_kernel.figures"
NO_IPYTHON = ("magics (%) and shell commands (!) need IPython, which is not installed in this template "
              "(Debian package python3-ipython, or pip install ipython)")


class UsageError(Exception):
    pass


def is_a(value, module, name):
    return any(cls.__module__ == module and cls.__name__ == name for cls in type(value).__mro__)


def call_methods(value, bundle):
    for method, mime in METHODS.items():
        if getattr(type(value), method, None) is None:
            continue
        try:
            data = getattr(value, method)()
        except Exception:
            continue
        if isinstance(data, tuple) and data:
            data = data[0]
        if data is not None:
            bundle[mime] = data


def call_mimebundle(value, bundle):
    if getattr(type(value), "_repr_mimebundle_", None) is None:
        return
    try:
        data = value._repr_mimebundle_()
    except Exception:
        return
    data = data[0] if isinstance(data, tuple) and data else data
    if isinstance(data, dict):
        bundle.update(data)


def bundle_of(value):
    """The MIME bundle of a value. A failing repr() raises, as it does at a prompt."""
    if is_a(value, "matplotlib.figure", "Figure"):
        from . import figures
        return figures.bundle_of(value)
    bundle = {"text/plain": repr(value)}
    if isinstance(value, (list, dict)):
        try:
            bundle["application/json"] = values.Encoded(values.encode(value))
        except Exception:
            pass
    if is_a(value, "pandas.core.frame", "DataFrame"):
        bundle["e2b/data"] = frames.frame_data(value)
    if not isinstance(value, type):
        call_methods(value, bundle)
        call_mimebundle(value, bundle)
    return bundle


def dedent(code):
    """Takes the indentation of the first line of code off all lines."""
    found = re.match(r"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]+)", code)
    if not found:
        return code
    indent = found.group(1)
    return "".join(line[len(indent):] if line.startswith(indent) else line.lstrip(" \t")
                   for line in code.splitlines(keepends=True))


class Shell:
    def __init__(self):
        self.module = types.ModuleType("__main__")
        self.module.__builtins__ = builtins
        self.first_main = sys.modules.get("__main__")
        self.session = None

    def warm(self):
        pass

    def touch(self):
        pass

    def attach(self, session):
        self.session = session
        sys.modules["__main__"] = self.module
        builtins.display = self.display

    def display(self, *objects, **options):
        for one in objects:
            raw = options.get("raw") and isinstance(one, dict)
            self.session.report_result(one if raw else bundle_of(one), False)

    def use_matplotlib(self, matplotlib):
        if not os.environ.get("MPLBACKEND"):
            matplotlib.use("module://" + FIGURES)

    def parse(self, code, filename):
        try:
            return ast.parse(dedent(code), filename)
        except SyntaxError as error:
            lines = dedent(code).splitlines()
            line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
            if re.match(r"\s*[%!]", line):
                raise UsageError(NO_IPYTHON) from None
            raise

    def run_code(self, node, mode, filename):
        code = compile(node, filename, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
        value = eval(code, self.module.__dict__)
        if code.co_flags & inspect.CO_COROUTINE:
            value = background.run(value)
        return value

    def run_cell(self, code, filename, silent):
        body = self.parse(code, filename).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) and not silent else None
        if body:
            self.run_code(ast.Module(body, []), "exec", filename)
        if last is None:
            return
        value = self.run_code(ast.Expression(last.value), "eval", filename)
        if value is not None and not code.rstrip().endswith(";"):
            self.module.__dict__["_"] = value
            self.session.report_result(bundle_of(value), True)

    def run(self, code, count, silent):
        filename = "<cell %d>" % count
        source = dedent(code)
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        try:
            self.run_cell(code, filename, silent)
        except BaseException as error:
            self.report(error, filename)
        figures = sys.modules.get(FIGURES)
        if figures is not None:
            try:
                if figures.is_used():
                    figures.show()
            except Exception as error:
                self.report(error, filename)

    def report(self, error, filename):
        if isinstance(error, SystemExit):
            self.session.end_if_forked(error.code)
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != filename:
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and trace is None:
            lines = traceback.format_exception_only(type(error), error)
        else:
            lines = traceback.format_exception(type(error), error, trace)
        self.session.report_error(type(error).__name__, fields.safe_text(error),
                                  "".join(lines) + hints.for_error(error).lstrip("\n"))
