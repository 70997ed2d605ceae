"""Work handed to a daemon thread counts from the moment it is submitted."""

import threading

from medstress.backends.threads import DaemonThreads, is_working


def test_work_counts_before_its_thread_has_begun(monkeypatch):
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self))
    future = DaemonThreads(1, "late").submit(lambda: "answer")
    assert len(started) == 1
    assert is_working()
    assert future.cancel()
    assert not is_working()


def test_work_counts_until_it_is_done():
    threads, go = DaemonThreads(1, "one"), threading.Event()
    first, second = threads.submit(go.wait), threads.submit(lambda: 1 / 0)
    assert is_working()
    go.set()
    assert first.result() is True
    assert isinstance(second.exception(), ZeroDivisionError)
    threads.close()
    while is_working():
        pass
