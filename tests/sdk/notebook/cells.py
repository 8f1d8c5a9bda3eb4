# %%
import csv, json, math, os, re, sqlite3, subprocess, sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
work = Path('/tmp/notebook')
work.mkdir(exist_ok=True)
os.chdir(work)
work
# %%
rows = [
    ('2024-01-03', 'north', 'bolt', 120, 0.25),
    ('2024-01-03', 'south', 'nut', 300, 0.10),
    ('2024-01-04', 'north', 'nut', 80, 0.10),
    ('2024-01-05', 'east', 'gear', 12, 14.5),
    ('2024-01-08', 'south', 'bolt', 500, 0.25),
    ('2024-01-09', 'east', 'bolt', 40, 0.27),
    ('2024-02-01', 'north', 'gear', 7, 15.0),
]
len(rows)
# %%
with open('sales.csv', 'w', newline='') as f:
    out = csv.writer(f)
    out.writerow(['day', 'region', 'part', 'units', 'price'])
    out.writerows(rows)
os.path.getsize('sales.csv')
# %%
with open('sales.csv') as f:
    sales = list(csv.DictReader(f))
sales[0]
# %%
for s in sales:
    s['units'] = int(s['units'])
    s['price'] = float(s['price'])
    s['revenue'] = round(s['units'] * s['price'], 2)
[s['revenue'] for s in sales]
# %%
total = sum(s['revenue'] for s in sales)
print(f'total revenue: {total:,.2f}')
# %%
by_region = defaultdict(float)
for s in sales:
    by_region[s['region']] += s['revenue']
dict(sorted(by_region.items()))
# %%
by_region
# %%
max(sales, key=lambda s: s['units'])['part']
# %%
Counter(s['part'] for s in sales).most_common()
# %%
print('region     revenue')
for region, revenue in sorted(by_region.items(), key=lambda kv: -kv[1]):
    print(f'{region:<10} {revenue:>7.2f}')
# %%
revenue_of('north')
# %%
def revenue_of(region, data=sales):
    """Revenue of one region."""
    return sum(s['revenue'] for s in data if s['region'] == region)
revenue_of('north')
# %%
revenue_of.__doc__
# %%
[revenue_of(r) for r in ('north', 'south', 'west')]
# %%
sales[99]
# %%
sales[0]['color']
# %%
int('twelve')
# %%
days = sorted({datetime.strptime(s['day'], '%Y-%m-%d').date() for s in sales})
days[-1] - days[0]
# %%
days[0].isoformat(), days[0].strftime('%A'), days[0].isocalendar()[1]
# %%
[d + timedelta(days=30) for d in days[:2]]
# %%
gaps = [(b - a).days for a, b in zip(days, days[1:])]
gaps
# %%
sum(gaps) / len(gaps)
# %%
assert sum(gaps) == 29, 'days are missing'
# %%
assert sum(gaps) == 30, 'days are missing'
# %%
import statistics as st
units = [s['units'] for s in sales]
st.mean(units), st.median(units), round(st.stdev(units), 3)
# %%
st.quantiles(units, n=4)
# %%
Sale = namedtuple('Sale', 'day region part units price')
typed = [Sale(*r) for r in rows]
typed[0]
# %%
typed[0]._asdict()
# %%
typed[0].color
# %%
typed[0]._replace(units=121).units
# %%
@dataclass(order=True)
class Item:
    name: str
    weight: float
    tags: list = field(default_factory=list)

    def heavier(self, other):
        return self.weight > other.weight
# %%
bolt, gear = Item('bolt', 0.02), Item('gear', 1.4, ['metal', 'round'])
gear
# %%
gear.heavier(bolt), bolt < gear
# %%
Item('x')
# %%
class Stack:
    def __init__(self, items=()):
        self._items = list(items)
    def push(self, x):
        self._items.append(x)
        return self
    def pop(self):
        if not self._items:
            raise IndexError('pop from empty stack')
        return self._items.pop()
    def __len__(self):
        return len(self._items)
    def __repr__(self):
        return f'Stack({self._items!r})'
# %%
s = Stack().push(1).push('two')
s
# %%
len(s), s.pop(), s.pop()
# %%
s.pop()
# %%
class Counted(Stack):
    made = 0
    def __init__(self, *args):
        super().__init__(*args)
        type(self).made += 1
