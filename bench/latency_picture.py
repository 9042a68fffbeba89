"""Latencies as people look at them: a table and a histogram in text, and the histogram as a drawing."""

from bisect import bisect

EDGES = (0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000)
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 360, 60, 50, 50


def told(found: dict[str, list[float]]) -> str:
    """The table, then the histogram of each."""
    lines = [f"{'':38}{'p50':>9}{'p90':>9}{'p99':>9}{'most':>9}   ms"]
    for name, took in found.items():
        figures = "".join(f"{at(took, one):9.1f}" for one in (50, 90, 99, 100))
        lines.append(f"{name:38}{figures}   of {len(took):,} records")
    for name, took in found.items():
        lines += ["", name, *_bars(took)]
    return "\n".join(lines)


def drawn(found: dict[str, list[float]]) -> str:
    """An SVG with one line for each: how many of its records took how long, on a scale of powers."""
    highest = max(max(_shares(took)) for took in found.values())
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15">From producer to consumer: records by latency</text>',
        *_axis(),
    ]
    for number, (name, took) in enumerate(found.items()):
        parts += _line(name, took, highest, number)
    return "\n".join([*parts, "</svg>", ""])


def at(took: list[float], percent: float) -> float:
    """A percentile."""
    return sorted(took)[min(len(took) - 1, int(len(took) * percent / 100))]


def _bars(took: list[float]) -> list[str]:
    shares, edges = _shares(took), (0, *EDGES)
    rows = [(edge, share) for edge, share in zip(edges, shares, strict=True) if share]
    return [
        f"{edge:>8} ms and more {'#' * round(60 * share):60} {100 * share:5.1f} %" for edge, share in rows
    ]


def _shares(took: list[float]) -> list[float]:
    counts = [0] * (len(EDGES) + 1)
    for one in took:
        counts[bisect(EDGES, one)] += 1
    return [one / len(took) for one in counts]


def _axis() -> list[str]:
    bottom = HEIGHT - BOTTOM
    ticks = [f'<line x1="{LEFT}" y1="{bottom}" x2="{WIDTH - 20}" y2="{bottom}" stroke="#444"/>']
    for index, edge in enumerate(EDGES):
        if str(edge)[0] in "125" and edge >= 1:
            place = f'x="{_x(index):.0f}" y="{bottom + 18}" text-anchor="middle"'
            ticks.append(f"<text {place}>{edge}</text>")
    return [*ticks, f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">milliseconds</text>']


def _line(name: str, took: list[float], highest: float, number: int) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    tall = HEIGHT - TOP - BOTTOM
    points = " ".join(
        f"{_x(index - 0.5):.1f},{HEIGHT - BOTTOM - tall * share / highest:.1f}"
        for index, share in enumerate(_shares(took))
    )
    legend = f"{name}: p50 {at(took, 50):.1f} ms, p99 {at(took, 99):.0f} ms"
    return [
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<text x="{WIDTH - 330}" y="{TOP + 18 * number}" fill="{colour}">{legend}</text>',
    ]


def _x(index: float) -> float:
    return LEFT + (WIDTH - LEFT - 40) * (index + 0.5) / len(EDGES)
