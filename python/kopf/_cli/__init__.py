"""What the commands of `kopf.cli` do: load users' files, run `kopf dev` and `kopf cluster`."""
