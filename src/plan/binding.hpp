// What is to be written and from where: the meeting of a catalogue and a recipe.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "catalogue/file.hpp"
#include "catalogue/tensor.hpp"
#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/lists.hpp"
#include "core/optional_box.hpp"
#include "core/shared_list.hpp"
#include "core/shared_string.hpp"
#include "layout/copy.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "numeric/encoding.hpp"
#include "plan/pieces.hpp"
#include "shardweld/events.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

/// A weight as matrices, rows of which are made together: no strip of rows is ever divided, so
/// neither ranks nor rounds cut a tile.
struct RowBlocks {
    Encoding encoding{};
    Index n_rows = 0;  ///< of a stack of matrices all rows
    Index n_columns = 0;
    Index strip_rows = 0;  ///< a multiple of the tile's

    static constexpr auto strip_fields = [](auto& self) {
        return std::tie(self.encoding, self.n_rows, self.n_columns, self.strip_rows);
    };
};

/// The weight becomes codes, the target's first output, and scales, its second one. The types of
/// GGML have both in one output.
struct Encode : RowBlocks {
    DType weight = DType::bf16;  ///< stored elements are cast to it first
    float global = 1;            ///< the divisor of scales, known before any row is written
    std::uint32_t share = 0;     ///< weights of one number have one divisor

    static constexpr auto fields = [](auto& self) {
        return std::tuple_cat(strip_fields(self), std::tie(self.weight, self.global, self.share));
    };

    [[nodiscard]] bool has_scales() const { return !facts_of(encoding).is_ggml(); }
    /// Codes of one row.
    [[nodiscard]] Index row_codes() const { return facts_of(encoding).code_columns(n_columns); }
    [[nodiscard]] Index strip_codes() const { return row_codes() * strip_rows; }
    [[nodiscard]] Index strip_scales() const {
        const EncodingFacts& facts = facts_of(encoding);
        return facts.scale_columns(n_columns) * facts.scale_rows(strip_rows);
    }
    /// Elements of the weight for one of the codes, at most.
    [[nodiscard]] Index packing() const { return (n_columns + row_codes() - 1) / row_codes(); }
};

/// The weight is made of codes, which are the target's operands; its scales lie in the file of
/// factors.
struct Decode : RowBlocks {
    DType scales = DType::f32;  ///< that the scales are computed in
    Bytes scales_at = 0;        ///< in the file of factors, as they are stored
    Bytes global_at = 0;        ///< the same of the divisor of scales, f32
    Index rows_per_scale = 0;   ///< that share a stored scale; 0: those of a tile

    static constexpr auto fields = [](auto& self) {
        return std::tuple_cat(strip_fields(self), std::tie(self.scales, self.scales_at,
                                                           self.global_at, self.rows_per_scale));
    };

    /// Experts that are stored by columns: codes and scales of a weight come transposed.
    [[nodiscard]] bool is_turned() const { return facts_of(encoding).by_columns; }
    [[nodiscard]] Index strip() const { return n_columns * strip_rows; }
    /// Elements of the weight for one of the codes, at most.
    [[nodiscard]] Index packing() const {
        const Index codes = facts_of(encoding).code_columns(n_columns);
        return is_turned() ? 2 : (n_columns + codes - 1) / codes;
    }
    /// Rows that a stored scale, or a row of them, is for.
    [[nodiscard]] Index rows_of_scale() const {
        const EncodingFacts& facts = facts_of(encoding);
        return rows_per_scale > 0 ? rows_per_scale
               : is_turned()      ? facts.tile_columns
                                  : facts.tile_rows;
    }
    [[nodiscard]] Bytes scale_row_bytes() const {
        const EncodingFacts& facts = facts_of(encoding);
        const Index columns = is_turned() ? n_columns : facts.scale_columns(n_columns);
        return static_cast<Bytes>(columns) * size_of(facts.scale_type(scales));
    }
    /// Codes of so many whole rows.
    [[nodiscard]] Index codes_in(Index rows) const {
        return is_turned() ? rows / 2 * n_columns
                           : rows * facts_of(encoding).code_columns(n_columns);
    }
};

/// Rows of a strip, about a megabyte of bf16.
inline Index strip_rows_of(Index tile_rows, Index columns) {
    constexpr Index kElements = Index{1} << 19U;
    const Index tiles = kElements / tile_rows / (columns > 0 ? columns : 1);
    return tile_rows * (tiles > 1 ? tiles : 1);
}

/// One checkpoint's part.
struct Term {
    DType stored = DType::f32;  ///< as that checkpoint holds the tensor
    Index add = 0;              ///< as Target::add
    float weight = 1;
};

