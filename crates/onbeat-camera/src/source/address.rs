//! Addresses of sources.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use onbeat_control::frames::MOST_SIDE;
use url::{Position, Url};

use super::error::SourceError;

/// Smallest and largest rate, in pictures a second; a smaller one would be shown as 0.
const LEAST_RATE: f64 = 0.001;
const MOST_RATE: f64 = 1000.0;

/// What follows the rate for pictures with a moving disc.
const MARKER: &str = "+marker";

/// Names before passwords where cameras take them in the path or the query.
const SECRETS: [&str; 6] = ["password=", "passwd=", "pwd=", "pass=", "pas=", "psw="];
/// How a password is written.
const ENCODED: &str = "in a user name or password, #, / and ? are written %23, %2F and %3F";

/// A generated picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestPicture {
    pub width: u32,
    pub height: u32,
    /// Distance of two pictures, in ns.
    pub period_ns: u64,
    /// Whether a bright disc moves over dark gradients, for programs that track one.
    pub has_marker: bool,
}

/// A video device of the kernel, and what is asked of it: `/dev/video0@1280x720@30+mjpeg`.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoDevice {
    /// Its file.
    pub path: PathBuf,
    /// Width and height in pixels; as it is set where none is asked for.
    pub size: Option<(u32, u32)>,
    /// Pictures a second.
    pub rate: Option<f64>,
    /// Format by ffmpeg's name, such as `mjpeg` or `yuyv422`; the first of those that are not compressed otherwise.
    pub format: Option<String>,
}

impl fmt::Display for VideoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((width, height)) = self.size {
            write!(f, "@{width}x{height}")?;
        }
        if let Some(rate) = self.rate {
            write!(f, "@{rate}")?;
        }
        self.format.as_ref().map_or(Ok(()), |format| write!(f, "+{format}"))
    }
}

