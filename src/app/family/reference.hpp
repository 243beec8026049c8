// A finished model of the same family, as which a model is spelled where the hub has more than one
// spelling: experts one by one or in one tensor, the order of its dims, how names begin.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

struct Reference {
    /// By name with its digits hidden; no extents where only an index tells of it. Empty: there is
    /// none.
    std::map<std::string, std::vector<Index>> shapes;

    [[nodiscard]] bool has(const std::string& hidden) const { return shapes.contains(hidden); }

    static constexpr auto fields = [](auto& self) { return std::tie(self.shapes); };
};

/// Reads model.safetensors.index.json and, for shapes, the headers of files that it names, as few
/// as possible; else model.safetensors. What is not there or cannot be read tells nothing. Local.
Reference read_reference(const fs::path& directory);

/// A recipe and the stored names that it has been given.
struct Spelled {
    models::Recipe recipe;    ///< what is written
    models::Dialect dialect;  ///< what is stored
};

/// Takes those lines of a logical tensor that the reference has: `module` lines where it has
/// their names and none of the hub lines'. Of two lines with one name and other orders of dims,
/// that of the reference's shape; without one, in a module tree that of the stored shape, else the
/// hub line's. Pure.
Spelled spelled_as(const Reference& reference, const catalogue::Catalogue& catalogue, Spelled known,
                   const models::Symbols& symbols);

/// The name, or another beginning of it (`rename`, `either`), where only that is the reference's.
std::string spelled_name(const Reference& reference, const models::Recipe& recipe,
                         const std::string& name);

}  // namespace shardweld::app
