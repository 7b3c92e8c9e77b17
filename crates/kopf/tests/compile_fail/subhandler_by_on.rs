use kopf::{Operator, on};

async fn part() {}

fn main() {
    let _: Operator = Operator::new().on(on::subhandler(), part);
}
