//! Money as whole billionths of a dollar, so that sums of many turns are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_DOLLAR: f64 = 1e9;

/// An amount in US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema)]
pub struct Usd(#[schemars(with = "f64")] i64);

impl Usd {
    pub const ZERO: Usd = Usd(0);

    /// Converts an amount in dollars; a value that is not finite becomes zero.
    pub fn from_dollars(dollars: f64) -> Self {
        if dollars.is_finite() { Self((dollars * NANOS_PER_DOLLAR).round() as i64) } else { Self::ZERO }
    }

    /// A budget in dollars. Zero means unlimited, so a budget that is too small to count becomes the smallest amount.
    pub fn budget(dollars: f64) -> Self {
        let amount = Self::from_dollars(dollars);
        if amount.is_zero() && dollars > 0.0 { Self(1) } else { amount }
    }

    pub const fn cent() -> Self {
        Self(10_000_000)
    }

    pub const fn millionth() -> Self {
        Self(1_000)
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR
    }

    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// An equal part of the amount, rounded down; a division by zero gives the whole amount.
    pub fn divided_by(self, parts: usize) -> Self {
        Self(self.0 / i64::try_from(parts.max(1)).unwrap_or(i64::MAX))
    }

    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }
}

impl Add for Usd {
    type Output = Usd;
    fn add(self, other: Usd) -> Usd {
        Usd(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Usd) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Usd;
    fn sub(self, other: Usd) -> Usd {
        Usd(self.0.saturating_sub(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Usd>>(iter: I) -> Usd {
        iter.fold(Usd::ZERO, Add::add)
    }
}

/// Shows cents, or more digits where cents would show zero.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.dollars();
        if self.is_zero() || dollars.abs() >= 0.01 {
            write!(f, "${dollars:.2}")
        } else {
            write!(f, "${dollars:.4}")
        }
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Usd::from_dollars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_add_up_exactly() {
        let total: Usd = (0..10).map(|_| Usd::from_dollars(0.1)).sum();
        assert_eq!(total, Usd::from_dollars(1.0));
        assert_eq!(serde_json::to_string(&(Usd::from_dollars(0.1) + Usd::from_dollars(0.2))).unwrap(), "0.3");
    }

    #[test]
    fn amounts_are_shown_in_cents_or_with_more_digits() {
        let shown = [0.0, 0.00042, 0.01, 12.5].map(|dollars| Usd::from_dollars(dollars).to_string());
        assert_eq!(shown, ["$0.00", "$0.0004", "$0.01", "$12.50"]);
    }

    #[test]
    fn only_a_budget_of_zero_is_zero() {
        let budgets = [0.0, 1e-10, f64::MIN_POSITIVE, 1e-9, 2.5].map(Usd::budget);
        assert_eq!(budgets, [Usd(0), Usd(1), Usd(1), Usd(1), Usd(2_500_000_000)]);
    }

    #[test]
    fn values_that_are_not_finite_become_zero() {
        assert_eq!(Usd::from_dollars(f64::NAN), Usd::ZERO);
        assert_eq!(Usd::from_dollars(f64::INFINITY), Usd::ZERO);
    }
}
