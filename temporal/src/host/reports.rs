//! The texts that steps are handed and hand on, which are in the store of blobs and not in orders and reports.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use raymond::run::hosted::{StepOrder, StepReport};
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;

use super::heart::Heart;
use super::steps::{FIRST_PAUSE, LONGEST_PAUSE, Steps, in_time};
use crate::messages::Delivery;
use crate::packed::{MOST_BYTES, Packed};
use crate::texts::Texts;

/// How long the store of blobs may be away before a step fails whose texts it has to keep.
const LONGEST_KEEPING: Duration = Duration::from_secs(10 * 60);
/// Texts that are longer are kept in the store: at first those that are too long for an event, as in a local run, and if
/// the report is still too long for a message, shorter ones too.
const LONGEST_TEXTS: [usize; 2] = [MAX_INLINE_PAYLOAD_BYTES, 1024];

impl Steps {
    /// The order, with the texts that the step is handed.
    pub(super) async fn with_texts(&self, order: &StepOrder) -> anyhow::Result<StepOrder> {
        let texts = self.texts_of(order);
        let found = texts.missing_in(&order.payloads, order.agent.needed_payloads()).await?;
        let mut order = order.clone();
        order.payloads.extend(found);
        Ok(order)
    }

    /// The report as it is sent. Its long texts are in the store then. If that is not possible, the step fails.
    pub(super) async fn packed(
        &self,
        delivery: &Delivery,
        order: &StepOrder,
        mut report: StepReport,
        heart: &mut Heart,
    ) -> anyhow::Result<Packed<StepReport>> {
        for longest in LONGEST_TEXTS {
            if delivery.keeps_texts {
                let texts = report.take_texts(longest)?;
                if let Err(error) = self.keep_texts(order, &texts, heart).await {
                    let error = format!("what it hands on could not be kept in the blob store: {error:#}");
                    return Packed::new(&StepReport::not_sent(&order.plan, error, &report));
                }
            }
            let packed = Packed::new(&report)?;
            if packed.bytes() <= MOST_BYTES {
                return Ok(packed);
            }
        }
        let error = format!("it hands on more than a message of the engine holds ({MOST_BYTES} bytes)");
        Packed::new(&StepReport::not_sent(&order.plan, error, &report))
    }

    /// Keeps texts, which takes as long as the store is away.
    async fn keep_texts(
        &self,
        order: &StepOrder,
        texts: &BTreeMap<String, String>,
        heart: &mut Heart,
    ) -> anyhow::Result<()> {
        let store = self.texts_of(order);
        let keep = async || {
            for text in texts.values() {
                store.keep(text).await?;
            }
            anyhow::Ok(())
        };
        let last = RefCell::new(None);
        let keeping = async {
            let mut pause = FIRST_PAUSE;
            while let Err(error) = keep().await {
                let is_first = last.replace(Some(error)).is_none();
                if let Some(error) = last.borrow().as_ref().filter(|_| is_first) {
                    eprintln!(
                        "raymond: {}: its texts wait for the blob store: {error:#}",
                        order.started.state
                    );
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Ok(())
        };
        let kept = in_time(LONGEST_KEEPING, keeping, self.asked_to_stop(heart)).await;
        kept.map_err(|late| last.take().map_or(late, |error| error))
    }

    fn texts_of(&self, order: &StepOrder) -> Texts {
        Texts::of(&self.files.blobs, &order.id)
    }
}
