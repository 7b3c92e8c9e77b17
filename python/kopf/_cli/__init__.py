"""What the commands of `kopf.cli` need beyond parsing: loading users' files, and `kopf dev`."""
