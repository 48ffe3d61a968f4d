//! The names of read_ahead_stats. Lustre 2.15 gave most of them another spelling; here each event has one.

/// Spellings up to 2.14 that [`super::stats::parse`] does not make alike by replacing spaces, and those from 2.15 on.
const OLD_AND_NEW: [(&str, &str); 2] = [
    ("read_ahead_to_eof", "readahead_to_eof"),
    ("hit_max_r_a_issue", "hit_max_readahead_issue"),
];

/// The event's name in the spelling of 2.15.
pub(super) fn event(name: &str) -> &str {
    let known = OLD_AND_NEW.iter().find(|(old, _)| *old == name);
    known.map_or(name, |(_, new)| new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lustre::stats;

    #[test]
    fn both_spellings_are_one_event() {
        let old = [
            "hits",
            "misses",
            "readpage not consecutive",
            "miss inside window",
            "failed grab_cache_page",
            "failed lock match",
            "read but discarded",
            "zero length file",
            "zero size window",
            "read-ahead to EOF",
            "hit max r-a issue",
            "wrong page from grab_cache_page",
            "failed to reach end",
            "async readahead",
            "failed to fast read",
            "mmap range read",
        ];
        let new = [
            "hits",
            "misses",
            "readpage_not_consecutive",
            "miss_inside_window",
            "failed_grab_cache_page",
            "failed_lock_match",
            "read_but_discarded",
            "zero_length_file",
            "zero_size_window",
            "readahead_to_eof",
            "hit_max_readahead_issue",
            "wrong_page_from_grab_cache_page",
            "failed_to_reach_end",
            "async_readahead",
            "failed_to_fast_read",
            "mmap_range_read",
        ];
        for (old, new) in old.into_iter().zip(new) {
            for name in [old, new] {
                let stats = stats::parse(&format!("{name:<25} 4 samples [pages]\n")).unwrap();
                let names: Vec<&str> = stats.rows.keys().map(|name| event(name)).collect();
                assert_eq!(names, [new]);
            }
        }
    }
}
