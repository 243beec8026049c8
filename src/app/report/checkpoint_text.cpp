#include "checkpoint_text.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "app/messages/table.hpp"
#include "catalogue/catalogue.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

void count(StoredRow& row, const catalogue::Piece& piece) {
    const Bytes bytes = static_cast<Bytes>(piece.patch.volume()) * size_of(row.dtype);
    if (piece.replica == 0) {
        ++row.n_shards;
        row.bytes += bytes;
    } else {
        ++row.n_replicas;
        row.replica_bytes += bytes;
    }
}

// More are neither read nor worth their memory.
constexpr std::size_t kMostFolded = 20'000;
// Longer names are no model's: they are one component, for trees are walked by recursion.
constexpr std::size_t kMostComponents = 32;

/// A number in a name, and the values that it has in the rows folded so far.
using Numbers = std::vector<Index>;

/// Where the number of a component begins: it is one ("layers.7"), or ends in one as experts' names
/// do ("weight7").
std::optional<std::size_t> number_in(std::string_view component) {
    std::size_t begin = component.size();
    while (begin > 0 && is_digit(component[begin - 1])) {
        --begin;
    }
    const std::string_view word = component.substr(0, begin);
    const std::string_view digits = component.substr(begin);
    const bool is_plain = digits == "0" || (!digits.empty() && digits.front() != '0');
    return is_plain && (word.empty() || word == "weight" || word == "bias") ? std::optional(begin)
                                                                            : std::nullopt;
}

/// A row by itself, whose path has what stands before the numbers.
FoldedRow unfolded(const StoredRow& row, std::size_t at) {
    FoldedRow folding;
    folding.first = at;
    folding.sum = row;
    folding.sum.ranks.clear();
    const std::vector<std::string_view> components = split(row.name, '.');
    if (components.size() > kMostComponents) {
        folding.path = {row.name};
        folding.numbers = {Numbers{}};
        return folding;
    }
    for (const std::string_view component : components) {
        const auto begin = number_in(component);
        const auto number = begin ? parse_index(component.substr(*begin)) : std::nullopt;
        folding.path.emplace_back(component.substr(0, number ? *begin : component.size()));
        folding.numbers.push_back(number ? Numbers{*number} : Numbers{});
    }
    return folding;
}

void add(FoldedRow& to, const FoldedRow& from, std::size_t component) {
    append_all(to.numbers[component], from.numbers[component]);
    to.first = std::min(to.first, from.first);
    to.n_tensors += from.n_tensors;
    to.sum.n_shards += from.sum.n_shards;
    to.sum.n_replicas += from.sum.n_replicas;
    to.sum.bytes += from.sum.bytes;
    to.sum.replica_bytes += from.sum.replica_bytes;
}

/// What rows must share to be folded in one component: everything but its number.
using Key = std::tuple<std::vector<std::string>, std::vector<Numbers>, DType, std::vector<Index>,
                       bool, std::size_t, std::size_t>;

Key key_of(const FoldedRow& folding, std::size_t component) {
    std::vector<Numbers> others = folding.numbers;
    others[component] = {others[component].empty() ? Index{-1} : Index{0}};
    const StoredRow& row = folding.sum;
    const std::size_t n = folding.n_tensors;
    return {folding.path, std::move(others), row.dtype,         row.shape,
            row.is_local, row.n_shards / n,  row.n_replicas / n};
}

/// Folds what differs only in the number of one component.
std::vector<FoldedRow> fold_in(std::vector<FoldedRow> foldings, std::size_t component) {
    std::vector<FoldedRow> done;
    std::map<Key, std::size_t> places;
    for (FoldedRow& folding : foldings) {
        if (component >= folding.numbers.size() || folding.numbers[component].empty()) {
            done.push_back(std::move(folding));
            continue;
        }
        const auto [at, is_new] = places.emplace(key_of(folding, component), done.size());
        if (is_new) {
            done.push_back(std::move(folding));
        } else {
            add(done[at->second], folding, component);
        }
    }
    return done;
}

/// Folds a row's last number at once: of many experts only one folding is ever held.
void take(FoldedRow folding, std::vector<FoldedRow>& foldings, std::map<Key, std::size_t>& places) {
    std::size_t last = folding.numbers.size();
    while (last > 0 && folding.numbers[last - 1].empty()) {
        --last;
    }
    if (last == 0) {
        foldings.push_back(std::move(folding));
        return;
    }
    const auto [at, is_new] = places.emplace(key_of(folding, last - 1), foldings.size());
    if (is_new) {
        foldings.push_back(std::move(folding));
    } else {
        add(foldings[at->second], folding, last - 1);
    }
}

