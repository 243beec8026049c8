#include "trace.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "models/pattern.hpp"
#include "plan/plan.hpp"

#include "hub_names.hpp"
#include "store_match.hpp"

namespace shardweld::plan {

namespace {

constexpr std::size_t kMostPieces = 64;

bool is_same(const std::string& logical, const std::string& pattern) {
    return logical == pattern || models::Pattern::parse(pattern).match(logical).has_value() ||
           models::Pattern::parse(logical).match(pattern).has_value();
}

/// A segment by the name of its logical tensor, with the captures filled in, and its label.
struct SegmentName {
    std::string logical;
    std::string label;
};

std::vector<SegmentName> segments_of_line(const models::Line& line,
                                          const models::Captures& captures) {
    std::vector<SegmentName> parts;
    for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
        parts.push_back({models::filled(line.logical, captures), segment.label});
    }
    return parts;
}

bool share_segment(const std::vector<SegmentName>& a, const std::vector<SegmentName>& b) {
    return std::ranges::any_of(a, [&](const SegmentName& one) {
        return std::ranges::any_of(b, [&](const SegmentName& other) {
            return one.label == other.label && is_same(one.logical, other.logical);
        });
    });
}

std::string line_text(const models::Line& line) {
    return line.name.text + " = " + line.logical + "  " + line.layout.text +
           (line.condition == nullptr ? "" : "  (conditional)") + "  [" + line.origin + "]";
}

std::string stored_text(const std::string& name, DType dtype, const std::vector<Index>& shape) {
    return "stored " + name + " " + safetensors_name(dtype) + " " + shape_text(shape);
}

std::string piece_text(const catalogue::Piece& piece, const catalogue::Catalogue& catalogue) {
    const std::string box = joined(piece.patch.axes, ", ", [](const layout::Axis& axis) {
        return std::to_string(axis.lo) + ":" + std::to_string(axis.lo + axis.extent);
    });
    return "  piece [" + box + "] in " + catalogue.files[piece.file].path + " at byte " +
           std::to_string(piece.base) + ", layout " + layout::to_text(piece.patch) +
           (piece.replica == 0 ? "" : ", replica " + std::to_string(piece.replica));
}

std::string coordinates_text(const catalogue::Coordinates& at) {
    return "  shard of tp " + std::to_string(at.tp) + ", pp " + std::to_string(at.pp) + ", vpp " +
           std::to_string(at.vpp) + ", ep " + std::to_string(at.ep) + ", etp " +
           std::to_string(at.etp) + ", fsdp " + std::to_string(at.fsdp);
}

/// Collects what is stored of one logical tensor, or of everything a name may mean.
class StoredTrace {
  public:
    StoredTrace(const catalogue::Catalogue& catalogue, const Model& model, std::string name)
        : catalogue_(catalogue),
          model_(model),
          matcher_(*model.dialect, *model.recipe, *model.symbols),
          name_(std::move(name)) {}

    std::vector<std::string> lines() {
        find_hub_lines();
        if (parts_.empty()) {
            find_stored_name();
        }
        for (const catalogue::Tensor& tensor : catalogue_.tensors) {
            if (concerns(tensor.name, tensor.shape)) {
                out_.push_back(stored_text(tensor.name, tensor.dtype, tensor.shape));
                if (!tensor.placement.empty()) {
                    out_.push_back("  placed " + tensor.placement);
                }
                add_line();
                for (std::size_t i = 0; i < std::min(tensor.pieces.size(), kMostPieces); ++i) {
                    out_.push_back(piece_text(tensor.pieces[i], catalogue_));
                }
                if (tensor.pieces.size() > kMostPieces) {
                    out_.push_back("  ... " + std::to_string(tensor.pieces.size()) + " pieces");
                }
            }
        }
        for (const catalogue::Shard& shard : catalogue_.shards) {
            if (concerns(shard.name, shard.shape)) {
                out_.push_back(stored_text(shard.name, shard.dtype, shard.shape));
                add_line();
                out_.push_back(coordinates_text(shard.at));
                out_.push_back(piece_text(shard.piece, catalogue_));
            }
        }
        for (const std::string& hub : hub_lines_) {
            out_.push_back("becomes " + hub);
        }
        return std::move(out_);
    }

  private:
    void find_hub_lines() {
        for_each_hub_name(*model_.recipe, *model_.symbols, [&](const HubName& hub) {
            if (hub.name == name_) {
                add(segments_of_line(*hub.line, hub.captures));
                hub_lines_.push_back(hub.name + ": " + line_text(*hub.line));
            }
            return true;
        });
    }

