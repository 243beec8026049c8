#include "mesh_option.hpp"

namespace shardweld::app {

formats::Mesh read_mesh(const OptionReader& reader) {
    formats::Mesh mesh;
    const auto names = reader.text("mesh_dim_names");
    const auto shape = reader.text("mesh_shape");
    if (names.has_value() != shape.has_value()) {
        refuse("--mesh_dim_names and --mesh_shape belong together: give both");
    }
    if (!names) {
        return mesh;
    }
    for (const std::string_view name : split(*names, ',')) {
        mesh.names.emplace_back(name);
    }
    for (const std::string_view text : split(*shape, ',')) {
        const auto extent = parse_index(text);
        if (!extent || *extent < 1) {
            refuse("--mesh_shape " + printable(*shape) + " is not a list of numbers such as 2,4");
        }
        mesh.shape.push_back(*extent);
    }
    if (mesh.names.size() != mesh.shape.size()) {
        refuse("--mesh_dim_names has " + std::to_string(mesh.names.size()) +
               " names but --mesh_shape " + std::to_string(mesh.shape.size()) + " numbers");
    }
    return mesh;
}

}  // namespace shardweld::app
