#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| collectors::fuzz::gres_conf(data));
