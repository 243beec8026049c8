#include "mesh_layout.hpp"

#include "shardweld/error.hpp"

#include "short_list.hpp"

namespace shardweld::formats::fsdp {

namespace {

const std::string kLayout = "the layout of a DeviceMesh";

[[noreturn]] void refuse_layout(const std::string& what) {
    throw Error(ErrorCode::corrupt, "its DeviceMesh has " + what);
}

// Axes of one layout each.
std::vector<MeshAxis> listed_axes(const PickleValue& axes) {
    std::vector<MeshAxis> read;
    for (const PickleValue* const axis : short_list(axes, kLayout)) {
        const PickleValue* const shape = mesh_attribute(*axis, "shape");
        if (shape == nullptr) {
            refuse_layout("an axis without a shape");
        }
        read.push_back({shape, mesh_attribute(*axis, "stride")});
    }
    return read;
}

// One shape and one stride for all axes; a single axis may do without the tuples.
std::vector<MeshAxis> nested_axes(const PickleValue& shape, const PickleValue* stride) {
    if (!is_sequence(shape)) {
        return {{&shape, stride}};
    }
    const auto shapes = short_list(shape, kLayout);
    const auto strides =
        stride == nullptr ? std::span<const PickleValue* const>() : short_list(*stride, kLayout);
    std::vector<MeshAxis> read;
    for (std::size_t d = 0; d < shapes.size(); ++d) {
        read.push_back({shapes[d], strides.size() == shapes.size() ? strides[d] : nullptr});
    }
    return read;
}

std::vector<MeshAxis> paired_axes(const PickleValue& pairs) {
    std::vector<MeshAxis> read;
    for (const PickleValue* const pair : short_list(pairs, kLayout)) {
        const auto parts = pair->elements();
        if (parts.size() != 2) {
            refuse_layout("a layout that is not pairs of size and stride");
        }
        read.push_back({parts[0], parts[1]});
    }
    return read;
}

}  // namespace

const PickleValue* mesh_attribute(const PickleValue& object, const std::string& name) {
    const PickleValue* const value = object.attribute("_" + name);
    const PickleValue* const found = value != nullptr ? value : object.attribute(name);
    return found == nullptr || found->kind == PickleKind::none ? nullptr : found;
}

bool is_sequence(const PickleValue& value) {
    return value.kind == PickleKind::tuple || value.kind == PickleKind::list;
}

std::optional<std::vector<MeshAxis>> mesh_axes(const PickleValue& layout) {
    if (const PickleValue* const axes = mesh_attribute(layout, "axes")) {
        return listed_axes(*axes);
    }
    if (const PickleValue* const shape = mesh_attribute(layout, "shape")) {
        return nested_axes(*shape, mesh_attribute(layout, "stride"));
    }
    if (const PickleValue* const pairs = mesh_attribute(layout, "sizes_and_strides")) {
        return paired_axes(*pairs);
    }
    return std::nullopt;
}

}  // namespace shardweld::formats::fsdp