/// The ways in which several checkpoints become one.
enum class MixKind {
    sum,    ///< of weight * x
    deltas  ///< the first term is the base b; the others add weight * (x - b)
};

/// Terms are added in their order. Order of operations: numeric/sum.hpp.
struct Mix {
    MixKind kind = MixKind::sum;
    std::vector<Term> terms;

    /// fp32 values that are held for each element: the sum, and the base where it is needed again.
    [[nodiscard]] Index n_strips() const {
        return kind == MixKind::deltas && terms.size() > 2 ? 2 : 1;
    }
};

/// fp32 elements in the file of factors: (i, k) lies at `offset` + 4 * (i * row_stride + k *
/// col_stride), of matrix b of several `b * batch_stride` elements further.
struct Matrix {
    Bytes offset = 0;
    Index row_stride = 0;
    Index col_stride = 0;
    Index batch_stride = 0;
};

/// The target as a matrix W, or as n_batches of them one behind the other, becomes gain * (W +
/// scale * left * right), in fp32, rounded once to the type that is written. Order of operations:
/// numeric/low_rank.hpp. Or, of rank 0, it stays as it is but for `rows`.
struct Fold {
    /// Along what a weight is normalised (DoRA): each row or each column has a gain of its own.
    enum class Norm { none, rows, columns };

    Index n_batches = 1;  ///< more than one: without a norm
    Index n_rows = 0;     ///< of one matrix
    Index n_cols = 0;
    Index rank = 0;
    double scale = 1;            ///< rounded to fp32 where it is used
    std::optional<Matrix> left;  ///< n_rows x rank; none: all ones
    Matrix right;                ///< rank x n_cols
    Norm norm = Norm::none;
    /// fp32 per row or column: magnitudes; replaced by gains (magnitude / norm) before the fold.
    Bytes magnitudes = 0;
    std::vector<Index> rows = {};  ///< in whose place the rows of `right` stand

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.n_batches, self.n_rows, self.n_cols, self.rank, self.scale, self.left,
                        self.right, self.norm, self.magnitudes, self.rows);
    };
};

/// Elements of a weight that is folded into, among those of a target that holds others, too: a
/// piece of a training checkpoint. The fold is rounded to the weight's own type before any other
/// cast.
struct FoldedPart {
    Fold fold;
    DType weight = DType::f32;
    layout::Copy copy;  ///< from the weight's elements to the target's
};

/// Elements of a weight that is made of codes, likewise. The codes of a target's operands stand in
/// the order of its elements. Values are rounded to bf16 before any other cast.
struct DecodedPart {
    Decode how;
    layout::Copy copy;  ///< from the weight's elements to the target's
};

/// Elements of one file that go to one target. Source addresses count elements from file byte
/// `base`; destination addresses count elements of the target, row-major.
struct Operand {
    std::uint32_t file = 0;
    Bytes base = 0;
    layout::Copy copy;
    std::uint32_t term = 0;  ///< of the plan's terms: the one whose rounds read it
    /// The type of a replica that has one of its own, as an fp32 master beside a weight: the f32 of
    /// the two rounds to the other.
    std::optional<DType> own_type = {};
};

/// Elements of a logical segment, and where they stand in a target: destination addresses as those
/// of operands.
struct LogicalPatch {
    std::string segment;  ///< logical tensor, segment and axes, layers' numbers filled in
    layout::Patch patch;
};

/// Bytes of a tensor in one block of its checksum; its last block may have less. Codes and scales
/// have a strip in a block.
inline constexpr Bytes kDigestBlock = Bytes{1} << 20U;

/// A tensor that is written.
struct WrittenTensor {
    SharedName name;           ///< hub name, or piece_name
    DType dtype = DType::f32;  ///< as it is written
    SharedList<Index> shape;
    SharedList<std::byte> literal = {};  ///< its bytes, where it is made of nothing stored

    static constexpr auto tensor_fields = [](auto& self) {
        return std::tie(self.name, self.dtype, self.shape, self.literal);
    };
    static constexpr auto fields = tensor_fields;

    [[nodiscard]] Index volume() const;
    [[nodiscard]] Bytes bytes() const;
};
[[nodiscard]] inline std::string full_name(const WrittenTensor& tensor) {
    return tensor.name.text();
}

