use kopf::extract::Review;
use kopf::{Operator, on};

async fn convert(_: Review) {}

fn main() {
    let _: Operator = Operator::new().on(on::convert("kopfexamples", "v1", "v2"), convert);
}
