//! What clients read: objects in the requested representation, tables, discovery, OpenAPI.

pub mod render;
mod table;
pub mod discovery;
pub mod openapi;
