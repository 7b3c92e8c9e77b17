use kopf::extract::{Diff, Reason};
use kopf::{Operator, on};

async fn validate(_: Diff, _: Reason) {}

fn main() {
    let _: Operator = Operator::new().on(on::validate("kopfexamples"), validate);
}
