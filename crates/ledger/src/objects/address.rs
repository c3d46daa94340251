//! The address of an object store: a bucket, or a directory that all nodes have.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::LedgerError;

/// Where segments live besides this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsAddress {
    pub(crate) place: ObjectsPlace,
    /// The server to ask instead of Amazon's; the environment may name one as well.
    pub(crate) endpoint: Option<String>,
    /// Requests are not signed: the bucket is open to whoever reaches it.
    pub(crate) is_anonymous: bool,
    /// Bytes of segments that may stay on this machine once they are there, if somebody said so.
    pub(crate) cache_bytes_max: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectsPlace {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: String },
}

impl ObjectsAddress {
    /// Reads `s3://bucket/prefix`, `file:///directory` or an absolute directory. `?endpoint=…`, `anonymous=true` and
    /// `cache_mib=…` may follow.
    pub fn parse(address: &str) -> Result<Self, LedgerError> {
        let invalid = |detail: String| LedgerError::BadObjects { address: address.to_owned(), detail };
        let (base, query) = address.split_once('?').unwrap_or((address, ""));
        let place = place(base).map_err(invalid)?;
        let mut read = Self { place, endpoint: None, is_anonymous: false, cache_bytes_max: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            read.set(pair).map_err(invalid)?;
        }
        Ok(read)
    }

    fn set(&mut self, pair: &str) -> Result<(), String> {
        match pair.split_once('=') {
            Some(("endpoint", url)) if url.starts_with("https://") || url.starts_with("http://") => {
                self.endpoint = Some(url.to_owned());
            }
            Some(("endpoint", url)) => return Err(format!("endpoint is {url:?}: expected https://… or http://…")),
            Some(("anonymous", "true")) => self.is_anonymous = true,
            Some(("cache_mib", mib)) => {
                let mib: Option<u64> = mib.parse().ok().filter(|mib| *mib < 1 << 32);
                self.cache_bytes_max = Some(mib.ok_or("cache_mib is not a number")? << 20);
            }
            _ => return Err(format!("{pair:?} is not known: expected endpoint=…, anonymous=true or cache_mib=…")),
        }
        Ok(())
    }

    /// Without what is each machine's own concern.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

fn place(base: &str) -> Result<ObjectsPlace, String> {
    if let Some(rest) = base.strip_prefix("s3://") {
        return bucket(rest);
    }
    if let Some((scheme, _)) = base.split_once("://").filter(|(scheme, _)| *scheme != "file") {
        return Err(format!("{scheme}:// is not known: expected s3://bucket/prefix, or a directory"));
    }
    let path = Path::new(base.strip_prefix("file://").unwrap_or(base));
    match path.is_absolute() {
        true => Ok(ObjectsPlace::Directory(path.to_owned())),
        false => Err("expected s3://bucket/prefix, or an absolute directory".to_owned()),
    }
}

fn bucket(rest: &str) -> Result<ObjectsPlace, String> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(plain) {
        return Err(format!("the bucket is {bucket:?}: expected 3 to 63 of a-z, 0-9, - and ."));
    }
    let prefix = prefix.trim_matches('/');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = |part: &str| !part.is_empty() && part != "." && part != ".." && part.bytes().all(plain);
    if !prefix.is_empty() && !prefix.split('/').all(is_name) {
        return Err(format!(
            "the prefix is {prefix:?}: expected names of a-z, A-Z, 0-9, -, _ and ., with / between them"
        ));
    }
    Ok(ObjectsPlace::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}

/// As it is remembered and shown. There is no secret in an address: credentials are in the environment.
impl fmt::Display for ObjectsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        match (&self.endpoint, self.is_anonymous) {
            (None, false) => Ok(()),
            (None, true) => f.write_str("?anonymous=true"),
            (Some(endpoint), false) => write!(f, "?endpoint={endpoint}"),
            (Some(endpoint), true) => write!(f, "?endpoint={endpoint}&anonymous=true"),
        }
    }
}

impl fmt::Display for ObjectsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "file://{}", path.display()),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: &str) {
        let found = ObjectsAddress::parse(address);
        let told = found.map(|read| format!("{read} {:?}", read.cache_bytes_max.map(|bytes| bytes >> 20)));
        assert_eq!(told.unwrap_or_else(|error| error.to_string()), expected);
    }

    #[test]
    fn addresses_name_a_bucket_or_a_directory() {
        check("s3://team-bucket", "s3://team-bucket None");
        check("s3://team-bucket/a/b/", "s3://team-bucket/a/b None");
        check("/mnt/a", "file:///mnt/a None");
        check("file:///mnt/a?cache_mib=0", "file:///mnt/a Some(0)");
        check("s3://team?cache_mib=7&endpoint=https://s3.example", "s3://team?endpoint=https://s3.example Some(7)");
    }

    #[test]
    fn what_is_none_is_told() {
        check(
            "gs://bucket",
            "gs://bucket is no address of an object store: gs:// is not known: expected s3://bucket/prefix, or a directory",
        );
        check("mnt", "mnt is no address of an object store: expected s3://bucket/prefix, or an absolute directory");
        check(
            "s3://Team/x",
            "s3://Team/x is no address of an object store: the bucket is \"Team\": expected 3 to 63 of a-z, 0-9, - and .",
        );
        assert!(ObjectsAddress::parse("s3://team/../x").is_err());
        assert!(ObjectsAddress::parse("s3://team?cache=1").is_err());
    }
}
