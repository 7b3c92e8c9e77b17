//! One handling cycle, as the front sees it: what all calls of the cycle share.

use std::sync::{Arc, Mutex, PoisonError};

use kopf_engine::{CycleContext, FrontSlot, LiveBody};
use kopf_reaction::Resource;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;

/// The resources that the front has met, by the numbers under which it knows them.
#[derive(Default)]
pub(crate) struct Resources {
    known: Mutex<Vec<Arc<Resource>>>,
}

impl Resources {
    pub fn index_of(&self, resource: &Arc<Resource>) -> usize {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |other: &Arc<Resource>| Arc::ptr_eq(other, resource);
        known.iter().position(same).unwrap_or_else(|| {
            known.push(Arc::clone(resource));
            known.len() - 1
        })
    }

    pub fn get(&self, index: usize) -> Option<Arc<Resource>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned()
    }
}

/// An object of the front in a slot of the engine.
pub(crate) struct Held(pub Mutex<Option<Py<PyAny>>>);

fn held(slot: &FrontSlot) -> Option<&Held> {
    slot.get_or_init(|| Box::new(Held(Mutex::new(None)))).downcast_ref::<Held>()
}

pub(crate) fn read(slot: &FrontSlot, python: Python<'_>) -> Option<Py<PyAny>> {
    let object = held(slot)?.0.lock().unwrap_or_else(PoisonError::into_inner);
    object.as_ref().map(|object| object.clone_ref(python))
}

pub(crate) fn write(slot: &FrontSlot, value: Option<Py<PyAny>>) {
    if let Some(held) = held(slot) {
        let before = std::mem::replace(&mut *held.0.lock().unwrap_or_else(PoisonError::into_inner), value);
        // Not under the lock: the end of an object can call back, and come here again.
        drop(before);
    }
}

#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Cycle {
    pub context: Arc<CycleContext>,
    pub resources: Arc<Resources>,
}

#[pymethods]
impl Cycle {
    #[getter]
    fn uid(&self) -> &str {
        &self.context.uid
    }

    #[getter]
    fn resource(&self) -> usize {
        self.resources.index_of(&self.context.resource)
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
    fn keeper(&self) -> Keeper {
        Keeper { slot: Arc::clone(&self.context.memory) }
    }
}

/// The memory of an object alone: whoever holds it, does not hold the cycle and what is in it.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Keeper {
    pub slot: Arc<FrontSlot>,
}

#[pymethods]
impl Keeper {
    #[getter]
    fn memory(&self, python: Python<'_>) -> Option<Py<PyAny>> {
        read(&self.slot, python)
    }

    #[setter]
    fn set_memory(&self, value: Option<Py<PyAny>>) {
        write(&self.slot, value);
    }
}

/// The newest state of an object, for as long as somebody looks at it.
#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Live {
    pub body: Arc<LiveBody>,
}

#[pymethods]
impl Live {
    /// The number and the JSON of the newest state, unless it is the one with that number.
    #[pyo3(signature = (seen, /))]
    fn newer_than<'py>(&self, python: Python<'py>, seen: Option<u64>) -> Option<(u64, Bound<'py, PyBytes>)> {
        self.body.newer_than(seen).map(|(number, raw)| (number, PyBytes::new(python, &raw)))
    }
}

/// A value as JSON text, for the front to decode when somebody looks at it.
pub(crate) fn json_bytes<'py>(python: Python<'py>, value: Option<&Value>) -> Option<Bound<'py, PyBytes>> {
    value.map(|value| PyBytes::new(python, value.to_string().as_bytes()))
}
