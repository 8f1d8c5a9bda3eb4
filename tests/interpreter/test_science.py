#!/usr/bin/python3
"""Goal: figures, data frames and images of the scientific stack become results, with IPython and without it.

    test_science.py [name ...]"""
import base64
import glob
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from checks import check, equal, has, wait_for  # noqa: E402
from driver import Parent  # noqa: E402

PNG = b"\x89PNG\r\n"
WARM = {"CORDON_INTERPRETER_WARM": "pandas,matplotlib.pyplot,PIL.Image,no_such_module"}
parent = None


def is_png(result):
    check(base64.b64decode(result["png"]).startswith(PNG), "a PNG")


def kernel(cwd="/"):
    return parent.spawn(cwd)


def figures():
    k = kernel()
    answer = k.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nx = 1\nx")
    equal([r["is_main_result"] for r in answer.results], [False, True], "the figure, then the value")
    equal(sorted(answer.results[0]), ["chart", "is_main_result", "png", "text", "type"])
    is_png(answer.results[0])
    equal(answer.stderr, "")
    equal(len(k.run("plt.show()").results), 0, "shown ones are closed")
    equal(len(k.run("plt.plot([1]); plt.figure(); plt.plot([2]);").results), 2, "open ones at the end of the cell")
    answer = k.run("%matplotlib inline\nplt.plot([1, 2]);")
    equal((answer.error, len(answer.results)), (None, 1))
    result = k.run("%config InlineBackend.figure_format = 'svg'\nplt.plot([1, 2]);").results[0]
    has(result["svg"], "<svg")
    check("png" not in result and result["chart"]["type"] == "line", result.keys())
    with tempfile.NamedTemporaryFile(suffix=".png") as f:
        equal(k.run(f"plt.plot([1]); plt.savefig({f.name!r}); plt.close()").results, [], "saved, not shown")
        check(os.path.getsize(f.name) > 100, "saved")
    equal(k.run("plt.plot([1, 2]); raise ValueError").results[0]["chart"]["type"], "line", "after an error, too")
    k.kill()


AGG = "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"


def figures_of_backends_that_write_files(start=kernel):
    """Code written for machines without a screen chooses Agg: its figures are results, too."""
    k = start()
    answer = k.run(AGG + "plt.plot([1, 2, 3])\nplt.show()\nprint('shown')\nplt.plot([4]);")
    equal((answer.error, answer.stderr, len(answer.results)), (None, "", 2), "by show(), and at the end of the cell")
    for result in answer.results:
        is_png(result)
        equal((result["chart"]["type"], result["is_main_result"]), ("line", False))
    equal(k.run("matplotlib.get_backend().lower()").text, "'agg'", "the backend is the one that was chosen")
    equal(k.run("1 + 1").results, [{"type": "result", "is_main_result": True, "text": "2"}], "what was shown is not shown again")
    equal(len(k.run("plt.title('later');").results), 1, "a figure of the cell before, which is still open, and has changed")
    with tempfile.NamedTemporaryFile(suffix=".png") as f:
        equal(k.run(f"plt.title('saved'); plt.savefig({f.name!r}); plt.close()").results, [], "saved, not shown")
        check(os.path.getsize(f.name) > 100, "saved")
    equal(len(k.run("plt.plot([1]); raise ValueError").results), 1, "after an error, too")
    equal(len(k.run("plt.close('all'); plt.switch_backend('svg'); plt.plot([1]);").results), 1, "another that writes files")
    equal(k.run("plt.close('all')").results, [])
    k.kill()


def a_cell_that_is_interrupted_while_it_draws():
    k = kernel()
    k.run("import matplotlib.pyplot as plt")
    k.start("print('on', flush=True)\nwhile True:\n    plt.plot([1]); plt.show()")
    while k.receive()["type"] != "result":
        pass
    k.interrupt()
    equal(k.finish().error["name"], "KeyboardInterrupt")
    result = k.run("plt.close('all'); plt.plot([1]); plt.show()").results[0]
    is_png(result)
    k.kill()


