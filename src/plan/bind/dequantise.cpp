#include "dequantise.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "outputs/output.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

#include "transposed.hpp"

namespace shardweld::plan {

namespace {

using catalogue::Tensor;

/// What stands beside codes, and says nothing beside values: behind the weight's name.
constexpr std::array<std::string_view, 6> kOfCodes = {"_scale",      "_scale_inv", "_global_scale",
                                                      "_zero_point", "_shape",     "_g_idx"};
constexpr const char* kActivations =
    "a scale of activations or of a cache, which values do not need";

bool is_of_activations(const Tensor& tensor) {
    return tensor.shape.size() <= 1 && is_known_as(tensor.name, "scale of activations");
}

struct NamesAround {
    std::string weight;
    std::string scales;
};

/// The names of the weight whose codes a tensor holds, and of its scales; nullopt: it holds none.
template <typename IsStored>
std::optional<NamesAround> names_around(const Tensor& tensor, const IsStored& is_stored) {
    if (is_trained_in(tensor.dtype)) {
        return std::nullopt;
    }
    for (const EncodingFacts& facts : all_encodings()) {
        if (facts.is_ggml() || !tensor.name.ends_with(facts.codes_ending)) {
            continue;
        }
        std::string weight = tensor.name.substr(0, tensor.name.size() - facts.codes_ending.size());
        std::string scales = weight + std::string(facts.scales_ending);
        if (is_stored(scales)) {
            return NamesAround{std::move(weight), std::move(scales)};
        }
    }
    return std::nullopt;
}

/// Leaves tensors aside for which `reason_of` has a reason, and keeps those with none.
void leave_by(const std::function<std::string(const Tensor&)>& reason_of,
              catalogue::Catalogue& catalogue) {
    Ledger left;
    left.ignored = std::move(catalogue.ignored);
    std::erase_if(catalogue.tensors, [&](const Tensor& tensor) {
        const std::string reason = reason_of(tensor);
        if (!reason.empty()) {
            left.ignore(tensor.name, reason, catalogue::stored_bytes(tensor));
        }
        return !reason.empty();
    });
    catalogue.ignored = std::move(left.ignored);
}

class Taker {
  public:
    Taker(catalogue::Catalogue& catalogue, const BitsOf& bits)
        : catalogue_(catalogue), bits_(bits) {
        for (const std::size_t i : indices(catalogue.tensors)) {
            places_[catalogue.tensors[i].name] = i;
        }
    }

    std::vector<EncodedWeight> take_weights() {
        for (const Tensor& tensor : catalogue_.tensors) {
            add_if_codes(tensor);
        }
        leave_by([&](const Tensor& tensor) { return reason_to_leave(tensor); }, catalogue_);
        std::vector<Tensor>& others = catalogue_.tensors;
        std::erase_if(others, [&](const Tensor& tensor) { return taken_.contains(tensor.name); });
        for (const EncodedWeight& weight : weights_) {
            others.push_back(pretended(weight));
        }
        std::ranges::sort(others, natural_less, &Tensor::name);
        return std::move(weights_);
    }

  private:
    [[nodiscard]] const Tensor* find(const std::string& name) const {
        const auto at = places_.find(name);
        return at == places_.end() ? nullptr : &catalogue_.tensors[at->second];
    }

    /// Notes the weight whose codes a tensor holds, if it holds any.
    void add_if_codes(const Tensor& tensor) {
        const auto is_stored = [&](const std::string& name) { return find(name) != nullptr; };
        if (const auto names = names_around(tensor, is_stored)) {
            add(tensor, *find(names->scales), names->weight);
        }
    }

    /// Why the values need a tensor no more; "" for all others.
    [[nodiscard]] std::string reason_to_leave(const Tensor& tensor) const {
        if (shapes_.contains(tensor.name)) {
            return "the weight's shape";
        }
        return !weights_.empty() && is_of_activations(tensor) ? kActivations : "";
    }

    void add(const Tensor& codes, const Tensor& scales, std::string name) {
        EncodedWeight weight{{}, std::move(name), {}, codes, scales, std::nullopt, 0};
        if (find(weight.name + "_zero_point") != nullptr ||
            find(weight.name + "_g_idx") != nullptr) {
            refuse(weight, "has zero points");
        }
        if (const Tensor* global = find(weight.name + "_global_scale")) {
            weight.global = *global;
            taken_.insert(global->name);
        }
        if (const Tensor* shape = find(weight.name + "_shape")) {
            shapes_.insert(shape->name);
        }
        resolve_encoding(weight);
        taken_.insert(codes.name);
        taken_.insert(scales.name);
        weights_.push_back(std::move(weight));
    }

