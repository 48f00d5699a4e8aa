//! The long texts of runs, in the store of blobs.
//!
//! What passes from state to state may be 8 MiB long, and a message of the server holds 2 MB. So long texts never go
//! through the server. A text lies in the store as `runs/RUN/texts/HASH`, and only a reference to it travels. It is there
//! before anything names it.

use std::collections::BTreeMap;
use std::fmt;

use raymond::store::reference_to;
use raymond_core::event::Body;
use raymond_core::join;
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use raymond_core::payload::Payload;

use crate::blobs::Blobs;
use crate::bundle::hash_of;
use crate::messages::JoinPart;

/// The long texts of one run.
#[derive(Clone, Debug)]
pub struct Texts {
    blobs: Blobs,
    run: String,
}

/// Why a text cannot be read.
#[derive(Debug)]
pub enum NoText {
    /// The store does not answer.
    Away(anyhow::Error),
    /// It is not there, or is another text.
    Missing(String),
}

impl fmt::Display for NoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(error) => write!(f, "{error:#}"),
            Self::Missing(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoText {}

impl Texts {
    pub fn of(blobs: &Blobs, run: &str) -> Self {
        Self { blobs: blobs.clone(), run: run.to_owned() }
    }

    /// Keeps a text for good, and returns a reference to it.
    pub async fn keep(&self, text: &str) -> anyhow::Result<Payload> {
        let reference = reference_to(text)?;
        if let Payload::Stored { payload: hash, .. } = &reference {
            let key = self.key(hash);
            // What a state only passes on is there already.
            if !self.blobs.has(&key).await? {
                self.blobs.put(&key, text.as_bytes().to_vec()).await?;
            }
        }
        Ok(reference)
    }

    /// Keeps a text that is too long for an event.
    pub async fn keep_if_long(&self, text: String) -> anyhow::Result<Payload> {
        match text.len() > MAX_INLINE_PAYLOAD_BYTES {
            true => self.keep(&text).await,
            false => Ok(text.into()),
        }
    }

    /// The text with a hash, checked to be that text.
    pub async fn get(&self, hash: &str) -> Result<String, NoText> {
        let key = self.key(hash);
        let found = self.blobs.get(&key).await.map_err(NoText::Away)?;
        let bytes = found.ok_or_else(|| {
            NoText::Missing(format!("{key} is not in the blob store; all machines need the same `--blobs`"))
        })?;
        let text = String::from_utf8(bytes).ok().filter(|text| hash_of(text.as_bytes()) == hash);
        text.ok_or_else(|| NoText::Missing(format!("{key} in the blob store is not what was written")))
    }

    pub async fn text_of(&self, payload: &Payload) -> Result<String, NoText> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Stored { payload: hash, .. } => self.get(hash).await,
        }
    }

    /// Those of the texts that `known` does not have, by their hashes.
    pub async fn missing_in(
        &self,
        known: &BTreeMap<String, String>,
        named: impl Iterator<Item = &Payload>,
    ) -> Result<BTreeMap<String, String>, NoText> {
        let mut found = BTreeMap::new();
        for payload in named {
            if let Payload::Stored { payload: hash, .. } = payload
                && !known.contains_key(hash)
            {
                found.insert(hash.clone(), self.get(hash).await?);
            }
        }
        Ok(found)
    }

    /// Keeps the long texts of a run's first events, and leaves references in these.
    pub async fn keep_those_of(&self, opening: &mut [Body]) -> anyhow::Result<()> {
        for payload in opening.iter_mut().flat_map(Body::payloads_mut) {
            if let Some(text) = payload.oversized() {
                *payload = self.keep(text).await?;
            }
        }
        Ok(())
    }

    /// Adds the results of workers to those that were put together before. An inner error is one of the workflow.
    pub async fn join(&self, part: JoinPart) -> anyhow::Result<Result<Payload, String>> {
        let JoinPart { before, workers, count, .. } = part;
        let before = match before {
            Some(before) => self.text_of(&before).await?,
            None => join::EMPTY.to_owned(),
        };
        let workers = workers.open()?;
        // The texts are read one after the other, and not more of them than may be handed over.
        let (texts, runtime) = (self.clone(), tokio::runtime::Handle::current());
        let joined = tokio::task::spawn_blocking(move || {
            join::extend(before, workers, count, |payload| runtime.block_on(texts.text_of(payload)))
        });
        match joined.await?? {
            Ok(array) => Ok(Ok(self.keep_if_long(array).await?)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn key(&self, hash: &str) -> String {
        format!("runs/{}/texts/{hash}", self.run)
    }
}

#[cfg(test)]
mod tests {
    use raymond_core::join::Joined;
    use serde_json::json;

    use super::*;
    use crate::packed::Packed;

    fn store() -> (Blobs, Texts) {
        let blobs = Blobs::open(Some("memory:///")).unwrap();
        let texts = Texts::of(&blobs, "r");
        (blobs, texts)
    }

    fn worker(name: &str, result: &Payload) -> Joined {
        let worker = json!({
            "agent": name, "state": "W.sh", "attributes": {}, "status": "done", "result": result, "error": null,
        });
        serde_json::from_value(worker).unwrap()
    }

    #[tokio::test]
    async fn results_are_put_together_part_by_part() {
        let (_, texts) = store();
        let long = texts.keep(&"x".repeat(100_000)).await.unwrap();
        let part = |before: Option<Payload>, worker: Joined| JoinPart {
            run: "r".to_owned(),
            count: 3,
            before,
            workers: Packed::new(&vec![worker]).unwrap(),
        };
        let first = texts.join(part(None, worker("a", &"short".into()))).await.unwrap().unwrap();
        assert!(first.text().is_some(), "it is short enough for an event");
        let both = texts.join(part(Some(first), worker("b", &long))).await.unwrap().unwrap();
        let array: serde_json::Value = serde_json::from_str(&texts.text_of(&both).await.unwrap()).unwrap();
        assert_eq!(
            (&array[0]["result"], array[1]["result"].as_str().map(str::len)),
            (&"short".into(), Some(100_000))
        );
        let missing = Payload::Stored { payload: "gone".to_owned(), bytes: 4 };
        let error = texts.join(part(Some(both.clone()), worker("c", &missing))).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(NoText::Missing(_))), "{error:#}");
        let huge = Payload::Stored { payload: "gone".to_owned(), bytes: 9_000_000 };
        let error = texts.join(part(Some(both), worker("c", &huge))).await.unwrap().unwrap_err();
        assert!(error.starts_with("the results of 3 workers are longer than 8 MiB"), "{error}");
    }

    #[tokio::test]
    async fn a_text_comes_back_and_what_is_not_that_text_does_not() {
        let (blobs, texts) = store();
        let text = "ä".repeat(100_000);
        let reference = texts.keep(&text).await.unwrap();
        assert_eq!(texts.keep(&text).await.unwrap(), reference);
        assert_eq!(texts.text_of(&reference).await.unwrap(), text);
        let Payload::Stored { payload: hash, .. } = &reference else { panic!("stored") };
        blobs.put(&texts.key(hash), b"another".to_vec()).await.unwrap();
        let error = texts.text_of(&reference).await.unwrap_err();
        assert!(matches!(&error, NoText::Missing(why) if why.contains("not what was written")), "{error}");
        let error = texts.get("unknown").await.unwrap_err();
        assert!(
            matches!(&error, NoText::Missing(why) if why.contains("runs/r/texts/unknown is not")),
            "{error}"
        );
    }
}
