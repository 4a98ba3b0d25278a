"""The parts of bench/run.py: a function for each, which measures and says one section of the page."""
