#include "pickled.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/model_values.hpp"
#include "shardweld/error.hpp"

#include "flat_groups.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// What an enum is made of.
const PickleValue& content_of(const PickleValue& value) {
    const bool is_made = value.kind == PickleKind::object && value.arguments().size() == 1;
    return is_made ? *value.arguments().front() : value;
}

}  // namespace

const PickleValue* present(const PickleValue& mapping, std::string_view name) {
    const PickleValue* const value = mapping.find(name);
    return value == nullptr || value->kind == PickleKind::none ? nullptr : value;
}

PickleValues elements_in(const PickleValue& mapping, std::string_view name) {
    const PickleValue* const value = present(mapping, name);
    return value == nullptr ? PickleValues() : value->elements();
}

std::optional<Index> integer_of(const PickleValue* value) {
    const auto text = value == nullptr ? std::nullopt : scalar_text(content_of(*value));
    return text ? parse_index(*text) : std::nullopt;
}

std::optional<Index> stated_integer(const PickleValue* value, const ScalarReader& scalars,
                                    const std::string& what) {
    if (value == nullptr) {
        return std::nullopt;
    }
    const auto number = scalars.index_of(&content_of(*value));
    if (!number) {
        throw Error(ErrorCode::corrupt,
                    "its " + what + " is " + describe(*value) + ", expected a whole number");
    }
    return number;
}

std::vector<Index> shape_of(const PickleValue& value) {
    if (!value.is_list() || value.elements().size() > layout::kMaxAxes) {
        throw Error(ErrorCode::corrupt, "its shape is " + describe(value) +
                                            ", expected a tuple of at most " +
                                            std::to_string(layout::kMaxAxes) + " numbers");
    }
    std::vector<Index> shape = collect_list(value.elements(), [](const PickleValue* const extent) {
        return read_count(*extent, "a shape");
    });
    volume_of(shape, "a shape");
    return shape;
}

namespace {

/// The dictionaries of a list, or the one that stands in its place in old files.
std::vector<const PickleValue*> dictionaries(const PickleValue& value) {
    if (value.is_mapping()) {
        return {&value};
    }
    std::vector<const PickleValue*> found;
    for (const PickleValue* const entry : value.elements()) {
        if (!entry->is_mapping()) {
            throw Error(ErrorCode::corrupt, "its param_shapes hold " + describe(*entry) +
                                                " where a dictionary is expected");
        }
        found.push_back(entry);
    }
    return found;
}

Frozen frozen_of(std::string name, std::vector<Index> shape, const StoredTensor& stored,
                 Index rank) {
    const Index volume = volume_of(shape, "a frozen parameter");
    const Index length = stored.shape.front();
    const Index begin = std::min(checked_mul(length, rank, name), volume);
    const Index end = std::min(begin + length, volume);
    Frozen frozen;
    frozen.tensor = {std::move(name), stored.dtype, std::move(shape), {}};
    frozen.tensor.pieces = pieces_of_range(piece_of(stored), frozen.tensor.shape, begin, end);
    frozen.padding = to_bytes(length - (end - begin), "padding") * size_of(stored.dtype);
    return frozen;
}

}  // namespace

std::vector<std::vector<FlatParameter>> shapes_by_group(const PickleValue& param_shapes) {
    std::vector<std::vector<FlatParameter>> groups;
    for (const PickleValue* const parameters : dictionaries(param_shapes)) {
        std::vector<FlatParameter>& group = groups.emplace_back();
        for (const auto& [key, value] : parameters->pairs()) {
            group.push_back({std::string(parameter_name(key)), DType::f32, shape_of(value)});
        }
    }
    return groups;
}

std::vector<Frozen> frozen_parameters(const TorchFile& file, const PickleValue& shapes,
                                      const PickleValue& fragments, Index rank) {
    std::vector<Frozen> found;
    for (const auto& [key, value] : fragments.pairs()) {
        const std::string name(parameter_name(key));
        const PickleValue* const shape = shapes.find(key.text());
        const auto stored = file.tensor(value);
        if (shape == nullptr || !stored || stored->shape.size() != 1 || !stored->is_contiguous()) {
            throw Error(ErrorCode::corrupt, "its frozen parameter " + printable(name) +
                                                " is no flat tensor with a known shape");
        }
        found.push_back(frozen_of(name, shape_of(*shape), *stored, rank));
    }
    return found;
}

bool is_fragment(const Tensor& tensor) {
    return tensor.pieces.size() != 1 ||
           tensor.pieces.front().patch.volume() != volume_of(tensor.shape, tensor.name);
}

}  // namespace shardweld::formats::deepspeed
