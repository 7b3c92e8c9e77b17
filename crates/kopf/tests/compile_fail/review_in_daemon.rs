use kopf::extract::{Review, Stopped, Warnings};
use kopf::{Operator, on};

async fn watch_over(_: Stopped, _: Review, _: Warnings) {}

fn main() {
    let _: Operator = Operator::new().on(on::daemon("kopfexamples"), watch_over);
}
