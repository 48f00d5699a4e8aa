//! Where an engine is.

use std::fmt;

use crate::config::EngineSettings;

/// The scheme of addresses, and what stands for parts that are left out.
const SCHEME: &str = "temporal://";
const DEFAULT_PORT: u16 = 7233;
const DEFAULT_NAMESPACE: &str = "default";
const DEFAULT_QUEUE: &str = "raymond";

/// `temporal://HOST:PORT/NAMESPACE?queue=QUEUE&blobs=URL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
    pub namespace: String,
    pub queue: String,
    /// Where workflows, conversations and files lie that machines hand to each other.
    pub blobs: Option<String>,
}

impl Address {
    /// Of a `HOST:PORT`, with everything else as it is by default.
    pub fn of_server(server: &str) -> Result<Self, String> {
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') => {
                let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
                (host, port)
            }
            _ => (server, DEFAULT_PORT),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(format!("`{host}` is not the name of a machine"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            queue: DEFAULT_QUEUE.to_owned(),
            blobs: None,
        })
    }

    /// Reads an address as it is written after `--on` and in config.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "an address is temporal://HOST:PORT/NAMESPACE?queue=QUEUE";
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| format!("`{text}` is no address; {example}"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, namespace) = place.split_once('/').unwrap_or((place, ""));
        let mut address = Self::of_server(server).map_err(|error| format!("{error}; {example}"))?;
        if !namespace.is_empty() {
            address.namespace = name("namespace", namespace)?;
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("queue", queue)) => address.queue = name("queue", queue)?,
                Some(("blobs", blobs)) if !blobs.is_empty() => address.blobs = Some(blobs.to_owned()),
                _ => {
                    return Err(format!(
                        "`{pair}` means nothing in an address; there are `queue` and `blobs`"
                    ));
                }
            }
        }
        Ok(address)
    }

    /// The engine that `[engine.NAME]` describes.
    pub fn of_settings(settings: &EngineSettings) -> Result<Self, String> {
        let mut address = Self::parse(&settings.url)?;
        if let Some(queue) = &settings.queue {
            address.queue = name("queue", queue)?;
        }
        address.blobs = settings.blobs.clone().or(address.blobs);
        Ok(address)
    }

    /// `HOST:PORT`.
    pub fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Names go into addresses and messages as they are.
fn name(what: &str, text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match !text.is_empty() && text.len() <= 200 && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` cannot be a {what}; use letters, digits, `.`, `_` and `-`")),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, namespace, queue, blobs } = self;
        write!(f, "{SCHEME}{host}:{port}/{namespace}?queue={queue}")?;
        blobs.as_ref().map_or(Ok(()), |blobs| write!(f, "&blobs={blobs}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let all = "temporal://t.example:7000/team?queue=big&blobs=s3://bucket/x";
        assert_eq!(Address::parse(all).unwrap().to_string(), all);
        let short = Address::parse("temporal://localhost").unwrap();
        assert_eq!(short.to_string(), "temporal://localhost:7233/default?queue=raymond");
        assert_eq!(Address::parse("temporal://[::1]:7000").unwrap().server(), "[::1]:7000");
    }

    #[test]
    fn a_mistake_in_an_address_is_named() {
        for (text, error) in [
            ("localhost:7233", "is no address"),
            ("temporal://", "is not the name of a machine"),
            ("temporal://a b", "is not the name of a machine"),
            ("temporal://h:x", "`x` is not a port"),
            ("temporal://h/a/b", "cannot be a namespace"),
            ("temporal://h?color=red", "means nothing"),
            ("temporal://h?queue=", "cannot be a queue"),
        ] {
            let said = Address::parse(text).unwrap_err();
            assert!(said.contains(error), "{text}: {said}");
        }
    }
}
