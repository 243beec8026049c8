// What is to be written and from where: the meeting of a catalogue and a recipe.
// Pure values and functions; knows no files' contents, no ranks, no output format.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "catalogue/file.hpp"
#include "layout/copy.hpp"
#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"

#include "fold.hpp"
#include "mix.hpp"
#include "quantised.hpp"

namespace shardweld::catalogue {
struct Catalogue;
struct Tensor;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

/// Elements of one file that go to one target. Source addresses count elements from file byte
/// `base`; destination addresses count elements of the target, row-major.
struct Operand {
    std::uint32_t file = 0;
    Bytes base = 0;
    layout::Copy copy;
    std::uint32_t term = 0;  ///< of the plan's terms: the one whose rounds read it

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.file, self.base, self.copy, self.term);
    };
};

/// Elements of a logical tensor, and where they stand in a target: destination addresses as those
/// of operands.
struct Part {
    std::string of;  ///< logical tensor, segment and axes, layers' numbers filled in
    layout::Patch patch;

    static constexpr auto fields = [](auto& self) { return std::tie(self.of, self.patch); };
};

/// One output tensor.
struct Target {
    std::string name;           ///< hub name
    DType stored = DType::f32;  ///< as the checkpoint holds it
    DType dtype = DType::f32;   ///< as it is written
    std::vector<Index> shape;
    Index add = 0;                  ///< added in fp32, rounded once
    std::vector<Operand> operands;  ///< cover every element exactly once
    std::vector<Operand> replicas;  ///< hold some elements again: compared, never written
    std::string source = {};  ///< the stored tensor all elements come from, "" if there are several
    std::string file = {};    ///< the file it has to lie in; "": one of the model's own
    std::optional<Fold> fold = {};  ///< changes it on the way
    std::optional<Mix> mix = {};    ///< it is made of several: operands of each cover it once
    std::optional<Quantised> quantised = {};  ///< it holds codes or scales
    std::vector<std::byte> literal = {};      ///< its bytes, where it has no operands
    Index block = 0;  ///< elements under one checksum, where that is not what block_elements says
    bool is_kept = false;  ///< written as it is stored, whatever --dtype says
    Index strip = 0;       ///< elements that are made at once, where another output is made with it
    std::vector<Part> parts = {};  ///< what it holds of the model, where it is asked for

    /// All but operands and replicas, of which most ranks need few.
    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.stored, self.dtype, self.shape, self.add, self.source,
                        self.file, self.fold, self.mix, self.quantised, self.literal, self.block,
                        self.is_kept, self.strip, self.parts);
    };

    /// As the elements of an operand or a replica are stored.
    [[nodiscard]] DType stored_as(const Operand& operand) const {
        return mix ? mix->terms[operand.term].stored : stored;
    }
    [[nodiscard]] Index volume() const;
    /// The elements of the operands that written elements [begin, end) are made of.
    [[nodiscard]] layout::Range sources(Index begin, Index end) const;
    /// Bytes of the operands' elements for one written element, at most.
    [[nodiscard]] Bytes stored_width() const;
    /// Elements that neither ranks nor rounds divide; 0: any are alike.
    [[nodiscard]] Index strip_elements() const { return quantised ? quantised->strip() : strip; }
    /// What the operands' elements are cast to.
    [[nodiscard]] DType cast() const { return holds_codes() ? quantised->weight : dtype; }
    [[nodiscard]] bool holds_codes() const {
        return quantised && quantised->part == Quantised::Part::codes;
    }
    /// The target behind it holds their scales.
    [[nodiscard]] bool has_scales() const {
        return holds_codes() && !facts_of(quantised->encoding).is_ggml();
    }
    /// A weight that is made of codes.
    [[nodiscard]] bool is_dequantised() const {
        return quantised && quantised->part == Quantised::Part::weight;
    }
    /// Made together with the target before it.
    [[nodiscard]] bool is_scales() const {
        return quantised && quantised->part == Quantised::Part::scales;
    }
    [[nodiscard]] Bytes bytes() const;  ///< as written
    /// Whether its bytes change on the way: cast, added to, folded, mixed, quantised or made.
    [[nodiscard]] bool is_converted() const;
};

