"""Pure maths: torch only."""
