use kopf::extract::{Diff, EventType, New, Old, Reason};
use kopf::{Operator, on};

async fn watch(_: EventType, _: Old<u32>, _: New<u32>, _: Diff, _: Reason) {}

fn main() {
    let _: Operator = Operator::new().on(on::event("kopfexamples"), watch);
}
