"""kernel.py - the start of the Python kernel. cordon-interpreter runs it: kernel.py [--parent].

Descriptor 3 is a socket. With --parent this process warms itself up and forks kernels as it is asked to
there (parent.py); without, it is one kernel and 3 is its channel (session.py)."""
import importlib.util
import os
import sys


def load_package():
    """Makes this folder the package cordon_kernel, and takes it off the path of modules."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.util.spec_from_file_location("cordon_kernel", os.path.join(here, "__init__.py"),
                                                  submodule_search_locations=[here])
    package = importlib.util.module_from_spec(spec)
    sys.modules["cordon_kernel"] = package
    spec.loader.exec_module(package)


def main():
    if sys.version_info < (3, 9):
        sys.exit("the Python kernel needs Python 3.9 or later, this is " + sys.version.split()[0])
    writes = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # the folder is part of every cell and stays as it is
    load_package()
    from cordon_kernel import parent, session
    as_parent = "--parent" in sys.argv[1:]
    sys.argv = [""]
    sys.path.insert(0, "")
    if as_parent:
        parent.serve(3, writes)
    else:
        shell = session.make_shell()
        sys.dont_write_bytecode = writes
        session.start(shell, 3)


if __name__ == "__main__":
    main()
