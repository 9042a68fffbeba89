"""Two panels over the same rows: how long each pipeline waits, and the share of rows that it had on time."""

from typing import NamedTuple

COLOURS = {"fixed": "#d62728", "adaptive": "#1f77b4"}
WIDTH, HEIGHT, LEFT, RIGHT = 760, 460, 70, 20
UPPER, LOWER = (50, 230), (290, 420)
"""Where each panel begins and ends, from the top."""

FLOOR = 0.90
"""Where the scale of completeness begins."""


class Course(NamedTuple):
    """Completeness by stretch of rows, and how long was waited at which row."""

    name: str
    on_time: list[float]
    waited: list[tuple[int, float]]

    @property
    def mean_wait(self) -> float:
        """Seconds from the newest event back to the watermark, over all batches."""
        return sum(seconds for _, seconds in self.waited) / len(self.waited)


def drawn(courses: list[Course], share: float, rows: int) -> str:
    """The picture as SVG."""
    longest = max(seconds for one in courses for _, seconds in one.waited)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="30" font-size="15">Seconds from the newest event back to the watermark</text>',
        f'<text x="{LEFT}" y="270" font-size="15">Share of rows on time, asked: {share:.0%}</text>',
        *_scale(UPPER, [(0.0, "0 s"), (longest, f"{longest:.0f} s")], 0, longest),
        *_scale(LOWER, [(FLOOR, f"{FLOOR:.0%}"), (share, f"{share:.0%}"), (1.0, "100 %")], FLOOR, 1),
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">rows, 0 to {rows:,}</text>',
    ]
    for number, one in enumerate(courses):
        colour = COLOURS[one.name]
        stretch = rows / len(one.on_time)
        shares = [((index + 0.5) * stretch, value) for index, value in enumerate(one.on_time)]
        parts += [
            _line([(row, seconds) for row, seconds in one.waited], UPPER, (0, longest), rows, colour),
            _line([(row, max(FLOOR, value)) for row, value in shares], LOWER, (FLOOR, 1), rows, colour),
            (
                f'<text x="{WIDTH - 220}" y="{30 + 18 * number}" fill="{colour}">{one.name}: '
                f"mean {one.mean_wait:.1f} s</text>"
            ),
        ]
    return "\n".join([*parts, "</svg>", ""])


def _scale(panel: tuple[int, int], ticks: list[tuple[float, str]], low: float, high: float) -> list[str]:
    lines = []
    for value, said in ticks:
        y = _y(value, panel, low, high)
        lines += [
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ccc"/>',
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{said}</text>',
        ]
    return lines


def _line(
    points: list[tuple[float, float]],
    panel: tuple[int, int],
    ends: tuple[float, float],
    rows: int,
    colour: str,
) -> str:
    wide = WIDTH - LEFT - RIGHT
    made = " ".join(f"{LEFT + wide * row / rows:.1f},{_y(value, panel, *ends):.1f}" for row, value in points)
    return f'<polyline points="{made}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _y(value: float, panel: tuple[int, int], low: float, high: float) -> float:
    top, bottom = panel
    return bottom - (bottom - top) * (value - low) / (high - low)
