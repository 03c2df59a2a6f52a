//! Addresses of object stores on the command line: what cannot be reached is one sentence, and no directory of that name is made.

use std::process::Output;

use super::runs::{fleet, said, some_runs};

/// Adds a run to an address, with these variables alone.
fn add_to(address: &str, variables: &[(&str, &str)]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let mut command = fleet();
    command.current_dir(dir.path()).arg("add").args(&runs).args(["--to", address]);
    command.env_clear().envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(!dir.path().join("s3:").exists());
    output
}

fn is_one_sentence(output: &Output, expected: &str) {
    let message = said(output);
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.starts_with("error: ") && message.contains(expected), "{expected}: {message}");
}

#[test]
fn an_object_store_is_not_packed() {
    let output = fleet().args(["pack", "s3://bucket/fleet"]).output().unwrap();
    is_one_sentence(
        &output,
        "only a directory can be packed; copy it: aws s3 sync s3://bucket/fleet DIR",
    );
}

#[cfg(not(feature = "s3"))]
#[test]
fn a_program_without_s3_says_how_it_is_built() {
    is_one_sentence(&add_to("s3://bucket/fleet", &[]), "--features s3 builds it with");
}

#[cfg(feature = "s3")]
#[test]
fn an_object_store_that_cannot_be_asked_is_one_sentence() {
    // A port that nobody listens on: it was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("http://127.0.0.1:{port}");
    let key = ("AWS_ACCESS_KEY_ID", "key");
    let secret = ("AWS_SECRET_ACCESS_KEY", "secret");
    for (address, variables, expected) in [
        (
            "s3://bucket",
            vec![key, secret],
            "is not an address in an object store; write s3://BUCKET/NAME",
        ),
        ("s3://bucket/fleet", vec![secret], "AWS_ACCESS_KEY_ID is not set"),
        (
            "s3://bucket/fleet",
            vec![key, ("AWS_SECRET_ACCESS_KEY", "")],
            "AWS_SECRET_ACCESS_KEY is not set",
        ),
        (
            "s3://bucket/fleet",
            vec![key, secret, ("AWS_ENDPOINT_URL", "nowhere")],
            "is not a URL of an object store",
        ),
        (
            "s3://bucket/fleet",
            vec![key, secret, ("AWS_ENDPOINT_URL", nobody.as_str())],
            "connection refused",
        ),
    ] {
        is_one_sentence(&add_to(address, &variables), expected);
    }
}
