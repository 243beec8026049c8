#include "adapter.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "../shared/hints.hpp"
#include "../shared/module_names.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr std::string_view kAdapter = ".adapter.";
constexpr std::string_view kUp = ".linear_out.weight";
constexpr const char* kMergeThere =
    "merge the adapter into the model with the framework that trained it and save that";

/// What the names of tensors or shards tell of an adapter.
struct FoundFactors {
    std::set<Index> ranks;  ///< by B, whose columns nothing cuts
    std::string first;      ///< a factor, "" if there is none
    bool is_only = true;

    template <typename Item>
    void add(const std::vector<Item>& items) {
        for (const Item& item : items) {
            const std::string& name = item.name;
            if (!is_factor(name)) {
                is_only = false;
                continue;
            }
            first = first.empty() ? name : first;
            if (name.ends_with(kUp) && !item.shape.empty()) {
                ranks.insert(item.shape.back());
            }
        }
    }
};

bool is_halved(std::string_view name) {
    return name.ends_with(kUp) &&
           (name.find(".linear_fc1.adapter.adapter_gate.") != std::string_view::npos ||
            name.find(".linear_fc1.adapter.adapter_up.") != std::string_view::npos);
}

}  // namespace

bool is_factor(std::string_view name) {
    if (name.find(kAdapter) == std::string_view::npos || is_extra_state(name)) {
        return false;
    }
    const bool is_plain = name.ends_with(".linear_in.weight") || name.ends_with(kUp);
    if (!is_plain || name.find(".experts.") != std::string_view::npos) {
        throw Error(ErrorCode::unsupported,
                    printable(name) + " belongs to an adapter " +
                        (is_plain ? "of experts" : "that is no plain LoRA") + ", which is not read",
                    kMergeThere);
    }
    return true;
}

void note_adapter(catalogue::Catalogue& out) {
    FoundFactors found;
    found.add(out.tensors);
    found.add(out.shards);
    if (found.first.empty()) {
        return;
    }
    if (found.ranks.empty()) {
        throw Error(ErrorCode::mismatch,
                    printable(found.first) + " is stored, but no linear_out of any layer",
                    kCopyAll);
    }
    if (found.ranks.size() > 1) {
        throw Error(ErrorCode::unsupported,
                    "the adapter's factors have ranks " + std::to_string(*found.ranks.begin()) +
                        " to " + std::to_string(*found.ranks.rbegin()),
                    kMergeThere);
    }
    out.facts["lora_rank"] = *found.ranks.begin();
    if (found.is_only) {
        out.facts["lora_only"] = 1;
    }
}

void undo_halves(catalogue::Tensor& tensor) {
    if (!is_halved(tensor.name) || tensor.shape.size() < 2) {
        return;
    }
    const std::size_t rows = tensor.shape.size() - 2;
    std::set<Index> begins;
    for (const catalogue::Piece& piece : tensor.pieces) {
        begins.insert(piece.patch.axes[rows].lo);
    }
    const auto n_blocks = static_cast<Index>(begins.size());
    const Index block = n_blocks == 0 ? 0 : tensor.shape[rows] / n_blocks;
    const bool is_even = n_blocks % 2 == 0 && block * n_blocks == tensor.shape[rows] &&
                         std::ranges::all_of(tensor.pieces, [&](const catalogue::Piece& piece) {
                             const layout::Axis& axis = piece.patch.axes[rows];
                             return axis.extent == block && axis.lo % block == 0;
                         });
    if (!is_even) {
        throw Error(ErrorCode::unsupported,
                    "the pieces of " + printable(tensor.name) +
                        " are not two equal halves for each rank: their order is not known",
                    kMergeThere);
    }
    const Index n_ranks = n_blocks / 2;
    for (catalogue::Piece& piece : tensor.pieces) {
        layout::Axis& axis = piece.patch.axes[rows];
        const Index at = axis.lo / block;
        axis.lo = (at % n_ranks * 2 + at / n_ranks) * block;
    }
}

}  // namespace shardweld::formats::megatron
