//! From bytes to objects and back: the formats that clients send and read.

pub mod json;
pub mod yaml;
pub mod yaml_writer;
pub mod protobuf;
pub mod struct_types;
pub mod from_unstructured;
