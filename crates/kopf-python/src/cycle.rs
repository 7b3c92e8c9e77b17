//! What Python sees of one handling cycle: all jobs of the cycle share it.

use std::sync::{Arc, Mutex, PoisonError};

use kopf_engine::{CycleContext, FrontSlot, LiveBody};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;

use crate::bridge::Bridge;

/// The Python object in one of the engine's slots for the front.
struct StoredObject(Mutex<Option<Py<PyAny>>>);

fn stored(slot: &FrontSlot) -> Option<&StoredObject> {
    slot.get_or_init(|| Box::new(StoredObject(Mutex::new(None)))).downcast_ref::<StoredObject>()
}

pub(crate) fn read(slot: &FrontSlot, python: Python<'_>) -> Option<Py<PyAny>> {
    let object = stored(slot)?.0.lock().unwrap_or_else(PoisonError::into_inner);
    object.as_ref().map(|object| object.clone_ref(python))
}

pub(crate) fn write(slot: &FrontSlot, value: Option<Py<PyAny>>) {
    if let Some(stored) = stored(slot) {
        let before = std::mem::replace(&mut *stored.0.lock().unwrap_or_else(PoisonError::into_inner), value);
        // Not under the lock: a finalizer of Python can call back, and come here again.
        drop(before);
    }
}

#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Cycle {
    pub context: Arc<CycleContext>,
    pub bridge: Arc<Bridge>,
}

#[pymethods]
impl Cycle {
    #[getter]
    fn uid(&self) -> &str {
        &self.context.uid
    }

    #[getter]
    fn resource(&self) -> usize {
        self.bridge.resources.index_of(&self.context.resource)
    }

    #[getter]
    fn body<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.context.body.raw())
    }

    #[getter(r#type)]
    fn event_type(&self) -> Option<&'static str> {
        self.context.event.and_then(|event| event.as_str())
    }

    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.context.cause.get().map(|cause| cause.reason.as_str())
    }

    #[getter]
    fn old<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.context.cause.get().and_then(|cause| json_bytes(python, cause.old.as_ref()))
    }

    #[getter(new)]
    fn new_essence<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.context.cause.get().and_then(|cause| json_bytes(python, cause.new.as_ref()))
    }

    #[getter]
    fn diff<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.context.cause.get().and_then(|cause| json_bytes(python, Some(&cause.diff.to_json())))
    }

    #[getter]
    fn context(&self, python: Python<'_>) -> Option<Py<PyAny>> {
        read(&self.context.slot, python)
    }

    #[setter]
    fn set_context(&self, value: Option<Py<PyAny>>) {
        write(&self.context.slot, value);
    }

    #[getter]
    fn memory(&self) -> ObjectMemory {
        ObjectMemory { slot: Arc::clone(&self.context.memory) }
    }
}

/// What the front remembers of one object. It keeps neither the cycle nor the body in memory.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct ObjectMemory {
    pub slot: Arc<FrontSlot>,
}

#[pymethods]
impl ObjectMemory {
    #[getter]
    fn memo(&self, python: Python<'_>) -> Option<Py<PyAny>> {
        read(&self.slot, python)
    }

    #[setter]
    fn set_memo(&self, value: Option<Py<PyAny>>) {
        write(&self.slot, value);
    }
}

/// The latest body of an object, while a daemon or a timer runs for it.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct LatestBody {
    pub body: Arc<LiveBody>,
}

#[pymethods]
impl LatestBody {
    /// The number and the JSON of the latest body, unless it is the one with that number.
    #[pyo3(signature = (seen, /))]
    fn newer_than<'py>(&self, python: Python<'py>, seen: Option<u64>) -> Option<(u64, Bound<'py, PyBytes>)> {
        self.body.newer_than(seen).map(|(number, raw)| (number, PyBytes::new(python, &raw)))
    }
}

/// A value as JSON text, which Python decodes when the user looks at it.
pub(crate) fn json_bytes<'py>(python: Python<'py>, value: Option<&Value>) -> Option<Bound<'py, PyBytes>> {
    value.map(|value| PyBytes::new(python, value.to_string().as_bytes()))
}
