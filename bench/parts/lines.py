"""Lines of the page: Markdown tables, and figures beside their bars.

A bar is the target of a figure. A figure is "within" its bar where it reaches the target."""

from __future__ import annotations

# ---- tables


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; numbers to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def median_and_least(times: dict[str, float], digits: int = 1) -> str:
    return f"{times['median_ms']:.{digits}f} ({times['min_ms']:.{digits}f})"


# ---- bars


def at_most(value: float, bar: float, shown: str) -> str:
    """In brackets: is a figure, the smaller the better, within its bar?"""
    return f"({'within' if value <= bar else 'above'} the bar of {shown})"


def at_least(value: float, bar: float, shown: str) -> str:
    """The same of a figure that is better if it is larger."""
    return f"({'within' if value >= bar else 'below'} the bar of {shown})"


def within(value: float, bar: float, unit: str) -> str:
    number = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{number} {unit} {at_most(value, bar, f'{bar:,g} {unit}')}"


def verdict(ratio: float, bar: float) -> str:
    return f"{ratio:.2f}x {at_most(ratio, bar, f'{bar:.2f}x')}"


def reached(what: str, value: float, bar: float, unit: str = "x") -> str:
    """A line on a bar that is to be exceeded."""
    shown = lambda v: percent(v) if unit == "%" else f"{v:.2f}x"
    return f"* {what}: {shown(value)} {at_least(value, bar, shown(bar))}."
