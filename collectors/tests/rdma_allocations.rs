//! A reading of RDMA ports allocates nothing once the files are open: a counting allocator proves it.

#![allow(unsafe_code, reason = "an allocator needs unsafe code")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use collectors::{Block, Env, Settings, rdma};
use testkit::tree;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn the_second_reading_of_ten_adapters_allocates_nothing() {
    let node = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rdma/h100-ndr");
    tree::lay(&case.join("root.tree"), node.path()).unwrap();
    let opened = (rdma::SPEC.open)(&Env::with_sysroot(node.path()), &Settings::default()).unwrap();
    let mut ports = opened.unwrap().devices.scan().unwrap();
    let mut blocks = vec![Block::default(); ports.len()];
    let mut read = || {
        let before = ALLOCATIONS.get();
        for (port, block) in ports.iter_mut().zip(&mut blocks) {
            block.clear();
            port.read(block).unwrap();
            block.finish();
        }
        ALLOCATIONS.get() - before
    };
    assert!(read() > 500, "the first reading names every series");
    // Once a minute the labels of the info series are read again, on a busy machine possibly during this test.
    let cheapest = (0..5).map(|_| read()).min();
    assert_eq!(cheapest, Some(0));
    let values: usize = blocks.iter().map(|b| b.values().len()).sum();
    assert!(values > 700, "{values} values");
}
