//! `scontrol show partition -o`: the largest partition of the node, in which its drains are counted.

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// The number of its nodes.
    pub nodes: u64,
}

/// The largest of these partitions. Among equals the first by name, so that all nodes choose the same.
pub fn largest(text: &str, of_node: &[String]) -> Option<Partition> {
    let partitions = text.lines().filter_map(partition);
    let own = partitions.filter(|partition| of_node.contains(&partition.name));
    own.max_by(|a, b| a.nodes.cmp(&b.nodes).then_with(|| b.name.cmp(&a.name)))
}

fn partition(line: &str) -> Option<Partition> {
    let mut words = line.split_whitespace();
    let name = words.next()?.strip_prefix("PartitionName=")?;
    let nodes = words.find_map(|word| word.strip_prefix("TotalNodes="))?;
    Some(Partition {
        name: name.to_owned(),
        nodes: nodes.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "PartitionName=all AllowGroups=ALL Nodes=n[1-4] State=UP TotalCPUs=8 TotalNodes=4 TRES=cpu=8\n\
        PartitionName=gpu AllowGroups=ALL Nodes=n[1-4] State=UP TotalCPUs=8 TotalNodes=4 TRES=cpu=8\n\
        PartitionName=big AllowGroups=ALL Nodes=n[1-9] State=UP TotalCPUs=8 TotalNodes=9 TRES=cpu=8\n";

    fn of(names: &[&str]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        largest(TEXT, &names).map(|partition| format!("{} {}", partition.name, partition.nodes))
    }

    #[test]
    fn the_largest_partition_of_the_node_counts_and_among_equals_the_first_by_name() {
        assert_eq!(of(&["gpu", "big"]).as_deref(), Some("big 9"));
        assert_eq!(of(&["gpu", "all"]).as_deref(), Some("all 4"));
        assert_eq!(of(&["gone"]), None);
        assert_eq!(of(&[]), None);
    }
}