Counted([1]); Counted()
Counted.made
# %%
isinstance(Counted(), Stack), Counted.__mro__[1].__name__
# %%
text = """Contact: ada@example.com, grace@navy.example.org
Phone: +44 20 7946 0958; fax +44 20 7946 0000
Dates 2024-01-03, 2024-13-45 and 1999-12-31"""
re.findall(r'[\w.]+@[\w.]+\w', text)
# %%
re.findall(r'\+\d+(?: \d+)+', text)
# %%
m = re.search(r'(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)', text)
m.groupdict()
# %%
m
# %%
re.sub(r'(\d{4})-(\d\d)-(\d\d)', r'\3.\2.\1', text).splitlines()[-1]
# %%
def valid(d):
    try:
        datetime.strptime(d, '%Y-%m-%d')
        return True
    except ValueError as e:
        print(e)
        return False
[valid(d) for d in re.findall(r'\d{4}-\d\d-\d\d', text)]
# %%
re.compile('(')
# %%
re.split(r'[\s,;]+', 'a, b;c  d')
# %%
words = 'the quick brown fox jumps over the lazy dog the end'.split()
Counter(words).most_common(2)
# %%
sorted(set(words), key=lambda w: (-len(w), w))[:4]
# %%
' '.join(w.capitalize() for w in words[:4])
# %%
{len(w): w for w in words}
# %%
{w[0] for w in words} - set('tqb')
# %%
print(*words[:3], sep='-', end='!\n')
# %%
record = {'id': 7, 'name': 'Zo\u00eb', 'tags': ['a', 'b'], 'nested': {'pi': 3.14159, 'none': None, 'ok': True}}
print(json.dumps(record, indent=2, sort_keys=True))
# %%
json.loads(json.dumps(record)) == record
# %%
record
# %%
json.loads('{"a": 1,}')
# %%
json.dumps({1, 2})
# %%
class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, (set, frozenset)):
            return sorted(o)
        if isinstance(o, date):
            return o.isoformat()
        return super().default(o)
json.dumps({'s': {3, 1, 2}, 'd': date(2024, 2, 29)}, cls=Encoder)
# %%
Path('events.jsonl').write_text('\n'.join(json.dumps({'n': i, 'square': i * i}) for i in range(5)) + '\n')
# %%
events = [json.loads(line) for line in Path('events.jsonl').open()]
sum(e['square'] for e in events)
# %%
sorted(p.name for p in work.iterdir())
# %%
Path('missing.txt').read_text()
# %%
try:
    open('missing.txt')
except FileNotFoundError as e:
    print(type(e).__name__, e.errno, e.filename)
# %%
Path('a/b').mkdir(parents=True)
for n in range(3):
    Path(f'a/b/{n}.log').write_text(f'line {n}\n' * (n + 1))
sorted(str(p) for p in Path('a').rglob('*.log'))
# %%
sum(len(p.read_text().splitlines()) for p in Path('a').rglob('*.log'))
# %%
import shutil, tempfile, zipfile
with zipfile.ZipFile('logs.zip', 'w') as z:
    for p in sorted(Path('a').rglob('*.log')):
        z.write(p)
zipfile.ZipFile('logs.zip').namelist()
# %%
shutil.rmtree('a')
Path('a').exists()
# %%
import hashlib
hashlib.sha256(b'cordon').hexdigest()[:16]
# %%
import base64, struct, zlib
base64.b64encode(struct.pack('<IHB', 1, 2, 3)).decode()
# %%
zlib.decompress(zlib.compress(b'a' * 1000)) == b'a' * 1000
# %%
struct.unpack('<I', b'\x01\x00')
# %%
bytes(range(65, 70)), bytearray(b'xyz'), memoryview(b'abc')[1]
# %%
'na\u00efve caf\u00e9'.encode(), len('na\u00efve'.encode())
# %%
b'\xff\xfe'.decode()
# %%
b'\xff\xfe'.decode(errors='replace')
# %%
import unicodedata
[unicodedata.name(c) for c in '\u00e9\u20ac']
# %%
'\U0001f600 ok'
# %%
db = sqlite3.connect(':memory:')
db.execute('create table sale (day text, region text, part text, units int, price real)')
db.executemany('insert into sale values (?, ?, ?, ?, ?)', rows).rowcount
# %%
db.execute('select region, sum(units * price) as revenue from sale group by region order by 2 desc').fetchall()
# %%
for part, n in db.execute('select part, count(*) from sale group by part order by part'):
    print(part, n)
