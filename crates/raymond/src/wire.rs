//! How bytes and shared values are written as text, for values that travel to other machines.
//!
//! Bytes that are text are written as text, so that people can read them, and all others as `{"base64":"…"}`.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written<'a> {
    Text(Cow<'a, str>),
    Bytes { base64: String },
}

impl<'a> From<&'a Vec<u8>> for Written<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Bytes { base64: BASE64_STANDARD.encode(bytes) },
        }
    }
}

impl TryFrom<Written<'_>> for Vec<u8> {
    type Error = base64::DecodeError;

    fn try_from(written: Written<'_>) -> Result<Self, Self::Error> {
        match written {
            Written::Text(text) => Ok(text.into_owned().into_bytes()),
            Written::Bytes { base64 } => BASE64_STANDARD.decode(base64),
        }
    }
}

/// Bytes.
pub mod bytes {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &Vec<u8>, serializer: S) -> Result<S::Ok, S::Error> {
        Written::from(bytes).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Written::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

/// Files by their names.
pub mod files {
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use super::*;

    type Files = Rc<BTreeMap<String, Vec<u8>>>;

    pub fn serialize<S: Serializer>(files: &Files, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(files.iter().map(|(name, bytes)| (name, Written::from(bytes))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Files, D::Error> {
        let files = BTreeMap::<String, Written<'_>>::deserialize(deserializer)?;
        let files: Result<BTreeMap<_, _>, _> =
            files.into_iter().map(|(name, bytes)| Ok((name, bytes.try_into()?))).collect();
        files.map(Rc::new).map_err(|error: base64::DecodeError| D::Error::custom(error))
    }
}

/// A value that others have, too. Each that is read has its own.
pub mod shared {
    use std::rc::Rc;

    use super::*;

    pub fn serialize<T: Serialize, S: Serializer>(shared: &Rc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        shared.as_ref().serialize(serializer)
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Rc<T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        T::deserialize(deserializer).map(Rc::new)
    }
}

/// Variables of an environment, with what they are set to or none if they are removed. Machines may differ in how they
/// write what is no Unicode, so such variables cannot travel.
pub mod variables {
    use std::ffi::OsString;

    use serde::ser::Error as _;

    use super::*;

    type Variables = Vec<(OsString, Option<OsString>)>;

    pub fn serialize<S: Serializer>(variables: &Variables, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = Vec::with_capacity(variables.len());
        for (name, value) in variables {
            let text = |part: &'_ OsString| match part.to_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(S::Error::custom(format!("the variable {} is not Unicode", name.display()))),
            };
            written.push((text(name)?, value.as_ref().map(text).transpose()?));
        }
        written.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Variables, D::Error> {
        let variables = Vec::<(String, Option<String>)>::deserialize(deserializer)?;
        Ok(variables.into_iter().map(|(name, value)| (name.into(), value.map(OsString::from))).collect())
    }
}
