use kopf::extract::Children;
use kopf::{Operator, on};

async fn tick(_: Children) {}

fn main() {
    let _: Operator = Operator::new().on(on::timer("kopfexamples"), tick);
}
