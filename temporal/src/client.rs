//! The connection to the server.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use raymond::fleet::Address;
use temporalio_client::envconfig::LoadClientConfigProfileOptions;
use temporalio_client::errors::ClientConnectError;
use temporalio_client::{Client, ClientOptions, Connection};

/// The server cannot be reached. What the library says about that is long and tells no more.
#[derive(Debug)]
pub struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server cannot be reached")
    }
}

impl std::error::Error for NoAnswer {}

/// Connects to the server at an address. TLS and keys come from the environment and the config file that all programs
/// of the engine use (`TEMPORAL_TLS_…`, `TEMPORAL_API_KEY`, `TEMPORAL_PROFILE`); address and namespace from here.
pub async fn connect(at: &Address, identity: &str, patience: Duration) -> anyhow::Result<Client> {
    let (mut options, _) = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default())
        .map_err(|error| anyhow::anyhow!("the engine's client configuration cannot be used: {error}"))?;
    let is_secure = options.tls_options.is_some() || options.api_key.is_some();
    let scheme = if is_secure { "https" } else { "http" };
    options.target = format!("{scheme}://{}", at.server()).parse().context("the address cannot be used")?;
    options.identity = identity.to_owned();
    options.connect_timeout = Some(patience);
    let connection = tokio::time::timeout(patience, Connection::connect(options))
        .await
        .map_err(|_| NoAnswer)?
        .map_err(|error| match error {
            ClientConnectError::TonicTransportError(_) | ClientConnectError::SystemInfoCallError(_) => {
                NoAnswer.into()
            }
            other => anyhow::Error::from(other),
        })?;
    Ok(Client::new(connection, ClientOptions::new(at.namespace.clone()).build())?)
}
