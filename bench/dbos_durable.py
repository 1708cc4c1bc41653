"""What durable steps and waits cost with DBOS, on the database that is named.

usage: dbos_durable.py sqlite DIRECTORY | postgres URL

Prints one JSON object.
"""

import asyncio
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS, SetWorkflowID

WORKFLOWS = 64
STEPS_EACH = 10
WORKERS = 16
ROUND_TRIPS = 200
AT_ONCE = 32


def address(kind: str, place: str) -> str:
    if kind == "postgres":
        return place
    os.makedirs(place, exist_ok=True)
    return f"sqlite:///{os.path.join(place, 'dbos.sqlite')}"


@DBOS.step()
def step(_: int) -> str:
    return os.urandom(150).hex()


@DBOS.workflow()
def work(steps: int) -> int:
    for number in range(steps):
        step(number)
    return steps


@DBOS.step()
async def async_step() -> str:
    return os.urandom(150).hex()


@DBOS.workflow()
async def ask():
    await async_step()
    return await DBOS.recv_async("approval", timeout_seconds=86_400)


def steps_per_second() -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(lambda _: work(STEPS_EACH), range(WORKFLOWS)))
    return WORKFLOWS * STEPS_EACH / (time.perf_counter() - started)


async def round_trips_per_second() -> float:
    """One step, a wait, a decision, the end; so many at once."""
    places = asyncio.Semaphore(AT_ONCE)

    async def round_trip(number: int) -> None:
        async with places:
            name = f"ask-{number}"
            with SetWorkflowID(name):
                handle = await DBOS.start_workflow_async(ask)
            await DBOS.send_async(name, {"ok": True}, "approval")
            await handle.get_result()

    started = time.perf_counter()
    await asyncio.gather(*[round_trip(number) for number in range(ROUND_TRIPS)])
    return ROUND_TRIPS / (time.perf_counter() - started)


def main() -> None:
    kind, place = sys.argv[1:3]
    DBOS(
        config={
            "name": "bench",
            "system_database_url": address(kind, place),
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    DBOS.launch()
    figures = {
        "steps_per_second": steps_per_second(),
        "round_trips_per_second": asyncio.run(round_trips_per_second()),
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)


main()
