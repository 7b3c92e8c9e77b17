//! The formats that clients send and read: JSON, YAML and protobuf, and the type errors of built-in kinds.

pub(crate) mod json;
pub(crate) mod yaml;
pub(crate) mod yaml_writer;
pub(crate) mod protobuf;
pub(crate) mod struct_types;
pub(crate) mod from_unstructured;
