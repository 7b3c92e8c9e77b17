//! What the handlers of webhooks learn about the request of the cluster.

use super::{Conversion, FromCall, Review, Warnings};
use crate::call::{AdmissionCall, ConversionCall};
use crate::error::Result;

impl<S: Sync> FromCall<S, AdmissionCall> for Review {
    async fn from_call(call: &AdmissionCall, _: &S) -> Result<Self> {
        Ok(call.review().clone())
    }
}

impl<S: Sync> FromCall<S, AdmissionCall> for Warnings {
    async fn from_call(call: &AdmissionCall, _: &S) -> Result<Self> {
        Ok(call.warnings().clone())
    }
}

impl<S: Sync> FromCall<S, ConversionCall> for Conversion {
    async fn from_call(call: &ConversionCall, _: &S) -> Result<Self> {
        Ok(call.conversion().clone())
    }
}