struct Warning {
    std::string code;    ///< e.g. "replicas_sampled"
    std::string tensor;  ///< "" if none
    std::string text;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.code, self.tensor, self.text);
    };
};

/// Where every input element went, in bytes as stored.
struct Ledger {
    Bytes stored = 0;    ///< all elements of the checkpoint, counted before anything was matched
    Bytes consumed = 0;  ///< written, once each
    Bytes replica = 0;   ///< held again by other files
    Bytes padding = 0;
    std::vector<catalogue::Ignored> ignored;

    /// Counts one more tensor that is left out, together with those whose names differ in numbers.
    void ignore(const std::string& name, const std::string& reason, Bytes bytes);
    /// Error(mismatch) unless the parts sum up to `stored`.
    void require_closed() const;
};

/// A stored tensor that must equal a target in full before anything is written.
struct SamePair {
    enum class Why {
        tied,      ///< the recipe says so (`same a = b`)
        presumed,  ///< plain tensors of several ranks that might also be shards
        averaged,  ///< integers and booleans of several checkpoints, which no average is of
    };
    std::string stored_name;        ///< the copy, e.g. "output_layer.weight"
    std::size_t target = 0;         ///< index of the target it must equal
    std::size_t first_replica = 0;  ///< its operands are the target's replicas from here on
    std::size_t count = 0;          ///< so many of them
    Why why = Why::tied;
};

/// Rows of a stored tensor that are padding (`drop` in dialects).
struct Padding {
    std::string stored_name;
    Index kept = 0;
    Index dropped = 0;           ///< never 0
    std::optional<Index> below;  ///< what the framework's rule cannot reach
};

struct Binding {
    std::vector<Target> targets;  ///< natural order of names
    Ledger ledger;
    std::vector<Padding> padding;
    std::vector<SamePair> same;
    std::set<std::string> logicals;  ///< logical tensors the checkpoint holds ("mtp.{k}.proj")
    std::vector<Warning> warnings;
    /// How many MTP layers there are; nullopt where the recipe has none.
    std::optional<Index> n_predictions = {};
};

/// What the command line says about the targets.
struct Wanted {
    std::optional<DType> dtype;  ///< --dtype
    /// Under which name a target is written; empty: under the recipe's.
    std::function<std::string(const std::string&)> spelled = {};
    bool has_parts = false;  ///< targets get their parts
    /// Globs of names: of what is written as it is stored, these keep their dtype.
    std::vector<std::string> kept = {};
};

/// Everything bind needs to know of the model.
struct Model {
    const models::Recipe* recipe = nullptr;
    const models::Dialect* dialect = nullptr;
    const models::Symbols* symbols = nullptr;
};

/// What --dtype says, of targets that were bound without it: plain floats are written so.
void write_as(std::vector<Target>& targets, DType dtype);

/// Bytes of an operand's elements as stored.
Bytes source_bytes(const Target& target, const Operand& operand);
/// The same of all its operands.
Bytes source_bytes(const Target& target);

/// The hub's spelling of a module-tree name: the longest matching `rename` rule's. Where a dialect
/// has the recipe's own names, bind sees all stored names so.
std::string renamed(const models::Recipe& recipe, const std::string& name);

/// A target that is one stored tensor under `name`, with operands for its pieces. Error(mismatch)
/// when they do not cover it exactly once.
Target target_as_stored(const catalogue::Tensor& tensor, std::string name, const Wanted& wanted);

/// Matches stored tensors to dialect lines, joins rank-local shards, lowers both sides and checks
/// that each target is covered exactly once and each stored element is used. Error(mismatch) names
/// the tensor, what was found and expected; Error(not_found) for a missing shard. Where the dialect
/// has the recipe's own names, tensors that no line takes are written as they are stored, with a
/// warning unless the recipe lets them pass. `catalogue` is taken by value: its pieces move into
/// the binding.
Binding bind(catalogue::Catalogue catalogue, const Model& model, const Wanted& wanted);

}  // namespace shardweld::plan
