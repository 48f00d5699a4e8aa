//! Values that may be long, compressed when they are: an engine's message holds 2 MB at most.

use std::io::{Read, Write};
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of this length is still sent as it is, so that it can be read in the engine's own views.
const PLAIN_BYTES: usize = 64 * 1024;
/// What a message may hold, compressed.
pub const MOST_BYTES: usize = 1_900_000;

/// A value on its way.
#[derive(Debug)]
pub struct Packed<T> {
    form: Form,
    value: PhantomData<T>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Plain(Box<serde_json::value::RawValue>),
    Gzip(String),
}

impl<T: Serialize + DeserializeOwned> Packed<T> {
    pub fn new(value: &T) -> anyhow::Result<Self> {
        let json = serde_json::to_string(value)?;
        let form = match json.len() <= PLAIN_BYTES {
            true => Form::Plain(serde_json::value::RawValue::from_string(json)?),
            false => Form::Gzip(STANDARD.encode(compress(json.as_bytes())?)),
        };
        Ok(Self { form, value: PhantomData })
    }

    pub fn open(&self) -> anyhow::Result<T> {
        Ok(match &self.form {
            Form::Plain(json) => serde_json::from_str(json.get())?,
            Form::Gzip(text) => serde_json::from_slice(&decompress(&STANDARD.decode(text)?)?)?,
        })
    }

    /// How long it is as a message.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Plain(json) => json.get().len(),
            Form::Gzip(text) => text.len(),
        }
    }
}

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        Self { form: self.form.clone(), value: PhantomData }
    }
}

impl<T> Serialize for Packed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.form.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Packed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = Form::deserialize(deserializer).map_err(D::Error::custom)?;
        Ok(Self { form, value: PhantomData })
    }
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn decompress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_values_come_back() {
        for length in [0, PLAIN_BYTES, 10 * PLAIN_BYTES] {
            let value = "x".repeat(length);
            let packed = Packed::new(&value).unwrap();
            let sent = serde_json::to_string(&packed).unwrap();
            let back: Packed<String> = serde_json::from_str(&sent).unwrap();
            assert_eq!(back.open().unwrap(), value);
            assert!(sent.len() < PLAIN_BYTES + 100, "{}", sent.len());
        }
    }
}
