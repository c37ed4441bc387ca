"""Exports sessions in the formats of other tools: trajectories, traces, evaluation logs, requests to models.

Each format has its own module; `table` lists them. Data that a format has no fields for is stored in its extension
fields, under the name `unspool`.
"""

from .table import FORMATS, Format, Options, Writer, find_format

__all__ = ["FORMATS", "Format", "Options", "Writer", "find_format"]
