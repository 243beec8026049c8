#include "tensor_tree.hpp"

#include <algorithm>
#include <map>

#include "shardweld/core/text.hpp"

#include "../cli/table.hpp"
#include "folded_names.hpp"

namespace shardweld::app {

namespace {

using Cells = std::vector<std::vector<std::string>>;

struct NameBranch {
    std::string name;
    std::vector<NameBranch> below;              ///< in the order in which they were met
    std::map<std::string, std::size_t> places;  ///< of those, by name
    std::vector<const FoldedRow*> rows;         ///< that end here
    std::size_t n_tensors = 0;
    Bytes bytes = 0;

    NameBranch& child(const std::string& component) {
        const auto [at, is_new] = places.emplace(component, below.size());
        if (is_new) {
            below.emplace_back().name = component;
        }
        return below[at->second];
    }
};

NameBranch tree_of(const std::vector<FoldedRow>& rows) {
    NameBranch root;
    for (const FoldedRow& row : rows) {
        NameBranch* at = &root;
        for (const std::string& component : row.path) {
            at->n_tensors += row.n_tensors;
            at->bytes += row.sum.bytes;
            at = &at->child(component);
        }
        at->n_tensors += row.n_tensors;
        at->bytes += row.sum.bytes;
        at->rows.push_back(&row);
    }
    return root;
}

/// Shards of one tensor, and copies beside them: "4", "4+4".
std::string shards_text(const FoldedRow& row) {
    const std::size_t n_copies = row.sum.n_replicas / row.n_tensors;
    return std::to_string(row.sum.n_shards / row.n_tensors) +
           (n_copies == 0 ? "" : "+" + std::to_string(n_copies));
}

void add_leaf(const std::string& name, const FoldedRow& row, Cells& cells) {
    cells.push_back({name, std::to_string(row.n_tensors), std::string(torch_name(row.sum.dtype)),
                     shape_text(row.sum.shape), shards_text(row), human_bytes(row.sum.bytes)});
}

void add_branch(const NameBranch& branch, const std::string& indent, std::string name,
                Cells& cells) {
    const NameBranch* at = &branch;
    while (at->below.size() == 1 && at->rows.empty()) {
        at = &at->below.front();
        name += "." + at->name;
    }
    const std::string shown = indent + printable(name);
    for (const FoldedRow* row : at->rows) {
        add_leaf(shown, *row, cells);
    }
    if (at->rows.empty()) {
        cells.push_back({shown, std::to_string(at->n_tensors), "", "", "", human_bytes(at->bytes)});
    }
    for (const NameBranch& below : at->below) {
        add_branch(below, indent + "  ", below.name, cells);
    }
}

}  // namespace

std::string tensor_tree(const std::vector<StoredRow>& rows) {
    const bool has_local =
        std::any_of(rows.begin(), rows.end(), [](const StoredRow& row) { return row.is_local; });
    const std::vector<FoldedRow> folded_rows = folded(rows);
    if (folded_rows.empty()) {
        return "";
    }
    Cells cells{{"tensor", "number", "dtype", has_local ? "shape (of a shard)" : "shape", "shards",
                 "bytes"}};
    const NameBranch root = tree_of(folded_rows);
    for (const NameBranch& branch : root.below) {
        add_branch(branch, "", branch.name, cells);
    }
    return table({Align::left, Align::right, Align::left, Align::left, Align::right, Align::right},
                 cells);
}

}  // namespace shardweld::app
