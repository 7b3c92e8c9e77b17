"""How users declare handlers: decorators, filters, selectors, names and signatures."""
