use kopf::extract::Latest;
use kopf::{Operator, on};

async fn watch(_: Latest) {}

fn main() {
    let _: Operator = Operator::new().on(on::event("kopfexamples"), watch);
}
