//! The page carries a bench so that a browser can take it out again.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use onbeat_report::{PageError, page};

const TEMPLATE: &str = "<html><script id=\"data\" type=\"application/x-onbeat; gzip; base64\">@@DATA@@</script></html>";

/// What a browser sees in the page.
fn unpacked(page: &str) -> String {
    let after = page.split_once("base64\">").unwrap().1;
    let packed = STANDARD.decode(after.split_once("</script>").unwrap().0).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn files_and_summary_come_out_as_the_format_says() {
    let files = [("P-idle.onbeat.hlog", "#[a]\nTag=x,1\n"), ("we\"ird", "line\n")];
    let page = page(TEMPLATE, &files, "{\n  \"schema\": \"onbeat.bench/1\"\n}").unwrap();
    assert_eq!(
        unpacked(&page),
        "#[onbeat: {\"file\":\"P-idle.onbeat.hlog\"}]\n#[a]\nTag=x,1\n\
         #[onbeat: {\"file\":\"we\\\"ird\"}]\nline\n\
         #[onbeat: {\"summary\":{\"schema\":\"onbeat.bench/1\"}}]\n"
    );
    assert!(page.starts_with("<html><script id=") && page.ends_with("</script></html>"));
}

#[test]
fn of_a_file_that_was_cut_off_the_page_carries_the_whole_lines() {
    let page = page(TEMPLATE, &[("a", "whole\nTag=wakeup_la")], "{}").unwrap();
    assert_eq!(
        unpacked(&page),
        "#[onbeat: {\"file\":\"a\"}]\nwhole\n#[onbeat: {\"summary\":{}}]\n"
    );
}

#[test]
fn nothing_in_a_file_can_end_the_script() {
    let page = page(TEMPLATE, &[("a", "</script><script>alert(1)</script>\n")], "{}").unwrap();
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(unpacked(&page).contains("alert(1)"));
}

#[test]
fn the_same_bench_gives_the_same_page() {
    assert_eq!(
        page(TEMPLATE, &[("a", "b\n")], "{}").unwrap(),
        page(TEMPLATE, &[("a", "b\n")], "{}").unwrap()
    );
}

#[test]
fn a_template_without_exactly_one_place_is_refused() {
    assert!(matches!(page("<html>", &[], "{}"), Err(PageError::Template { found: 0 })));
    assert!(matches!(page("@@DATA@@ @@DATA@@", &[], "{}"), Err(PageError::Template { found: 2 })));
}

#[test]
fn invalid_summary_json_is_refused() {
    let refused = page(TEMPLATE, &[], "{").unwrap_err();
    assert!(refused.to_string().starts_with("the summary is not valid JSON: "), "{refused}");
}