    /// The name is a stored one: all that its logical tensor becomes.
    void find_stored_name() {
        const auto note = [&](const std::string& stored, std::size_t n_dims) {
            const auto match = matcher_.find(renamed(*model_.recipe, stored), n_dims);
            if (stored == name_ && match) {
                add(segments_of_line(*match->line, match->captures));
            }
        };
        for (const catalogue::Tensor& tensor : catalogue_.tensors) {
            note(tensor.name, tensor.shape.size());
        }
        for (const catalogue::Shard& shard : catalogue_.shards) {
            note(shard.name, shard.shape.size());
        }
        for_each_hub_name(*model_.recipe, *model_.symbols, [&](const HubName& hub) {
            if (share_segment(parts_, segments_of_line(*hub.line, hub.captures))) {
                hub_lines_.push_back(hub.name + ": " + line_text(*hub.line));
            }
            return true;
        });
    }

    /// Whether a stored tensor is a part of what is traced; remembers its line.
    bool concerns(const std::string& stored, const std::vector<Index>& shape) {
        match_ = matcher_.find(renamed(*model_.recipe, stored), shape.size());
        if (!match_) {
            return stored == name_ || renamed(*model_.recipe, stored) == name_;
        }
        return share_segment(parts_, segments_of_line(*match_->line, match_->captures));
    }

    void add(std::vector<SegmentName> parts) { append_all(parts_, std::move(parts)); }

    void add_line() {
        out_.push_back(match_ ? "  line " + line_text(*match_->line)
                              : "  no line of " + model_.recipe->name + " takes it");
    }

    const catalogue::Catalogue& catalogue_;
    const Model& model_;
    StoreMatcher matcher_;
    std::string name_;
    std::vector<SegmentName> parts_;
    std::vector<std::string> hub_lines_;
    std::optional<StoreMatch> match_;
    std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> trace_stored(const catalogue::Catalogue& catalogue, const Model& model,
                                      const std::string& name) {
    catalogue::Catalogue known = catalogue;
    apply_aliases(known, model);
    return StoredTrace(known, model, name).lines();
}

namespace {

/// What becomes of stored elements on the way to an output, beside a fold.
std::string step_text(const Target& target, std::uint32_t output) {
    if (output >= target.n_made()) {
        return "";
    }
    if (target.encode) {
        return ", quantised as " + std::string(facts_of(target.encode->encoding).name);
    }
    if (target.decode) {
        return ", from codes of " + std::string(facts_of(target.decode->encoding).name);
    }
    return target.dtype == target.stored ? "" : ", cast from " + safetensors_name(target.stored);
}

/// The number of the written tensor of a name, or of the weight that is made into codes.
std::optional<std::uint32_t> written_as(const Plan& plan, const std::string& name) {
    for (std::uint32_t at = 0; at < plan.tensors.size(); ++at) {
        const Target& target = plan.target_of(at);
        const std::string& own = plan.tensor(at).name;
        if (own == name ||
            (plan.tensors[at].output == 0 && target.encode &&
             own == name + std::string(facts_of(target.encode->encoding).codes_ending))) {
            return at;
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<std::string> trace_target(const Plan& plan, const std::vector<catalogue::File>& files,
                                      const std::string& name) {
    const auto found = written_as(plan, name);
    if (!found) {
        return {};
    }
    const std::uint32_t at = *found;
    const WrittenTensor& tensor = plan.tensor(at);
    const outputs::Slot& slot = plan.placement.slots[at];
    std::vector<std::string> out;
    out.push_back("written " + tensor.name.text() + " " + safetensors_name(tensor.dtype) + " " +
                  shape_text(tensor.shape) + ", " + std::to_string(tensor.bytes()) + " bytes, to " +
                  plan.placement.files[slot.file].name + " at byte " + std::to_string(slot.offset) +
                  step_text(plan.target_of(at), plan.tensors[at].output));
    const std::span<const Operand> operands = plan.operands_of(at);
    for (std::size_t i = 0; i < std::min(operands.size(), kMostPieces); ++i) {
        const Operand& operand = operands[i];
        out.push_back("  " + std::to_string(operand.copy.volume()) + " elements from " +
                      files[operand.file].path + " at byte " + std::to_string(operand.base) +
                      " + " + std::to_string(operand.copy.src_offset) + " elements to element " +
                      std::to_string(operand.copy.dst_offset));
    }
    if (operands.size() > kMostPieces) {
        out.push_back("  ... " + std::to_string(operands.size()) + " copies");
    }
    std::string owners;
    for (int rank = 0; rank < plan.n_ranks(); ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        for (const Slice& slice : slices_of(plan, {plan.cuts[index], plan.cuts[index + 1]})) {
            if (slice.tensor == at) {
                owners += (owners.empty() ? "" : ", ") + std::to_string(rank) + " (elements " +
                          std::to_string(slice.begin) + ":" + std::to_string(slice.end) + ")";
            }
        }
    }
    out.push_back("  by rank " + (owners.empty() ? "none: it has no elements" : owners));
    return out;
}

}  // namespace shardweld::plan
