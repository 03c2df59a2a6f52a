//! MJPEG over HTTP: one answer without end, a picture in each of its parts.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use http_auth::{PasswordClient, PasswordParams};
use onbeat_control::frames::{FrameTimes, TimeSource};
use url::Url;

use super::address::{credentials, without_password};
use super::error::SourceError;
use super::ffmpeg;
use super::jpeg::Jpegs;
use super::mailbox::{Buffers, Mailbox};
use super::multipart::next_part;
use super::{Captured, Description, MOST_SILENCE, Source, now_ns};
use crate::compressed::{Coding, PictureChannel};

/// Longest time for a connection, and for a byte of the answer's head to come.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest head of an answer, and most headers in it.
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Pictures in a row that may be damaged.
const MOST_DAMAGED: u64 = 30;

/// Opens a stream. One that is not MJPEG is left to ffmpeg.
pub(super) fn open(
    url: &Url,
    is_gray: bool,
    log: Option<PictureChannel>,
) -> Result<Box<dyn Source>, SourceError> {
    let place = without_password(url);
    let answer = request(url, &place)?;
    let kind = answer.header("content-type").unwrap_or_default().to_ascii_lowercase();
    // Servers that do not know what they send name no type, or the one of any bytes.
    if kind.starts_with("multipart/") || ["", "application/octet-stream"].contains(&kind.as_str()) {
        return Ok(Box::new(MjpegSource::begin(answer, place, is_gray, log)));
    }
    if kind.starts_with("video/") || kind.starts_with("application/") {
        drop(answer);
        return Ok(Box::new(ffmpeg::of_url(url, &place, &kind)?));
    }
    let what = if kind.starts_with("image/") { "one picture, " } else { "" };
    let why = format!("its answer is {what}{kind}, not multipart/x-mixed-replace");
    Err(SourceError::NoStream { place, why })
}

/// The head of an answer, and the rest of the connection.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    rest: BufReader<TcpStream>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let is = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.headers.iter().find(is).map(|(_, value)| value.as_str())
    }
}

/// Asks, and once more with a password if one is wanted.
fn request(url: &Url, place: &str) -> Result<Answer, SourceError> {
    let mut answer = ask(url, place, None)?;
    if answer.status == 401
        && let Some((username, password)) = credentials(url)
        && answer.header("www-authenticate").is_some()
    {
        let params = PasswordParams {
            username: &username,
            password: &password,
            uri: &url[url::Position::BeforePath..url::Position::AfterQuery],
            method: "GET",
            body: None,
        };
        // A camera that offers several ways has a header for each.
        let mut offered = PasswordClient::builder();
        for (key, value) in &answer.headers {
            if key.eq_ignore_ascii_case("www-authenticate") {
                offered = offered.challenges(value);
            }
        }
        let client = offered.build();
        let authorization = client.and_then(|mut client| client.respond(&params));
        let authorization =
            authorization.map_err(|why| SourceError::NoStream { place: place.to_owned(), why })?;
        answer = ask(url, place, Some(&authorization))?;
    }
    let place = place.to_owned();
    match answer.status {
        200 => Ok(answer),
        401 | 403 => Err(SourceError::Password { place }),
        301 | 302 | 303 | 307 | 308 => {
            let to = answer.header("location").and_then(|to| url.join(to).ok());
            let shown = to.as_ref().map_or("another address".to_owned(), without_password);
            let next = match to {
                Some(to) if to.scheme() == "https" => {
                    format!("{shown} needs TLS, which is not supported: allow HTTP in its settings")
                }
                _ => format!("use {shown}"),
            };
            let why = format!("it has moved (status {}); {next}", answer.status);
            Err(SourceError::NoStream { place, why })
        }
        status => {
            Err(SourceError::NoStream { place, why: format!("its answer has status {status}") })
        }
    }
}

