"""Sessions in formats that other programs read: trajectories, traces, logs of evaluations, requests to models.

Each format has a module that turns a record into its own shape; `table` lists them. What a format has no field for
goes into its extension fields, under the name `unspool`.
"""

from .table import FORMATS, Format, Options, Writer, find_format

__all__ = ["FORMATS", "Format", "Options", "Writer", "find_format"]
