"""Admission webhooks: the reviews that handlers see, and the servers that receive them.

Reading order: `reviews`, `servers`, `asyncio_server`.
"""
