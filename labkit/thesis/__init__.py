"""What is about the thesis alone: its figures by number."""
