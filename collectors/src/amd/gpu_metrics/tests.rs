use proptest::prelude::*;

use super::{Field, MAX_PARTITIONS, Refused, Revision, Table, check, layout};

const FIXED: [(u8, u8, usize); 14] = [
    (1, 0, 80),
    (1, 1, 96),
    (1, 2, 104),
    (1, 3, 120),
    (1, 4, 288),
    (1, 5, 360),
    (1, 6, 1664),
    (1, 7, 2208),
    (1, 8, 3872),
    (2, 1, 120),
    (2, 2, 128),
    (2, 3, 152),
    (2, 4, 168),
    (3, 0, 264),
];

/// A table as the driver begins it: its header, then ones.
fn blank(format: u8, content: u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![u8::MAX; size];
    put(&mut bytes, 0, &u16::try_from(size).unwrap().to_le_bytes());
    put(&mut bytes, 2, &[format, content]);
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn attribute(id: u64, kind: u64, count: u64, values: &[u8]) -> Vec<u8> {
    let mut bytes = ((kind << 20) | (id << 10) | count).to_le_bytes().to_vec();
    bytes.extend_from_slice(values);
    bytes
}

fn described(attributes: &[Vec<u8>]) -> Vec<u8> {
    let body = attributes.concat();
    let mut bytes = vec![0, 0, 1, 9];
    bytes.extend_from_slice(&i32::try_from(attributes.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(&body);
    let size = u16::try_from(bytes.len()).unwrap();
    put(&mut bytes, 0, &size.to_le_bytes());
    bytes
}

#[test]
fn a_field_that_the_driver_did_not_write_is_absent() {
    for (format, content, size) in FIXED {
        let bytes = blank(format, content, size);
        let table = Table::parse(&bytes).unwrap();
        for place in layout::of(table.revision).unwrap().places() {
            assert!(table.list(place.field).all(|value| value.is_none()), "{place:?}");
        }
    }
}

#[test]
fn every_place_lies_in_the_table_of_its_last_revision_and_overlaps_no_other() {
    for (format, content, size) in FIXED {
        if format == 1 && (content == 1 || content == 2) {
            continue;
        }
        let mut used = vec![false; size];
        used[..4].fill(true);
        lies_apart(&layout::of(Revision { format, content }).unwrap(), &mut used);
    }
    let first = Revision {
        format: 1,
        content: 0,
    };
    let mut used = vec![false; 488];
    used[..4].fill(true);
    lies_apart(&layout::of_partition(first).unwrap(), &mut used);
}

fn lies_apart(layout: &layout::Layout, used: &mut [bool]) {
    for place in layout.places() {
        assert_eq!(place.offset % place.width, 0, "{place:?}");
        for range in (0..MAX_PARTITIONS).filter_map(|partition| place.range(partition)) {
            for byte in &mut used[range] {
                assert!(!*byte, "{place:?}");
                *byte = true;
            }
        }
    }
}

#[test]
fn the_table_of_a_partition_has_its_own_revisions() {
    let mut bytes = blank(1, 0, 488);
    put(&mut bytes, 48, &[100, 0, 0, 0, 7, 0, 0, 0]);
    put(&mut bytes, 80, &3_u16.to_le_bytes());
    put(&mut bytes, 166, &9_u16.to_le_bytes());
    put(&mut bytes, 44, &1300_u16.to_le_bytes());
    let table = Table::parse_partition(&bytes).unwrap();
    let busy: Vec<_> = table.list(Field::XccActivity).flatten().collect();
    assert_eq!(busy, [100, 7]);
    assert_eq!(table.list(Field::JpegActivity).count(), 40);
    assert_eq!(table.list(Field::VideoActivity).last(), Some(Some(9)));
    assert_eq!(table.get(Field::MemoryClock), Some(1300));
    assert_eq!(table.list(Field::XccActivity).count(), 8);
    // The same revision of gpu_metrics is another table.
    assert_eq!(
        Table::parse(&bytes).unwrap_err().to_string(),
        "488 bytes is not the size of v1.0"
    );
    assert_eq!(
        Table::parse_partition(&blank(1, 0, 80)).unwrap_err().word(),
        "wrong_size"
    );
}

#[test]
fn a_table_of_a_partition_that_is_cut_or_new_is_refused() {
    let bytes = blank(1, 0, 488);
    let refused = Table::parse_partition(&bytes[..487]).unwrap_err();
    assert_eq!(refused, Refused::Truncated { have: 487, need: 488 });
    for (format, content) in [(1, 2), (2, 0), (1, 9)] {
        let refused = Table::parse_partition(&blank(format, content, 488)).unwrap_err();
        assert_eq!(refused, Refused::UnknownRevision(Revision { format, content }));
    }
    let mut bytes = described(&[attribute(40, 4, 2, &[50, 0, 0, 0, 255, 255, 255, 255])]);
    bytes[3] = 1;
    let table = Table::parse_partition(&bytes).unwrap();
    let busy: Vec<_> = table.list(Field::XccActivity).collect();
    assert_eq!(busy, [Some(50), None]);
}

#[test]
fn a_temperature_that_no_chip_survives_was_torn() {
    let mut bytes = blank(1, 3, 120);
    put(&mut bytes, 88, &[50, 0, 51, 0, 0x40, 8, 250, 0]);
    let table = Table::parse(&bytes).unwrap();
    let stacks: Vec<_> = table.list(Field::TemperatureHbm).collect();
    assert_eq!(stacks, [Some(50), Some(51), None, Some(250)]);
    let mut bytes = blank(3, 0, 264);
    put(&mut bytes, 4, &[0xa8, 0x61, 0xa9, 0x61]);
    let table = Table::parse(&bytes).unwrap();
    let ends = [Field::ApuTemperatureGfx, Field::ApuTemperatureSoc];
    assert_eq!(ends.map(|field| table.get(field)), [Some(25_000), None]);
}

#[test]
fn mi200_reports_the_mean_power_and_the_temperature_of_each_stack() {
    let mut bytes = blank(1, 3, 120);
    put(&mut bytes, 22, &93_u16.to_le_bytes());
    put(&mut bytes, 88, &[50, 0, 51, 0, 52, 0, 0, 0]);
    let table = Table::parse(&bytes).unwrap();
    assert_eq!(table.get(Field::SocketPower), Some(93));
    let stacks: Vec<_> = table.list(Field::TemperatureHbm).collect();
    assert_eq!(stacks, [Some(50), Some(51), Some(52), None]);
}

#[test]
fn the_second_die_of_an_mi250_has_no_power_and_no_energy() {
    let mut bytes = blank(1, 3, 120);
    put(&mut bytes, 22, &[0; 10]);
    put(&mut bytes, 16, &[0; 2]);
    let table = Table::parse(&bytes).unwrap();
    assert_eq!(table.get(Field::SocketPower), None);
    assert_eq!(table.get(Field::Energy), None);
    assert_eq!(table.get(Field::GfxActivity), Some(0), "an idle die");
}

#[test]
fn an_energy_that_a_driver_marks_as_absent_with_32_bits_is_absent() {
    let mut bytes = blank(1, 3, 120);
    put(&mut bytes, 24, &u64::from(u32::MAX).to_le_bytes());
    assert_eq!(Table::parse(&bytes).unwrap().get(Field::Energy), None);
    put(&mut bytes, 24, &(u64::from(u32::MAX) + 1).to_le_bytes());
    assert_eq!(Table::parse(&bytes).unwrap().get(Field::Energy), Some(1 << 32));
}

#[test]
fn mi300_reports_residencies_from_v1_6_on() {
    let mut bytes = blank(1, 8, 3872);
    put(&mut bytes, 40, &1000_u32.to_le_bytes());
    put(&mut bytes, 48, &0_u32.to_le_bytes());
    let table = Table::parse(&bytes).unwrap();
    assert_eq!(table.get(Field::Accumulation), Some(1000));
    assert_eq!(table.get(Field::PowerResidency), Some(0));
    let older = blank(1, 5, 360);
    assert_eq!(Table::parse(&older).unwrap().list(Field::Accumulation).count(), 0);
}

#[test]
fn each_partition_has_its_own_activity() {
    let mut bytes = blank(1, 6, 1664);
    put(&mut bytes, 312, &7_u32.to_le_bytes());
    put(&mut bytes, 312 + 168, &80_u32.to_le_bytes());
    put(&mut bytes, 312 + 168 + 96, &9_u16.to_le_bytes());
    let table = Table::parse(&bytes).unwrap();
    let busy = |field, partition| table.list_of(field, partition).next().flatten();
    assert_eq!(busy(Field::XccActivity, 0), Some(7));
    assert_eq!(busy(Field::XccActivity, 1), Some(80));
    assert_eq!(busy(Field::VideoActivity, 1), Some(9));
    assert_eq!(table.list_of(Field::XccActivity, 8).count(), 0);
    assert_eq!(table.list_of(Field::GfxClock, 1).count(), 0, "the whole GPU's");
}

#[test]
fn an_older_revision_does_not_have_the_fields_after_its_end() {
    let bytes = blank(1, 2, 104);
    let table = Table::parse(&bytes).unwrap();
    assert_eq!(table.list(Field::ThrottleReasons).count(), 0);
    assert_eq!(table.list(Field::TemperatureHbm).count(), 4);
}

#[test]
fn a_file_that_ends_early_is_refused() {
    for (format, content, size) in FIXED {
        let bytes = blank(format, content, size);
        let refused = Table::parse(&bytes[..size - 1]).unwrap_err();
        assert_eq!(
            refused,
            Refused::Truncated {
                have: size - 1,
                need: size
            }
        );
    }
    assert_eq!(
        Table::parse(&[]).unwrap_err(),
        Refused::Truncated { have: 0, need: 4 }
    );
}

#[test]
fn a_size_of_another_revision_is_refused() {
    let refused = Table::parse(&blank(1, 5, 328)).unwrap_err();
    assert_eq!(refused.to_string(), "328 bytes is not the size of v1.5");
}

#[test]
fn an_unknown_revision_is_refused_and_named() {
    for (format, content) in [(1, 10), (2, 0), (4, 0)] {
        let refused = Table::parse(&blank(format, content, 120)).unwrap_err();
        assert_eq!(refused, Refused::UnknownRevision(Revision { format, content }));
    }
}

#[test]
fn a_table_that_describes_itself_may_have_unknown_attributes() {
    let bytes = described(&[
        attribute(900, 4, 2, &[1; 8]),
        attribute(0, 2, 1, &44_u16.to_le_bytes()),
        attribute(33, 2, 2, &[132, 0, 255, 255]),
    ]);
    let table = Table::parse(&bytes).unwrap();
    assert_eq!(table.get(Field::TemperatureHotspot), Some(44));
    let clocks: Vec<_> = table.list(Field::GfxClock).collect();
    assert_eq!(clocks, [Some(132), None]);
}

#[test]
fn an_attribute_of_an_unknown_type_or_with_a_value_too_many_refuses_the_table() {
    let fine = attribute(0, 2, 1, &[44, 0]);
    for bad in [attribute(1, 8, 1, &[0; 8]), attribute(1, 2, 2, &[44, 0])] {
        let refused = Table::parse(&described(&[fine.clone(), bad])).unwrap_err();
        assert_eq!(refused, Refused::BadAttribute(1));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken(data in proptest::collection::vec(any::<u8>(), 0..400), layout in 0..FIXED.len() + 1) {
        check(&data);
        let (format, content, size) = *FIXED.get(layout).unwrap_or(&(1, 9, data.len().max(4)));
        let mut bytes = blank(format, content, size);
        let end = bytes.len().min(data.len());
        if end > 4 {
            bytes[4..end].copy_from_slice(&data[4..end]);
        }
        check(&bytes);
        let mut bytes = blank(1, u8::from(layout % 2 == 0), if layout % 2 == 0 { data.len().max(4) } else { 488 });
        let end = bytes.len().min(data.len());
        if end > 4 {
            bytes[4..end].copy_from_slice(&data[4..end]);
        }
        check(&bytes);
    }
}
