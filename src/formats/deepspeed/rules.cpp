#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/regex.hpp"
#include "core/strides.hpp"
#include "core/text.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr Index kMostBoxes = Index{1} << 20U;

/// Some elements of the global tensor and of the local one, both strided: (offset, strides).
struct AffinePiece {
    std::vector<Index> shape;
    Index source = 0;
    std::vector<Index> source_strides;
    Index dest = 0;
    std::vector<Index> dest_strides;
    std::uint32_t replica = 0;  ///< ranks below that hold the same
};

[[noreturn]] void fail_map(const std::string& name) {
    throw Error(ErrorCode::corrupt, "its affine_map has a malformed entry for " + printable(name));
}

const PickleValue& part_of(const PickleValue& mapping, std::string_view key,
                           const std::string& name) {
    const PickleValue* const value = present(mapping, key);
    if (value == nullptr) {
        fail_map(name);
    }
    return *value;
}

void read_strided(const PickleValue& value, const std::string& name, Index& offset,
                  std::vector<Index>& strides) {
    if (value.elements().size() != 2) {
        fail_map(name);
    }
    offset = read_count(*value.elements()[0], "an offset");
    for (const PickleValue* const stride : value.elements()[1]->elements()) {
        strides.push_back(read_count(*stride, "a stride"));
    }
}

AffinePiece read_piece(const PickleValue& value, Index rank, const std::string& name) {
    AffinePiece piece;
    piece.shape = shape_of(part_of(value, "shape", name));
    read_strided(part_of(value, "source", name), name, piece.source, piece.source_strides);
    read_strided(part_of(value, "dest", name), name, piece.dest, piece.dest_strides);
    if (piece.source_strides.size() != piece.shape.size() ||
        piece.dest_strides.size() != piece.shape.size()) {
        fail_map(name);
    }
    for (const PickleValue* const location : elements_in(value, "locations")) {
        const auto holder = integer_of(location);
        piece.replica += holder && *holder < rank ? 1U : 0U;
    }
    return piece;
}

/// How many of a piece's last axes are the last ones of a dense tensor.
std::size_t common_axes(const AffinePiece& piece, const std::vector<Index>& global,
                        const std::vector<Index>& local) {
    std::size_t n = 0;
    const auto from_end = [&](const std::vector<Index>& all) { return all[all.size() - 1 - n]; };
    while (n < piece.shape.size() && n < global.size() &&
           from_end(piece.source_strides) == from_end(global) &&
           from_end(piece.dest_strides) == from_end(local)) {
        ++n;
    }
    return n;
}

// An axis that the tensor does not have (heads, interleaved) is gone through one by one.
void add_boxes(const AffinePiece& piece, const std::string& name, JoinRule& rule) {
    const std::vector<Index> strides = dense_strides(rule.shape);
    const std::vector<Index> local = dense_strides(rule.local_shape);
    const std::size_t n_inner = common_axes(piece, strides, local);
    const std::size_t n_outer = piece.shape.size() - n_inner;
    const Index n_boxes =
        volume_of(std::span(piece.shape).first(n_outer), "the boxes of a parameter");
    if (n_boxes > kMostBoxes || volume_of(piece.shape, "a box") == 0) {
        fail_map(name);
    }
    for (Index box = 0; box < n_boxes; ++box) {
        Index source = piece.source;
        Index dest = piece.dest;
        Index rest = box;
        for (std::size_t k = n_outer; k-- > 0;) {
            const Index at = rest % piece.shape[k];
            rest /= piece.shape[k];
            source = checked_add(source, checked_mul(at, piece.source_strides[k], "an offset"),
                                 "an offset");
            dest =
                checked_add(dest, checked_mul(at, piece.dest_strides[k], "an offset"), "an offset");
        }
        LocalBox part;
        part.replica = piece.replica;
        for (const std::size_t k : indices(rule.shape)) {
            const bool is_inner = k + n_inner >= rule.shape.size();
            const Index extent =
                is_inner ? piece.shape[k + piece.shape.size() - rule.shape.size()] : 1;
            const Index lo = source / strides[k];
            const Index local_lo = dest / local[k];
            source %= strides[k];
            dest %= local[k];
            if (lo > rule.shape[k] - extent || local_lo > rule.local_shape[k] - extent) {
                fail_map(name);
            }
            part.global.push_back(lo);
            part.local.push_back(local_lo);
            part.extent.push_back(extent);
        }
        rule.boxes.push_back(std::move(part));
    }
}

/// The affine map of AutoTP says where each strided part of a rank's parameter lies in the whole
/// one: the rule of boxes by which the part of tensor-parallel rank `rank` is joined.
/// Error(corrupt) for a malformed entry, Error(mismatch) for one of another shape.
JoinRule affine_rule(const PickleValue& entry, Index rank, const std::string& name,
                     const std::vector<Index>& local_shape) {
    JoinRule rule{
        JoinKind::boxes, shape_of(part_of(entry, "logical_shape", name)), local_shape, {}};
    const PickleValue& ranks = part_of(entry, "ranks", name);
    const PickleValue* own = nullptr;
    for (const auto& [number, value] : ranks.pairs()) {
        if (integer_of(&number) == rank) {
            own = &value;
        }
    }
    if (own == nullptr || shape_of(part_of(*own, "shard_shape", name)) != local_shape ||
        rule.shape.size() != local_shape.size() || volume_of(rule.shape, name) == 0 ||
        volume_of(local_shape, name) == 0) {
        throw Error(ErrorCode::mismatch,
                    "its affine_map does not describe " + printable(name) + " " +
                        shape_text(local_shape) + " of tensor-parallel rank " +
                        std::to_string(rank),
                    kOneSave);
    }
    for (const PickleValue* const piece : part_of(*own, "pieces", name).elements()) {
        add_boxes(read_piece(*piece, rank, name), name, rule);
    }
    return rule;
}

