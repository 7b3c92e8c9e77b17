//! An embedded Kubernetes API, for development and tests.
