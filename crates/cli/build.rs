//! How `enjamb` is linked.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ENJAMB_PIE");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|said| said == value);
    if !(is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu")) {
        return;
    }
    // A program that may be put at any address has its forty thousand pointers adjusted at every start: 190 pages are
    // copied, for a tenth of what a short command takes. Linked for one address it starts with what is in the file; its
    // stack, its heap and the system's libraries are where they happen to be all the same. ENJAMB_PIE=1 has it otherwise.
    if !is("ENJAMB_PIE", "1") {
        println!("cargo:rustc-link-arg-bin=enjamb=-no-pie");
    }
    // What is needed of libgcc is in the program, where there is one to take it from: one library less to look for, to map
    // and to adjust.
    if std::env::var("HOST") == std::env::var("TARGET") && has_static_libgcc() {
        println!("cargo:rustc-link-lib=gcc_eh");
    }
}

fn has_static_libgcc() -> bool {
    let asked = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    asked.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_absolute())
}