fn ask(url: &Url, place: &str, authorization: Option<&str>) -> Result<Answer, SourceError> {
    let unreachable = |source| SourceError::Unreachable { place: place.to_owned(), source };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let addresses = (host, port).to_socket_addrs().map_err(unreachable)?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut connected = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(why) => failure = why,
        }
    }
    let Some(mut stream) = connected else { return Err(unreachable(failure)) };
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost(place, PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(lost(place, PATIENCE))?;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let with = authorization.map_or(String::new(), |it| format!("Authorization: {it}\r\n"));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: onbeat\r\nAccept: */*\r\nConnection: close\r\n{with}\r\n",
        &url[url::Position::BeforeHost..url::Position::AfterPort]
    );
    stream.write_all(request.as_bytes()).map_err(lost(place, PATIENCE))?;
    read_head(stream, place)
}

/// What a failed read or write says, where each may take `patience`.
fn lost(place: &str, patience: Duration) -> impl Fn(io::Error) -> SourceError {
    move |why| {
        let place = place.to_owned();
        let why = match why.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let (seconds, seen) = (patience.as_secs_f64(), "nothing was received".to_owned());
                return SourceError::Silent { place, seconds, seen };
            }
            io::ErrorKind::UnexpectedEof => "within a picture or an answer".to_owned(),
            _ => why.to_string(),
        };
        SourceError::Disconnected { place, why }
    }
}

fn read_head(stream: TcpStream, place: &str) -> Result<Answer, SourceError> {
    let no_stream =
        |why: &str| SourceError::NoStream { place: place.to_owned(), why: why.to_owned() };
    let mut rest = BufReader::with_capacity(256 << 10, stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() >= MOST_HEAD {
            return Err(no_stream("the head of its answer has over 16 KiB"));
        }
        let mut byte = [0];
        rest.read_exact(&mut byte).map_err(lost(place, PATIENCE))?;
        head.push(byte[0]);
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let mut config = httparse::ParserConfig::default();
    // As browsers do: some cameras write `Content-Type : ...`, or its boundary in a line of its own.
    config.allow_spaces_after_header_name_in_responses(true);
    config.allow_obsolete_multiline_headers_in_responses(true);
    match config.parse_response(&mut parsed, &head) {
        Ok(httparse::Status::Complete(_)) => {}
        _ => return Err(no_stream("its answer is not HTTP")),
    }
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    Ok(Answer {
        status: parsed.code.unwrap_or(0),
        headers: parsed.headers.iter().map(|it| (it.name.to_owned(), text(it.value))).collect(),
        rest,
    })
}

/// The body of an answer in chunks (RFC 9112, section 7.1), as if it were not.
struct Chunks<R> {
    from: R,
    left: u64,
    is_first: bool,
}

impl<R: io::BufRead> Read for Chunks<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let mut line = Vec::new();
            if !std::mem::take(&mut self.is_first) {
                self.from.by_ref().take(2).read_until(b'\n', &mut line)?;
                line.clear();
            }
            self.from.by_ref().take(256).read_until(b'\n', &mut line)?;
            let text = String::from_utf8_lossy(&line);
            let digits = text.trim().split(';').next().unwrap_or_default();
            let bad = |_| io::Error::new(io::ErrorKind::InvalidData, "a chunk without a length");
            self.left = u64::from_str_radix(digits.trim(), 16).map_err(bad)?;
            if self.left == 0 {
                return Ok(0);
            }
        }
        let most = to.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.from.read(&mut to[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// A compressed picture with its times.
type Compressed = (Vec<u8>, FrameTimes);

struct MjpegSource {
    mailbox: Mailbox<Compressed, SourceError>,
    spare: Buffers,
    connection: Option<TcpStream>,
    jpegs: Jpegs,
    damaged: u64,
    dropped: u64,
    place: String,
}

impl MjpegSource {
    fn begin(answer: Answer, place: String, is_gray: bool, log: Option<PictureChannel>) -> Self {
        let is_chunked =
            answer.header("transfer-encoding").is_some_and(|it| it.eq_ignore_ascii_case("chunked"));
        let _ = answer.rest.get_ref().set_read_timeout(Some(MOST_SILENCE));
        let connection = answer.rest.get_ref().try_clone().ok();
        let (mailbox, spare) = (Mailbox::new(), Buffers::default());
        let (to, buffers, of) = (mailbox.clone(), spare.clone(), place.clone());
        let received = Received { to, buffers, log };
        thread::spawn(move || {
            if is_chunked {
                let chunks = Chunks { from: answer.rest, left: 0, is_first: true };
                receive(BufReader::with_capacity(256 << 10, chunks), &received, of);
            } else {
                receive(answer.rest, &received, of);
            }
        });
        Self {
            mailbox,
            spare,
            connection,
            jpegs: Jpegs::new(is_gray),
            damaged: 0,
            dropped: 0,
            place,
        }
    }
}

/// Where received pictures go.
struct Received {
    to: Mailbox<Compressed, SourceError>,
    buffers: Buffers,
    log: Option<PictureChannel>,
}

fn receive(mut from: impl io::BufRead, received: &Received, place: String) {
    let Received { to, buffers: spare, log } = received;
    let mut frames = 0_u64;
    while !to.is_left() {
        let mut part = spare.take();
        let mut began = 0;
        match next_part(&mut from, &mut part, || began = now_ns()) {
            Ok(true) => {
                frames += 1;
                let received_ns = now_ns();
                let times = FrameTimes {
                    capture_ns: began,
                    received_ns,
                    time_source: TimeSource::Arrival,
                    ..FrameTimes::default()
                };
                to.saw(|| {
                    format!("{frames} parts were received, the last one of {} bytes", part.len())
                });
                if let Some(log) = log {
                    log.put(&Coding::Jpeg, began, &part);
                }
                if let Some((before, _)) = to.put((part, times)) {
                    spare.put(before);
                }
            }
            Ok(false) => {
                let why = format!("after {frames} pictures");
                return to.end(SourceError::Disconnected { place, why });
            }
            Err(why) if why.kind() == io::ErrorKind::InvalidData => {
                return to.end(SourceError::NoStream { place, why: why.to_string() });
            }
            Err(why) => return to.end(lost(&place, MOST_SILENCE)(why)),
        }
    }
}

impl Drop for MjpegSource {
    fn drop(&mut self) {
        self.mailbox.leave();
        if let Some(connection) = &self.connection {
            // Its thread waits for bytes.
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Source for MjpegSource {
    fn next(&mut self, patience: Duration) -> Result<Option<Captured<'_>>, SourceError> {
        let Some(((bytes, mut times), dropped)) = self.mailbox.take(patience)? else {
            return Ok(None);
        };
        self.dropped += dropped;
        let decoded = self.jpegs.decode(&bytes);
        self.spare.put(bytes);
        if let Err(why) = decoded {
            self.damaged += 1;
            self.dropped += 1;
            if self.damaged >= MOST_DAMAGED {
                let (place, count) = (self.place.clone(), self.damaged);
                return Err(SourceError::Undecodable { place, count, why });
            }
            self.mailbox.saw(|| format!("{} pictures in a row were damaged: {why}", self.damaged));
            return Ok(None);
        }
        self.damaged = 0;
        times.decoded_ns = now_ns();
        times.dropped_before = std::mem::take(&mut self.dropped);
        Ok(Some(Captured { picture: self.jpegs.picture(), times }))
    }

    fn description(&self) -> Description {
        let decoder = "MJPEG, decoded in this process by zune-jpeg".to_owned();
        Description { address: self.place.clone(), decoder }
    }

    fn seen(&self) -> String {
        self.mailbox.seen()
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_of_a_chunk_may_follow_blanks() {
        let from = &b"3 ; a=b\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"[..];
        let mut text = String::new();
        Chunks { from, left: 0, is_first: true }.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcde");
    }
}
