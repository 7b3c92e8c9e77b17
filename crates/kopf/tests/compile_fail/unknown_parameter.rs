use kopf::extract::Meta;
use kopf::{Operator, on};

struct Team(String);

async fn create(_: Meta, team: Team) {
    println!("{}", team.0);
}

fn main() {
    let _: Operator = Operator::new().on(on::create("kopfexamples"), create);
}
