//! Where machines leave what others need: workflows, conversations, files, journals of long runs.
//!
//! A store in a folder waits for the disk in threads that cannot be ended, and a shared disk that hangs keeps them for ever. So all
//! calls are made in a runtime of their own, and what the worker writes on its own disk does not wait behind them.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, PutPayload};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::host::runtime;

/// How long a call may take. For S3 the library gives up a little earlier: it tries a call again for three minutes. A folder
/// on a disk that does not answer has no other limit.
const LONGEST_CALL: Duration = Duration::from_secs(4 * 60);

/// How long one request to S3 may take. The library's own limit is too short for hundreds of megabytes.
const LONGEST_REQUEST: &str = "120s";

/// A store of blobs below an address: `file:///shared/folder`, `s3://bucket/prefix`, `memory:///`. Access keys of S3 come from
/// the environment (`AWS_ACCESS_KEY_ID` and so on).
#[derive(Clone, Debug)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

/// A blob is longer than was expected.
#[derive(Debug)]
pub struct TooLong {
    key: String,
    most: u64,
}

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has more than {} bytes", self.key, self.most)
    }
}

impl std::error::Error for TooLong {}

impl Blobs {
    /// Opens the store at an address, or the one of this user on this machine.
    pub fn open(address: Option<&str>) -> anyhow::Result<Self> {
        let address = match address {
            Some(address) => address.to_owned(),
            None => format!("file://{}", own_folder()?.display()),
        };
        let url = url::Url::parse(&address).with_context(|| format!("`{address}` is no address"))?;
        if url.scheme() == "file" {
            let folder = url.to_file_path().ok().with_context(|| format!("`{address}` is no folder"))?;
            // The store of this user is for no one else; one that is shared has the permissions that it was made with.
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let variables = std::env::vars().filter(|(name, _)| name.starts_with("AWS_"));
        let variables = variables.map(|(name, value)| (name.to_ascii_lowercase(), value));
        // What comes later counts, so `AWS_TIMEOUT` chooses another limit.
        let variables = std::iter::once(("timeout".to_owned(), LONGEST_REQUEST.to_owned())).chain(variables);
        let (store, prefix) = object_store::parse_url_opts(&url, variables)
            .with_context(|| format!("cannot open the blob store {address}"))?;
        Ok(Self { store: Arc::from(store), prefix })
    }

    pub async fn put(&self, key: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        let put = in_time(async move { store.put(&path, PutPayload::from(bytes)).await }).await;
        put.map(drop).with_context(|| format!("cannot write {key}"))
    }

    pub async fn get(&self, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
        self.get_up_to(key, u64::MAX).await
    }

    /// The same for a blob that may not be longer than `most`.
    pub async fn get_up_to(&self, key: &str, most: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        let got = async move {
            let found = store.get(&path).await?;
            match found.meta.size > most {
                true => Ok(None),
                false => found.bytes().await.map(Some),
            }
        };
        let found = unless_missing(in_time(got).await).with_context(|| format!("cannot read {key}"))?;
        match found {
            Some(Some(bytes)) => Ok(Some(bytes.to_vec())),
            Some(None) => Err(TooLong { key: key.to_owned(), most }.into()),
            None => Ok(None),
        }
    }

    pub async fn has(&self, key: &str) -> anyhow::Result<bool> {
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        let found = unless_missing(in_time(async move { store.head(&path).await }).await);
        Ok(found.with_context(|| format!("cannot look for {key}"))?.is_some())
    }

    /// Removes a blob, if it is there.
    pub async fn remove(&self, key: &str) -> anyhow::Result<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(key));
        let removed = unless_missing(in_time(async move { store.delete(&path).await }).await);
        removed.map(drop).with_context(|| format!("cannot remove {key}"))
    }

    /// Removes everything below a folder.
    pub async fn remove_all(&self, folder: &str) -> anyhow::Result<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(folder));
        let removed = in_time(async move {
            let listed = store.list(Some(&path)).map_ok(|meta| meta.location).boxed();
            store.delete_stream(listed).try_for_each(async |_| Ok(())).await
        });
        removed.await.with_context(|| format!("cannot remove all of {folder}"))
    }

    /// The names of the blobs in a folder, in their order.
    pub async fn list(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let (store, path) = (Arc::clone(&self.store), self.path(folder));
        let listed = in_time(async move { store.list_with_delimiter(Some(&path)).await }).await;
        let listed = listed.with_context(|| format!("cannot list {folder}"))?;
        let names = listed.objects.into_iter().filter_map(|meta| Some(meta.location.filename()?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    fn path(&self, key: &str) -> Path {
        self.prefix.parts().chain(Path::from(key).parts()).collect()
    }
}

/// Makes a call in the runtime for calls. One that takes too long fails.
async fn in_time<T: Send + 'static>(
    call: impl Future<Output = object_store::Result<T>> + Send + 'static,
) -> object_store::Result<T> {
    let mut call = Call(calls()?.spawn(call));
    let late = |_| failed(format!("no answer within {} s", LONGEST_CALL.as_secs()));
    tokio::time::timeout(LONGEST_CALL, &mut call.0).await.map_err(late)?.map_err(failed)?
}

/// The runtime for calls.
fn calls() -> object_store::Result<&'static Runtime> {
    static CALLS: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let calls = CALLS.get_or_init(|| {
        let mut kind = Builder::new_multi_thread();
        kind.worker_threads(1);
        runtime(kind)
    });
    calls.as_ref().map_err(|error| failed(error.to_string()))
}

