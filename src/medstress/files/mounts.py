"""Which file system a folder is on, where the system tells (Linux)."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_SHARED = re.compile(
    r"nfs4?|cifs|smb3|smbfs|lustre|gpfs|beegfs|ceph|fuse\.ceph.*|glusterfs|fuse\.glusterfs"
    r"|panfs|pvfs2|orangefs|afs|9p|fuse\.sshfs|wekafs|ocfs2|gfs2"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""Spaces and the like stand as three octal digits (getmntent(3))."""


def shared_file_system(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the kind of file system that a folder is on, if other machines share it.

    Args:
        folder: absolute; it need not be there yet.
        mounts: the system's list of mounts.

    Returns:
        Such as ``nfs4``; None if it is local, or the system does not tell.
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    place = folder.resolve()
    kind, depth = "", -1
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[1]))
        # Of two mounts at one point the later one covers the first.
        if len(point.parts) >= depth and place.is_relative_to(point):
            kind, depth = fields[2], len(point.parts)
    return kind if _SHARED.fullmatch(kind) else None
