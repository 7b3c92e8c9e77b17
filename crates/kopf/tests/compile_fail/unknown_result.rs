use kopf::{Operator, on};

async fn create() -> u32 {
    1
}

fn main() {
    let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
}
