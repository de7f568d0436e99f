"""What the teacher may see."""
