//! From bytes to objects and back: the formats that clients send and read.

pub mod json;
pub mod yaml;
pub mod yaml_text;
pub mod protobuf;
pub mod go_types;
pub mod go_restore;
