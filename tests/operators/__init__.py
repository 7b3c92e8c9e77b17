"""Operators as users run them: processes on the embedded cluster, or on a real one."""
