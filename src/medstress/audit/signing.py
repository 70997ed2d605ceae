"""Sign a root with a key of ssh, and check such a signature, where `ssh-keygen` is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from medstress.core.errors import UsageError
from medstress.core.processes import NEW_GROUP

NAMESPACE = "medstress-root"
"""What signatures are for (`ssh-keygen -n`); one made for something else is not accepted."""
_SECONDS = 60
_OTHERS = 0o077


def sign(root: str, key: Path) -> str:
    """Return the signature of a root.

    Args:
        root: the root.
        key: a private key of ssh, or a public one whose private part an agent holds.

    Raises:
        UsageError: ssh-keygen is not installed, or it refuses.
    """
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError("--sign needs ssh-keygen, which is not installed; install OpenSSH")
    if not key.is_file():
        raise UsageError(f"--sign {key}: there is no such file; give a key of ssh")
    if os.name == "posix" and key.suffix != ".pub" and key.stat().st_mode & _OTHERS:
        mend = shlex.join(["chmod", "600", str(key)])
        raise UsageError(f"--sign {key}: others can read the key; next: {mend}").with_command(mend)
    command = [program, "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE]
    done = _run(command, text_of(root))
    if b"passphrase" in done.stderr:
        raise UsageError(
            f"--sign {key}: the key has a passphrase; give it to ssh-agent (ssh-add {key}) and "
            f"sign with {key}.pub, or give a key without one"
        )
    if done.returncode != 0 or not done.stdout:
        raise UsageError(f"--sign {key}: ssh-keygen refused: {_said(done)}")
    return done.stdout.decode("utf-8", "replace")


def check(root: str, signature: str) -> str | None:
    """Return which key signed a root; None if ssh-keygen is not installed.

    Raises:
        ValueError: the signature is not of this root.
    """
    program = shutil.which("ssh-keygen")
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="medstress-") as name:
        place = Path(name) / "signature"
        place.write_text(signature, "utf-8", newline="")
        command = [program, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(place)]
        done = _run(command, text_of(root))
    if done.returncode != 0:
        raise ValueError(_said(done))
    return next(
        (word for word in done.stdout.decode("utf-8", "replace").split() if ":" in word), "a key"
    )


def text_of(root: str) -> bytes:
    """Return what is signed."""
    return f"{root}\n".encode()


def _run(command: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            input=given,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            # Without a terminal and a window that ask for a passphrase.
            start_new_session=True,
            creationflags=NEW_GROUP,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"ssh-keygen failed: {error}") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())[:200]
