#include "pickled.hpp"

#include "core/text.hpp"
#include "formats/containers/torch_storage.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::deepspeed {

namespace {

bool is_sequence(const PickleValue& value) {
    return value.kind == PickleKind::tuple || value.kind == PickleKind::list;
}

/// What an enum is made of.
const PickleValue& content_of(const PickleValue& value) {
    const bool is_made = value.kind == PickleKind::object && value.arguments().size() == 1;
    return is_made ? *value.arguments().front() : value;
}

}  // namespace

const PickleValue* present(const PickleValue& mapping, std::string_view name) {
    const PickleValue* const value = mapping.is_mapping() ? mapping.find(name) : nullptr;
    return value == nullptr || value->kind == PickleKind::none ? nullptr : value;
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
    if (!is_sequence(value) || value.elements().size() > layout::kMaxAxes) {
        throw Error(ErrorCode::corrupt, "its shape is " + describe(value) +
                                            ", expected a tuple of at most " +
                                            std::to_string(layout::kMaxAxes) + " numbers");
    }
    std::vector<Index> shape;
    for (const PickleValue* const extent : value.elements()) {
        shape.push_back(read_count(*extent, "a shape"));
    }
    volume_of(shape, "a shape");
    return shape;
}

std::vector<Index> dense_strides(const std::vector<Index>& shape) {
    std::vector<Index> strides(shape.size(), 1);
    for (std::size_t k = shape.size(); k-- > 1;) {
        strides[k - 1] = strides[k] * shape[k];
    }
    return strides;
}

}  // namespace shardweld::formats::deepspeed
