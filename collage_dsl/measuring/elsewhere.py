"""Read where the user wants kernels to be built and timed."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from collage_dsl.measuring.executors import Devices, Fleet, Here, in_thread
from collage_dsl.measuring.machine import Machine, this_machine
from collage_dsl.measuring.remote import RemoteError, Tracker

_BUILDERS = 4
"""The most processes that build kernels here. Each holds libraries and the weights of a kernel."""

_AT_ONCE = 16
"""How many kernels an executor gets at once. Executors do not say how many they can build."""

_PERIOD = 1.0
"""The seconds between two questions to a scheduler, of a kernel that waits for a worker."""

_CONNECTING = 10
"""The seconds in which a scheduler must answer."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """
    `tracker` (`HOST:PORT`) lends the devices with the `key`, on which kernels are timed. Kernels
    are built by `executor`, or by the Dask cluster at the address `scheduler`. What is not said is
    done here. A model `is_raced` here after that, so the devices must have the processor of this
    machine.
    """

    tracker: str | None = None
    key: str | None = None
    scheduler: str | None = None
    executor: Executor | None = None
    is_raced: bool = False

    @contextmanager
    def fleet(self) -> Iterator[Fleet | None]:
        """What runs the tasks; None where all is done here. Raises `RemoteError`."""
        if bool(self.tracker) != bool(self.key):
            raise RemoteError("a tracker and a key must be given together")
        if not (self.tracker or self.scheduler or self.executor is not None):
            yield None
            return
        with self._executor() as (executor, builders):
            fleet = Fleet(self._devices(), executor, builders=builders)
            try:
                yield fleet
            finally:
                fleet.stop()

    @contextmanager
    def _executor(self) -> Iterator[tuple[Executor | None, int]]:
        """The executor, and how many kernels it is given at once."""
        if self.scheduler:
            with _of_dask(self.scheduler) as found:
                yield found
        elif self.executor is not None:
            yield self.executor, _AT_ONCE
        else:
            yield None, min(this_machine().processors, _BUILDERS)

    def _devices(self) -> Devices:
        if not (self.tracker and self.key):
            return Here()
        devices = Tracker(self.tracker, self.key)
        self._check(devices.machine)
        return devices

    def _check(self, machine: Machine) -> None:
        here = this_machine()
        if self.is_raced and machine.processor != here.processor:
            raise RemoteError(
                f"plans are raced and verified here, and this machine is a {here.processor}: a "
                f"{machine.processor} cannot stand in for it. Compile on one of the devices, or "
                "use `collage plan`"
            )


@contextmanager
def _of_dask(scheduler: str) -> Iterator[tuple[Executor, int]]:
    """The executor of a Dask cluster, and how many threads it has."""
    try:
        from distributed import Client
        from distributed.comm.addressing import resolve_address
    except ModuleNotFoundError as missing:
        advice = "install it with: pip install 'collage_dsl[dask]'"
        raise RemoteError(
            f"a scheduler needs {missing.name}, which is not installed; {advice}"
        ) from None
    # Dask waits forever for the first word of what accepts a connection.
    connect = partial(Client, scheduler, timeout=_CONNECTING, set_as_default=False)
    try:
        resolve_address(scheduler)  # A client of a wrong address prints an error when it ends.
        connecting = in_thread(connect)
        client: Any = connecting.result(2 * _CONNECTING)
    except TimeoutError:
        raise RemoteError(
            f"the scheduler {scheduler} does not answer: what listens there is silent"
        ) from None
    except (OSError, ValueError) as error:
        raise RemoteError(f"the scheduler {scheduler} does not answer: {error}") from error
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise RemoteError(
                f"the scheduler {scheduler} has no workers; start one with: dask worker {scheduler}"
            )
        yield OfDask(client.get_executor(pure=False), client.nthreads), threads


@dataclass(frozen=True, slots=True)
class OfDask(Executor):
    """
    The `executor` of a Dask cluster, whose `workers` may all end. Then a task waits for another one
    for `patience` seconds; Dask itself waits forever.
    """

    executor: Executor
    workers: Callable[[], Mapping[str, int]]
    patience: float = 30

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> "Future[Any]":
        return in_thread(self._result, self.executor.submit(fn, *arguments, **named))

    def _result(self, future: "Future[Any]") -> Any:
        seen = monotonic()
        while True:
            try:
                return future.result(_PERIOD)
            except TimeoutError:
                if self.workers():
                    seen = monotonic()
                elif monotonic() - seen > self.patience:
                    said = f"the cluster has had no worker for {self.patience:g} s"
                    raise RemoteError(said) from None
