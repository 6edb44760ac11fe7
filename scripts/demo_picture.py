"""Makes docs/demo.svg, the picture in README.md: runs `odradek demo` on this machine and draws what it prints.

`.venv/bin/python scripts/demo_picture.py [--no-spark]`
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from odradek.pipeline.demo.story import Demo

PICTURE = Path(__file__).parents[1] / "docs" / "demo.svg"
WIDTH = 92


def main() -> None:
    """Run the demo without its moving bars, and write the picture if all counts agree."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=WIDTH,
        force_terminal=True,
        force_interactive=False,
        color_system="truecolor",
    )
    console.print("[green]$[/] odradek demo", highlight=False)
    with Demo(console, with_spark="--no-spark" not in sys.argv) as demo:
        agree = demo.run()
    sys.stdout.write(console.file.getvalue())  # pyright: ignore[reportAttributeAccessIssue]
    if not agree:
        raise SystemExit(1)
    drawn = console.export_svg(title="odradek demo", unique_id="demo")
    without_fonts = re.sub(
        r"\s*@font-face \{.*?\}\n", "\n", drawn, flags=re.DOTALL
    )  # they would be fetched from the web
    PICTURE.write_text(re.sub(r"[ \t]+$", "", without_fonts, flags=re.MULTILINE))
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
