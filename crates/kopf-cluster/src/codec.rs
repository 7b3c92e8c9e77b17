//! The formats that clients send and read: JSON, YAML and protobuf, and the type errors of built-in kinds.

pub mod json;
pub mod yaml;
pub mod yaml_writer;
pub mod protobuf;
pub mod struct_types;
pub mod from_unstructured;
