"""What durable steps and waits cost with LangGraph, on the database that is named.

usage: langgraph_durable.py sqlite DIRECTORY | postgres URL

Prints one JSON object. `durability="sync"` is the setting under which nothing acknowledged is lost.
"""

import json
import operator
import os
import sqlite3
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

HISTORIES = [10, 100, 1000]
STEPS = 400
CONVERSATIONS = 200
WORKERS = 16


class State(TypedDict):
    messages: Annotated[list, operator.add]
    n: int


def tool(state: State) -> dict:
    return {"messages": [os.urandom(150).hex()], "n": state.get("n", 0) + 1}


def ask(_: State) -> dict:
    return {"messages": [str(interrupt({"tool": "send_email", "to": "a@example.org"}))]}


def graph(saver, steps: int, last: str):
    """A conversation of so many tool steps, after which it ends or asks someone."""
    builder = StateGraph(State)
    builder.add_node("tool", tool)
    builder.add_node("ask", ask)
    builder.add_edge(START, "tool")
    builder.add_conditional_edges(
        "tool", lambda state: "tool" if state["n"] < steps else last, ["tool", "ask", END]
    )
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def config(conversation) -> dict:
    return {"configurable": {"thread_id": str(conversation)}, "recursion_limit": 100_000}


def run(compiled, conversation, command) -> None:
    compiled.invoke(command, config(conversation), durability="sync")


def per_second(count: int, work) -> float:
    """How many conversations a second, several at once."""
    started = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(work, range(count)))
    return count / (time.perf_counter() - started)


def open_saver(kind: str, place: str):
    if kind == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver

        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, "langgraph.db")
        saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    else:
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg_pool import ConnectionPool

        settings = {"autocommit": True, "prepare_threshold": 0}
        saver = PostgresSaver(ConnectionPool(place, max_size=WORKERS, kwargs=settings, open=True))
    saver.setup()
    return saver


def resume_ms(saver, history: int) -> float:
    compiled = graph(saver, history, "ask")
    times = []
    for attempt in range(3):
        conversation = f"history-{history}-{attempt}"
        run(compiled, conversation, {"messages": [], "n": 0})
        started = time.perf_counter()
        run(compiled, conversation, Command(resume="yes"))
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def main() -> None:
    kind, place = sys.argv[1:3]
    saver = open_saver(kind, place)
    new = {"messages": [], "n": 0}
    looping = graph(saver, STEPS // WORKERS, END)
    conversations = per_second(WORKERS, lambda i: run(looping, f"steps-{i}", new))
    asking = graph(saver, 1, "ask")
    started = time.perf_counter()
    per_second(CONVERSATIONS, lambda i: run(asking, i, new))
    per_second(CONVERSATIONS, lambda i: run(asking, i, Command(resume="yes")))
    round_trips = CONVERSATIONS / (time.perf_counter() - started)
    figures = {
        "steps_per_second": conversations * (STEPS // WORKERS),
        "round_trips_per_second": round_trips,
        "resume_ms_by_history": {n: resume_ms(saver, n) for n in HISTORIES},
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)


main()
