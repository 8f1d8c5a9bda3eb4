"""The Python kernel: runs code for cordon-interpreter and reports what it printed and what it gave.

kernel.py is started by cordon-interpreter and loads this folder as the package cordon_kernel, so that no
name of it stands in the way of a module of the user's.

  kernel.py      start: --parent (forks kernels from a warm process), or one kernel
  parent.py      the warm process: imports, then forks a kernel for each request
  session.py     one kernel: reads requests, runs them, ends each with "done"
  channel.py     the socket to cordon-interpreter: JSON lines both ways
  interrupts.py  SIGINT becomes KeyboardInterrupt in the user's code, nowhere else
  output.py      sys.stdout and sys.stderr
  environment.py variables of the session and of one call
  ishell.py      runs cells with IPython; plain.py without it
  background.py  top-level await, and tasks that go on between cells
  commands.py    !command
  fields.py      the fields of a result from MIME types; values.py: JSON of what users have
  frames.py      pandas; charts.py, chart_kinds.py: matplotlib figures as data
  figures.py     a matplotlib backend for plain.py; agg.py: backends that write files; images.py: PIL
  late.py        calls these after an import
  fonts.py       matplotlib's list of fonts, made in advance
  hints.py       what to do about a module that is not installed

Works with CPython 3.9 and later. cordon-interpreter trusts nothing of it: the user's code runs in the same
process and can change all of it."""
