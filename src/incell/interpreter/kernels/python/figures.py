"""figures.py - a matplotlib backend for plain.py: show(), and the end of a cell, display open figures.

With IPython, matplotlib_inline does this."""
import io

import matplotlib
from matplotlib._pylab_helpers import Gcf
from matplotlib.backends import backend_agg
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from . import charts

FigureCanvas = FigureCanvasAgg


def new_figure_manager_given_figure(num, figure):
    return backend_agg.new_figure_manager_given_figure(num, figure)


def new_figure_manager(num, *args, FigureClass=Figure, **options):
    return new_figure_manager_given_figure(num, FigureClass(*args, **options))


def bundle_of(figure):
    data = io.BytesIO()
    if figure.canvas is None:
        FigureCanvasAgg(figure)
    figure.canvas.print_figure(data, format="png", bbox_inches="tight")
    return {"text/plain": repr(figure), "image/png": data.getvalue(),
            "e2b/chart": charts.figure_chart(figure)}


def is_used():
    return dict.get(matplotlib.rcParams, "backend") == "module://" + __name__


def show(close=None, block=None):
    import builtins
    import matplotlib.pyplot
    figures = [manager.canvas.figure for manager in Gcf.get_all_fig_managers()]
    try:
        for figure in figures:
            builtins.display(figure)
    finally:
        if figures:
            matplotlib.pyplot.close("all")
