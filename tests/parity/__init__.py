"""The same operators under upstream's kopf and under ours, compared."""