def data_frames():
    k = kernel()
    result = k.run("import pandas as pd, numpy as np\n"
                   "pd.DataFrame({'i': [1, 2], 'f': [1.5, np.nan], 't': pd.to_datetime(['2024-01-02', None]),\n"
                   "              's': ['a', None], 'b': [True, False], 'c': pd.Categorical(['x', 'y']),\n"
                   "              'd': pd.to_timedelta([1, 2], 's'), 'o': [object, {1}], 7: [np.inf, 1]})").results[0]
    has(result["html"], "<table")
    data = result["data"]
    check("object" in data["o"][0], data["o"])
    del data["o"]
    equal(data, {"i": [1, 2], "f": [1.5, None], "t": ["2024-01-02T00:00:00", None], "s": ["a", None],
                 "b": [True, False], "c": ["x", "y"], "d": ["0 days 00:00:01", "0 days 00:00:02"], "7": [None, 1.0]})
    equal(k.run("pd.DataFrame()").results[0]["data"], {})
    check("data" not in k.run("pd.DataFrame(np.zeros((1100, 1000)))").results[0], "too large")
    check("data" not in k.run("pd.Series([1])").results[0], "frames only")
    equal(k.run("d = pd.DataFrame([[1, 2]], columns=['a', 'a']); d").results[0]["data"], {"a": [2]})
    equal(k.run("{'n': np.float64(1.5), np.int64(3): np.arange(2), 'nan': np.nan, 't': pd.Timestamp(0)}")
          .results[0]["json"], {"n": 1.5, "3": [0, 1], "nan": None, "t": "1970-01-01T00:00:00"})
    k.kill()


def images():
    with tempfile.TemporaryDirectory() as folder:
        k = kernel(folder)
        code = "from PIL import Image\nimport io, pathlib\nimage = Image.new('RGB', (8, 4), 'red')\n"
        for line in ("image", "image.show()", "image.save('f.png')", "image.save(pathlib.Path('g.jpg'))"):
            answer = k.run(code + line)
            equal(len(answer.results), 1, line)
            is_png(answer.results[0])
            equal(answer.results[0]["text"], "<PIL.Image.Image image mode=RGB size=8x4>")
            equal(answer.results[0]["is_main_result"], line == "image")
        equal(k.run("image.save(io.BytesIO(), 'PNG')").results, [], "to a file object")
        equal(k.run("with open('h.png', 'wb') as f: image.save(f)").results, [])
        equal(sorted(os.listdir(folder)), ["f.png", "g.jpg", "h.png"])
        is_png(k.run("Image.new('CMYK', (2, 2)).show()").results[0])
        equal(k.run("image.save('no/such/folder.png')").error["name"], "FileNotFoundError")
        k.kill()


def warm_kernels_differ_in_their_random_numbers():
    a, b = kernel(), kernel()
    code = "import numpy; numpy.random.random()"
    check(a.run(code).text != b.run(code).text, "the same random numbers")
    equal(a.run("import os; [n for n in os.environ if n.endswith('_NUM_THREADS')]").text, "[]")
    a.kill()
    b.kill()


def everything_without_ipython():
    own = Parent(without=["IPython"])
    k = own.spawn()
    answer = k.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nplt.plot([1]);")
    equal((len(answer.results), answer.error), (2, None))
    is_png(answer.results[0])
    equal(answer.results[0]["chart"]["type"], "line")
    result = k.run("import pandas as pd; pd.DataFrame({'a': [1]})").results[0]
    equal((result["data"], result["html"][:4]), ({"a": [1]}, "<div"))
    is_png(k.run("from PIL import Image; Image.new('L', (2, 2))").results[0])
    is_png(k.run("Image.new('L', (2, 2)).show()").results[0])
    k.kill()
    figures_of_backends_that_write_files(own.spawn)
    own.close()


def fonts_are_listed_in_advance():
    with tempfile.TemporaryDirectory() as home:
        own, folder = Parent(env={"HOME": home}), os.path.join(home, ".cache", "matplotlib")
        wait_for(lambda: os.path.isdir(folder) and glob.glob(folder + "/fontlist*.json"), 60, "the list of fonts")
        wait_for(lambda: len(os.listdir(folder)) == 1, 60, "the end of its own folder")
        k = own.spawn()
        k.run("import matplotlib.font_manager as f; f._load_fontmanager = None")
        check(int(k.run("len(f.fontManager.ttflist)").text) > 0, "fonts")
        equal(len(os.listdir(folder)), 1, "the same list")
        k.kill()
        own.close()


TESTS = [fonts_are_listed_in_advance, figures, figures_of_backends_that_write_files, a_cell_that_is_interrupted_while_it_draws, data_frames, images,
         warm_kernels_differ_in_their_random_numbers, everything_without_ipython]


def main():
    global parent
    for name in ("matplotlib", "pandas", "PIL"):
        try:
            __import__(name)
        except ImportError:
            print(f"1..0 # SKIP no {name}")
            return 0
    parent = Parent(env=WARM)
    try:
        return tap.run(TESTS, sys.argv[1:])
    finally:
        parent.close()


if __name__ == "__main__":
    sys.exit(main())
