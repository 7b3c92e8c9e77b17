use std::rc::Rc;

use kopf::{Operator, on};

async fn create() {
    let count = Rc::new(1);
    std::future::ready(()).await;
    println!("{count}");
}

fn main() {
    let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
}
