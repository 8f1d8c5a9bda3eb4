"""ishell.py - cells run by IPython, which gives magics, !commands, rich display and tracebacks.

make() is called before the fork and must not start a thread, open a database or write a file; attach()
afterwards ties the shell to its session. Works with IPython 7.3x to 9."""
import contextlib
import fnmatch
import importlib.util
import os
import re
import sys
import traceback
import types
import warnings


def import_lightly():
    """IPython, without what is for terminals only: jedi and prompt_toolkit are half of its memory."""
    placeholders = {"jedi": None, "IPython.terminal.embed": types.ModuleType("IPython.terminal.embed")}
    placeholders["IPython.terminal.embed"].embed = embed
    placeholders = {name: module for name, module in placeholders.items() if name not in sys.modules}
    sys.modules.update(placeholders)
    try:
        import IPython.core.completer
        import IPython.core.interactiveshell
    finally:
        for name in placeholders:
            sys.modules.pop(name, None)


def embed(**options):
    from IPython.terminal.embed import embed as real
    return real(**options)


import_lightly()

from IPython.core import interactiveshell  # noqa: E402
from IPython.core.autocall import ExitAutocall  # noqa: E402
from IPython.core.displayhook import DisplayHook  # noqa: E402
from IPython.core.displaypub import DisplayPublisher  # noqa: E402
from IPython.core.error import UsageError  # noqa: E402
from IPython.core.formatters import BaseFormatter, JSONFormatter  # noqa: E402
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from IPython.core.profiledir import ProfileDir  # noqa: E402
from IPython.utils.text import LSString, SList  # noqa: E402
from traitlets import ObjectName, Type, Unicode, default  # noqa: E402
from traitlets.config import Config  # noqa: E402

from . import background, charts, commands, fields, frames, hints, values  # noqa: E402

INLINE = "module://matplotlib_inline.backend_inline"
COLOURS = re.compile("\x1b\\[[0-9;]*[A-Za-z]")
# Calls that need a running event loop, though the cell has no await.
NEEDS_LOOP = re.compile(r"\b(create_task|ensure_future|get_running_loop)\s*\(")


class Publisher(DisplayPublisher):
    """display(): a result that is not the main one. Updates of earlier ones are not sent."""
    session = None

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_more):
        if not update and self.session is not None:
            self.session.report_result(data, False)

    def clear_output(self, wait=False):
        pass


class Hook(DisplayHook):
    """The value of the last expression: the main result."""
    session = None

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        if self.session is not None:
            self.session.report_result(format_dict, True)

    def finish_displayhook(self):
        if hasattr(self, "_is_active"):  # since IPython 9
            self._is_active = False


class DataFormatter(BaseFormatter):
    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, values.Encoded)


class ChartFormatter(BaseFormatter):
    """Does not register its type: matplotlib_inline takes all functions for figures out and adds its own."""
    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict, values.Encoded)

    def __call__(self, obj):
        figure = sys.modules.get("matplotlib.figure")
        if figure is not None and isinstance(obj, figure.Figure):
            return charts.figure_chart(obj)
        return super().__call__(obj)


class ListFormatter(JSONFormatter):
    """Lists and dicts are application/json, too, if they can be written as such."""
    _return_type = (list, dict, values.Encoded)

    def __call__(self, obj):
        if isinstance(obj, (list, dict)):
            try:
                return values.Encoded(values.encode(obj))
            except Exception:
                return None
        return super().__call__(obj)


class NoProfile(ProfileDir):
    """A profile whose folder is not made until something is written there."""
    def _location_changed(self, change):
        pass


class Memory(dict):
    """In place of IPython's database on disk: aliases and %store last as long as the kernel."""
    def __init__(self, *_place):
        super().__init__()

    def keys(self, pattern=None):
        return super().keys() if pattern is None else fnmatch.filter(super().keys(), pattern)


class Exit(ExitAutocall):
    """exit and quit end the cell; the names stay."""
    def __call__(self, status=None):
        raise SystemExit(status)


