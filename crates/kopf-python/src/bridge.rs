//! What both sides of one operator share: the queue of jobs, the resources by their numbers, the engine's runtime.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kopf_reaction::Resource;
use tokio::runtime::Handle;

use crate::job::Job;
use crate::job_queue::{JobQueue, QueueLimits};

pub(crate) struct Bridge {
    /// The runtime refers to the queue alone: with the whole bridge, it would refer to itself, and never be freed.
    pub queue: Arc<JobQueue<Job>>,
    pub resources: Resources,
    /// Set once, when the operator starts.
    pub runtime: OnceLock<Handle>,
}

impl Bridge {
    pub(crate) fn new(limits: QueueLimits) -> std::io::Result<Self> {
        Ok(Self { queue: Arc::new(JobQueue::new(limits)?), resources: Resources::default(), runtime: OnceLock::new() })
    }
}

/// The resources that the front has met, by the numbers under which it knows them.
#[derive(Default)]
pub(crate) struct Resources {
    known: Mutex<Vec<Arc<Resource>>>,
}

impl Resources {
    pub(crate) fn index_of(&self, resource: &Arc<Resource>) -> usize {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |other: &Arc<Resource>| Arc::ptr_eq(other, resource);
        known.iter().position(same).unwrap_or_else(|| {
            known.push(Arc::clone(resource));
            known.len() - 1
        })
    }

    pub(crate) fn get(&self, index: usize) -> Option<Arc<Resource>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned()
    }
}
