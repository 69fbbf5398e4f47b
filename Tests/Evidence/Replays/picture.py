"""Draws what came of the requests in each second: a panel for each kind, as an SVG that follows light and dark."""

from __future__ import annotations

WIDTH, HEIGHT, LEFT, GAP = 720, 64, 8, 40

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; } .quiet { fill: #57606a; }
  .served { fill: #8fb8de; } .failed { fill: #cf222e; } .rejected { fill: #d0d7de; } .bad { fill: #cf222e; opacity: .08; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #8d96a0; } .served { fill: #316dca; } .failed { fill: #ff6a69; }
    .rejected { fill: #444c56; }
  }"""


def draw(path: str, scenario: object, panels: list) -> None:
    """Write a picture of the courses; each second is a bar of calls that were served, have failed, were turned away."""
    scale = (WIDTH - 2 * LEFT) / scenario.end
    most = max(
        sum(of) for _, course in panels for of in zip(course.served, course.failed, course.rejected))
    begin, end = scenario.bad
    parts = []
    for number, (kind, course) in enumerate(panels):
        top = GAP + number * (HEIGHT + GAP)
        errors = sum(course.failed[begin:end])
        parts.append(
            f'<text x="{LEFT}" y="{top - 8}">{kind}<tspan class="quiet">: {errors:,} errors meanwhile, '
            f"{sum(course.served[end:end + 20]):,} served in the 20 s after</tspan></text>")
        parts.append(
            f'<rect class="bad" x="{LEFT + begin * scale:.1f}" y="{top}" width="{(end - begin) * scale:.1f}" '
            f'height="{HEIGHT}"/>')
        bottom = dict.fromkeys(range(scenario.end), top + HEIGHT)
        for name in ("served", "failed", "rejected"):
            path_of = []
            for second, count in enumerate(getattr(course, name)[:scenario.end]):
                if count:
                    height = count / most * HEIGHT
                    bottom[second] -= height
                    path_of.append(
                        f"M{LEFT + second * scale:.1f} {bottom[second]:.1f}h{scale:.1f}v{height:.1f}h-{scale:.1f}z")
            parts.append(f'<path class="{name}" d="{"".join(path_of)}"/>')
    height = GAP + len(panels) * (HEIGHT + GAP)
    parts.append(
        f'<rect class="served" x="{LEFT}" y="{height - 22}" width="12" height="12"/>'
        f'<text class="quiet" x="{LEFT + 18}" y="{height - 11}">served</text>'
        f'<rect class="failed" x="{LEFT + 80}" y="{height - 22}" width="12" height="12"/>'
        f'<text class="quiet" x="{LEFT + 98}" y="{height - 11}">failed at the service</text>'
        f'<rect class="rejected" x="{LEFT + 250}" y="{height - 22}" width="12" height="12"/>'
        f'<text class="quiet" x="{LEFT + 268}" y="{height - 11}">turned away at once; each bar is a second</text>')
    with open(path, "w") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
            f"<style>{STYLE}\n</style>\n" + "\n".join(parts) + "\n</svg>\n")
