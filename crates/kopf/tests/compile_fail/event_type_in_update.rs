use kopf::extract::{Diff, EventType};
use kopf::{Operator, on};

async fn update(_: Diff, _: EventType) {}

fn main() {
    let _: Operator = Operator::new().on(on::update("kopfexamples"), update);
}