    [[noreturn]] static void refuse(const EncodedWeight& weight, const std::string& what) {
        throw Error(ErrorCode::unsupported, weight.name + " " + what + ": it cannot be dequantised",
                    "leave --dtype out to keep what is stored");
    }

    /// Which encoding it is, and the weight's shape.
    void resolve_encoding(EncodedWeight& weight) const {
        const std::vector<Index>& codes = weight.codes.shape;
        auto* const stacked = find_where(all_encodings(), [&](const auto& facts) {
            return facts.by_columns && weight.codes.name.ends_with(facts.codes_ending);
        });
        const bool is_stack = stacked != nullptr;
        if (is_stack ? codes.size() != 4 : codes.size() != 2 && codes.size() != 3) {
            refuse(weight, "has codes of shape " + shape_text(codes));
        }
        if (is_stack) {
            weight.encoding = stacked->encoding;
            weight.shape = {codes[0], codes[2] * stacked->tile_columns, codes[1]};
            require_shape(weight, weight.codes,
                          {codes[0], codes[1], codes[2], codes[3] == 16 ? 16 : -1});
            require_shape(weight, weight.scales, {codes[0], codes[1], codes[2]});
            return;
        }
        if (find_encoding(weight) || shares_scales(weight)) {
            return;
        }
        refuse(weight, "has codes of " + safetensors_name(weight.codes.dtype) + " " +
                           shape_text(codes) + " and scales of " +
                           safetensors_name(weight.scales.dtype) + " " +
                           shape_text(weight.scales.shape) + ", which belong to no known encoding");
    }

    /// The first of all encodings that fit; false: none. Few columns may be codes of 4 or of 8
    /// bits.
    bool find_encoding(EncodedWeight& weight) const {
        const std::optional<Index> bits = bits_(module_of(weight.name));
        std::optional<EncodedWeight> found;
        for (const EncodingFacts& facts : all_encodings()) {
            weight.encoding = facts.encoding;
            const Index own = facts.code_bits;
            if (own != bits.value_or(own) || !fits(weight)) {
                continue;
            }
            if (found && facts_of(found->encoding).code_bits != own) {
                refuse(weight,
                       "may have codes of 4 bits or of 8, and quantization_config does "
                       "not say which (num_bits)");
            }
            found = found ? std::move(found) : std::optional(weight);
        }
        if (found) {
            weight = std::move(*found);
        }
        return found.has_value();
    }

    /// Whether names, types and shapes are those of weight.encoding; then sets the weight's shape.
    static bool fits(EncodedWeight& weight) {
        const EncodingFacts& facts = facts_of(weight.encoding);
        const bool names =
            weight.codes.name.ends_with(facts.codes_ending) &&
            weight.scales.name.ends_with(facts.scales_ending) &&
            weight.codes.name.size() == weight.name.size() + facts.codes_ending.size();
        const bool types = weight.codes.dtype == facts.codes &&
                           (facts.scales ? weight.scales.dtype == *facts.scales
                                         : is_trained_in(weight.scales.dtype));
        if (!names || !types || facts.by_columns ||
            (facts.divisor != nullptr) != weight.global.has_value()) {
            return false;
        }
        std::vector<Index> shape = weight.codes.shape;
        std::vector<Index> scales = weight.scales.shape;
        if (scales.size() != shape.size()) {
            return false;
        }
        const Index per_code = 8 / facts.code_bits * static_cast<Index>(size_of(facts.codes));
        shape.back() = checked_mul(shape.back(), per_code, weight.name);
        const std::size_t rows = shape.size() - 2;
        std::vector<Index> wanted = shape;
        wanted[rows] = facts.scale_rows(shape[rows]);
        wanted.back() = facts.scale_columns(shape.back());
        const bool is_cut = shape.size() == 3 && shape[rows] % facts.tile_rows != 0;
        if (wanted != scales || is_cut ||
            (facts.tile_rows == 1 && facts.tile_columns != 0 &&
             shape.back() % facts.tile_columns != 0)) {
            return false;
        }
        weight.shape = std::move(shape);
        return true;
    }