class Shell(InteractiveShell):
    display_pub_class = Type(Publisher)
    displayhook_class = Type(Hook)
    session = None

    @default("exiter")
    def _exiter_default(self):
        return Exit(self)

    def init_ipython_dir(self, ipython_dir):
        self.set_trait_quietly("ipython_dir", os.path.join(os.path.expanduser("~"), ".ipython"))

    def set_trait_quietly(self, name, value):
        """Without the observer, which would make the folder."""
        self._trait_values[name] = value

    def init_profile_dir(self, profile_dir):
        profile = NoProfile()
        profile._trait_values["location"] = os.path.join(self.ipython_dir, "profile_default")
        self.profile_dir = profile

    def init_virtualenv(self):
        pass

    def warm(self):
        """Runs cells of ours, so that all that a first one loads is there: nothing of them stays."""
        for cell in ("None", "%who_ls", "1/0"):
            self.run_cell(cell, store_history=False, silent=True)
        self.display_formatter.format([1, {"a": ""}])
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            sys.__dict__.pop(name, None)
        self.last_execution_result = None

    def attach(self, session):
        self.session = session
        self.display_pub.session = self.displayhook.session = session
        self.home_dir = os.path.expanduser("~")
        self.history_manager.dir_hist[:] = [os.getcwd()]
        self.starting_dir = os.getcwd()

    def touch(self):
        """An empty cell right after the fork: pages that every cell writes are copied now, not then."""
        self.run_cell("None", store_history=False, silent=True)

    def run(self, code, count, silent):
        self.execution_count = count if count else 1
        try:
            result = self.run_cell(code, store_history=not silent, silent=silent)
            error = result.error_before_exec or result.error_in_exec
            # Of a UsageError IPython writes a line to stderr, and nothing more.
            if error is not None and not self.session.failed and not isinstance(error, UsageError):
                self.session.report_exception(error)  # a second interrupt came while IPython wrote the first
        finally:
            # The history has no database, so nothing else empties these.
            for name in ("db_input_cache", "db_output_cache", "outputs"):
                getattr(self.history_manager, name, []).clear()

    @contextlib.contextmanager
    def _tee(self, channel):
        """IPython 9 keeps all text of a cell in memory for %notebook; a cell may print for hours."""
        yield

    def should_run_async(self, raw_cell, *, transformed_cell=None, preprocessing_exc_tuple=None):
        if super().should_run_async(raw_cell, transformed_cell=transformed_cell,
                                    preprocessing_exc_tuple=preprocessing_exc_tuple):
            return True
        return (preprocessing_exc_tuple is None and NEEDS_LOOP.search(raw_cell) is not None
                and "asyncio.run(" not in raw_cell)

    def use_matplotlib(self, matplotlib):
        """After the import of matplotlib: figures become results."""
        if os.environ.get("MPLBACKEND"):
            return
        if importlib.util.find_spec("matplotlib_inline") is not None:
            matplotlib.use(INLINE)

    def init_traceback_handlers(self, custom_exceptions):
        """IPython cannot format some exceptions, such as an interrupt before the first line of a cell, and
        then prints one of its own: give it Python's format for these.

        Frames of IPython's own, which tracebacks do not show, are taken out before: looking at one makes it
        parse and keep the whole of its source, which took 70 ms and 7 MB."""
        super().init_traceback_handlers(custom_exceptions)
        original = self.InteractiveTB.structured_traceback

        def structured_traceback(etype=None, evalue=None, etb=None, tb_offset=None, *more, **named):
            offset, shown = self.InteractiveTB.tb_offset if tb_offset is None else tb_offset, etb
            while offset > 0 and isinstance(shown, types.TracebackType) and shown.tb_next is not None:
                offset, shown = offset - 1, shown.tb_next
            try:
                return original(etype, evalue, shown, offset, *more, **named)
            except Exception:
                return traceback.format_exception(etype, evalue, etb)

        self.InteractiveTB.structured_traceback = structured_traceback

    def enable_matplotlib(self, gui=None):
        """%matplotlib: what would open a window, or needs a notebook, is inline here."""
        return super().enable_matplotlib(gui if gui in ("agg", "svg", "pdf", "ps") else "inline")

    def enable_gui(self, gui=None):
        """No windows here; %matplotlib inline calls it."""

    def _showtraceback(self, etype, evalue, stb):
        if self.session is None:
            return
        if isinstance(evalue, SystemExit):
            self.session.end_if_forked(evalue.code)
        if etype.__name__ == "CancelledError" and background.interrupted:
            etype, evalue = KeyboardInterrupt, KeyboardInterrupt()
        lines = [stb] if isinstance(stb, str) else list(stb)
        text = "\n".join(line.strip("\n") for line in lines)
        self.session.report_error(etype.__name__, fields.safe_text(evalue),
                                  COLOURS.sub("", text) + hints.for_error(evalue))

    def ask_exit(self):
        raise SystemExit

    def system(self, cmd):
        self.user_ns["_exit_code"] = commands.system(self.var_expand(cmd, depth=1), self.session.output,
                                                     self.session.pipes[0])

    system_piped = system_raw = system

    def getoutput(self, cmd, split=True, depth=0):
        text = commands.getoutput(self.var_expand(cmd, depth=depth + 1))
        return SList(text.splitlines()) if split else LSString(text)


def add_formatters(shell):
    formatters = shell.display_formatter.formatters
    for cls in (DataFormatter, ChartFormatter):
        formatter = cls(parent=shell.display_formatter)
        formatters[formatter.format_type] = formatter
    formatters["application/json"] = ListFormatter(parent=shell.display_formatter)
    formatters["e2b/data"].for_type_by_name("pandas.core.frame", "DataFrame", frames.frame_data)


def make():
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.autoindent = False
    config.InteractiveShell.loop_runner = background.run
    if hasattr(interactiveshell, "PickleShareDB"):
        interactiveshell.PickleShareDB = Memory
    shell = Shell.instance(config=config)
    shell.colors = "nocolor"
    shell.loop_runner = background.run
    add_formatters(shell)
    warnings.filterwarnings("ignore", message="To exit: use 'exit', 'quit', or Ctrl-D")
    return shell