# %%
db.execute('select * from nothing')
# %%
db.row_factory = sqlite3.Row
row = db.execute('select part, max(units) as most from sale').fetchone()
row.keys(), row['most']
# %%
with db:
    db.execute('update sale set price = price * 2 where part = ?', ('nut',))
db.execute("select distinct price from sale where part = 'nut'").fetchone()[0]
# %%
try:
    with db:
        db.execute("delete from sale")
        raise RuntimeError('no')
except RuntimeError:
    pass
db.execute('select count(*) from sale').fetchone()[0]
# %%
db.execute('''select part, units, sum(units) over (order by day, part rows unbounded preceding) as so_far
              from sale limit 3''').fetchall()[-1]['so_far']
# %%
db.close()
db.execute('select 1')
# %%
subprocess.run(['echo', 'from a child'], capture_output=True, text=True).stdout
# %%
subprocess.run('echo to the pipe; echo to stderr >&2', shell=True)
# %%
subprocess.run(['sh', '-c', 'exit 3']).returncode
# %%
subprocess.run(['false'], check=True)
# %%
subprocess.check_output(['sort'], input='b\na\n', text=True)
# %%
subprocess.run(['sleep', '5'], timeout=0.05)
# %%
subprocess.run(['no-such-program'])
# %%
p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
p.communicate('through cat\n')[0]
# %%
!echo shell $((6 * 7))
# %%
files = !ls *.csv *.jsonl
files
# %%
name = 'sales.csv'
!head -2 {name}
# %%
!wc -l < sales.csv
# %%
n = !grep -c north sales.csv
int(n[0])
# %%
%pwd
# %%
%cd /tmp
# %%
%cd -q /tmp/notebook
os.getcwd()
# %%
%env NOTEBOOK=yes
# %%
os.environ['NOTEBOOK']
# %%
%%bash
for i in 1 2; do
  echo "line $i"
done
# %%
%%writefile helper.py
"""A module that the notebook writes."""
GREETING = 'hello'

def greet(name):
    return f'{GREETING}, {name}'
# %%
sys.path.insert(0, str(work))
import helper
helper.greet('cell')
# %%
Path('helper.py').write_text(Path('helper.py').read_text().replace("'hello'", "'good day'"))
import importlib
importlib.reload(helper).greet('cell')
# %%
%run helper.py
greet('run')
# %%
%%capture captured
print('not shown')
# %%
captured.stdout
# %%
%%python3
print('another interpreter')
# %%
import asyncio
async def fetch(n, delay):
    await asyncio.sleep(delay) # stands for a request
    return n * n
await fetch(3, 0.001)
# %%
await asyncio.gather(*(fetch(n, 0.01 / n) for n in range(1, 5)))
# %%
async def count(n):
    for i in range(n):
        yield i
[i async for i in count(4)]
# %%
queue = asyncio.Queue()
async def produce():
    for i in range(3):
        await queue.put(i)
    await queue.put(None)
async def consume():
    got = []
    while (item := await queue.get()) is not None:
        got.append(item)
    return got
(await asyncio.gather(produce(), consume()))[1]
# %%
try:
    await asyncio.wait_for(asyncio.Event().wait(), 0.01)
except asyncio.TimeoutError:
    print('too slow')
# %%
async def broken():
    raise LookupError('inside a task')
await asyncio.create_task(broken())
# %%
async with asyncio.Lock() as lock:
    print('locked', lock)
# %%
import threading
results = []
threads = [threading.Thread(target=lambda k=k: results.append(k * 10)) for k in range(4)]
for th in threads: th.start()
for th in threads: th.join()
sorted(results)
# %%
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    squares = list(pool.map(lambda x: x * x, range(6)))
squares
# %%
import multiprocessing as mp
with mp.get_context('fork').Pool(2) as pool:
    lengths = pool.map(len, ['a', 'bb', 'ccc'])
