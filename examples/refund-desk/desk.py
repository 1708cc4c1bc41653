"""The refund desk in Python: `haft serve --worker "python examples/refund-desk/desk.py"`."""

import os

import haft

BANK = os.environ.get("BANK", "bank.txt")


def enter(line: str) -> None:
    """Writes a line into the bank's book, on the disk before this returns."""
    with open(BANK, "a") as book:
        book.write(line + "\n")
        book.flush()
        os.fsync(book.fileno())


@haft.tool(mode="external", approve=True)
def claim_back(refund: str) -> str:
    """Claims a refund back.

    Args:
        refund: Refund id
    """
    enter(f"claimed {refund} back")
    return f"{refund} is back"


@haft.tool(
    mode="external",
    approve="two",
    undo=haft.undo(claim_back, within="30m", refund=haft.result("/id")),
)
def refund(charge: str, cents: int, context: haft.Context) -> dict[str, str]:
    """Refunds a charge. Use when a customer is owed money.

    Args:
        charge: Charge id
        cents: Amount in cents
    """
    enter(f"paid {cents} for {charge}")
    if context.attempt == 1:
        os.abort()  # the money is gone, and nobody was told
    return {"id": f"re_{charge}"}


if __name__ == "__main__":
    haft.Worker(refund, claim_back).run()
