//! A request of a browser: what is answered, and what is refused.

/// Longest head of a request, in bytes.
pub(super) const LONGEST_HEAD: usize = 8192;
/// Names under which a browser on this machine may ask.
const NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// What a browser asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewRequest {
    Page,
    Events,
    /// Something that is not answered.
    Refused(ViewRefusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewRefusal {
    /// It is not HTTP/1, or longer than [`LONGEST_HEAD`].
    Malformed,
    /// Its host is not this machine: the page of another site under a name that leads here.
    OtherHost,
    /// A page of another site asks.
    OtherSite,
    /// A method other than GET. Nothing can be written.
    OtherMethod,
    /// There is nothing at this path.
    NoSuchPath,
    /// As many browsers as are served look on already.
    TooMany,
}

impl ViewRefusal {
    /// Returns the status line without the version, and a sentence.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Malformed => ("400 Bad Request", "The request is not valid HTTP/1.1."),
            Self::OtherHost => (
                "403 Forbidden",
                "This view answers under 127.0.0.1, localhost and [::1] with its port, and under no other name.",
            ),
            Self::OtherSite => ("403 Forbidden", "A page of another site may not read this view."),
            Self::OtherMethod => ("405 Method Not Allowed", "This view answers GET alone."),
            Self::NoSuchPath => ("404 Not Found", "This view has the page / alone."),
            Self::TooMany => {
                ("503 Service Unavailable", "Too many browsers show this view; close one of them.")
            }
        }
    }
}

/// Reads the head of a request to a port of this machine; `None` while it is not complete.
pub(super) fn read_head(bytes: &[u8], port: u16) -> Option<ViewRequest> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return (bytes.len() >= LONGEST_HEAD)
            .then_some(ViewRequest::Refused(ViewRefusal::Malformed));
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| ViewRefusal::Malformed);
    Some(head.and_then(|head| answered(head, port)).unwrap_or_else(ViewRequest::Refused))
}

fn answered(head: &str, port: u16) -> Result<ViewRequest, ViewRefusal> {
    let mut lines = head.split("\r\n");
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, "HTTP/1.1" | "HTTP/1.0"] = first[..] else {
        return Err(ViewRefusal::Malformed);
    };

    let fields: Vec<(&str, &str)> = lines
        .map(|line| line.split_once(':').map(|(name, value)| (name, value.trim())))
        .collect::<Option<_>>()
        .ok_or(ViewRefusal::Malformed)?;
    let field = |wanted: &str| {
        let mut all = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let value = all.next().map(|(_, value)| *value);
        if all.next().is_some() { Err(ViewRefusal::Malformed) } else { Ok(value) }
    };

    let host = field("host")?.ok_or(ViewRefusal::OtherHost)?;
    let (name, asked_port) = match host.rsplit_once(':') {
        // An IPv6 address has colons of its own, within its brackets.
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(80)),
    };
    if asked_port != Some(port) || !NAMES.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return Err(ViewRefusal::OtherHost);
    }
    if !matches!(field("sec-fetch-site")?, None | Some("same-origin" | "none")) {
        return Err(ViewRefusal::OtherSite);
    }

    match (method, path.split('?').next().unwrap_or_default()) {
        ("GET", "/") => Ok(ViewRequest::Page),
        ("GET", "/events") => Ok(ViewRequest::Events),
        ("GET", _) => Err(ViewRefusal::NoSuchPath),
        _ => Err(ViewRefusal::OtherMethod),
    }
}

/// Returns the head of an answer. `length` is absent for a stream without an end.
pub(super) fn answer_head(status: &str, content: &str, length: Option<usize>) -> String {
    let length = length.map_or(String::new(), |length| format!("Content-Length: {length}\r\n"));
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content}\r\n{length}{allow}Connection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: frame-ancestors 'none'\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &str) -> Option<ViewRequest> {
        read_head(request.replace('\n', "\r\n").as_bytes(), 7700)
    }

    #[test]
    fn the_page_and_its_events_are_answered_under_the_names_of_this_machine() {
        for host in ["127.0.0.1:7700", "localhost:7700", "LOCALHOST:7700", "[::1]:7700"] {
            let head = format!("HTTP/1.1\nHost: {host}\n\n");
            assert_eq!(asked(&format!("GET / {head}")), Some(ViewRequest::Page), "{host}");
            assert_eq!(asked(&format!("GET /events?1 {head}")), Some(ViewRequest::Events));
        }
    }

    #[test]
    fn another_name_another_site_another_method_and_another_path_are_refused() {
        let host = "Host: localhost:7700";
        for (request, why) in [
            ("GET / HTTP/1.1\nHost: robot.example:7700\n\n".to_owned(), ViewRefusal::OtherHost),
            (
                "GET / HTTP/1.1\nHost: localhost.robot.example:7700\n\n".into(),
                ViewRefusal::OtherHost,
            ),
            ("GET / HTTP/1.1\nHost: localhost:7701\n\n".into(), ViewRefusal::OtherHost),
            ("GET / HTTP/1.1\nHost: localhost\n\n".into(), ViewRefusal::OtherHost),
            ("GET / HTTP/1.1\nHost: [::1]\n\n".into(), ViewRefusal::OtherHost),
            ("GET / HTTP/1.1\n\n".into(), ViewRefusal::OtherHost),
            (format!("GET / HTTP/1.1\n{host}\nhost: a.example\n\n"), ViewRefusal::Malformed),
            (
                format!("GET /events HTTP/1.1\n{host}\nSec-Fetch-Site: cross-site\n\n"),
                ViewRefusal::OtherSite,
            ),
            (format!("POST / HTTP/1.1\n{host}\n\n"), ViewRefusal::OtherMethod),
            (format!("OPTIONS / HTTP/1.1\n{host}\n\n"), ViewRefusal::OtherMethod),
            (format!("GET /etc/passwd HTTP/1.1\n{host}\n\n"), ViewRefusal::NoSuchPath),
            (format!("GET /../etc/passwd HTTP/1.1\n{host}\n\n"), ViewRefusal::NoSuchPath),
            (format!("GET / HTTP/2\n{host}\n\n"), ViewRefusal::Malformed),
            (format!("GET / HTTP/1.1\n{host}\nno colon\n\n"), ViewRefusal::Malformed),
        ] {
            assert_eq!(asked(&request), Some(ViewRequest::Refused(why)), "{request}");
        }
    }

    #[test]
    fn a_head_without_its_end_is_waited_for_and_refused_when_it_is_too_long() {
        assert_eq!(asked("GET / HTTP/1.1\nHost: localhost:7700\n"), None);
        let long = format!("GET / HTTP/1.1\nA: {}", "a".repeat(LONGEST_HEAD));
        assert_eq!(asked(&long), Some(ViewRequest::Refused(ViewRefusal::Malformed)));
    }
}