    /// FP8 with a scale for each matrix, whatever number of dims it has.
    static bool shares_scales(EncodedWeight& weight) {
        const std::vector<Index>& shape = weight.codes.shape;
        const Index matrices = shape.size() == 3 ? shape.front() : 1;
        const Index scales = volume_of(weight.scales.shape, weight.scales.name);
        const auto odd = std::ranges::count_if(weight.scales.shape, [](Index n) { return n != 1; });
        if (weight.codes.dtype != DType::f8_e4m3 || !is_trained_in(weight.scales.dtype) ||
            odd > 1 || scales < 1 ||
            (scales != 1 && (scales != matrices || weight.scales.shape[0] == 1))) {
            return false;
        }
        const auto by_row = std::ranges::find_if(all_encodings(), [](const EncodingFacts& facts) {
            return facts.codes == DType::f8_e4m3 && facts.tile_rows == 1;
        });
        weight.encoding = by_row->encoding;
        weight.shape = shape;
        weight.rows_per_scale = shape[shape.size() - 2] * (scales == 1 ? matrices : 1);
        return weight.rows_per_scale > 0;
    }

    /// As quantization_config names it.
    static std::string module_of(const std::string& weight) {
        constexpr std::string_view kWeight = ".weight";
        return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size())
                                         : weight;
    }

    static void require_shape(const EncodedWeight& weight, const Tensor& tensor,
                              const std::vector<Index>& shape) {
        if (tensor.shape != shape || tensor.dtype != DType::u8) {
            refuse(weight, "has " + tensor.name + " of " + safetensors_name(tensor.dtype) + " " +
                               shape_text(tensor.shape));
        }
    }

    /// The weight as if it were stored, where its codes are.
    static Tensor pretended(const EncodedWeight& weight) {
        Tensor tensor;
        tensor.name = weight.name;
        tensor.dtype = DType::bf16;
        tensor.shape = weight.shape;
        catalogue::Piece piece;
        piece.file = weight.codes.pieces.empty() ? 0 : weight.codes.pieces.front().file;
        piece.patch = layout::dense_shape(weight.shape);
        piece.storage_bytes =
            static_cast<Bytes>(volume_of(weight.shape, weight.name)) * size_of(tensor.dtype);
        tensor.pieces.push_back(std::move(piece));
        return tensor;
    }

    catalogue::Catalogue& catalogue_;
    const BitsOf& bits_;
    std::map<std::string, std::size_t> places_;
    std::set<std::string> taken_;
    std::set<std::string> shapes_;  ///< tensors that say what is known anyway
    std::vector<EncodedWeight> weights_;
};

/// Whether a target is one stored tensor, element by element; its segments may have an operand
/// each.
bool is_as_stored(const Target& target, const std::vector<Index>& shape) {
    return target.shape == shape && target.add == 0 && !target.fold &&
           std::ranges::all_of(target.operands, [](const Operand& operand) {
               return operand.copy.src_offset == operand.copy.dst_offset &&
                      std::ranges::all_of(operand.copy.loops, [](const layout::Loop& loop) {
                          return loop.src_stride == loop.dst_stride;
                      });
           });
}

/// Targets by the stored tensor that they are made of.
using TargetsBySource = std::multimap<std::string, Target*>;

TargetsBySource by_source(std::vector<Target>& targets) {
    TargetsBySource found;
    for (Target& target : targets) {
        found.emplace(target.source, &target);
    }
    return found;
}

Target& target_of(const TargetsBySource& targets, const EncodedWeight& weight) {
    const auto [begin, end] = targets.equal_range(weight.name);
    const auto at = std::find_if(
        begin, end, [&](const auto& entry) { return is_as_stored(*entry.second, weight.shape); });
    if (at == end) {
        throw Error(ErrorCode::unsupported,
                    weight.name + " cannot be dequantised: it is not written as it is stored",
                    "keep the stored names with --names module");
    }
    return *at->second;
}

/// Codes as the operands of the weight's target.
void give_codes(Target& target, const EncodedWeight& weight) {
    const EncodingFacts& facts = facts_of(weight.encoding);
    const bool is_turned = facts_of(weight.encoding).by_columns;
    Tensor codes = weight.codes;
    Target made = target_as_stored(codes, codes.name, {});
    if (is_turned) {
        Transposed(std::array{codes.shape[0], codes.shape[1], codes.shape[2] * codes.shape[3]})
            .transpose(made);
    }
    const Index columns = weight.shape.back();
    const Index tile = is_turned ? facts.tile_columns : facts.tile_rows;
    target.operands = std::move(made.operands);
    target.replicas = std::move(made.replicas);
    target.stored = codes.dtype;
    Decode how;
    how.encoding = weight.encoding;
    how.n_rows = target.volume() / std::max<Index>(columns, 1);
    how.n_columns = columns;
    how.strip_rows = strip_rows_of(tile, columns);
    how.scales = weight.scales.dtype;
    how.rows_per_scale = weight.rows_per_scale;
    target.decode = how;
}

/// Scales, and their divisor behind them, as they are stored.
void add_scales(const EncodedWeight& weight, std::vector<Target>& out) {
    out.push_back(target_as_stored(weight.scales, weight.scales.name, {}));
    if (facts_of(weight.encoding).by_columns) {
        const std::vector<Index> shape = out.back().shape;
        Transposed(shape).transpose(out.back());
        out.back().shape = {shape[0], shape[2], shape[1]};
    }
    if (weight.global) {
        out.push_back(target_as_stored(*weight.global, weight.global->name, {}));
        if (weight.global->dtype != DType::f32 || out.back().volume() != 1) {
            throw Error(ErrorCode::unsupported, weight.global->name + " is no single F32 value: " +
                                                    weight.name + " cannot be dequantised");
        }
    }
}

}  // namespace

