//! What becomes of a delivery, and how the server is told.

use temporalio_client::errors::AsyncActivityError;
use temporalio_client::{AsyncActivityHandle, Client, RpcOptions};

use super::heart::Pulse;
use super::steps::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::messages::Delivered;

/// What became of an attempt.
pub enum End {
    Report(Delivered),
    /// It was cancelled before it had begun.
    Cancelled,
    /// The server does not want to know.
    Nothing,
}

pub fn before_it_began(pulse: Pulse) -> End {
    if pulse == Pulse::Cancelled { End::Cancelled } else { End::Nothing }
}

/// Reports until the server has it, or does not want it any more.
pub async fn report(handle: &AsyncActivityHandle<Client>, end: End) {
    let (mut pause, mut is_first) = (FIRST_PAUSE, true);
    let end = match end {
        End::Report(delivered) => match serde_json::to_value(&delivered) {
            Ok(value) => Some(value),
            Err(_) => return,
        },
        End::Cancelled => None,
        End::Nothing => return,
    };
    loop {
        let options = RpcOptions::builder().timeout(LONGEST_PAUSE).build();
        let told = match &end {
            Some(result) => handle.complete(Some(result.clone()), options).await,
            None => handle.report_cancelation(None::<bool>, options).await,
        };
        match told {
            Ok(()) | Err(AsyncActivityError::NotFound(_)) => return,
            Err(AsyncActivityError::Rpc(_)) if is_first => {
                eprintln!("raymond: a result waits for the server")
            }
            Err(_) => {}
        }
        is_first = false;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
