"""Runs an analysis of lttng-analyses: its module and function, then its arguments.

0.6.1 takes the abstract collections from where they were until Python 3.9.
"""

import collections
import collections.abc
import importlib
import sys

for name in collections.abc.__all__:
    setattr(collections, name, getattr(collections.abc, name))

module, function = sys.argv[1].split(".")
sys.argv = ["lttng-analyses", *sys.argv[2:]]
getattr(importlib.import_module(f"lttnganalyses.cli.{module}"), function)()