/// A work item: what is stored of a tensor of the model, what becomes of it, and what is written of
/// it, its outputs. The target itself is the first output; `beside` it are the scales that are made
/// with codes, and behind these what is made of nothing stored, such as a shape or a divisor.
struct Target : WrittenTensor {
    DType stored = DType::f32;    ///< as the checkpoint holds it
    bool is_kept = false;         ///< written as it is stored, whatever --dtype says
    bool is_copy = false;         ///< the model's elements are those of another target
    bool is_second_name = false;  ///< a copy of another tensor: a tied head, of the embedding
    std::uint32_t piece = 0;      ///< the number of the piece of a training checkpoint that it is
    Index add = 0;                ///< added in fp32, rounded once
    SharedList<Operand> operands = {};  ///< cover every element exactly once, but for `zeros`
    SharedList<Operand> replicas = {};  ///< hold some elements again: compared, never written
    SharedList<WrittenTensor> beside = {};
    /// The stored tensor all elements come from; "" if there are several, and of pieces.
    SharedString source = {};
    SharedString file = {};              ///< the file it has to lie in; "": one of the model's own
    OptionalBox<Fold> fold = {};         ///< changes it on the way
    SharedList<FoldedPart> folded = {};  ///< or parts of it, each by a weight's fold
    SharedList<DecodedPart> decoded = {};  ///< or all of it is made of codes, part by part
    OptionalBox<Mix> mix = {};  ///< it is made of several: operands of each cover it once
    OptionalBox<Encode> encode = {};
    OptionalBox<Decode> decode = {};
    Index block = 0;  ///< elements under one checksum, where that is not what block_elements says
    Index strip = 0;  ///< elements that are made at once, where another output is made with it
    SharedList<LogicalPatch> logical_patches =
        {};                                ///< what it holds of the model, where it is asked for
    SharedList<layout::Range> zeros = {};  ///< ascending: nothing is stored of these elements
    SharedString state = {};  ///< of the optimizer, that it holds of a weight; "": the weight

    /// All but operands and replicas, of which most ranks need few.
    static constexpr auto fields = [](auto& self) {
        return std::tuple_cat(
            tensor_fields(self),
            std::tie(self.stored, self.add, self.zeros, self.is_copy, self.is_second_name,
                     self.beside, self.source, self.file, self.fold, self.folded, self.decoded,
                     self.mix, self.encode, self.decode, self.block, self.strip, self.is_kept,
                     self.logical_patches, self.state));
    };

    [[nodiscard]] Index n_zeros() const { return add_up(zeros, &layout::Range::extent); }
    /// The type in which the elements of an operand or a replica are stored.
    [[nodiscard]] DType stored_as(const Operand& operand) const {
        return operand.own_type ? *operand.own_type
               : mix            ? mix->terms[operand.term].stored
                                : stored;
    }
    /// What the operands' elements are cast to.
    [[nodiscard]] DType cast() const { return encode ? encode->weight : dtype; }
    /// The elements of the operands that elements [begin, end) of the first output are made of.
    [[nodiscard]] layout::Range sources(Index begin, Index end) const;
    /// Elements of the weight for one of its codes, at most; 1 where there are none.
    [[nodiscard]] Index packing() const {
        return encode             ? encode->packing()
               : decode           ? decode->packing()
               : !decoded.empty() ? decoded.front().how.packing()
                                  : 1;
    }
    /// Bytes of the operands' elements for one element of the first output, at most.
    [[nodiscard]] Bytes stored_width() const;
    /// Whether its bytes change on the way: cast, added to, folded, mixed, encoded or made.
    [[nodiscard]] bool is_converted() const;

    // By number of an output, counted from the first.
    [[nodiscard]] std::uint32_t n_outputs() const {
        return 1 + static_cast<std::uint32_t>(beside.size());
    }
    [[nodiscard]] const WrittenTensor& output(std::uint32_t at) const {
        return at == 0 ? *this : beside[at - 1];
    }
    /// So many outputs are made together of the operands, strip by strip where there are several;
    /// those behind them are constants.
    [[nodiscard]] std::uint32_t n_made() const { return encode && encode->has_scales() ? 2 : 1; }
    /// Elements that neither ranks nor rounds divide; 0: any are alike.
    [[nodiscard]] Index strip_elements(std::uint32_t at = 0) const;
    /// Elements under one checksum and in one block of the journal: kDigestBlock, or a strip.
    [[nodiscard]] Index block_elements(std::uint32_t at = 0) const;
    /// Bytes of a whole strip, of all outputs that are made together.
    [[nodiscard]] Bytes strip_bytes() const;
};

using Targets = std::vector<Target>;

/// All tensors that targets write, in their order. The targets must outlive it.
class WrittenTensors {
  public:
    WrittenTensors(const std::vector<Target>& targets);  // NOLINT(google-explicit-constructor)

    [[nodiscard]] std::size_t size() const { return tensors_.size(); }
    const WrittenTensor& operator[](std::size_t at) const { return *tensors_[at]; }

