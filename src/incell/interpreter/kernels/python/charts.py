"""charts.py - a matplotlib figure as data: what is drawn, not how it looks.

figure_chart() is called for each figure that is displayed. A figure without axes or data has no chart. The
kind of a chart follows from the artists of its axes; what fits no kind is "unknown", with its title only.
The rules are those of E2B's clients, which read these objects: all keys of a kind are present, what is
missing is null."""
import re

from . import chart_kinds, values


def text_or_none(text):
    return text if text else None


def unit_of(label):
    found = re.search(r"\s\((.*?)\)|\[(.*?)\]", label or "")
    return (found.group(1) or found.group(2) or None) if found else None


def head(kind, axes):
    return {"type": kind, "title": text_or_none(axes.get_title()), "elements": []}


def head_2d(kind, axes):
    x, y = axes.get_xlabel(), axes.get_ylabel()
    return dict(head(kind, axes), x_label=text_or_none(x), y_label=text_or_none(y),
                x_unit=unit_of(x), y_unit=unit_of(y))


def swap_axes(chart):
    for what in ("label", "unit"):
        chart["x_" + what], chart["y_" + what] = chart["y_" + what], chart["x_" + what]


def date_converter(axis):
    from matplotlib import dates
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return isinstance(converter, (dates._SwitchableDateConverter, dates.DateConverter))


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def ticks_of(axis, is_date):
    from matplotlib import dates
    places = axis.get_ticklocs()
    if is_date:
        return [dates.num2date(place).isoformat() for place in places]
    return [float(place) for place in places]


def scale_of(axis, is_date, labels):
    if is_date:
        return "datetime"
    if axis.get_scale() != "linear":
        return axis.get_scale()
    shown = list(zip(axis.get_ticklocs(), labels))
    if shown and all(place == i and label != str(i) for i, (place, label) in enumerate(shown)):
        return "categorical"
    return "linear"


def add_ticks(chart, axes):
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        is_date, labels = date_converter(axis), tick_labels(axis)
        chart[name + "_ticks"] = ticks_of(axis, is_date)
        chart[name + "_tick_labels"] = labels
        chart[name + "_scale"] = scale_of(axis, is_date, labels)


def line_chart(axes):
    chart = head_2d("line", axes)
    add_ticks(chart, axes)
    chart["elements"] = chart_kinds.lines(axes)
    return chart


def scatter_chart(axes):
    chart = head_2d("scatter", axes)
    add_ticks(chart, axes)
    chart["elements"] = chart_kinds.scatters(axes, date_converter(axes.xaxis), date_converter(axes.yaxis))
    return chart


def bar_chart(axes):
    chart = head_2d("bar", axes)
    chart["elements"], turned = chart_kinds.bars(axes, tick_labels)
    if turned:
        swap_axes(chart)
    return chart


def box_chart(axes):
    chart = head_2d("box_and_whisker", axes)
    chart["elements"], turned = chart_kinds.boxes(axes, tick_labels)
    if turned:
        swap_axes(chart)
    return chart


def pie_chart(axes):
    return dict(head("pie", axes), elements=chart_kinds.wedges(axes))


def axes_chart(axes):
    """The chart of one axes, by its own artists; the first kind that fits all of them."""
    from matplotlib import collections, lines, patches, text
    artists = [artist for artist in own_artists(axes) if not isinstance(artist, text.Text)]
    if all(isinstance(artist, lines.Line2D) for artist in artists):
        return line_chart(axes)
    if all(isinstance(artist, (lines.Line2D, patches.PathPatch)) for artist in artists):
        return box_chart(axes)
    artists = [artist for artist in artists if not chart_kinds.is_grid_line(artist)]
    for cls, make in ((collections.PathCollection, scatter_chart), (patches.Wedge, pie_chart),
                      (patches.Rectangle, bar_chart)):
        if all(isinstance(artist, cls) for artist in artists):
            return make(axes)
    return head("unknown", axes)


def own_artists(axes):
    if hasattr(axes, "_children"):
        return list(axes._children)
    return axes.lines + axes.patches + axes.collections + axes.images + axes.tables


def title_of_figure(figure):
    title = getattr(figure, "_suptitle", None)
    return text_or_none(title.get_text()) if title is not None else None


def make_chart(figure):
    axes = figure.get_axes()
    if not any(one.has_data() for one in axes):
        return None
    if len(axes) == 1:
        return axes_chart(axes[0])
    return {"type": "superchart", "title": title_of_figure(figure),
            "elements": [axes_chart(one) for one in axes]}


def figure_chart(figure):
    """Encoded, or None."""
    try:
        chart = make_chart(figure)
        return None if chart is None else values.Encoded(values.encode(chart, str))
    except Exception:
        return None
