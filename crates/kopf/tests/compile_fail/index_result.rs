use kopf::{Operator, on};

async fn names() -> kopf::Result<u32> {
    Ok(1)
}

fn main() {
    let _: Operator = Operator::new().index(on::index("kopfexamples"), names);
}
