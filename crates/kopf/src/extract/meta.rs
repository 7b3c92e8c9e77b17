//! The metadata of the object: its identity, labels, annotations, and references to it.

use std::collections::BTreeMap;
use std::ops::Deref;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use serde_json::Value;

use super::{FromCall, read};
use crate::call::ObjectCall;
use crate::error::Result;

/// The metadata of the object; dereferences to kube's [`ObjectMeta`].
///
/// Without the managed fields, which cost more than all the rest; [`Object`](super::Object) has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    metadata: ObjectMeta,
    api_version: String,
    kind: String,
}

static NOTHING: BTreeMap<String, String> = BTreeMap::new();

impl Meta {
    /// Metadata of an object of any kind, for calling handlers in tests.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>, metadata: ObjectMeta) -> Self {
        Self { metadata, api_version: api_version.into(), kind: kind.into() }
    }

    /// The name; empty if there is none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The namespace; None if the object is cluster-scoped.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }

    /// The identifier, unique in space and time; empty if there is none.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        self.metadata.labels.as_ref().unwrap_or(&NOTHING)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key).map(String::as_str)
    }

    /// The annotations.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        self.metadata.annotations.as_ref().unwrap_or(&NOTHING)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().get(key).map(String::as_str)
    }

    /// The group and version of the object.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind of the object.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The reference by which children name the object as their owner: they are deleted with it.
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

impl Deref for Meta {
    type Target = ObjectMeta;

    fn deref(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl<S: Sync, C: ObjectCall> FromCall<S, C> for Meta {
    async fn from_call(call: &C, _: &S) -> Result<Self> {
        let context = call.context();
        let metadata = match context.body().without_managed_fields().get("metadata") {
            Some(metadata) if *metadata != Value::Null => read(call, "metadata", metadata)?,
            _ => ObjectMeta::default(),
        };
        let resource = context.resource();
        let kind = context.body().kind().unwrap_or(&resource.kind);
        Ok(Self::new(resource.api_version(), kind, metadata))
    }
}