lengths
# %%
def fib():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b
import itertools
list(itertools.islice(fib(), 12))
# %%
next(x for x in fib() if x > 1000)
# %%
list(itertools.accumulate([1, 2, 3, 4], lambda a, b: a * b))
# %%
[''.join(p) for p in itertools.permutations('abc')]
# %%
[(k, len(list(g))) for k, g in itertools.groupby('aaabbc')]
# %%
from functools import lru_cache, partial, reduce
@lru_cache(None)
def paths(r, c):
    return 1 if 0 in (r, c) else paths(r - 1, c) + paths(r, c - 1)
paths(10, 10)
# %%
paths.cache_info().misses
# %%
reduce(lambda a, b: a * b, range(1, 11))
# %%
partial(int, base=2)('101101')
# %%
math.gcd(84, 36), math.comb(10, 3), math.isclose(0.1 + 0.2, 0.3)
# %%
0.1 + 0.2
# %%
from decimal import Decimal
from fractions import Fraction
Decimal('0.1') + Decimal('0.2'), Fraction(1, 3) + Fraction(1, 6)
# %%
2 ** 200
# %%
complex(3, 4), abs(3 + 4j), divmod(-7, 2), round(2.5), 7 // -2
# %%
float('nan') == float('nan'), float('inf') > 10 ** 300
# %%
f'{1234567.891:,.1f} {0.256:.1%} {255:#x} {255:08b} {"left":<6}|{"right":>6}'
# %%
f'{total=:.1f}'
# %%
x = [3, 1, 2]
x.sort()
x
# %%
a, *rest, z = range(5)
rest, z
# %%
matrix = [[1, 2, 3], [4, 5, 6]]
list(zip(*matrix))
# %%
[[sum(a * b for a, b in zip(r, c)) for c in zip(*[[1, 0], [0, 1], [2, 2]])] for r in matrix]
# %%
d = deque(range(5), maxlen=3)
d.append(9)
d
# %%
OrderedDict(b=1, a=2)
# %%
import heapq
h = [5, 2, 8, 1]
heapq.heapify(h)
[heapq.heappop(h) for _ in range(3)]
# %%
import bisect
bisect.bisect([10, 20, 30], 20)
# %%
def grade(score):
    match score:
        case int() | float() if score >= 90:
            return 'A'
        case int() | float():
            return 'B'
        case {'score': inner}:
            return grade(inner)
        case [first, *_]:
            return grade(first)
        case _:
            return '?'
[grade(v) for v in (95, 50, {'score': 91}, [10, 99], 'x')]
# %%
class Temperature:
    def __init__(self, celsius):
        self.celsius = celsius
    @property
    def fahrenheit(self):
        return self.celsius * 9 / 5 + 32
    @fahrenheit.setter
    def fahrenheit(self, value):
        self.celsius = (value - 32) * 5 / 9
t = Temperature(100)
t.fahrenheit
# %%
t.fahrenheit = 50
t.celsius
# %%
class Timer:
    def __enter__(self):
        print('enter')
        return self
    def __exit__(self, kind, value, tb):
        print('exit', kind and kind.__name__)
        return kind is KeyError
with Timer():
    {}['x']
# %%
with Timer():
    raise OSError(28, 'No space left on device')
# %%
def outer():
    raise ValueError('first')
try:
    outer()
except ValueError as e:
    raise RuntimeError('second') from e
# %%
class InsufficientFunds(Exception):
    def __init__(self, need, have):
        super().__init__(f'need {need}, have {have}')
raise InsufficientFunds(10, 3)
# %%
def recurse(n):
    return recurse(n + 1)
try:
    recurse(0)
except RecursionError as e:
    print(str(e)[:32])
