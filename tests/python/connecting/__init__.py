"""Connections: logins, webhook servers, and the guard against other clusters."""
