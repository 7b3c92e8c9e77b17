"""Addresses that existing operators import from. There is no code here, only references."""