/// Puts the numbers into the path.
void complete_path(FoldedRow& row) {
    for (const std::size_t i : indices(row.path)) {
        Numbers& numbers = row.numbers[i];
        std::ranges::sort(numbers);
        const std::string text = numbers.empty() ? "" : ranges_text(numbers);
        row.path[i] += numbers.size() > 1 ? "{" + text + "}" : text;
    }
}

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
    cells.push_back({name, std::to_string(row.n_tensors), torch_name(row.sum.dtype),
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

using formats::RankGrid;
using Dims = std::vector<catalogue::MeshDim>;

// Wider grids are shown rank by rank, in rows of so many.
constexpr std::size_t kWidest = 64;

char sign_of(const RankGrid& grid, std::size_t place, const std::vector<bool>& is_copy) {
    switch (grid.places[place]) {
        case RankGrid::GridPlace::file: {
            const std::size_t file = grid.files[place];
            return file < is_copy.size() && is_copy[file] ? '=' : '#';
        }
        case RankGrid::GridPlace::missing:
            return 'X';
        case RankGrid::GridPlace::twice:
            return '2';
        default:
            return '.';
    }
}

std::string name_of(const catalogue::MeshDim& dim) {
    return dim.name.empty() ? "dim" : printable(dim.name, 20);
}

/// "pp 2 x ep 4 x tp 8", "4 ranks"
std::string heading(const Dims& dims) {
    if (dims.size() == 1 && dims.front().name == "rank") {
        return std::to_string(dims.front().extent) + " ranks";
    }
    return joined(dims, " x ", [](const catalogue::MeshDim& dim) {
        return name_of(dim) + " " + std::to_string(dim.extent);
    });
}

std::string meanings(const std::string& picture) {
    static const std::map<char, std::string> meaning_of = {{'#', "present"},
                                                           {'=', "copies only"},
                                                           {'X', "missing"},
                                                           {'2', "two files"},
                                                           {'.', "no file"}};
    std::string text;
    for (const char sign : {'#', '=', 'X', '2', '.'}) {
        if (has_part(picture, sign)) {
            text += (text.empty() ? "" : ", ") + std::string(1, sign) + ": " + meaning_of.at(sign);
        }
    }
    return text;
}

std::size_t extent(const Dims& dims, std::size_t from_last) {
    return from_last < dims.size() ? as_size(dims[dims.size() - 1 - from_last].extent) : 1;
}

/// Rows of `width` ranks, with a blank behind every `group`; `label` names the row that begins with
/// a rank.
template <typename Label>
std::string picture(const std::string& signs, std::size_t width, std::size_t group,
                    const Label& label) {
    std::size_t longest = 0;
    for (std::size_t begin = 0; begin < signs.size(); begin += width) {
        longest = std::max(longest, label(begin).size());
    }
    std::string text;
    for (std::size_t begin = 0; begin < signs.size(); begin += width) {
        const std::string name = label(begin);
        text += "  " + name + std::string(longest - name.size(), ' ');
        for (std::size_t i = begin; i < std::min(begin + width, signs.size()); ++i) {
            text += ((i - begin) % group == 0 ? " " : "") + std::string(1, signs[i]);
        }
        text += "\n";
    }
    return text;
}

void add_to(std::vector<PartRow>& rows, std::string_view name, const PartRow& more) {
    auto row = std::ranges::find_if(rows, [&](const PartRow& known) { return known.name == name; });
    if (row == rows.end()) {
        row = rows.insert(rows.end(), {std::string(name), 0, 0, 0});
    }
    row->n_tensors += more.n_tensors;
    row->elements += more.elements;
    row->bytes += more.bytes;
}

std::vector<PartRow> sorted(std::vector<PartRow> rows) {
    std::ranges::stable_sort(rows, std::ranges::greater(), &PartRow::bytes);
    return rows;
}

}  // namespace

std::vector<StoredRow> stored_rows(const catalogue::Catalogue& catalogue) {
    std::vector<StoredRow> rows;
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        StoredRow row{tensor.name, tensor.dtype, tensor.shape, false, 0, 0, 0, 0, {}};
        for (const catalogue::Piece& piece : tensor.pieces) {
            count(row, piece);
        }
        rows.push_back(std::move(row));
    }
    using RowKey = std::tuple<SharedText, DType, std::vector<Index>>;
    std::map<RowKey, StoredRow> local;
    for (const catalogue::Shard& shard : catalogue.shards) {
        StoredRow& row =
            local
                .try_emplace({shard.name, shard.dtype, shard.shape},
                             StoredRow{shard.name, shard.dtype, shard.shape, true, 0, 0, 0, 0, {}})
                .first->second;
        count(row, shard.piece);
        row.ranks.push_back(shard.at);
    }
    for (auto& [key, row] : local) {
        rows.push_back(std::move(row));
    }
    std::ranges::stable_sort(
        rows, [](const StoredRow& a, const StoredRow& b) { return natural_less(a.name, b.name); });
    return rows;
}

