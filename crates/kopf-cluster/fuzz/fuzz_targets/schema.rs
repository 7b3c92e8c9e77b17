#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kopf_cluster::fuzzing::run("schema", data));
