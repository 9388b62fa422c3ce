"""Top and bottom coding."""
