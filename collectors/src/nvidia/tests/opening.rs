//! Whether there is anything to read, and why not.

use super::*;

fn refused(node: &Node) -> (&'static str, String) {
    let error = node.open().err().expect("an error");
    (error.reason(), error.to_string())
}

#[test]
fn a_library_of_another_version_than_the_module_says_what_to_do() {
    let node = Node::of("h100");
    node.driver.refuse_init(code::LIB_RM_VERSION_MISMATCH).unwrap();
    let (reason, text) = refused(&node);
    assert_eq!(reason, "version_mismatch");
    assert!(text.contains("reboot") && text.contains("code 18"), "{text}");
}

#[test]
fn a_driver_that_is_not_loaded_is_an_error_where_somebody_named_its_library() {
    let node = Node::of("h100");
    node.driver.refuse_init(code::DRIVER_NOT_LOADED).unwrap();
    assert_eq!(refused(&node).0, "no_driver");
}

#[test]
fn a_driver_that_can_use_no_gpu_says_so() {
    let node = Node::of("h100");
    node.driver.refuse_init(Code::GPU_NOT_FOUND.0).unwrap();
    let (reason, text) = refused(&node);
    assert_eq!(reason, "no_gpus");
    assert!(
        text.contains("RmInitAdapter") && text.contains("code 28"),
        "{text}"
    );
}

/// The module was loaded at boot, and no program of root has used a GPU yet: whatever code the library returns, it is not a
/// fault of the driver.
#[test]
fn a_loaded_driver_without_device_files_is_not_a_broken_one() {
    for (code, reason) in [
        (Code::DRIVER_NOT_LOADED, "no_device_files"),
        (Code(999), "no_device_files"),
        (Code::NO_PERMISSION, "no_permission"),
        (Code::OPERATING_SYSTEM, "no_permission"),
        (Code::LIB_RM_VERSION_MISMATCH, "version_mismatch"),
    ] {
        let error = init_error(code, true);
        assert_eq!(error.reason(), reason, "{code}");
        let text = error.to_string();
        assert_eq!(text.contains("nvidia-smi"), reason == "no_device_files", "{text}");
    }
    assert_eq!(init_error(Code(999), false).reason(), "unknown");
}

#[test]
fn only_a_loaded_module_without_its_control_file_lacks_device_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = kernel::DriverFiles::new(&Env::with_sysroot(dir.path()));
    files.control = Some(dir.path().join("nvidiactl"));
    assert!(!files.lacks_device_files(), "not loaded");
    fs::create_dir_all(dir.path().join("sys/module/nvidia")).unwrap();
    assert!(files.lacks_device_files());
    fs::write(dir.path().join("nvidiactl"), "").unwrap();
    assert!(!files.lacks_device_files());
    // The library opens the file of the real tree, which is not this one.
    assert!(!kernel::DriverFiles::new(&Env::with_sysroot(dir.path())).lacks_device_files());
}

#[test]
fn a_library_that_is_not_there_is_an_error_that_names_it() {
    let mut node = Node::of("h100");
    node.settings = "library = \"/nowhere/libnvidia-ml.so.1\"".to_owned();
    let (reason, text) = refused(&node);
    assert_eq!(reason, "no_library");
    assert!(text.contains("/nowhere/libnvidia-ml.so.1"), "{text}");
}

#[test]
fn without_a_loaded_module_nothing_is_loaded_and_the_collector_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    for env in [Env::recorded(dir.path()), Env::with_sysroot(dir.path())] {
        let opened = (SPEC.open)(&env, &Settings::default()).unwrap();
        assert!(opened.is_none());
    }
}

#[test]
fn settings_are_checked_without_a_driver() {
    let error = SPEC.settings("librery = \"x\"").unwrap_err().to_string();
    assert!(error.contains("librery"), "{error}");
    SPEC.settings("gpm = false\nprocesses = true\nlibrary = \"x\"")
        .unwrap();
}
