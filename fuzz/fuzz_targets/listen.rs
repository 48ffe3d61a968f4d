#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| nodewarden_fuzz::listen(data));
