"""What handlers see and change: objects, their parts, and what Kopf keeps about them.

The lowest layer. Its modules know nothing about handlers, operators or clusters.

Reading order: `fields`, `views`, `patches`, `diffs`, `resources`, `memos`, `indices`, `storage`.
"""
