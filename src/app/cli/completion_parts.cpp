#include "completion_parts.hpp"

#include <filesystem>

#include "shardweld/models/recipe.hpp"

namespace shardweld::app {

std::vector<std::string> recipe_names() {
    std::vector<std::string> names;
    for (const models::RecipeFile& source : models::built_in_sources()) {
        names.push_back(std::filesystem::path(source.file_name).stem().string());
    }
    return names;
}

std::string spaced(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : " ") + word;
    }
    return text;
}

}  // namespace shardweld::app
