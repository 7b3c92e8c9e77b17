use kopf::extract::{Body, Diff};
use kopf::{Operator, on};

async fn names(_: Body, _: Diff) -> (String, u32) {
    (String::new(), 1)
}

fn main() {
    let _: Operator = Operator::new().index(on::index("kopfexamples"), names);
}
