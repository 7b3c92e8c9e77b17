//! The command line of an operator: the options and environment variables of `kopf run`, the log, the signals.
//!
//! `Operator::run_cli` and `Operator::main` call it.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use kopf_engine::Stop;

use crate::logging::{self, LogFormat, LogOptions, Verbosity};
use crate::run::{PeeringOptions, ReadyOperator, RunOptions};

/// Higher than the priority of any operator in production.
const DEV_PRIORITY: i64 = 666;

/// Start an operator process and handle all the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Parser)]
#[command(
    disable_version_flag = true,
    after_help = "Environment variables set the same options: KOPF_RUN_VERBOSE, KOPF_RUN_NAMESPACES, KOPF_RUN_LOG_FORMAT, …"
)]
struct Arguments {
    /// Log everything that the operator does.
    #[arg(short, long)]
    verbose: bool,
    /// Log everything that the operator and its libraries do.
    #[arg(short, long)]
    debug: bool,
    /// Log only warnings and errors.
    #[arg(short, long)]
    quiet: bool,
    /// The format of the log; full by default.
    #[arg(long, value_name = "FORMAT", ignore_case = true)]
    log_format: Option<LogFormat>,
    /// The key of the objects in the JSON log.
    #[arg(long, value_name = "KEY")]
    log_refkey: Option<String>,
    /// Begin messages with the name of the object; the default in all formats but JSON.
    #[arg(long, overrides_with = "no_log_prefix")]
    log_prefix: bool,
    /// Do not begin messages with the name of the object.
    #[arg(long, overrides_with = "log_prefix")]
    no_log_prefix: bool,
    /// Serve all namespaces.
    #[arg(short = 'A', long = "all-namespaces")]
    clusterwide: bool,
    /// Serve this namespace; may be repeated, and be a glob pattern.
    #[arg(short = 'n', long = "namespace", value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// Ignore other operators.
    #[arg(long)]
    standalone: bool,
    /// Run with the highest priority, for development: other operators pause.
    #[arg(long)]
    dev: bool,
    /// Serve the health of the operator at this address, such as http://0.0.0.0:8080/healthz.
    #[arg(short = 'L', long = "liveness", value_name = "URL")]
    liveness_endpoint: Option<String>,
    /// The name of the peering with other operators.
    #[arg(short = 'P', long, value_name = "NAME")]
    peering: Option<String>,
    /// The priority among other operators.
    #[arg(short, long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i64>,
}

/// Runs an operator with the arguments and the environment of the process.
pub(crate) async fn run(operator: ReadyOperator, mut options: RunOptions) -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok();
    let arguments = match Arguments::read(std::env::args_os(), environment) {
        Ok(arguments) => arguments,
        Err(error) => {
            // If printing fails, the exit code still says it.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    // The application may have installed a subscriber already: it stays.
    drop(logging::install(&arguments.log_options()));
    if arguments.clusterwide || !arguments.namespaces.is_empty() {
        options.clusterwide = arguments.clusterwide;
        options.namespaces = arguments.namespaces;
    }
    options.liveness = arguments.liveness_endpoint;
    options.peering = PeeringOptions {
        standalone: arguments.standalone,
        name: arguments.peering,
        priority: if arguments.dev { Some(DEV_PRIORITY) } else { arguments.priority },
    };
    let stop = Stop::new();
    let signals = tokio::spawn(stop_by_signals(stop.clone()));
    let ended = operator.run(options, stop).await;
    signals.abort();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(target: "kopf.engine", "The operator cannot run: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn stop_by_signals(stop: Stop) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!(target: "kopf.engine", "The operator cannot receive signals: it will not stop on SIGINT or SIGTERM.");
        return;
    };
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        }
    };
    let name = next().await;
    tracing::info!(target: "kopf.engine", "Signal {name} is received. Operator is stopping.");
    stop.request(name);
    // Cleanup handlers may take for ever: a second signal ends the wait.
    let name = next().await;
    tracing::warn!(target: "kopf.engine", "Signal {name} is received again. Operator is stopped by force.");
    std::process::exit(1);
}

impl Arguments {
    fn read(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(arguments)?;
        let mut read = Self::from_arg_matches(&matches)?;
        let variable = |name: &str| environment(&format!("KOPF_RUN_{name}")).filter(|value| !value.is_empty());
        read.fill_from(variable).map_err(|text| command.error(ErrorKind::ValueValidation, text))?;
        if read.clusterwide && !read.namespaces.is_empty() {
            let text = "Either --namespace or --all-namespaces can be used, not both.";
            return Err(command.error(ErrorKind::ArgumentConflict, text));
        }
        Ok(read)
    }

    /// Environment variables set what the command line does not.
    fn fill_from(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<(), String> {
        let refuse = |name: &str, value: &str| format!("KOPF_RUN_{name} has an invalid value: {value:?}");
        let flag = |name: &str| match variable(name) {
            None => Ok(None),
            Some(value) => match value.to_lowercase().as_str() {
                "1" | "true" | "t" | "yes" | "y" | "on" => Ok(Some(true)),
                "0" | "false" | "f" | "no" | "n" | "off" => Ok(Some(false)),
                _ => Err(refuse(name, &value)),
            },
        };
        for (known, name) in [
            (&mut self.verbose, "VERBOSE"),
            (&mut self.debug, "DEBUG"),
            (&mut self.quiet, "QUIET"),
            (&mut self.clusterwide, "CLUSTERWIDE"),
            (&mut self.standalone, "STANDALONE"),
            (&mut self.dev, "DEV"),
        ] {
            *known |= flag(name)?.unwrap_or_default();
        }
        if !self.log_prefix && !self.no_log_prefix {
            let prefix = flag("LOG_PREFIX")?;
            (self.log_prefix, self.no_log_prefix) = (prefix == Some(true), prefix == Some(false));
        }
        if let (None, Some(value)) = (self.log_format, variable("LOG_FORMAT")) {
            let format = <LogFormat as clap::ValueEnum>::from_str(&value, true);
            self.log_format = Some(format.map_err(|_| refuse("LOG_FORMAT", &value))?);
        }
        if let (None, Some(value)) = (self.priority, variable("PRIORITY")) {
            self.priority = Some(value.parse().map_err(|_| refuse("PRIORITY", &value))?);
        }
        self.log_refkey = self.log_refkey.take().or_else(|| variable("LOG_REFKEY"));
        self.liveness_endpoint = self.liveness_endpoint.take().or_else(|| variable("LIVENESS_ENDPOINT"));
        self.peering = self.peering.take().or_else(|| variable("PEERING"));
        if self.namespaces.is_empty() {
            let listed = variable("NAMESPACES").unwrap_or_default();
            self.namespaces.extend(listed.split_whitespace().map(str::to_owned));
        }
        // The older variable for one namespace adds to them, as in `kopf run`.
        self.namespaces.extend(variable("NAMESPACE"));
        Ok(())
    }

    fn log_options(&self) -> LogOptions {
        LogOptions {
            verbosity: match (self.debug, self.verbose, self.quiet) {
                (true, _, _) => Verbosity::Debug,
                (_, true, _) => Verbosity::Verbose,
                (_, _, true) => Verbosity::Quiet,
                _ => Verbosity::Normal,
            },
            format: self.log_format.unwrap_or_default(),
            prefix: (self.log_prefix || self.no_log_prefix).then_some(self.log_prefix),
            refkey: self.log_refkey.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