/// Where pictures come from.
///
/// ```
/// use onbeat_camera::source::Address;
///
/// let door: Address = "rtsp://admin:secret@10.0.0.5/stream".parse()?;
/// assert_eq!(door.to_string(), "rtsp://10.0.0.5/stream");
/// assert!("test:0x1@30".parse::<Address>().is_err());
/// # Ok::<(), onbeat_camera::source::SourceError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Address {
    /// A generated picture.
    Test(TestPicture),
    /// A camera with RTSP.
    Rtsp(Url),
    /// A camera with MJPEG over HTTP.
    Http(Url),
    /// A video device of the kernel.
    Device(VideoDevice),
    /// A recording.
    File(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(TestPicture { width, height, period_ns, has_marker }) => {
                let rate = (1e12 / *period_ns as f64).round() / 1e3;
                let marker = if *has_marker { MARKER } else { "" };
                write!(f, "test:{width}x{height}@{rate}{marker}")
            }
            Self::Rtsp(url) | Self::Http(url) => f.write_str(&without_password(url)),
            Self::Device(device) => write!(f, "{device}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Returns an address as it may be shown.
pub(super) fn without_password(url: &Url) -> String {
    let mut shown = url.clone();
    // An address without a host has none.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    let hidden = |field: &str| {
        let lower = field.to_ascii_lowercase();
        let ends = SECRETS.iter().filter_map(|name| Some(lower.find(name)? + name.len()));
        ends.min().map_or_else(|| field.to_owned(), |end| format!("{}…", &field[..end]))
    };
    shown.as_str().split('&').map(hidden).collect::<Vec<_>>().join("&")
}

/// User name and password of an address, decoded.
pub(super) fn credentials(url: &Url) -> Option<(String, String)> {
    (!url.username().is_empty())
        .then(|| (decoded(url.username()), decoded(url.password().unwrap_or_default())))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        // A sign is not one, though a number may begin with it.
        let digits = digits.filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
        match digits.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl FromStr for Address {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let bad = |why| SourceError::BadAddress { given: text.to_owned(), why };
        if let Some(test) = text.strip_prefix("test:") {
            return test_picture(test).map(Self::Test).map_err(bad);
        }
        if text.contains("://") {
            return network(text);
        }
        match text {
            "" => Err(bad("it is empty".to_owned())),
            _ if text.starts_with("/dev/") => video_device(text).map(Self::Device).map_err(bad),
            _ => Ok(Self::File(text.into())),
        }
    }
}

fn network(text: &str) -> Result<Address, SourceError> {
    let url = Url::parse(text);
    let bad = |why: String| {
        let given = text.split_once("://").map_or(text, |(scheme, _)| scheme);
        SourceError::BadAddress { given: format!("{given}://…"), why }
    };
    let has_password = text.contains('@');
    let hint = if has_password { format!("; {ENCODED}") } else { String::new() };
    let url = url.map_err(|why| bad(format!("{why}{hint}")))?;
    // A password that was cut off there: its user would be the host, and its digits the port.
    let is_user = url.host_str().is_some_and(|host| !host.contains(['.', ':']));
    let is_cut = is_user && url.port().is_some() && url[Position::AfterPort..].contains('@');
    if has_password && url.fragment().is_some() || is_cut {
        return Err(bad(ENCODED.to_owned()));
    }
    match url.scheme() {
        "rtsp" | "http" if url.host_str().is_none_or(str::is_empty) => {
            Err(bad("it has no host".to_owned()))
        }
        "rtsp" => Ok(Address::Rtsp(url)),
        "http" => Ok(Address::Http(url)),
        "https" | "rtsps" => Err(bad("TLS is not supported".to_owned())),
        other => Err(bad(format!("{other}:// is not read"))),
    }
}

fn test_picture(text: &str) -> Result<TestPicture, String> {
    let (size, rate) = text.split_once('@').ok_or("the rate is missing, as in test:640x480@30")?;
    let (rate, has_marker) = match rate.strip_suffix(MARKER) {
        Some(rate) => (rate, true),
        None => (rate, false),
    };
    let (width, height) = size_of(size)?;
    let period_ns = (1e9 / rate_of(rate)?).round() as u64;
    Ok(TestPicture { width, height, period_ns, has_marker })
}

fn video_device(text: &str) -> Result<VideoDevice, String> {
    let (rest, format) = match text.split_once('+') {
        Some((rest, format)) => (rest, Some(format.to_owned())),
        None => (text, None),
    };
    let is_word = |it: &String| it.bytes().all(|it| it.is_ascii_alphanumeric()) && !it.is_empty();
    if let Some(format) = format.as_ref().filter(|it| !is_word(it)) {
        return Err(format!("\"{format}\" is not the name of a format, such as mjpeg"));
    }
    let mut parts = rest.splitn(3, '@');
    let path = parts.next().unwrap_or_default().into();
    let size = parts.next().map(size_of).transpose()?;
    let rate = parts.next().map(rate_of).transpose()?;
    Ok(VideoDevice { path, size, rate, format })
}

fn size_of(text: &str) -> Result<(u32, u32), String> {
    let (width, height) = text.split_once(['x', 'X']).ok_or("its size is not WIDTHxHEIGHT")?;
    let side = |digits: &str| {
        let side = digits.parse::<u32>().map_err(|_| format!("\"{digits}\" is not a size"))?;
        let sides = 1..=MOST_SIDE;
        if !sides.contains(&side) {
            return Err(format!("a side has 1 to {MOST_SIDE} pixels, not {side}"));
        }
        Ok(side)
    };
    Ok((side(width)?, side(height)?))
}

fn rate_of(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().map_err(|_| format!("\"{text}\" is not a rate"))?;
    if !(LEAST_RATE..=MOST_RATE).contains(&rate) {
        return Err(format!("a rate is {LEAST_RATE} to {MOST_RATE} pictures a second, not {text}"));
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_what_it_names() {
        let test =
            TestPicture { width: 1920, height: 1080, period_ns: 33_333_333, has_marker: false };
        assert_eq!("test:1920x1080@30".parse::<Address>().unwrap(), Address::Test(test));
        let marked: Address = "test:1920x1080@30+marker".parse().unwrap();
        assert_eq!(marked, Address::Test(TestPicture { has_marker: true, ..test }));
        assert_eq!(marked.to_string(), "test:1920x1080@30+marker");
        let device =
            VideoDevice { path: "/dev/video2".into(), size: None, rate: None, format: None };
        assert_eq!("/dev/video2".parse::<Address>().unwrap(), Address::Device(device.clone()));
        let asked = VideoDevice {
            size: Some((1280, 720)),
            rate: Some(30.0),
            format: Some("mjpeg".to_owned()),
            ..device
        };
        let text = "/dev/video2@1280x720@30+mjpeg";
        assert_eq!(asked.to_string(), text);
        assert_eq!(text.parse::<Address>().unwrap(), Address::Device(asked));
        assert_eq!("a b.mp4".parse::<Address>().unwrap(), Address::File("a b.mp4".into()));
        assert!(matches!("http://h:80/m".parse(), Ok(Address::Http(_))));
    }

    #[test]
    fn what_is_not_an_address_is_refused_by_what_is_wrong_with_it() {
        for (text, why) in [
            ("", "it is empty"),
            ("test:640x480", "the rate is missing"),
            ("test:640@30", "not WIDTHxHEIGHT"),
            ("test:100000x100000@30", "1 to 16384 pixels, not 100000"),
            ("test:640x480@0", "0.001 to 1000 pictures a second, not 0"),
            ("test:640x480@nan", "not nan"),
            ("test:640x480@1e-300", "not 1e-300"),
            ("/dev/video0@30", "not WIDTHxHEIGHT"),
            ("/dev/video0@640x480@30@1", "is not a rate"),
            ("/dev/video0+", "not the name of a format"),
            ("ftp://h/x", "ftp:// is not read"),
            ("file:///a.mp4", "file:// is not read"),
            ("https://h/x", "TLS"),
            ("rtsp://", "it has no host"),
        ] {
            let found = text.parse::<Address>().unwrap_err().to_string();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn a_password_is_never_shown_and_used_as_written() {
        let address: Address = "rtsp://ad%40min:p%3a%2Fw@h/s".parse().unwrap();
        let Address::Rtsp(url) = &address else { panic!("rtsp") };
        assert_eq!(credentials(url), Some(("ad@min".to_owned(), "p:/w".to_owned())));
        assert_eq!(address.to_string(), "rtsp://h/s");
        let Ok(Address::Http(url)) = "http://a:%+5%zz%4@h/".parse() else { panic!("http") };
        assert_eq!(credentials(&url), Some(("a".to_owned(), "%+5%zz%4".to_owned())));
        for (text, shown) in [
            (
                "http://h/videostream.cgi?user=a&pwd=secret&rate=0",
                "http://h/videostream.cgi?user=a&pwd=…&rate=0",
            ),
            ("rtsp://h/user=a_Password=secret_channel=1.sdp", "rtsp://h/user=a_Password=…"),
            ("rtsp://h/cam?channel=1&subtype=0", "rtsp://h/cam?channel=1&subtype=0"),
            ("rtsp://10.0.0.5:554/a@b", "rtsp://10.0.0.5:554/a@b"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in ["rtsp://a:12#secret@h/s", "rtsp://a:12/secret@h/s", "rtsp://a:b#secret@h/s"] {
            let wrong = text.parse::<Address>().unwrap_err().to_string();
            assert!(wrong.contains("%23") && !wrong.contains("secret"), "{wrong}");
        }
        let wrong = "ftp://user:secret@h/x".parse::<Address>().unwrap_err().to_string();
        assert!(!wrong.contains("secret"), "{wrong}");
    }
}
