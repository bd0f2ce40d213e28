"""What a GET or HEAD of a value answers: Range, If-Range, If-None-Match (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import format_datetime
from urllib.parse import quote

from ._ranges import Version


@dataclass
class Reply:
    status: int
    start: int = 0
    count: int = 0
    headers: dict[str, str] = field(default_factory=dict)


def _tags(header: str) -> list[str]:
    return [tag.removeprefix("W/") for tag in re.findall(r'(?:W/)?"[^"]*"|\*', header)]


def _date(version: Version) -> str | None:
    if not isinstance(version.modified, datetime):
        return None
    return format_datetime(version.modified.astimezone(timezone.utc), usegmt=True)


def one_range(header: str, size: int) -> tuple[int, int] | None:
    """Start and length; None: the whole value is the answer; ValueError: no such range."""
    found = re.fullmatch(r"bytes=\s*(\d*)\s*-\s*(\d*)\s*", header.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if first == "":
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise ValueError(header)
    return start, end - start


def reply(headers: Mapping[str, str], version: Version) -> Reply:
    """headers: of the request, found by names in lower case."""
    date = _date(version)
    common = {"ETag": version.etag, "Accept-Ranges": "bytes"}
    if date is not None:
        common["Last-Modified"] = date
    none_match = headers.get("if-none-match")
    if none_match is not None and ("*" in _tags(none_match) or version.etag in _tags(none_match)):
        return Reply(304, headers=common)
    # no date: it has seconds, and a value may change twice in one
    asked, condition = headers.get("range"), headers.get("if-range")
    if asked is not None and (condition is None or condition.strip() == version.etag):
        try:
            found = one_range(asked, version.size)
        except ValueError:
            return Reply(416, headers={**common, "Content-Range": f"bytes */{version.size}"})
        if found is not None:
            start, count = found
            common |= {"Content-Range": f"bytes {start}-{start + count - 1}/{version.size}", "Content-Length": str(count)}
            return Reply(206, start, count, common)
    return Reply(200, 0, version.size, {**common, "Content-Length": str(version.size)})


def disposition(filename: str, attachment: bool) -> str:
    """Content-Disposition with a name of any characters."""
    return f"{'attachment' if attachment else 'inline'}; filename*=utf-8''{quote(filename, safe='')}"
