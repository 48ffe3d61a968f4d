//! The functions, by topic. Each names its arguments and the source of its answer.

mod ecc;
mod events;
mod fabric;
mod fields;
mod gpm;
mod identity;
mod instances;
mod limits;
mod link;
mod memory;
mod mig;
mod place;
mod process;
mod readings;
mod system;

/// Functions about a device: `name(device, arguments) [selector] |view| reply;`
macro_rules! device {
    ($($name:ident($($arg:ident: $kind:ty),*) $([$selector:expr])? |$view:ident| $body:expr;)*) => {$(
        #[doc = concat!("NVML's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            device: ::nvml_wrapper_sys::bindings::nvmlDevice_t $(, $arg: $kind)*
        ) -> ::nvml_wrapper_sys::bindings::nvmlReturn_t {
            let selector = 0;
            $(let selector = selector + $selector;)?
            $crate::call::on_device($crate::functions::Function::$name, device, selector, |$view| $body)
        }
    )*};
}

/// Functions about a device that give one number: `name: type = Key;`
macro_rules! numbers {
    ($($name:ident: $kind:ty = $key:ident;)*) => {
        device! {$(
            $name(out: *mut $kind) |view| view.put(out, view.num($crate::scenario::keys::Key::$key)? as $kind);
        )*}
    };
}

/// Functions about a device that give a text: `name = Key;`
macro_rules! texts {
    ($($name:ident = $key:ident;)*) => {
        device! {$(
            $name(out: *mut ::std::ffi::c_char, length: ::std::ffi::c_uint) |view|
                view.put_text(out, length, view.text($crate::scenario::keys::Key::$key)?);
        )*}
    };
}

pub(crate) use {device, numbers, texts};
