//! The leveled tree keeps the contract of a layout.

#[test]
fn the_leveled_tree_keeps_the_contract_of_a_layout() {
    velella_tree::contract::run(velella_lsm::open);
}
