//! The recovery action of `gpu_recovery_action`, by the driver's release.

/// The action in the numbers of the newest release. `None`: the driver's release does not define it.
pub fn action(number: f64, driver: &str) -> Option<f64> {
    if number != 5.0 {
        return Some(number);
    }
    let release: u32 = driver.split('.').next()?.parse().ok()?;
    match release {
        // A reset of the bus, which is 6 from R615 on.
        580..590 => Some(6.0),
        595.. => Some(5.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::action;

    #[test]
    fn the_number_5_depends_on_the_release() {
        for driver in ["580.65.06", "580.95.05", "580.126.09", "589.1"] {
            assert_eq!(action(5.0, driver), Some(6.0), "{driver}");
        }
        for driver in ["595.45.04", "610.43.02", "615.71.05", "1000.1"] {
            assert_eq!(action(5.0, driver), Some(5.0), "{driver}");
        }
        for driver in ["575.57.08", "590.48.01", "594.9", "", "unknown"] {
            assert_eq!(action(5.0, driver), None, "{driver}");
        }
        for number in [0.0, 1.0, 4.0, 6.0, 99.0] {
            assert_eq!(action(number, "580.95.05"), Some(number));
        }
    }
}