  private:
    std::vector<const WrittenTensor*> tensors_;
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
    /// Counts what a target and its replicas are made of.
    void count(const Target& target);
    /// Counts a target as left out that was counted.
    void leave_out(const Target& target, const std::string& reason);
    void add(const Ledger& more);
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

/// A model's tensors, each with the stored elements that it is made of.
struct Binding {
    std::vector<Target> targets;  ///< natural order of names
    Ledger ledger;
    std::vector<Padding> padding;
    std::vector<SamePair> same;
    std::set<std::string> logicals;  ///< logical tensors the checkpoint holds ("mtp.{k}.proj")
    std::vector<Warning> warnings;
    /// How many MTP layers there are; nullopt where the recipe has none.
    std::optional<Index> n_predictions = {};
    std::vector<std::string> lacking = {};   ///< names of which nothing is stored, sorted
    std::vector<std::string> supplied = {};  ///< names that another model has, sorted
};

/// What is asked of the targets, by the command line and by what is written.
struct BindOptions {
    std::optional<DType> dtype;  ///< --dtype
    /// Under which name a target is written; empty: under the recipe's.
    std::function<std::string(const std::string&)> spelled = {};
    bool has_logical_patches = false;  ///< targets get theirs
    /// Globs of names of tensors that keep their dtype; only those that no line takes.
    std::vector<std::string> kept = {};
    PiecesOf pieces = {};  ///< how the ranks of a training run hold tensors; empty: whole
    /// With pieces: what the run calls a tensor that no line of the recipe has.
    std::function<std::string(const std::string& hub_name)> passing = {};
    /// With pieces of a template: what to do where it has no place for a tensor; else "".
    std::string unplaced_hint = {};
    bool has_names_for_all = true;  ///< with pieces: also for tensors that are no part of a family
    /// Tensors of which nothing is stored are noted and left out: an optimizer has no states of
    /// buffers and frozen weights.
    bool may_lack = false;
    /// Names of which nothing is stored because another model has them. They are not bound.
    std::set<std::string> supplied = {};
    /// Rows that fill up a vocabulary are carried over where source and target have as many.
    bool keeps_padding = false;
};

/// Everything bind needs to know of the model.
struct Model {
    const models::Recipe* recipe = nullptr;
    const models::Dialect* dialect = nullptr;
    const models::Symbols* symbols = nullptr;
    /// Fields of config.json that the command line sets, and the options that do so.
    std::map<std::string, std::string> by_option = {};
    /// The symbols of the training checkpoint that is written, whose parallel sizes are not those
    /// of the checkpoint that is read; null: `symbols`.
    const models::Symbols* written = nullptr;

    [[nodiscard]] const models::Symbols& of_written() const {
        return written == nullptr ? *symbols : *written;
    }
};

/// Puts another model's targets among those of a binding, which has none of their names.
void supplement(Binding& binding, std::vector<Target> targets);

/// What --dtype says, of targets that were bound without it: plain floats are written so.
void write_as(std::vector<Target>& targets, DType dtype);

/// Bytes of an operand's elements as stored.
Bytes source_bytes(const Target& target, const Operand& operand);
/// The bytes of all operands of a target, and of all its replicas.
Bytes source_bytes(const Target& target);
Bytes replica_bytes(const Target& target);

/// The hub's spelling of a module-tree name: the longest matching `rename` rule's. Where a dialect
/// has the recipe's own names, bind sees all stored names so.
std::string renamed(const models::Recipe& recipe, const std::string& name);

/// A target that is one stored tensor under `name`, with operands for its pieces. Error(mismatch)
/// when they do not cover it exactly once.
Target target_as_stored(const catalogue::Tensor& tensor, SharedName name,
                        const BindOptions& options);

/// A tensor of a checkpoint as bind sees it: whole, under the name that the recipe knows.
struct NamedTensor {
    catalogue::Tensor tensor;
    const models::Line* line = nullptr;  ///< of the dialect; null: none takes it
    Index padding = 0;                   ///< rows that the line drops
};

/// What bind would file, by name. Tensors that the dialect ignores are left out. Error(mismatch),
/// Error(not_found) as by bind.
std::vector<NamedTensor> named_tensors(catalogue::Catalogue catalogue, const Model& model);

/// Matches stored tensors to dialect lines, joins rank-local shards, lowers both sides and checks
/// that each target is covered exactly once and each stored element is used. Error(mismatch) names
/// the tensor, what was found and expected; Error(not_found) for a missing shard. Where the dialect
/// has the recipe's own names, tensors that no line takes are written as they are stored, with a
/// warning unless the recipe lets them pass. `catalogue` is taken by value: its pieces move into
/// the binding.
Binding bind(catalogue::Catalogue catalogue, const Model& model, const BindOptions& options);

}  // namespace shardweld::plan
