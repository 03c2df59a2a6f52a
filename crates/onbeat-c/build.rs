//! Names the shared library as programs that are linked with it will look for it.
#![allow(clippy::print_stdout)] // Instructions for cargo.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libonbeat.so.0");
}
