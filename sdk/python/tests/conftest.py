"""Stores for the tests: the embedded one, and a PostgreSQL cluster of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

POSTGRES = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """Starts a PostgreSQL cluster and returns the URL of its server, without a database."""
    if not (POSTGRES / "initdb").exists():
        pytest.skip("no PostgreSQL 15 here")
    place = tempfile.mkdtemp(prefix="haft-pg-")
    user = "postgres" if os.getuid() == 0 else None
    if user is not None:
        shutil.chown(place, user)
    data = f"{place}/data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    setup = [str(POSTGRES / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
    subprocess.run(setup, check=True, user=user, cwd=place, stdout=subprocess.DEVNULL)
    server = [str(POSTGRES / "postgres"), "-D", data, "-k", place, "-c", "listen_addresses="]
    process = subprocess.Popen(
        [*server, "-c", "fsync=off"], user=user, cwd=place, stdout=quiet["stdout"], stderr=quiet["stderr"]
    )
    try:
        for _ in range(600):
            check = [str(POSTGRES / "pg_isready"), "-h", place, "-q"]
            if subprocess.run(check, check=False).returncode == 0:
                break
            time.sleep(0.05)
        yield place
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def postgres_url(cluster: str) -> str:
    """A fresh database of the cluster."""
    name = f"t{time.monotonic_ns()}"
    create = [str(POSTGRES / "createdb"), "-h", cluster, "-U", "postgres", name]
    subprocess.run(create, check=True)
    return f"postgres:///{name}?host={cluster}&user=postgres"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """A fresh store: ``None`` for the embedded one."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("postgres_url")
    return url
