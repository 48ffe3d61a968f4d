//! Which pod of Kubernetes a cgroup belongs to, by its path: as both drivers of a kubelet name it.

use super::cgroup::is_above;

/// `pod` and the uid of the pod, with hyphens. `None`: not below a pod.
///
/// cgroupfs: `/kubepods/burstable/pod<uid>/<container>`. systemd: `/kubepods.slice/kubepods-burstable.slice/
/// kubepods-burstable-pod<uid with underscores>.slice/cri-containerd-<container>.scope`. A kubelet may have a root of its
/// own above: `/kubelet.slice/kubelet-kubepods.slice/...`. containerd with the other driver than its kubelet:
/// `/system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<container>`. nodewarden in a pod with a cgroup
/// namespace of its own sees others from there: `/../../pod<uid>/<container>`, `/../../../besteffort/pod<uid>/<container>`.
pub(super) fn of(path: &str) -> Option<String> {
    let mut is_below = false;
    let mut above = "";
    for part in path.split('/') {
        // The neighbours of a folder that a runtime made are folders of runtimes.
        is_below |= above == ".." && is_of_cgroupfs(part);
        // A user may have delegated folders below a service: only a runtime gives them names with `.slice:`.
        is_below |= part.contains("kubepods") && (!above.ends_with(".service") || part.contains(".slice:"));
        if !is_below {
            // Below anything else a folder of that name is one that a user has made.
            if part.is_empty() || part == ".." || is_above(above, part) {
                above = part;
                continue;
            }
            return None;
        }
        let part = part.split(':').next().unwrap_or(part);
        let name = part.strip_suffix(".slice").unwrap_or(part);
        let uid = match name.rsplit_once("-pod") {
            Some((_, uid)) => uid,
            None => name.strip_prefix("pod").unwrap_or_default(),
        };
        if is_uid(uid) {
            return Some(format!("pod{}", uid.replace('_', "-")));
        }
    }
    None
}

/// A class of pods, or a pod, as the driver cgroupfs names them.
fn is_of_cgroupfs(name: &str) -> bool {
    matches!(name, "burstable" | "besteffort") || name.strip_prefix("pod").is_some_and(is_uid)
}

/// A UUID, or the 32 digits of a pod that a file on the node describes.
fn is_uid(text: &str) -> bool {
    let mark = |b: u8| b == b'-' || b == b'_';
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    digits == 32 && text.bytes().all(|b| b.is_ascii_hexdigit() || mark(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "1a2b3c4d-0000-4000-8000-00000000abcd";

    #[test]
    fn both_drivers_and_every_class_name_the_pod() {
        let low = UID.replace('-', "_");
        for path in [
            format!("/kubepods/pod{UID}/7f"),
            format!("/kubepods/burstable/pod{UID}/7f"),
            format!("/kubepods/besteffort/pod{UID}"),
            format!("/kubepods.slice/kubepods-pod{low}.slice/crio-7f.scope"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{low}.slice/cri-containerd-7f.scope"
            ),
            format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{low}.slice/docker-7f.scope"),
            format!("/system.slice/docker-7f.scope/kubelet.slice/kubelet-kubepods-pod{low}.slice"),
            format!("/system.slice/containerd.service/kubepods-burstable-pod{low}.slice:cri-containerd:7f"),
            format!("/system.slice/k3s.service/kubepods-burstable-pod{low}.slice:cri-containerd:7f"),
            format!("/kubelet/kubepods/burstable/pod{UID}/7f"),
            format!("/../../kubepods-besteffort.slice/kubepods-besteffort-pod{low}.slice"),
            format!("/../../pod{UID}/7f"),
            format!("/../../../pod{UID}/7f"),
            format!("/../../../besteffort/pod{UID}/7f"),
            format!("/../../../burstable/pod{UID}"),
        ] {
            assert_eq!(of(&path), Some(format!("pod{UID}")), "{path}");
        }
        let of_a_file = "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/7f";
        assert_eq!(
            of(of_a_file).as_deref(),
            Some("pod0123456789abcdef0123456789abcdef")
        );
    }

    #[test]
    fn what_only_looks_like_a_pod_is_none() {
        for path in [
            "/",
            "/kubepods",
            "/kubepods.slice/kubepods-burstable.slice",
            "/kubepods/podcast/7f",
            "/machine.slice/libpod-0123456789abcdef0123456789abcdef.scope",
            "/user.slice/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/../../user.slice/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/../user.slice/burstable/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/burstable/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/../../podcast/7f",
            "/user.slice/user-1.slice/kubepods/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/system.slice/of-a-user.service/kubepods/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/system.slice/of-a-user.service/kubepods/kubepods/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/system.slice/of-a-user.service/a.slice/kubepods/pod1a2b3c4d-0000-4000-8000-00000000abcd",
            "/system.slice/of-a-user.service/kubepods-pod1a2b3c4d_0000_4000_8000_00000000abcd.slice:cri-containerd:7f",
            "/user.slice/of-a-user.service/kubepods-pod1a2b3c4d_0000_4000_8000_00000000abcd.slice:cri-containerd:7f",
            "/kubepods/burstable/pod1a2b3c4d-0000-4000-8000-00000000abc",
            "/kubepods/burstable/pod1a2b3c4d-0000-4000-8000-00000000abcg",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_uid_is_read_whatever_lies_below(
            uid in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            class in prop::option::of("burstable|besteffort"),
            below in prop::collection::vec("[a-z0-9.]{1,12}", 0..3),
        ) {
            let class = class.map(|class| format!("{class}/")).unwrap_or_default();
            let path = format!("/kubepods/{class}pod{uid}/{}", below.join("/"));
            prop_assert_eq!(of(&path), Some(format!("pod{uid}")));
        }

        #[test]
        fn no_text_upsets_it(text in "\\PC{0,80}") {
            let _pod = of(&text);
        }
    }
}
