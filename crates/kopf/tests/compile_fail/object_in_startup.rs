use kopf::extract::{Logger, Spec};
use kopf::{Operator, on};

async fn start(_: Logger, _: Spec<u32>) {}

fn main() {
    let _: Operator = Operator::new().on(on::startup(), start);
}
