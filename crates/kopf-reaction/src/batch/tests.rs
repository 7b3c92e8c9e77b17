//! A batch whose handlers have the same id.

use super::*;
use crate::HandlerType;

#[test]
fn handlers_with_the_same_id_are_all_called() {
    let now = Timestamp::UNIX_EPOCH;
    let handler = |index| Arc::new(Handler::new(index, "configure", HandlerType::Activity));
    let mut batch = Batch::transient(vec![handler(0), handler(1)], ErrorsMode::Temporary, true, 60.0, now);
    let mut called = Vec::new();
    while let BatchStep::Call(request) = batch.step(now, &mut || 0.0) {
        called.push((request.handler.index, request.retry));
        batch.called(CallOutcome { result: Ok(None), subrefs: Default::default() }, now, &mut || 0.0);
    }
    assert_eq!(called, [(0, 0), (1, 0)]);
    assert!(batch.done());
}
