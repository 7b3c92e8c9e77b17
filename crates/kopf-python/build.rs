//! Has the linker put the functions together that running operators execute.
//!
//! It is a sixth of the code. Spread over the module, it would bring most of it into memory: the kernel maps
//! pages along with their neighbours. `scripts/make_layout.py` finds out which functions these are.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const EXECUTED: &str = "executed.txt";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={EXECUTED}");
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, expected: &str| env::var(name).is_ok_and(|value| value == expected);
    // There, the toolchain brings its own linker, for which the script is; and builds for developers are not worth the time.
    let is_known = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64");
    if !is_known || !is("PROFILE", "release") {
        return Ok(());
    }
    let names = fs::read_to_string(EXECUTED)?;
    let lines: String = names.lines().map(|name| format!("    *(.text.{name} .text.unlikely.{name})\n")).collect();
    let script = format!("SECTIONS\n{{\n  .text :\n  {{\n{lines}    *(.text .text.*)\n  }}\n}}\nINSERT AFTER .init;\n");
    let path = PathBuf::from(env::var("OUT_DIR")?).join("layout.ld");
    fs::write(&path, script)?;
    println!("cargo::rustc-link-arg-cdylib=-Wl,-T,{}", path.display());
    Ok(())
}
