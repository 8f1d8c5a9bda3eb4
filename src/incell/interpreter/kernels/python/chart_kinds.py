"""chart_kinds.py - the elements of each kind of chart, for charts.py."""
import datetime


def is_grid_line(artist):
    """Two points with equal x or equal y: axhline(), axvline() and the like."""
    from matplotlib import lines
    if not isinstance(artist, lines.Line2D):
        return False
    x, y = artist.get_xdata(), artist.get_ydata()
    return len(x) == 2 and len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])


def label_or_number(label, prefix, name):
    """Labels that matplotlib makes up, like _child3, become "Line 3"."""
    label = str(label)
    number = label[len(prefix):]
    return "%s %s" % (name, number) if label.startswith(prefix) and number.isdigit() else label


def coordinate(value):
    if isinstance(value, datetime.date):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        import numpy
        return None if numpy.isnat(value) else str(numpy.datetime_as_string(value, unit="s"))
    return value


def points(xs, ys):
    return [[coordinate(x), coordinate(y)] for x, y in zip(xs, ys)]


def lines(axes):
    return [{"label": label_or_number(line.get_label(), "_child", "Line"),
             "points": points(line.get_xdata(), line.get_ydata())}
            for line in axes.get_lines() if not is_grid_line(line)]


def scatters(axes, x_is_date, y_is_date):
    from matplotlib import collections, dates

    def place(value, is_date):
        return dates.num2date(value).isoformat() if is_date else float(value)

    return [{"label": str(one.get_label()),
             "points": [[place(x, x_is_date), place(y, y_is_date)] for x, y in one.get_offsets()]}
            for one in axes.collections if isinstance(one, collections.PathCollection)]


def wedges(axes):
    from matplotlib import patches
    return [{"label": str(wedge.get_label()), "angle": round(abs(wedge.theta2 - wedge.theta1)),
             "radius": wedge.r}
            for wedge in axes.patches if isinstance(wedge, patches.Wedge)]


def bar_containers(axes):
    """Containers of bars; rectangles without one (a histogram of steps) count as one group."""
    from matplotlib import container
    return [one for one in axes.containers if isinstance(one, container.BarContainer)]


def is_turned(container):
    orientation = getattr(container, "orientation", None)
    if orientation in ("vertical", "horizontal"):
        return orientation == "horizontal"
    return len({rectangle.get_height() for rectangle in container}) == 1


def labels_of_bars(rectangles, axis, tick_labels, turned):
    """By position in the list, or of the nearest tick where there are more or fewer ticks than bars."""
    labels, places = tick_labels(axis), list(axis.get_ticklocs())
    if len(labels) == len(rectangles) or not labels:
        return labels
    found = []
    for one in rectangles:
        middle = one.get_y() + one.get_height() / 2 if turned else one.get_x() + one.get_width() / 2
        found.append(labels[min(range(len(places)), key=lambda i: abs(places[i] - middle))])
    return found


def bars(axes, tick_labels):
    """The elements, and whether the bars lie."""
    elements, any_turned = [], False
    for container in bar_containers(axes):
        group = label_or_number(container.get_label(), "_container", "Group")
        rectangles, turned = list(container), is_turned(container)
        any_turned = any_turned or turned
        labels = labels_of_bars(rectangles, axes.yaxis if turned else axes.xaxis, tick_labels, turned)
        for label, one in zip(labels, rectangles):
            value = one.get_width() if turned else one.get_height()
            elements.append({"label": label, "group": group, "value": value})
    return elements, any_turned


def significant(number):
    return float("%.8g" % number)


def box_of(patch):
    vertices = patch.get_path().vertices
    x, y = [[significant(value) for value in vertices[:, i]] for i in (0, 1)]
    return {"x": (min(x), max(x)), "y": (min(y), max(y)),
            "min": None, "median": None, "max": None, "outliers": []}


def points_of(line):
    return ([significant(value) for value in line.get_xdata()],
            [significant(value) for value in line.get_ydata()])


def boxes_lie(found, drawn):
    """A whisker shows the direction; without one, boxes of one height are lying ones."""
    for box in found:
        for x, y in drawn:
            if len(x) != 2:
                continue
            if x[0] == x[1] and box["x"][0] < x[0] < box["x"][1] and set(y) & set(box["y"]):
                return False
            if y[0] == y[1] and box["y"][0] < y[0] < box["y"][1] and set(x) & set(box["x"]):
                return True
    return len({box["y"][1] - box["y"][0] for box in found}) == 1


def give_line(box, x, y, only_points):
    """What a line says about the box it stands in: outliers, the median, or a whisker."""
    low, high = box["y"]
    if len(x) == 1 or only_points:
        box["outliers"] += y
    elif len(x) == 2 and y[0] == y[1]:
        if low <= y[0] <= high:
            box["median"] = y[0]
    elif len(x) == 2 and max(y) == low:
        box["min"] = min(y)
    elif len(x) == 2 and min(y) == high:
        box["max"] = max(y)


def boxes(axes, tick_labels):
    """The elements, and whether the boxes lie."""
    from matplotlib import patches
    found = [box_of(patch) for patch in axes.patches if isinstance(patch, patches.PathPatch)]
    drawn = [points_of(line) for line in axes.get_lines()]
    turned = boxes_lie(found, drawn)
    if turned:
        for box in found:
            box["x"], box["y"] = box["y"], box["x"]
    for line, (x, y) in zip(axes.get_lines(), drawn):
        if turned:
            x, y = y, x
        only_points = str(line.get_linestyle()) in ("None", "none", " ", "")
        for box in found:
            if x and box["x"][0] <= min(x) and max(x) <= box["x"][1]:
                give_line(box, x, y, only_points)
                break
    labels = tick_labels(axes.yaxis if turned else axes.xaxis)
    return [{"label": label, "min": box["min"], "first_quartile": box["y"][0], "median": box["median"],
             "third_quartile": box["y"][1], "max": box["max"], "outliers": box["outliers"]}
            for label, box in zip(labels, found)], turned
