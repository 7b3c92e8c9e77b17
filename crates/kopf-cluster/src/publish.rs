//! What clients read: objects in the requested representation, tables, discovery, OpenAPI.

pub(crate) mod render;
mod table;
pub(crate) mod discovery;
pub(crate) mod openapi;
