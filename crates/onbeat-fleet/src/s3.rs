//! S3 by signed URLs: `rusty-s3` signs, `ureq` sends.
//!
//! Who asks, and of which store, is in the variables of the environment that other clients of S3 know.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Credentials, S3Action, UrlStyle};
use ureq::http::Response;
use ureq::{Agent, Body, Error as HttpError};

use crate::objects::{Objects, ObjectsError, parts_of};

/// A request of this age is not valid any more.
const SIGNED_FOR: Duration = Duration::from_secs(600);
/// A store that does not take the connection in this time is not there.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Longest time of a request: a run's largest file is a few hundred kB, over a slow line.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);
/// Longest answer that is read: a thousand names, or the file by which a data set is known.
const LONGEST_ANSWER: u64 = 4 << 20;
const USUAL_REGION: &str = "us-east-1";

/// A data set in a bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    root: PathBuf,
    bucket: rusty_s3::Bucket,
    /// Of the data set in the bucket; ends with a slash.
    prefix: String,
    credentials: Credentials,
    agent: Agent,
}

/// The store's word for what is wrong: `<Code>NoSuchBucket</Code>`.
fn code_of(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let code = text.split_once("<Code>").map_or("", |(_, code)| code);
    code.chars().take_while(char::is_ascii_alphanumeric).take(64).collect()
}

impl Bucket {
    /// The bucket of an address, with the credentials and the store of the environment.
    pub(crate) fn from_environment(root: &Path) -> Result<Self, ObjectsError> {
        let wrong = || ObjectsError::Address { path: root.to_owned() };
        let (name, prefix) = parts_of(root).ok_or_else(wrong)?;
        let needed = |variable| {
            set(variable).ok_or_else(|| ObjectsError::Unset { variable, path: root.to_owned() })
        };
        let (key, secret) = (needed("AWS_ACCESS_KEY_ID")?, needed("AWS_SECRET_ACCESS_KEY")?);
        let credentials = match set("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| USUAL_REGION.to_owned());
        let own = set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL"));
        // A name with a dot has no certificate of its own; stores of others rarely have names of hosts for buckets.
        let style = if own.is_some() || name.contains('.') {
            UrlStyle::Path
        } else {
            UrlStyle::VirtualHost
        };
        let endpoint = own.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let url = endpoint.parse().ok();
        let bucket =
            url.and_then(|url| rusty_s3::Bucket::new(url, style, name.to_owned(), region).ok());
        let bucket = bucket.ok_or(ObjectsError::Endpoint { endpoint })?;
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(ANSWER_WITHIN))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("onbeat/", env!("CARGO_PKG_VERSION")))
            .build();
        let prefix = format!("{prefix}/");
        Ok(Self { root: root.to_owned(), bucket, prefix, credentials, agent: config.into() })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn endpoint(&self) -> String {
        self.bucket.base_url().origin().ascii_serialization()
    }

    /// Reads an answer; `None` says that there is no such object.
    fn answer(
        &self,
        (what, name): (&'static str, &str),
        sent: Result<Response<Body>, HttpError>,
    ) -> Result<Option<Vec<u8>>, ObjectsError> {
        let (path, endpoint) = (self.root.join(name), self.endpoint());
        let read = sent.and_then(|mut response| {
            let body = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec()?;
            Ok((response.status().as_u16(), body))
        });
        let (status, body) = match read {
            Ok(answer) => answer,
            Err(why) => {
                return Err(ObjectsError::NoAnswer { what, path, endpoint, why: sentence(&why) });
            }
        };
        let code = code_of(&body);
        match (status, code.as_str()) {
            (200..=299, _) => Ok(Some(body)),
            (404, "NoSuchKey") => Ok(None),
            (404, "NoSuchBucket") => {
                Err(ObjectsError::NoBucket { endpoint, bucket: self.bucket.name().to_owned() })
            }
            (401 | 403, _) => Err(ObjectsError::Refused { what, path, endpoint, code }),
            _ => Err(ObjectsError::Answer { what, path, endpoint, status, code }),
        }
    }
}

fn set(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// What a client's error is, without its own names for it.
fn sentence(why: &HttpError) -> String {
    match why {
        HttpError::Io(why) if why.kind() == ErrorKind::ConnectionRefused => {
            "connection refused".to_owned()
        }
        HttpError::Io(why) => why.to_string(),
        other => other.to_string(),
    }
}

impl Objects for Bucket {
    fn names(&self, beginning: &str) -> Result<Vec<String>, ObjectsError> {
        let prefix = self.key(beginning);
        let mut list = self.bucket.list_objects_v2(Some(&self.credentials));
        list.with_prefix(prefix.as_str());
        let url = list.sign(SIGNED_FOR);
        let answer = self.answer(("list", beginning), self.agent.get(url.as_str()).call())?;
        let page = ListObjectsV2::parse_response(&answer.unwrap_or_default());
        let page = page.map_err(|why| ObjectsError::NoAnswer {
            what: "list",
            path: self.root.join(beginning),
            endpoint: self.endpoint(),
            why: format!("its list cannot be read: {why}"),
        })?;
        let keys = page.contents.into_iter().map(|one| one.key);
        Ok(keys.filter_map(|key| Some(key.strip_prefix(&self.prefix)?.to_owned())).collect())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectsError> {
        let key = self.key(name);
        let url = self.bucket.get_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        self.answer(("read", name), self.agent.get(url.as_str()).call())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ObjectsError> {
        let key = self.key(name);
        let url = self.bucket.put_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        let answer = self.answer(("write", name), self.agent.put(url.as_str()).send(bytes))?;
        // Not written, whatever the store means by it.
        answer.map(|_| ()).ok_or_else(|| ObjectsError::Answer {
            what: "write",
            path: self.root.join(name),
            endpoint: self.endpoint(),
            status: 404,
            code: String::new(),
        })
    }

    fn remove(&self, name: &str) -> Result<(), ObjectsError> {
        let key = self.key(name);
        let url = self.bucket.delete_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        self.answer(("remove", name), self.agent.delete(url.as_str()).call()).map(|_| ())
    }
}