std::vector<EncodedWeight> take_encoded(catalogue::Catalogue& catalogue, const BitsOf& bits) {
    return Taker(catalogue, bits).take_weights();
}

std::vector<std::string> leave_idle_scales(catalogue::Catalogue& catalogue) {
    constexpr std::string_view kWeight = ".weight";
    std::set<std::string> values =
        collect_set(catalogue.tensors, &Tensor::name, [&](const Tensor& tensor) {
            return is_trained_in(tensor.dtype) && tensor.shape.size() >= 2 &&
                   tensor.name.ends_with(kWeight);
        });
    std::set<std::string> weights;
    const auto weight_of = [&](const Tensor& tensor) -> std::string {
        for (const std::string_view ending : kOfCodes) {
            const std::string name = tensor.name.substr(
                0, tensor.name.size() - std::min(ending.size(), tensor.name.size()));
            if (tensor.name.ends_with(ending) && values.contains(name)) {
                return name;
            }
        }
        return "";
    };
    for (const Tensor& tensor : catalogue.tensors) {
        weights.insert(weight_of(tensor));
    }
    weights.erase("");
    if (weights.empty()) {
        return {};
    }
    leave_by(
        [&](const Tensor& tensor) -> std::string {
            return !weight_of(tensor).empty()
                       ? "its weight is stored as values, which it is part of"
                   : is_of_activations(tensor) ? kActivations
                                               : "";
        },
        catalogue);
    return {weights.begin(), weights.end()};
}

bool holds_encoded(const catalogue::Catalogue& catalogue) {
    std::set<std::string_view> names =
        collect_set<std::string_view>(catalogue.tensors, &Tensor::name);
    const auto is_stored = [&](const std::string& name) { return names.contains(name); };
    return std::ranges::any_of(catalogue.tensors, [&](const Tensor& tensor) {
        return names_around(tensor, is_stored).has_value();
    });
}

std::vector<Target> make_of_codes(Binding& binding, const std::vector<EncodedWeight>& weights,
                                  const std::string& file) {
    std::vector<Target> scales;
    std::vector<Target*> made;
    const TargetsBySource targets = by_source(binding.targets);
    for (const EncodedWeight& weight : weights) {
        Target& target = target_of(targets, weight);
        const auto pretended = static_cast<Bytes>(target.volume()) * size_of(DType::bf16);
        give_codes(target, weight);
        made.push_back(&target);
        add_scales(weight, scales);
        binding.ledger.consumed += catalogue::stored_bytes(weight.codes) +
                                   catalogue::stored_bytes(weight.scales) +
                                   (weight.global ? catalogue::stored_bytes(*weight.global) : 0);
        binding.ledger.consumed -= pretended;
    }
    const auto placement = outputs::place_in_one_file(output_tensors(scales), file);
    std::size_t at = 0;
    for (const std::size_t i : indices(weights)) {
        made[i]->decode->scales_at = placement.slots[at++].offset;
        if (weights[i].global) {
            made[i]->decode->global_at = placement.slots[at++].offset;
        }
    }
    for (Target& target : scales) {
        target.file = file;
    }
    return scales;
}

}  // namespace shardweld::plan
