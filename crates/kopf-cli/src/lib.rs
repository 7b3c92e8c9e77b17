//! The command `kopf` as far as it needs no Python. The Python package hands the same commands
//! over to it, so that there is one implementation of each.

mod cluster;
pub mod kubeconfig;
mod manifests;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

/// Kubernetes operators, and a Kubernetes to try them on.
#[derive(Debug, Parser)]
#[command(name = "kopf", version, about)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cluster(cluster::Arguments),
}

/// Runs the command with its arguments, the name of the program first; returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match CommandLine::try_parse_from(arguments) {
        Ok(line) => line.command,
        Err(error) => {
            // If even this cannot be printed, there is no other place to report it.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let done = match command {
        Command::Cluster(arguments) => cluster::run(arguments),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("Error: {error}");
            1
        }
    }
}
