"""agg.py - figures of the backends of matplotlib that only write files, such as matplotlib.use("Agg").

Programs written for machines without a screen choose one, and plt.show() does nothing with it. Here such figures
become results, too: by plt.show(), or at the end of the cell if they were drawn or changed in it."""
import sys

BACKENDS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}
session = None


def report_changed():
    from matplotlib._pylab_helpers import Gcf
    from . import figures
    for manager in Gcf.get_all_fig_managers():
        figure = manager.canvas.figure
        if figure.stale:
            session.report_result(figures.bundle_of(figure), False)
            figure.stale = False  # until it is changed


def show(*_args, **_options):
    """plt.show(): the figures are closed, as by the backends that show figures."""
    import matplotlib.pyplot
    try:
        report_changed()
    finally:
        matplotlib.pyplot.close("all")


def use(backend):
    """After the import of matplotlib's module of Agg."""
    backend.show = show


def end_cell():
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None or "matplotlib.pyplot" not in sys.modules:
        return
    name = dict.get(matplotlib.rcParams, "backend")  # not asked in its own way, which may choose one
    if isinstance(name, str) and name.lower() in BACKENDS:
        report_changed()
