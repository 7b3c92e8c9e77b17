//! Runs one step of an operator COUNT times: `kopf-bench-instructions STEP COUNT`.
//!
//! `python -m benches.budgets` runs this under valgrind with two different counts: the difference is the cost of the
//! step, without the start of the process. Everything runs in one thread and without a network, so that the
//! figures do not depend on the machine or its load.

mod api;
mod object;
mod reaction;
mod stream;

use std::error::Error;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [step, count] = arguments.as_slice() else { return Err("usage: kopf-bench-instructions STEP COUNT".into()) };
    let count: usize = count.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match step.as_str() {
        "watch-event" => runtime.block_on(stream::watch_events(count)),
        "list-page" => runtime.block_on(stream::list_pages(count)),
        "own-echo" => object::recognise(count),
        "reaction-create" => reaction::create(count),
        "reaction-unchanged" => reaction::unchanged(count),
        "up-to-date" => reaction::up_to_date(count),
        "patch-request" => runtime.block_on(api::patch(count)),
        other => Err(format!("no such step: {other}").into()),
    }
}
