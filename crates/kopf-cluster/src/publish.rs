//! What clients read: objects in the form they ask for, tables, discovery, OpenAPI.

pub mod render;
mod table;
pub mod discovery;
pub mod openapi;
