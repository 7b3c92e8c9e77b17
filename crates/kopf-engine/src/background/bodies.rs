//! The latest state of an object for its daemons and timers.
//!
//! While none of them is called, the body is compressed: most objects of a kind look much alike, so that one of
//! them serves as the dictionary for all others, and a few hundred bytes are left. While one of them is called,
//! the body is uncompressed, and can be read from anywhere.

use std::sync::{Arc, Mutex, PoisonError};

use kopf_object::Body;

use crate::front::LiveBody;
use crate::support::{Version, version_number};

/// The latest state of an object, while its tasks need it.
pub(super) struct LatestBody {
    version: Option<Version>,
    form: BodyForm,
}

enum BodyForm {
    /// Nothing is called.
    Packed(Packed),
    /// Something is called, this many times at once.
    Live { body: Arc<LiveBody>, users: u32 },
}

/// There is one per object, so that every word counts.
struct Packed {
    dictionary: Arc<Vec<u8>>,
    /// With the length of the text before it.
    content: Box<[u8]>,
}

impl LatestBody {
    pub(super) fn new(body: &Body, dictionaries: &Dictionaries) -> Self {
        let form = BodyForm::Packed(Packed::new(body.raw(), dictionaries));
        Self { version: version_number(body.resource_version()), form }
    }

    /// Remembers the body, unless it is older than what is known.
    pub(super) fn update(&mut self, body: &Body, dictionaries: &Dictionaries) {
        let version = version_number(body.resource_version());
        if matches!((self.version, version), (Some(known), Some(version)) if version <= known) {
            return;
        }
        self.version = version;
        match &mut self.form {
            BodyForm::Packed(packed) => *packed = Packed::new(body.raw(), dictionaries),
            BodyForm::Live { body: live, .. } => live.replace(Arc::clone(body.raw())),
        }
    }

    /// The current JSON text.
    pub(super) fn raw(&self) -> Arc<[u8]> {
        match &self.form {
            BodyForm::Packed(packed) => packed.unpack().into(),
            BodyForm::Live { body, .. } => body.newer_than(None).map_or_else(|| Arc::from([]), |(_, raw)| raw),
        }
    }

    /// To be looked at for as long as a call lasts; then comes [`LatestBody::release`].
    pub(super) fn borrow(&mut self) -> Arc<LiveBody> {
        if let BodyForm::Live { body, users } = &mut self.form {
            *users += 1;
            return Arc::clone(body);
        }
        let body = Arc::new(LiveBody::new(self.raw()));
        self.form = BodyForm::Live { body: Arc::clone(&body), users: 1 };
        body
    }

    pub(super) fn release(&mut self, dictionaries: &Dictionaries) {
        let BodyForm::Live { users, .. } = &mut self.form else { return };
        *users -= 1;
        if *users == 0 {
            let packed = Packed::new(&self.raw(), dictionaries);
            self.form = BodyForm::Packed(packed);
        }
    }
}

impl Packed {
    fn new(raw: &[u8], dictionaries: &Dictionaries) -> Self {
        let dictionary = dictionaries.current(raw);
        let content = pack(raw, &dictionary);
        dictionaries.learn(raw, content.len());
        Self { dictionary, content: content.into_boxed_slice() }
    }

    fn unpack(&self) -> Vec<u8> {
        // It was packed by ourselves, and was in memory ever since: it can be unpacked.
        lz4_flex::block::decompress_size_prepended_with_dict(&self.content, &self.dictionary).unwrap_or_default()
    }
}

fn pack(raw: &[u8], dictionary: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress_prepend_size_with_dict(raw, dictionary)
}

/// The dictionary of one resource: its first object, until another one turns out to be better.
///
/// Objects change their looks with time: they get a finalizer, a status, other managers. So one of many objects is
/// a candidate, and the next one shows which of the two is better. The more often it has changed, the more rarely
/// it is looked at, as the former ones are kept for as long as anything is packed by them.
#[derive(Default)]
pub(super) struct Dictionaries {
    state: Mutex<Dictionary>,
}

#[derive(Default)]
struct Dictionary {
    current: Option<Arc<Vec<u8>>>,
    candidate: Option<Arc<Vec<u8>>>,
    /// How often the dictionary has changed.
    changes: u32,
    /// How many objects were packed since there was a candidate.
    packed: u32,
}

impl Dictionaries {
    fn current(&self, raw: &[u8]) -> Arc<Vec<u8>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(state.current.get_or_insert_with(|| sample(raw)))
    }

    /// An object was packed to that length by the current dictionary, or by one that was current just before.
    fn learn(&self, raw: &[u8], packed_length: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(candidate) = state.candidate.take() {
            let gain = packed_length.saturating_sub(pack(raw, &candidate).len());
            if gain * WORTH_IT > packed_length {
                state.current = Some(candidate);
                state.changes = state.changes.saturating_add(1);
            }
            return;
        }
        state.packed = state.packed.saturating_add(1);
        if state.packed >> state.changes.min(20) >= CANDIDATE_EVERY {
            state.packed = 0;
            state.candidate = Some(sample(raw));
        }
    }
}

