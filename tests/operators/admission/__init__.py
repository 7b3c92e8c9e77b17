"""Webhooks: admission, conversion, and the servers behind them."""
