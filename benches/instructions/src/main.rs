//! The steps of an operator, one by one: `kopf-bench-instructions STEP COUNT`.
//!
//! Run under valgrind by `python -m benches.budgets` with two different counts: the difference is what the
//! step costs, without the start of the process. All is in one thread and without a network, so that the
//! figures are the same on any machine, however busy it is.

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
        "settled" => reaction::settled(count),
        "patch-request" => runtime.block_on(api::patch(count)),
        other => Err(format!("no such step: {other}").into()),
    }
}
