# Functions for text.
