"""The example operators of this repository, in both languages."""
