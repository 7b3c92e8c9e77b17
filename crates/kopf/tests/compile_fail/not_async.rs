use kopf::extract::Meta;
use kopf::{Operator, on};

fn create(_: Meta) {}

fn main() {
    let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
}