std::string ranges_text(const std::vector<Index>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t end = i + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
            ++end;
        }
        text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
        if (end - i > 1) {
            text += (end - i > 2 ? "-" : ",") + std::to_string(numbers[end - 1]);
        }
        i = end;
    }
    return text;
}

std::vector<FoldedRow> folded(const std::vector<StoredRow>& rows) {
    std::vector<FoldedRow> foldings;
    std::map<Key, std::size_t> places;
    std::size_t n_components = 0;
    for (const std::size_t i : indices(rows)) {
        FoldedRow folding = unfolded(rows[i], i);
        n_components = std::max(n_components, folding.path.size());
        take(std::move(folding), foldings, places);
        if (foldings.size() > kMostFolded) {
            return {};
        }
    }
    for (std::size_t component = n_components; component-- > 0;) {
        foldings = fold_in(std::move(foldings), component);
    }
    std::ranges::stable_sort(foldings, {}, &FoldedRow::first);
    std::ranges::for_each(foldings, complete_path);
    return foldings;
}

std::string tensor_tree(const std::vector<StoredRow>& rows) {
    const bool has_local =
        std::ranges::any_of(rows, [](const StoredRow& row) { return row.is_local; });
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

std::vector<bool> copies_only(const catalogue::Catalogue& catalogue) {
    std::vector<bool> is_copy(catalogue.files.size(), false);
    std::vector<bool> has_own(catalogue.files.size(), false);
    const auto look = [&](const catalogue::Piece& piece) {
        (piece.replica == 0 ? has_own : is_copy)[piece.file] = true;
    };
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        std::ranges::for_each(tensor.pieces, look);
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        look(shard.piece);
    }
    for (const std::size_t file : indices(is_copy)) {
        is_copy[file] = is_copy[file] && !has_own[file];
    }
    return is_copy;
}

std::string grid_text(const RankGrid& grid, const std::vector<bool>& is_copy) {
    if (grid.places.size() < 2) {
        return "";
    }
    Dims dims;
    std::ranges::copy_if(grid.axes, std::back_inserter(dims),
                         [](const catalogue::MeshDim& dim) { return dim.extent > 1; });
    std::string signs;
    for (const std::size_t place : indices(grid.places)) {
        signs += sign_of(grid, place, is_copy);
    }
    const std::string head = "rank files (" + meanings(signs) + "), " + heading(dims) + "\n";
    const std::size_t width = extent(dims, 0) * extent(dims, 1);
    if (dims.size() < 2 || width > kWidest) {
        constexpr std::size_t kGroup = 8;
        return head + picture(signs, std::min(kWidest, signs.size()), kGroup,
                              [](std::size_t rank) { return std::to_string(rank); });
    }
    const bool is_flat = dims.size() == 2;
    const std::size_t row = is_flat ? extent(dims, 0) : width;
    return head + picture(signs, row, extent(dims, 0), [&](std::size_t begin) {
               return name_of(dims.front()) +
                      std::to_string(begin / (signs.size() / extent(dims, dims.size() - 1)));
           });
}

std::string_view part_of(std::string_view tensor) {
    for (const NameRule& rule : name_rules().parts) {
        if (std::ranges::any_of(rule.patterns,
                                [&](std::string_view word) { return has_part(tensor, word); })) {
            return rule.what;
        }
    }
    return "other";
}

void ModelParts::add(std::string_view tensor, std::size_t n_tensors, DType dtype, Bytes bytes) {
    const PartRow more{"", n_tensors, static_cast<Index>(bytes / size_of(dtype)), bytes};
    add_to(parts_, part_of(tensor), more);
    add_to(dtypes_, torch_name(dtype), more);
}

std::vector<PartRow> ModelParts::parts() const {
    return sorted(parts_);
}

std::vector<PartRow> ModelParts::dtypes() const {
    return sorted(dtypes_);
}

PartRow ModelParts::all() const {
    std::vector<PartRow> sum{{"", 0, 0, 0}};
    for (const PartRow& row : dtypes_) {
        add_to(sum, "", row);
    }
    return sum.front();
}

}  // namespace shardweld::app
