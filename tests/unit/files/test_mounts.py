"""The file system of a folder is read from the system's list of mounts."""

from __future__ import annotations

from pathlib import Path

from medstress.files.mounts import shared_file_system

_MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/local\040disk xfs rw 0 0
scratch /project lustre rw 0 0
/dev/sdc1 /covered nfs rw 0 0
/dev/sdc2 /covered ext4 rw 0 0
"""


def test_the_innermost_mount_decides(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(_MOUNTS)

    def kind(folder: str) -> str | None:
        return shared_file_system(Path(folder), mounts)

    assert kind("/home/me/runs") == "nfs4"
    assert kind("/project/runs/not-there-yet") == "lustre"
    assert kind("/home/me/local disk/runs") is None
    assert kind("/homes") is None
    assert kind("/covered/runs") is None
    assert shared_file_system(Path("/home"), tmp_path / "absent") is None