# %%
def divide(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return None
    finally:
        print('divided')
divide(1, 0)
# %%
1 +
# %%
print('unclosed'
# %%
  indented = 1
  indented + 1
# %%
if True:
print('no indent')
# %%
import warnings
warnings.warn('careful')
# %%
print('to stderr', file=sys.stderr)
# %%
sys.stdout.write('no newline')
# %%
import logging
log = logging.getLogger('notebook')
log.addHandler(logging.StreamHandler(sys.stdout))
log.setLevel('INFO')
log.info('started'); log.debug('hidden')
# %%
import io, contextlib
with contextlib.redirect_stdout(io.StringIO()) as buffer:
    print('kept')
buffer.getvalue()
# %%
import textwrap
print(textwrap.fill('A long line of words that is wrapped to a narrow column by the module.', 24))
# %%
import argparse
parser = argparse.ArgumentParser(prog='tool')
parser.add_argument('--n', type=int, default=1)
parser.parse_args(['--n', '5'])
# %%
with contextlib.redirect_stderr(io.StringIO()) as told:
    try:
        parser.parse_args(['--n', 'five'])
    except SystemExit as e:
        print('exit', e.code)
told.getvalue().splitlines()[-1]
# %%
import enum
class Color(enum.Enum):
    RED = 1
    BLUE = 2
Color.RED, Color['BLUE'].value, list(Color)[1].name
# %%
Color(3)
# %%
import pickle, copy
deep = copy.deepcopy(record)
deep['nested']['ok'] = False
record['nested']['ok'], pickle.loads(pickle.dumps(deep)) == deep
# %%
import inspect
inspect.signature(revenue_of).parameters['region'].name, inspect.getsource(divide).splitlines()[0]
# %%
from urllib.parse import parse_qs, urlencode, urlparse
u = urlparse('https://example.org:8443/a/b?q=1&q=2#frag')
u.port, parse_qs(u.query), urlencode({'a b': '&'})
# %%
import xml.etree.ElementTree as ET
root = ET.fromstring('<items><item id="1">bolt</item><item id="2">nut</item></items>')
{i.get('id'): i.text for i in root}
# %%
import html, configparser
ini = configparser.ConfigParser()
ini.read_string('[server]\nport = 80\n')
html.escape('<a & b>'), ini.getint('server', 'port')
# %%
import random
random.seed(7)
sorted(random.sample(range(100), 5))
# %%
import types
ns = types.SimpleNamespace(a=1, b=[2])
ns
# %%
exec('made_by_exec = 5')
made_by_exec, eval('made_by_exec * 2')
# %%
(lambda *args, **kw: (args, kw))(1, 2, k=3)
# %%
_
# %%
_ * 2 if isinstance(_, int) else type(_).__name__
# %%
None
# %%
[1, 2, 3];
# %%
from IPython.display import HTML, JSON, Latex, Markdown, display
display(HTML('<h1>Report</h1>'))
display(Markdown('**bold**'), Latex('$x^2$'))
# %%
JSON({'a': [1, 2]})
# %%
class Badge:
    def _repr_html_(self):
        return '<span>badge</span>'
    def __repr__(self):
        return 'Badge()'
Badge()
# %% needs numpy
import numpy as np
m = np.arange(6).reshape(2, 3)
m
# %% needs numpy
m.mean(axis=0), m.T.shape, (m @ m.T).tolist()
# %% needs numpy
m @ m
# %% needs pandas
import pandas as pd
df = pd.read_csv('sales.csv', parse_dates=['day'])
df.dtypes.astype(str).to_dict()
# %% needs pandas
df['revenue'] = df.units * df.price
df.head(3)
# %% needs pandas
df.groupby('region').revenue.sum().round(2)
# %% needs pandas
df.pivot_table(index='region', columns='part', values='units', aggfunc='sum', fill_value=0)
# %% needs pandas
df[df.units > 100].part.unique().tolist()
# %% needs pandas
df['colour']
# %% needs pandas
print(df.describe().loc[['mean', 'max'], ['units']].round(1))
# %% needs pandas
df.set_index('day').units.resample('MS').sum().to_dict()
# %% needs pandas
df.to_json('df.json', orient='records', date_format='iso')
len(json.load(open('df.json')))
# %% needs matplotlib
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [1, 4, 9]);
# %% needs matplotlib
fig, axes = plt.subplots(1, 2)
axes[0].bar(['a', 'b'], [3, 5])
axes[1].scatter([1, 2], [3, 4])
plt.show()
# %% needs matplotlib
plt.plot([1, 2], [1, 2, 3])
# %%
%no_such_magic
# %%
del sales, rows
sales
# %%
shutil.rmtree(work)
os.chdir('/')
print('done')
