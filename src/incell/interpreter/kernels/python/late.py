"""late.py - calls a function of ours right after the user's code imported a certain module.

So matplotlib and PIL cost nothing until they are used."""
import importlib.machinery
import sys


class Loader:
    """A module's own loader, and then the function."""
    def __init__(self, loader, hook):
        self.loader = loader
        self.hook = hook

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        try:
            self.hook(module)
        except Exception:  # another version: then the module works as it is
            pass


class Finder:
    def __init__(self, hooks):
        self.hooks = hooks

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks:
            return None
        hook = self.hooks[name]
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = Loader(spec.loader, hook)
        return spec


def install(hooks):
    """hooks: name of a module -> function of the module. Those that are imported already are called now."""
    hooks = dict(hooks)
    for name in list(hooks):
        if name in sys.modules:
            hooks.pop(name)(sys.modules[name])
    if hooks:
        sys.meta_path.insert(0, Finder(hooks))
