use kopf::extract::{Meta, Stopped};
use kopf::{Operator, on};

async fn create(_: Meta, _: Stopped) {}

fn main() {
    let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
}
