use kopf::extract::Meta;
use kopf::{Operator, on};

async fn names(_: Meta) {}

fn main() {
    let _: Operator = Operator::new().on(on::index("kopfexamples"), names);
}
