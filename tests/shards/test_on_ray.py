"""`run --ray` with a stand-in for Ray that runs tasks here; tests/processes has the real one."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from medstress.core.errors import UsageError
from medstress.core.extras import versions
from medstress.experiment import on_ray
from medstress.experiment.reading import find_source
from medstress.experiment.verify import verify_folder


class RayError(Exception):
    """What Ray says of a worker that was lost too often."""


class RayTaskError(RayError):
    """What Ray says of a bug in a task."""


class Pending:
    """A task that was given to the stand-in."""

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments

    def run(self, place=None):
        source, own, *rest = self.arguments
        return self.function(source, place or own, *rest)


class StandIn:
    """As much of Ray as the driver uses; a task runs when its end is asked for."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self):
        self.options, self.cancelled = {}, []
        self.before = lambda number: None

    def remote(self, **options):
        self.options = options
        return lambda function: SimpleNamespace(remote=lambda *given: Pending(function, given))

    def wait(self, tasks, num_returns, timeout):
        return tasks[:1], tasks[1:]

    def cancel(self, task):
        self.cancelled.append(task)

    def get(self, task):
        self.before(int(task.arguments[1].rpartition("/")[2]))
        return task.run()


@pytest.fixture
def ray(monkeypatch):
    """The stand-in, in place of Ray."""
    made = StandIn()

    @contextmanager
    def cluster(*_):
        yield 0.0

    monkeypatch.setattr(on_ray, "_ray", lambda _: made)
    monkeypatch.setattr(on_ray, "_cluster", cluster)
    return made


@pytest.fixture
def spread(bench):
    """Run the experiment on four shards: its exit code."""
    flags = ("--ray", "local", "--shards", "4")
    return lambda *more: bench.run(*flags, *more, out=bench.root / "many")


def test_it_is_the_run_of_one_process_and_asks_nothing_when_called_again(bench, ray, spread, same):
    assert bench.run() == 0
    n_alone = len(bench.received())
    assert spread() == 0
    assert (ray.options["max_retries"], ray.options["retry_exceptions"]) == (20, False)
    assert len(bench.received()) == 2 * n_alone
    same(bench.out, bench.root / "many")
    ray.before = lambda _: 1 / 0
    assert spread() == 0
    assert len(bench.received()) == 2 * n_alone
    assert verify_folder(bench.root / "many").holds


def test_a_driver_that_died_before_between_and_after_goes_on(bench, ray, spread, monkeypatch):
    assert bench.run() == 0
    n_alone = len(bench.received())

    def killed(*_, **__):
        raise KeyboardInterrupt

    ray.before = lambda number: killed() if number == 3 else None
    assert spread() == 130
    assert len(ray.cancelled) == 1  # the fourth: the third was taken from the list
    ray.before = lambda _: None
    for name in ("merge_shards", "perform"):
        with monkeypatch.context() as patch:
            if name == "perform":  # of the driver, not of the shards, which have ended
                patch.setattr(on_ray, "merge_shards", _then(on_ray.merge_shards, patch, killed))
            else:
                patch.setattr(on_ray, name, killed)
            assert spread() == 130
    assert spread() == 0
    assert len(bench.received()) == 2 * n_alone
    assert bench.summary(bench.root / "many")["root"] == bench.summary()["root"]


def _then(merge, patch, killed):
    def merged(*arguments, **keys):
        found = merge(*arguments, **keys)
        patch.setattr(on_ray, "perform", killed)
        return found

    return merged


def test_limits_are_divided_and_a_higher_one_goes_on(bench, ray, spread, capsys):
    assert bench.run() == 0
    n_alone = len(bench.received())
    bench.tables["experiment"]["max_queries"] = 60
    assert spread() == 0
    assert "with a higher limit" in capsys.readouterr().out
    assert len(bench.received()) - n_alone <= 60
    assert not (bench.root / "many").exists()
    bench.tables["experiment"]["max_queries"] = 100_000
    assert spread() == 0
    assert len(bench.received()) == 2 * n_alone
    assert bench.summary(bench.root / "many")["root"] == bench.summary()["root"]


def test_an_error_in_one_shard_ends_the_others_and_is_said_once(bench, ray, spread, capsys):
    (bench.root / "many-shards" / "2").mkdir(parents=True)
    (bench.root / "many-shards" / "2" / "run.sqlite").write_bytes(b"no database")
    assert spread() == 2
    assert "shard 2/4 on " in capsys.readouterr().err
    assert len(ray.cancelled) == 2
    assert not (bench.root / "many").exists()


def test_a_worker_with_another_version_or_without_the_disk_asks_nothing(bench, tmp_path):
    source = find_source(bench.write())
    for expected, folder, word in (
        ({**versions(), "medstress": "0.0.1"}, tmp_path / "1", "has medstress"),
        ({**versions(), "torch": "0.1"}, tmp_path / "1", "has torch"),
        (versions(), tmp_path / "nowhere" / "1", "not there"),
    ):
        end = on_ray.run_shard(source, str(folder), 2, expected, False, {})
        assert isinstance(end.error, UsageError)
        assert word in str(end.error)
        assert not folder.exists()
    assert not bench.received()


def test_what_is_written_elsewhere_is_not_merged(bench, ray, spread, monkeypatch, capsys):
    (bench.root / "elsewhere").mkdir()

    def elsewhere(task):
        return task.run(str(bench.root / "elsewhere" / task.arguments[1].rpartition("/")[2]))

    monkeypatch.setattr(ray, "get", elsewhere)
    assert spread() == 2
    assert "a disk that all machines share" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--shards", "4"], "--ray ADDRESS"),
        (["--ray", "local", "--shards", "2", "--shard", "1/2"], "--shards N"),
        (["--ray", "local", "--shards", "2", "--fresh"], "--fresh"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(bench, ray, capsys, flags, word):
    assert bench.run(*flags) == 2
    assert word in capsys.readouterr().err
    assert not bench.received()


@pytest.mark.parametrize("address", ["head", "head:99999"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match="HOST:PORT"):
        on_ray._ray(address)


@pytest.mark.parametrize(
    ("keys", "n_gpus", "wanted"),
    [
        ({"backend": "mock"}, 8, 0),
        ({"backend": "transformers", "model": "m"}, 8, 1),
        ({"backend": "transformers", "model": "m", "device": "cpu"}, 8, 0),
    ],
)
def test_a_task_gets_a_gpu_if_a_model_may_use_one(bench, keys, n_gpus, wanted):
    from medstress.experiment.reading import resolve

    bench.tables["victim"] = [{"answer_by": "letter", "name": "v", **keys}]
    assert on_ray._gpus(resolve(bench.write())[0], n_gpus) == wanted
