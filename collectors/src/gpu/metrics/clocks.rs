//! Clocks, performance states, and clocks event (throttle) reasons.

use super::row::metrics;
use super::{GPU, amd, counter, gauge};

const CLOCK: &[&str] = &["gpu", "clock"];
const REASON: &[&str] = &["gpu", "reason"];
const POLICY: &[&str] = &["gpu", "policy"];

metrics! {
    ALL_CLOCKS;
    PERFORMANCE_STATE "gpu_performance_state" Gauge None Core GPU, "nvmlDeviceGetPerformanceState",
        [gauge("DCGM_FI_DEV_PSTATE").same()]
        "Performance state (P-state) of a GPU, 0 is the fastest.";
    CLOCK_SPEED "gpu_clock_hertz" Gauge Hertz Core CLOCK, "nvmlDeviceGetClockInfo (MHz); gpu_metrics current_{gfxclk,uclk,socclk,vclk0} (MHz)",
        [
            gauge("DCGM_FI_DEV_SM_CLOCK").only(&[("clock", "sm")]).megahertz(),
            gauge("DCGM_FI_DEV_MEM_CLOCK").only(&[("clock", "memory")]).megahertz(),
            gauge("DCGM_FI_DEV_VIDEO_CLOCK").only(&[("clock", "video")]).megahertz(),
            amd("gpu_clock").only(&[("clock", "sm")]).fixed(&[("clock_type", "system")]).megahertz(),
            amd("gpu_clock").only(&[("clock", "memory")]).fixed(&[("clock_type", "memory")]).megahertz(),
            amd("gpu_clock").only(&[("clock", "soc")]).fixed(&[("clock_type", "soc")]).megahertz(),
            amd("gpu_clock").only(&[("clock", "video")]).fixed(&[("clock_type", "video")]).megahertz(),
        ]
        "Current clock frequency of a GPU: sm, memory, video or soc.";
    CLOCK_MAX "gpu_clock_max_hertz" Gauge Hertz Detail CLOCK, "nvmlDeviceGetMaxClockInfo (MHz)",
        [
            gauge("DCGM_FI_DEV_MAX_SM_CLOCK").only(&[("clock", "sm")]).megahertz(),
            gauge("DCGM_FI_DEV_MAX_MEM_CLOCK").only(&[("clock", "memory")]).megahertz(),
            gauge("DCGM_FI_DEV_MAX_VIDEO_CLOCK").only(&[("clock", "video")]).megahertz(),
        ]
        "Maximum clock frequency of a GPU: sm, memory or video.";
    CLOCK_EVENT "gpu_clock_event_active" Gauge None Core REASON, "nvmlDeviceGetCurrentClocksEventReasons; gpu_metrics indep_throttle_status, *_residency_acc", []
        "State of a clocks event (throttle) reason of a GPU, 1 while active, else 0: idle, clocks_setting, sw_power_cap, hw_slowdown, sync_boost, sw_thermal, hw_thermal, hw_power_brake, display_clocks, current_limit.";
    CLOCK_EVENTS_MASK "gpu_clock_event_reasons" Gauge None Debug GPU, "nvmlDeviceGetCurrentClocksEventReasons",
        [gauge("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS").same(), gauge("DCGM_FI_DEV_CLOCKS_EVENT_REASONS").same()]
        "Active clocks event (throttle) reasons of a GPU as the driver's bitmask.";
    CLOCK_EVENT_SECONDS "gpu_clock_event_seconds_total" Counter Seconds Core REASON,
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_* (ns; other ids since driver 580.82); gpu_metrics *_residency_acc",
        [
            counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS").only(&[("reason", "sw_power_cap")]).nanoseconds(),
            counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS").only(&[("reason", "sync_boost")]).nanoseconds(),
            counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS").only(&[("reason", "sw_thermal")]).nanoseconds(),
            counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS").only(&[("reason", "hw_thermal")]).nanoseconds(),
            counter("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS").only(&[("reason", "hw_power_brake")]).nanoseconds(),
        ]
        "Time for which a clocks event (throttle) reason reduced the GPU clocks: sw_power_cap, sync_boost, sw_thermal, hw_thermal, hw_power_brake, regulator_thermal, memory_thermal.";
    POLICY_SECONDS "gpu_performance_policy_seconds_total" Counter Seconds Detail POLICY, "NVML_FI_DEV_PERF_POLICY_* (ns)",
        [
            counter("DCGM_FI_DEV_POWER_VIOLATION").only(&[("policy", "power")]).nanoseconds(),
            counter("DCGM_FI_DEV_THERMAL_VIOLATION").only(&[("policy", "thermal")]).nanoseconds(),
            counter("DCGM_FI_DEV_SYNC_BOOST_VIOLATION").only(&[("policy", "sync_boost")]).nanoseconds(),
            counter("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION").only(&[("policy", "board_limit")]).nanoseconds(),
            counter("DCGM_FI_DEV_LOW_UTIL_VIOLATION").only(&[("policy", "low_utilization")]).nanoseconds(),
            counter("DCGM_FI_DEV_RELIABILITY_VIOLATION").only(&[("policy", "reliability")]).nanoseconds(),
            counter("DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION").only(&[("policy", "application_clocks")]).nanoseconds(),
            counter("DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION").only(&[("policy", "base_clocks")]).nanoseconds(),
        ]
        "Time for which a performance policy limited a GPU (violation time): power, thermal, sync_boost, board_limit, low_utilization, reliability, application_clocks, base_clocks.";
}
