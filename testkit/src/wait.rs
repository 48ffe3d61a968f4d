//! Bounded waits for a condition.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long a wait lasts where the caller has no better idea: long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

const STEP: Duration = Duration::from_millis(10);

/// Polls `probe` until it returns a value. After `timeout` the error names `what`; `probe` is called at least twice.
pub fn until<T>(what: &str, timeout: Duration, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + timeout;
    loop {
        // The clock is read first, so that a long pause of this thread cannot end the wait without a last look.
        let over = Instant::now() >= end;
        if let Some(value) = probe()? {
            return Ok(value);
        }
        if over {
            bail!("{what}: not within {timeout:?}");
        }
        std::thread::sleep(STEP);
    }
}

/// [`until`] for a plain condition.
pub fn until_true(what: &str, timeout: Duration, mut probe: impl FnMut() -> bool) -> Result<()> {
    until(what, timeout, || Ok(probe().then_some(())))
}

/// Polls `probe` until its value is `wanted`, for as long as the value moves: the wait ends with an error that names
/// `what` when one value has stayed for `patience`. For work whose length depends on how busy the machine is.
pub fn while_moving<T: PartialEq + std::fmt::Debug>(
    what: &str,
    patience: Duration,
    wanted: &T,
    mut probe: impl FnMut() -> T,
) -> Result<()> {
    let mut last = probe();
    while last != *wanted {
        let seen = &last;
        let moved = until("a change", patience, || {
            Ok(Some(probe()).filter(|value| value != seen))
        });
        match moved {
            Ok(value) => last = value,
            Err(_) => bail!("{what}: {last:?} for {patience:?}, expected {wanted:?}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_value_and_ends() {
        let mut left = 3;
        let value = until("countdown", PATIENCE, || {
            left -= 1;
            Ok((left == 0).then_some("done"))
        });
        assert_eq!(value.unwrap(), "done");
        let error = until_true("never", Duration::from_millis(20), || false).unwrap_err();
        assert!(error.to_string().starts_with("never: not within"), "{error}");
    }

    #[test]
    fn a_value_that_moves_may_take_long_and_one_that_stays_may_not() {
        let mut left = 5;
        let patience = Duration::from_millis(40);
        while_moving("countdown", patience, &0, || {
            std::thread::sleep(Duration::from_millis(15));
            left -= 1;
            left
        })
        .unwrap();
        let error = while_moving("stuck", patience, &0, || 3).unwrap_err();
        assert_eq!(error.to_string(), "stuck: 3 for 40ms, expected 0");
    }
}