constexpr std::size_t kMostExpressions = 1000;

/// "^model\.norm\.weight$" as the name it stands for; nullopt for an expression that matches more.
std::optional<std::string> literal_of(std::string_view pattern) {
    if (!pattern.starts_with('^') || !pattern.ends_with('$')) {
        return std::nullopt;
    }
    std::string name;
    for (std::size_t i = 1; i + 1 < pattern.size(); ++i) {
        const bool is_escaped = pattern[i] == '\\' && i + 2 < pattern.size();
        const char c = pattern[is_escaped ? ++i : i];
        const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
        if (is_escaped ? is_word && c != '_' : !is_word && c != '-') {
            return std::nullopt;
        }
        name.push_back(c);
    }
    return name;
}

/// The first rule of each parameter counts.
class Rules {
  public:
    explicit Rules(const Shapes& shapes) : shapes_(shapes) {}

    void add_affine(const PickleValue& map, Index rank) {
        const PickleValue* const parameters = present(map, "params");
        if (parameters != nullptr) {
            for (const auto& [key, value] : parameters->pairs()) {
                for (const auto* const parameter : meant_by(key)) {
                    if (!rules_.contains(parameter->first)) {
                        rules_[parameter->first] =
                            affine_rule(value, rank, parameter->first, parameter->second);
                    }
                }
            }
        }
    }

    void add_patterns(const PickleValue& info, const char* list, JoinKind kind) {
        for (const PickleValue* const pattern : elements_in(info, list)) {
            for (const auto* const parameter : meant_by(*pattern)) {
                add_plain(parameter->first, kind);
            }
        }
    }

    void add_plain(const std::string& name, JoinKind kind) {
        rules_.try_emplace(name, JoinRule{kind, {}, {}, {}});
    }

    std::map<std::string, JoinRule> take() { return std::move(rules_); }

  private:
    /// Which parameters a pattern means: Python's re.match, from the beginning on.
    [[nodiscard]] std::vector<const Shapes::value_type*> meant_by(const PickleValue& pattern) {
        std::vector<const Shapes::value_type*> found;
        const std::string text(pattern.text());
        if (const auto name = literal_of(text)) {
            if (const auto at = shapes_.find(*name); at != shapes_.end()) {
                found.push_back(&*at);
            }
            return found;
        }
        if (++n_expressions_ > kMostExpressions) {
            throw Error(ErrorCode::unsupported, "its universal_checkpoint_info has more than " +
                                                    std::to_string(kMostExpressions) +
                                                    " expressions");
        }
        const Regex expression("^(?:" + text + ")");
        for (const Shapes::value_type& shape : shapes_) {
            if (expression.is_found_in(shape.first)) {
                found.push_back(&shape);
            }
        }
        return found;
    }

    const Shapes& shapes_;
    std::size_t n_expressions_ = 0;
    std::map<std::string, JoinRule> rules_;
};

constexpr const char* kConvert =
    "convert it with DeepSpeed's ds_to_universal.py and merge what that makes";

// What DeepSpeed itself cannot join, by pattern, with its reason.
void refuse_unsupported(const PickleValue& info) {
    const PickleValue* const patterns = present(info, "autotp_unsupported_parameter_patterns");
    if (patterns != nullptr && patterns->pair_count() > 0) {
        throw Error(ErrorCode::unsupported,
                    "its universal_checkpoint_info says that the parts of " +
                        printable(patterns->key(0).text()) +
                        " cannot be joined: " + printable(patterns->value(0).text(), 200),
                    "save it from the run with DeepSpeed's save_16bit_model");
    }
}

// Only the map says how parts of fused parameters lie in it.
void refuse_unmapped(const PickleValue& info) {
    for (const char* const list :
         {"parameter_with_sub_params", "parameter_with_2_sub_params_cat_dim_0"}) {
        if (!elements_in(info, list).empty()) {
            throw Error(ErrorCode::unsupported,
                        std::string("its universal_checkpoint_info has ") + list +
                            " but no affine_map, without which fused parameters are not joined",
                        kConvert);
        }
    }
}

}  // namespace

std::map<std::string, JoinRule> rules_in(const PickleValue& info, Index rank,
                                         const Shapes& shapes) {
    refuse_unsupported(info);
    Rules rules(shapes);
    if (const PickleValue* const map = present(info, "affine_map")) {
        rules.add_affine(*map, rank);
    } else {
        refuse_unmapped(info);
    }
    constexpr std::array<std::pair<const char*, JoinKind>, 4> kLists = {
        {{"tp_replicated_parameter_patterns", JoinKind::replicated},
         {"parameter_to_average_patterns", JoinKind::replicated},
         {"parameter_with_row_parallelism_patterns", JoinKind::columns},
         {"vocabulary_parameter_patterns", JoinKind::rows}}};
    for (const auto& [list, kind] : kLists) {
        rules.add_patterns(info, list, kind);
    }
    for (const auto& [name, shape] : shapes) {
        rules.add_plain(name, JoinKind::rows);
    }
    return rules.take();
}

}  // namespace shardweld::formats::deepspeed
