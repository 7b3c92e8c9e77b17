"""The scripts of the project itself."""
