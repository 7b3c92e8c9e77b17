use super::*;

fn read(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Arguments, clap::Error> {
    let environment = |name: &str| {
        let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
        Some((*value).to_owned())
    };
    Arguments::read(std::iter::once("operator").chain(arguments.iter().copied()), environment)
}

#[test]
fn variables_set_what_the_command_line_does_not() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], expected: Arguments| {
        assert_eq!(read(arguments, variables).unwrap(), expected, "{arguments:?} {variables:?}");
    };
    let nothing = Arguments::default;
    check(&[], &[], nothing());
    check(&["-A"], &[], Arguments { clusterwide: true, ..nothing() });
    check(&[], &[("KOPF_RUN_CLUSTERWIDE", "yes")], Arguments { clusterwide: true, ..nothing() });
    check(&[], &[("KOPF_RUN_CLUSTERWIDE", "")], nothing());
    check(&["-n", "a", "--namespace=b-*"], &[], Arguments { namespaces: vec!["a".into(), "b-*".into()], ..nothing() });
    check(&[], &[("KOPF_RUN_NAMESPACES", "a  b")], Arguments { namespaces: vec!["a".into(), "b".into()], ..nothing() });
    check(
        &["-n", "a"],
        &[("KOPF_RUN_NAMESPACES", "b"), ("KOPF_RUN_NAMESPACE", "c")],
        Arguments { namespaces: vec!["a".into(), "c".into()], ..nothing() },
    );
    check(&["--log-format", "JSON"], &[], Arguments { log_format: Some(LogFormat::Json), ..nothing() });
    check(
        &["--log-format=plain"],
        &[("KOPF_RUN_LOG_FORMAT", "json")],
        Arguments { log_format: Some(LogFormat::Plain), ..nothing() },
    );
    check(&["-p", "-5"], &[("KOPF_RUN_PRIORITY", "7")], Arguments { priority: Some(-5), ..nothing() });
    check(&[], &[("KOPF_RUN_PRIORITY", "7")], Arguments { priority: Some(7), ..nothing() });
    check(&["--log-prefix", "--no-log-prefix"], &[], Arguments { no_log_prefix: true, ..nothing() });
    check(&[], &[("KOPF_RUN_LOG_PREFIX", "off")], Arguments { no_log_prefix: true, ..nothing() });
}

#[test]
fn invalid_arguments_are_refused() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], expected: &str| {
        let error = read(arguments, variables).unwrap_err();
        assert!(error.use_stderr() && error.to_string().contains(expected), "{arguments:?} {variables:?}: {error}");
    };
    check(&["-A", "-n", "a"], &[], "Either --namespace or --all-namespaces can be used, not both.");
    check(&["-A"], &[("KOPF_RUN_NAMESPACE", "a")], "Either --namespace or --all-namespaces");
    check(&["--log-format", "xml"], &[], "xml");
    check(&["handlers.py"], &[], "handlers.py");
    check(&[], &[("KOPF_RUN_DEBUG", "maybe")], "KOPF_RUN_DEBUG");
    check(&[], &[("KOPF_RUN_PRIORITY", "high")], "KOPF_RUN_PRIORITY");
    check(&[], &[("KOPF_RUN_LOG_FORMAT", "xml")], "KOPF_RUN_LOG_FORMAT");
}

#[test]
fn options_of_the_log() {
    let check = |arguments: &[&str], expected: LogOptions| {
        assert_eq!(read(arguments, &[]).unwrap().log_options(), expected, "{arguments:?}");
    };
    let default = LogOptions::default;
    check(&[], default());
    check(&["-q"], LogOptions { verbosity: Verbosity::Quiet, ..default() });
    check(&["-q", "-v"], LogOptions { verbosity: Verbosity::Verbose, ..default() });
    check(&["-v", "-d"], LogOptions { verbosity: Verbosity::Debug, ..default() });
    check(&["--no-log-prefix"], LogOptions { prefix: Some(false), ..default() });
    check(
        &["--log-prefix", "--log-refkey=k8s"],
        LogOptions { prefix: Some(true), refkey: Some("k8s".into()), ..default() },
    );
}