/// A call that is given up when it is not waited for any more.
struct Call<T>(JoinHandle<T>);

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn failed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "blobs", source: why.into() }
}

fn unless_missing<T>(found: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn own_folder() -> anyhow::Result<PathBuf> {
    let state = raymond::config::user_state_folder().context("there is no home folder; say --blobs")?;
    Ok(state.join("blobs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn keeps_what_it_is_given(blobs: Blobs) {
        assert_eq!(blobs.get("runs/a/2").await.unwrap(), None);
        assert!(!blobs.has("runs/a/2").await.unwrap());
        blobs.put("runs/a/2", b"two".to_vec()).await.unwrap();
        blobs.put("runs/a/1", b"one".to_vec()).await.unwrap();
        blobs.put("runs/a/1", b"uno".to_vec()).await.unwrap();
        assert!(blobs.has("runs/a/2").await.unwrap());
        assert_eq!(blobs.get("runs/a/1").await.unwrap().as_deref(), Some(&b"uno"[..]));
        assert_eq!(blobs.get_up_to("runs/a/1", 3).await.unwrap().as_deref(), Some(&b"uno"[..]));
        assert!(blobs.get_up_to("runs/a/1", 2).await.unwrap_err().is::<TooLong>());
        assert_eq!(blobs.list("runs/a").await.unwrap(), ["1", "2"]);
        blobs.remove("runs/a/1").await.unwrap();
        blobs.remove("runs/a/1").await.unwrap();
        assert_eq!(blobs.list("runs/a").await.unwrap(), ["2"]);
        for key in ["runs/a/b/3", "runs/a/b/c/4", "runs/ab/5"] {
            blobs.put(key, b"more".to_vec()).await.unwrap();
        }
        blobs.remove_all("runs/a").await.unwrap();
        blobs.remove_all("runs/a").await.unwrap();
        assert!(!blobs.has("runs/a/2").await.unwrap() && !blobs.has("runs/a/b/c/4").await.unwrap());
        assert!(blobs.has("runs/ab/5").await.unwrap());
    }

    #[tokio::test]
    async fn in_a_folder_and_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("file://{}/not/made/yet", folder.path().display());
        keeps_what_it_is_given(Blobs::open(Some(&address)).unwrap()).await;
        keeps_what_it_is_given(Blobs::open(Some("memory:///")).unwrap()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_never_answered_fails() {
        let error = in_time(std::future::pending::<object_store::Result<()>>()).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 240 s"), "{error}");
    }

    /// What waits for the disk in a runtime has few threads, and a store that hangs must not use them up.
    #[test]
    fn a_store_that_hangs_keeps_no_threads_of_others() {
        let mut kind = Builder::new_current_thread();
        let here = kind.enable_all().max_blocking_threads(1).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let blobs = Blobs::open(Some(&format!("file://{}", folder.path().display()))).unwrap();
        here.block_on(async {
            // Nothing is ever written into the pipe, so it cannot even be opened.
            let hangs = async { blobs.get("pipe").await };
            let done = async { tokio::task::spawn_blocking(|| "done").await.unwrap() };
            tokio::select! {
                biased;
                _ = hangs => panic!("it does not hang"),
                said = done => assert_eq!(said, "done"),
            }
        });
        // The thread that waits is let go.
        drop(std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
    }

    #[test]
    fn a_mistake_in_an_address_is_named() {
        let error = Blobs::open(Some("nowhere")).unwrap_err();
        assert!(format!("{error:#}").contains("`nowhere` is no address"), "{error:#}");
    }
}