fn sample(raw: &[u8]) -> Arc<Vec<u8>> {
    Arc::new(raw[..raw.len().min(DICTIONARY_AT_MOST)].to_vec())
}

/// Another dictionary is better if it saves this part of what was left: one out of this many bytes.
const WORTH_IT: usize = 8;

/// This many objects are packed between two candidates, at first.
const CANDIDATE_EVERY: u32 = 16;

/// How far the packing looks back.
const DICTIONARY_AT_MOST: usize = 64 * 1024;

#[cfg(test)]
impl LatestBody {
    fn dictionary(&self) -> Option<*const Vec<u8>> {
        if let BodyForm::Packed(packed) = &self.form { Some(Arc::as_ptr(&packed.dictionary)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(number: u64) -> Body {
        Body::from_value(json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
            "metadata": {
                "name": format!("object-{number}"), "namespace": "default", "resourceVersion": number.to_string(),
                "uid": format!("00000000-0000-4000-8000-{number:012}"), "creationTimestamp": "2030-01-01T00:00:00Z",
                "annotations": {"kopf.zalando.org/last-handled-configuration": "{\"spec\":{\"field\":\"value\"}}\n"},
                "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"],
                "managedFields": [{"apiVersion": "kopf.dev/v1", "fieldsType": "FieldsV1", "fieldsV1": {
                    "f:metadata": {"f:annotations": {".": {}, "f:kopf.zalando.org/last-handled-configuration": {}}}},
                    "manager": "python", "operation": "Update", "time": "2030-01-01T00:00:00Z"}],
            },
            "spec": {"field": format!("value-{number}")},
        }))
    }

    #[test]
    fn objects_that_look_alike_take_little_room() {
        let dictionaries = Dictionaries::default();
        let bodies: Vec<LatestBody> = (1..200).map(|number| LatestBody::new(&body(number), &dictionaries)).collect();
        for (number, latest) in (1..200).zip(&bodies) {
            assert_eq!(&*latest.raw(), &**body(number).raw());
        }
        let BodyForm::Packed(packed) = &bodies[150].form else { panic!("it is packed") };
        assert!(packed.content.len() < 200, "{} of {}", packed.content.len(), body(151).raw().len());
    }

    #[test]
    fn the_dictionary_follows_the_looks_of_the_objects() {
        let dictionaries = Dictionaries::default();
        let with_status = |number: u64| {
            let mut value = body(number).value().clone();
            value["status"] = json!({"state": "Ready", "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicas", "message": "It is available."},
                {"type": "Progressing", "status": "False", "reason": "Complete", "message": "It has progressed."},
            ]});
            Body::from_value(value)
        };
        let length = |latest: &LatestBody| match &latest.form {
            BodyForm::Packed(packed) => packed.content.len(),
            BodyForm::Live { .. } => panic!("it is packed"),
        };
        let early: Vec<LatestBody> = (1..50).map(|number| LatestBody::new(&body(number), &dictionaries)).collect();
        let late: Vec<LatestBody> =
            (50..100).map(|number| LatestBody::new(&with_status(number), &dictionaries)).collect();
        let (last, first, plain) = (length(&late[49]), length(&late[0]), length(&early[48]));
        assert!(first > plain + 100 && last < plain + 30, "{first}, later {last}; without the status {plain}");
        // Those which were packed before can still be read.
        assert_eq!(&*early[48].raw(), &**body(49).raw());
        assert_eq!(&*late[0].raw(), &**with_status(50).raw());
    }

    #[test]
    fn objects_that_do_not_look_alike_do_not_leave_many_dictionaries() {
        let dictionaries = Dictionaries::default();
        let unlike = |number: u64| {
            let text = format!("{number}-").repeat(50);
            Body::from_value(json!({"metadata": {"name": text}, "data": {text.clone(): text.clone()}}))
        };
        let mixed: Vec<LatestBody> = (0..10_000)
            .map(|number| {
                LatestBody::new(&if number % 3 == 0 { unlike(number % 7) } else { body(number) }, &dictionaries)
            })
            .collect();
        let mut used: Vec<*const Vec<u8>> = mixed.iter().filter_map(LatestBody::dictionary).collect();
        used.sort_unstable();
        used.dedup();
        assert!(used.len() < 12, "{}", used.len());
    }

    #[test]
    fn what_is_called_sees_the_newest() {
        let dictionaries = Dictionaries::default();
        let mut latest = LatestBody::new(&body(1), &dictionaries);
        let (live, again) = (latest.borrow(), latest.borrow());
        let (seen, raw) = live.newer_than(None).unwrap();
        assert_eq!(&*raw, &**body(1).raw());
        assert_eq!(live.newer_than(Some(seen)), None);
        latest.update(&body(3), &dictionaries);
        latest.update(&body(2), &dictionaries);
        assert_eq!(&*again.newer_than(Some(seen)).unwrap().1, &**body(3).raw());
        latest.release(&dictionaries);
        latest.release(&dictionaries);
        assert!(matches!(latest.form, BodyForm::Packed(_)));
        assert_eq!(&*latest.raw(), &**body(3).raw());
        assert_eq!(live.body().unwrap().name(), Some("object-3"));
    }
}
