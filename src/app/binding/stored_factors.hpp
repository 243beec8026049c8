// Factors as a framework stores them, made those of whole matrices.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "app/family/model.hpp"
#include "catalogue/catalogue.hpp"
#include "models/recipe.hpp"

namespace shardweld::app {

inline constexpr const char* kMergeThere =
    "merge the adapter into the model with the framework that trained it and save that, or leave "
    "it out with --lora drop";
/// Error(mismatch): the other factor of its pair is not stored.
[[noreturn]] void refuse_half(const std::string& factor);

/// In the names of what is an expert's.
inline constexpr std::string_view kExperts = ".experts.";

/// Gives each expert its copy of a factor that all of them share (Megatron-Bridge's
/// experts_shared_outer_loras): the other one of its pair has an axis of experts. Gives the bytes
/// of the copies.
Bytes spread_shared(catalogue::Catalogue& factors, const models::LoraNames& names);

/// B whose segments are stored one by one ("X.linear_out.weight.z"), as the weight's are, is one
/// tensor again. Gives the names of these. Error(mismatch) where a segment is missing.
std::set<std::string> join_segments(catalogue::Catalogue& factors, const HeldModel& framework);

/// Factors B whose rows the reader found by ranks come in the order of the weight's.
void undo_rank_orders(const models::LoraForm& form, const models::LoraNames& names,
                      const models::Symbols& symbols, catalogue::Catalogue& factors);

/// B of a weight in segments, in pieces of the tensor-parallel ranks, has the rows of each rank
/// together (ColumnParallelLinear): they come in the order of the weight's. Gate and up are in
/// order. `joined`: what was stored by segments. Error(unsupported) for other pieces.
void order_segments(catalogue::Catalogue& factors, const HeldModel& framework,
                    const std::set<std::string>& joined);

}  // namespace shardweld::app
