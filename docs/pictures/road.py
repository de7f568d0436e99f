"""Draws docs/pictures/road.svg: `python docs/pictures/road.py`."""

from pathlib import Path

STAGES = [
    ("Collect", "vLLM plays G episodes", "of each task, turn by turn", "EpisodeGroup", "#dbeafe"),
    ("Score", "one policy, two contexts:", "without / with a peer", "Scores", "#dcfce7"),
    ("Credit", "gap \u2192 weight \u2192 balance", "\u2192 mix with base by \u03bb", "Segments", "#fef9c3"),
    ("Update", "clipped surrogate,", "one optimizer step", "LossOutput", "#fee2e2"),
]


def draw() -> str:
    """Return the SVG text."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 232" font-family="Helvetica, Arial, sans-serif">',
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#334155"/></marker></defs>',
        '<rect width="980" height="232" fill="#ffffff"/>',
    ]
    for i, (name, line1, line2, noun, colour) in enumerate(STAGES):
        x = 20 + i * 240
        parts.append(f'<rect x="{x}" y="40" width="200" height="104" rx="12" fill="{colour}" stroke="#334155"/>')
        parts.append(f'<text x="{x + 100}" y="72" text-anchor="middle" font-size="20" font-weight="bold">{name}</text>')
        for y, line in ((100, line1), (120, line2)):
            parts.append(f'<text x="{x + 100}" y="{y}" text-anchor="middle" font-size="13">{line}</text>')
        parts.append(
            f'<text x="{x + 100}" y="164" text-anchor="middle" font-size="12" fill="#475569" '
            f'font-family="monospace">{noun}</text>'
        )
        if i < len(STAGES) - 1:
            parts.append(
                f'<line x1="{x + 200}" y1="92" x2="{x + 238}" y2="92" stroke="#334155" stroke-width="2" '
                'marker-end="url(#a)"/>'
            )
    parts.append(
        '<path d="M 840 176 L 840 204 L 120 204 L 120 178" fill="none" stroke="#334155" stroke-width="2" '
        'marker-end="url(#a)"/>'
    )
    parts.append(
        '<text x="480" y="222" text-anchor="middle" font-size="13">weights, version v + 1, published to the engine '
        "at the point of use</text>"
    )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw())
